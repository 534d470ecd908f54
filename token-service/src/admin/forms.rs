//! What the administration takes, beyond the registrations of clients and users.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::schema::{ClientRegistration, UserRegistration};

/// A registrations file as JSON; certificates stand in it as `pem`.
#[derive(ToSchema)]
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
