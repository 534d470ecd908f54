//! What the administration takes. The registrations reader checks it, key by key; these types describe it, and the command
//! line fills them. They hold secrets: none has `Debug`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::views::AccountView;

/// A client's registration: an entry of `clients` of a registrations file. Which keys it has depends on its type.
#[derive(Clone, Default, Serialize, ToSchema)]
pub struct ClientRegistration {
    /// 1 to 128 printable ASCII characters without space.
    pub client_id: String,
    /// The name that people see; the Client ID when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `web_server`, `installed`, `non_interactive`, `user_bound` or `legacy`.
    #[serde(rename = "type")]
    pub integration_type: String,
    /// Scopes that it may ask for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// `web_server`, `installed`, `legacy`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub redirect_uris: Vec<String>,
    /// All but `installed`. One is generated when it is absent, but not for `legacy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// The user as whom a `user_bound` client acts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_user: Option<String>,
    /// `non_interactive`: only users of this organization may be named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// `legacy`: the one instance that knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// `non_interactive`: the certificates of its assertions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<CertificateRegistration>,
    /// Whether it may be used; `true` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// A certificate of a non-interactive client.
#[derive(Clone, Default, Serialize, ToSchema)]
pub struct CertificateRegistration {
    /// The certificateAlias, compared with `kid`.
    pub alias: String,
    /// The certificate.
    pub pem: String,
}

/// A user's registration: an entry of `users` of a registrations file.
#[derive(Clone, Default, Serialize, ToSchema)]
pub struct UserRegistration {
    /// 1 to 255 bytes.
    pub username: String,
    /// Used by legacy single sign-on; need not be unique.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// 8 to 1024 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// Instead of a password: an argon2id PHC string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_hash: Option<String>,
    /// Second factor: 128 to 512 bits, BASE32.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub totp_secret: Option<String>,
    /// Compared with that of non-interactive clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// Whether the legacy flow may find the user by e-mail; `false` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single_sign_on: Option<bool>,
    /// Linked project-information accounts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<AccountView>,
    /// Whether the user may sign in and be named; `true` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// A registrations file as JSON; certificates stand in it as `pem`.
#[derive(Clone, Default, Serialize, ToSchema)]
pub struct RegistrationsDocument {
    /// What the clients that it lists are.
    pub clients: Vec<ClientRegistration>,
    /// What the users that it lists are.
    pub users: Vec<UserRegistration>,
}

/// How to rotate.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotationRequest {
    /// The new keys sign at once, for keys that got into wrong hands. Otherwise they are announced first, and no request
    /// notices.
    #[serde(default)]
    pub immediate: bool,
    /// With `immediate`: end every access token that was issued until the rotation, of all issuers.
    #[serde(default)]
    pub cut_off: bool,
}

/// Which tokens to end.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CutOffRequest {
    /// The claim `iss` of the tokens: the issuer of the configuration when absent, or `https://` and the hostname of a
    /// legacy instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Tokens issued before this time, RFC 3339; when absent, those issued until now, with this second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

/// A host of the legacy flow.
#[derive(Clone, Default, Serialize, ToSchema)]
pub struct LegacyInstanceRegistration {
    /// The host of `/as/token.oauth2`, served by `/OAuthStatus` as it is.
    pub auth_server_hostname: String,
    /// Whether OAuth2 is enabled on the host; `true` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}
