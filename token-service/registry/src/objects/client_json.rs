//! What clients look like in files and JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::certificate::{CertificateRegistration, CertificateView};
use super::client_key::ClientKeyView;
use super::client_secret::SecretView;

/// A client's registration: an entry of `clients` of a registrations file. Which keys it has depends on its type.
#[derive(ToSchema)]
pub struct ClientRegistration {
    /// The Client ID. 1 to 128 printable ASCII characters without space.
    pub client_id: String,
    /// The integration type: `web_server`, `installed`, `non_interactive`, `user_bound` or `legacy`.
    pub r#type: String,
    /// The name that people see, without characters that change the direction of text. The Client ID if absent.
    pub name: Option<String>,
    /// Address of the application's start page (https or http). Error pages lead there if no redirect URI can be trusted.
    pub home_url: Option<String>,
    /// Whether the client may be used. `true` if absent.
    pub enabled: Option<bool>,
    /// Whether the client gets only access tokens that are bound to a key (RFC 9449 §5.2). `false` if absent. Not for `legacy`.
    pub dpop_bound_access_tokens: Option<bool>,
    /// Whether the client gets only access tokens that are bound to the certificate of its connection (RFC 8705 §3.4). `false` if
    /// absent. Not for `legacy`.
    pub tls_client_certificate_bound_access_tokens: Option<bool>,
    /// Scopes that the client may ask for.
    pub scopes: Option<Vec<String>>,
    /// Redirect URIs; templates for legacy clients. For `web_server`, `installed`, `legacy`.
    pub redirect_uris: Option<Vec<String>>,
    /// Whether the client must push its authorization requests (RFC 9126). `false` if absent. For `web_server`, `installed`.
    pub require_pushed_authorization_requests: Option<bool>,
    /// Whether people need a second factor for codes and refreshed tokens of the client: `optional` or `required`. `optional` if absent. For
    /// `web_server`, `installed`, `legacy`.
    pub second_factor: Option<String>,
    /// Issuers of identity providers. A `non_interactive` client may bring their assertions. For other clients, the sign-in page
    /// offers these providers (default: all with a `client_id`); with exactly one, the browser goes there without a page. For
    /// `web_server`, `installed`, `non_interactive`, `legacy`.
    pub identity_providers: Option<Vec<String>>,
    /// The client secret. 32 to 1024 bytes. The administration generates an absent one, but not for `legacy`. For `web_server`,
    /// `non_interactive`, `user_bound`, `legacy`.
    pub client_secret: Option<String>,
    /// In place of the client secret: its SHA-256 digest, hexadecimal or base64url. For `web_server`, `non_interactive`,
    /// `user_bound`, `legacy`.
    pub client_secret_sha256: Option<String>,
    /// The public keys of client assertions, with which the client authenticates (`private_key_jwt`). A client with keys needs no
    /// client secret. For `web_server`, `non_interactive`, `user_bound`.
    pub keys: Option<Vec<ClientKeyView>>,
    /// The only `aud` of client assertions: `issuer` or `token_endpoint`. `issuer` if absent; `token_endpoint` for libraries that
    /// cannot send the issuer. For `web_server`, `non_interactive`, `user_bound`.
    pub client_assertion_audience: Option<String>,
    /// The SHA-256 thumbprints of the certificates with which the client authenticates its connection
    /// (`self_signed_tls_client_auth`). 64 hexadecimal digits or base64url. A client with certificates needs no client secret. For
    /// `web_server`, `non_interactive`, `user_bound`.
    pub tls_client_certificates: Option<Vec<String>>,
    /// The certificates of the client's assertions. For `non_interactive`.
    pub certificates: Option<Vec<CertificateRegistration>>,
    /// The organization to whose users the client is restricted. For `non_interactive`.
    pub organization: Option<String>,
    /// The user as whom the client acts. For `user_bound`.
    pub bound_user: Option<String>,
    /// The one legacy instance that knows the client. For `legacy`.
    pub hostname: Option<String>,
}

/// A client.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ClientView {
    /// The Client ID.
    pub client_id: String,
    /// The integration type: `web_server`, `installed`, `non_interactive`, `user_bound` or `legacy`.
    pub r#type: String,
    /// The name that people see.
    pub name: String,
    /// Address of the application's start page (https or http). Error pages lead there if no redirect URI can be trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home_url: Option<String>,
    /// Whether the client may be used.
    pub enabled: bool,
    /// Whether the client gets only access tokens that are bound to a key (RFC 9449 §5.2).
    pub dpop_bound_access_tokens: bool,
    /// Whether the client gets only access tokens that are bound to the certificate of its connection (RFC 8705 §3.4).
    pub tls_client_certificate_bound_access_tokens: bool,
    /// Scopes that the client may ask for.
    pub scopes: Vec<String>,
    /// Redirect URIs; templates for legacy clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect_uris: Option<Vec<String>>,
    /// Whether the client must push its authorization requests (RFC 9126).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_pushed_authorization_requests: Option<bool>,
    /// `required` if people need a second factor for codes and refreshed tokens of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second_factor: Option<String>,
    /// Issuers of identity providers. A `non_interactive` client may bring their assertions. For other clients, the sign-in page
    /// offers these providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity_providers: Option<Vec<String>>,
    /// Live client secrets: two during a rotation.
    pub secrets: usize,
    /// With what the client can authenticate: live client secrets, keys and TLS certificates.
    pub credentials: usize,
    /// The times of the live client secrets, the oldest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_times: Option<Vec<SecretView>>,
    /// The public keys of client assertions, with which the client authenticates (`private_key_jwt`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<Vec<ClientKeyView>>,
    /// The only `aud` of client assertions: `issuer` or `token_endpoint`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_assertion_audience: Option<String>,
    /// The SHA-256 thumbprints of the certificates with which the client authenticates its connection
    /// (`self_signed_tls_client_auth`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_client_certificates: Option<Vec<String>>,
    /// The certificates of the client's assertions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificates: Option<Vec<CertificateView>>,
    /// The organization to whose users the client is restricted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// The user as whom the client acts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_user: Option<String>,
    /// The one legacy instance that knows the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// File and line that define the object; absent if commands define the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<String>,
    /// In the answer to a change: the changed fields, each with the old and the new value unless they are secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<String>>,
    /// In the answer to a change: what is allowed but may surprise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<String>>,
    /// In the answer to a change: live grants whose next refresh lacks a scope that the client loses, at most 10,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub losing_grants: Option<usize>,
}
