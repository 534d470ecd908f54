//! What the administration takes, beyond the registrations of clients and users.

use serde::Serialize;
use utoipa::ToSchema;

use super::schema::{ClientRegistration, UserRegistration};
use document::Section;

/// A body that is read key by key, so that every problem has its place.
pub trait Form {
    /// Reads the known keys. Absent keys have defaults.
    fn read(section: &mut Section<'_>) -> Self;
}

/// A registrations file as JSON; certificates stand in it as `pem`.
#[derive(ToSchema)]
pub struct RegistrationsDocument {
    /// What the clients that it lists are.
    pub clients: Vec<ClientRegistration>,
    /// What the users that it lists are.
    pub users: Vec<UserRegistration>,
}

/// How to rotate.
#[derive(Debug, Clone, Copy, Default, Serialize, ToSchema)]
pub struct RotationRequest {
    /// The new keys sign at once, for keys that got into wrong hands. Otherwise they are announced first, and no request
    /// notices.
    #[schema(required = false)]
    pub immediate: bool,
    /// With `immediate`: end every access token that was issued until the rotation, of all issuers.
    #[schema(required = false)]
    pub cut_off: bool,
}

/// Which tokens to end.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct CutOffRequest {
    /// The claim `iss` of the tokens: the issuer of the configuration when absent, or `https://` and the hostname of a
    /// legacy instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Tokens issued before this time, RFC 3339; when absent, those issued until now, with this second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

impl Form for RotationRequest {
    fn read(section: &mut Section<'_>) -> Self {
        let mut flag = |key| section.flag(key).is_some_and(|flag| flag.value);
        Self {
            immediate: flag("immediate"),
            cut_off: flag("cut_off"),
        }
    }
}

impl Form for CutOffRequest {
    fn read(section: &mut Section<'_>) -> Self {
        let mut text = |key| section.text(key).map(|text| text.value);
        Self {
            issuer: text("issuer"),
            before: text("before"),
        }
    }
}
