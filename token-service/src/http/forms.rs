//! What browsers and clients send: the parameters of pages' addresses, and forms.

use utoipa::{IntoParams, ToSchema};

use super::error::ErrorBody;

/// An authorization request (RFC 6749 §4.1.1).
#[derive(IntoParams, ToSchema)]
#[into_params(parameter_in = Query)]
pub(super) struct AuthorizationRequest {
    /// `code`.
    response_type: Option<String>,
    /// A Web Server or Installed Application.
    client_id: String,
    /// A registered redirect URI.
    redirect_uri: Option<String>,
    /// Returned unchanged.
    state: Option<String>,
    /// Scopes of the registration, separated by single spaces. Default: all.
    scope: Option<String>,
    /// base64url of the SHA-256 of the verifier, without padding (RFC 7636 §4.2). Installed Applications need it.
    code_challenge: Option<String>,
    /// `S256`, with `code_challenge`.
    code_challenge_method: Option<String>,
    /// Thumbprint of the key to which the code is bound (RFC 9449 §10).
    dpop_jkt: Option<String>,
    /// `login`: sign in again. `none`: an error in place of a page.
    prompt: Option<String>,
    /// Sign in again if the sign-in is older than this many seconds.
    max_age: Option<String>,
    /// `http://schemas.openid.net/pape/policies/2007/06/multi-factor`: sign in with a second factor (RFC 9470 §4).
    acr_values: Option<String>,
    /// A username to fill in.
    login_hint: Option<String>,
    /// Languages of the pages, the most preferred first, separated by spaces.
    ui_locales: Option<String>,
}

/// Shows pages at which a person signs in and chooses an account, and then redirects the browser to the redirect URI with `code`
/// or `error`, `state`, and `iss`.
#[utoipa::path(get, path = "/auth/authorize", tag = "authorization", params(AuthorizationRequest,
        ("request_uri" = Option<String>, Query, description = "Of a pushed request, in place of all but `client_id` (RFC 9126 §4).")),
    responses((status = 200, description = "A page.", body = String, content_type = "text/html"),
        (status = 302, description = "To the redirect URI.", headers(("Location" = String))),
        (status = 400, description = "A page: client or redirect URI are wrong, so nobody is redirected.", body = String, content_type = "text/html")))]
pub(super) const fn authorize() {}

/// The start of the legacy flow (protocol.md §4.5).
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Logon {
    /// `StartOAuth`.
    #[param(rename = "Action")]
    action: String,
    /// A client of the instance.
    client_id: String,
    /// Matches a template of the registration.
    redirect_uri: String,
    /// The address of a single-sign-on user: nobody else may sign in.
    email: Option<String>,
    /// Languages of the pages, the most preferred first, separated by spaces.
    ui_locales: Option<String>,
}

/// The authorization endpoint of the legacy flow, at the host of a legacy instance.
#[utoipa::path(get, path = "/Logon", tag = "legacy", params(Logon),
    responses((status = 200, description = "A page.", body = String, content_type = "text/html"),
        (status = 302, description = "To the redirect URI.", headers(("Location" = String))),
        (status = 400, description = "A page: client or redirect URI are wrong.", body = String, content_type = "text/html"),
        (status = 404, description = "The host is no legacy instance.", body = ErrorBody<'static>)))]
pub(super) const fn logon() {}

/// How a client without HTTP Basic says who it is: `client_id` only for a public client, or a client assertion (RFC 7523 §2.2).
#[derive(ToSchema)]
pub(super) struct ClientFields {
    client_id: Option<String>,
    /// `urn:ietf:params:oauth:client-assertion-type:jwt-bearer`.
    client_assertion_type: Option<String>,
    /// A JWT that the client signed.
    client_assertion: Option<String>,
}

/// The form of each grant.
#[derive(ToSchema)]
#[serde(tag = "grant_type")]
pub(super) enum TokenRequest {
    /// RFC 6749 §4.1.3.
    #[serde(rename = "authorization_code")]
    AuthorizationCode(CodeExchange),
    /// RFC 6749 §6.
    #[serde(rename = "refresh_token")]
    Refresh(Refresh),
    /// RFC 7523 §2.1.
    #[serde(rename = "urn:ietf:params:oauth:grant-type:jwt-bearer")]
    JwtBearer(JwtBearer),
    /// RFC 6749 §4.4.
    #[serde(rename = "client_credentials")]
    ClientCredentials(ClientCredentials),
}

/// Exchange of an authorization code.
#[derive(ToSchema)]
pub(super) struct CodeExchange {
    code: String,
    /// As in the authorization request.
    redirect_uri: String,
    /// 43 to 128 characters (RFC 7636 §4.1), if the authorization request had a challenge.
    code_verifier: Option<String>,
    scope: Option<String>,
    #[serde(flatten)]
    client: ClientFields,
}

/// Use of a refresh token.
#[derive(ToSchema)]
pub(super) struct Refresh {
    refresh_token: String,
    scope: Option<String>,
    #[serde(flatten)]
    client: ClientFields,
}

/// Exchange of an assertion about a user.
#[derive(ToSchema)]
pub(super) struct JwtBearer {
    /// A user assertion, or an assertion of an identity provider.
    assertion: String,
    #[serde(flatten)]
    account: Account,
    scope: Option<String>,
    #[serde(flatten)]
    client: ClientFields,
}

/// A token of a User-Bound Integration.
#[derive(ToSchema)]
pub(super) struct ClientCredentials {
    #[serde(flatten)]
    account: Account,
    scope: Option<String>,
    #[serde(flatten)]
    client: ClientFields,
}

/// The linked account, if the user has several.
#[derive(ToSchema)]
pub(super) struct Account {
    user_id: Option<String>,
    /// URL of its instance.
    user_site: Option<String>,
}

/// A pushed authorization request.
#[derive(ToSchema)]
pub(super) struct PushRequest {
    #[serde(flatten)]
    request: AuthorizationRequest,
    /// `urn:ietf:params:oauth:client-assertion-type:jwt-bearer`.
    client_assertion_type: Option<String>,
    /// A JWT that the client signed.
    client_assertion: Option<String>,
}

/// A token of the client.
#[derive(ToSchema)]
pub(super) struct TokenForm {
    token: String,
    /// Ignored: the service recognizes the kind of token.
    token_type_hint: Option<String>,
    #[serde(flatten)]
    client: ClientFields,
}

/// The form of the legacy flow, in the body or in the query string. A client with a secret sends HTTP Basic.
#[derive(ToSchema)]
pub(super) struct LegacyTokenRequest {
    /// `authorization_code` or `refresh_token`.
    grant_type: String,
    client_id: Option<String>,
    redirect_uri: Option<String>,
    /// 40 characters.
    code: Option<String>,
    /// 42 characters.
    refresh_token: Option<String>,
}
