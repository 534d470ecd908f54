//! What a person may end on the own page.

use url::form_urlencoded::Serializer;

use crate::http::paths;
use domain::digest::Digest;
use domain::{ClientId, Identity};
use protocol::oauth::parameters::Parameters;

const APPLICATION: &str = "application";
const SESSION: &str = "session";
const IDENTITY: &str = "identity";
/// The value of [`SESSION`] for all other sessions.
const OTHERS: &str = "others";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// The access of a client.
    Application(ClientId),
    /// The session of another browser.
    Session(Digest),
    OtherSessions,
    /// The link to an identity, by its [digest](identity_digest).
    Identity(Digest),
}

/// Names an identity in addresses, which others may see.
pub(super) fn identity_digest(identity: &Identity) -> Digest {
    // No issuer contains a space.
    Digest::of(format!("{} {}", identity.issuer, identity.subject).as_bytes())
}

impl Ending {
    /// Reads the fields of a form; `None` unless they name one thing.
    pub(super) fn of_fields<'a>(field: impl Fn(&str) -> &'a str) -> Option<Self> {
        match (field(APPLICATION), field(SESSION), field(IDENTITY)) {
            ("", OTHERS, "") => Some(Self::OtherSessions),
            ("", id, "") => Digest::from_base64url(id).map(Self::Session),
            (client_id, "", "") => ClientId::parse(client_id).map(Self::Application),
            ("", "", digest) => Digest::from_base64url(digest).map(Self::Identity),
            _ => None,
        }
    }

    /// Reads path and query of the page that asks.
    pub(super) fn of_address(address: &str) -> Option<Self> {
        let (path, query) = address.split_once('?')?;
        if path != paths::END {
            return None;
        }
        let (parameters, _) = Parameters::parse_unrepeated(query.as_bytes()).ok()?;
        Self::of_fields(|name| parameters.get(name).unwrap_or_default())
    }

    /// Name and value of the field.
    pub(super) fn field(&self) -> (&'static str, String) {
        match self {
            Self::Application(client_id) => (APPLICATION, client_id.to_string()),
            Self::Session(id) => (SESSION, id.to_base64url()),
            Self::OtherSessions => (SESSION, OTHERS.to_owned()),
            Self::Identity(digest) => (IDENTITY, digest.to_base64url()),
        }
    }

    /// Path and query of the page that asks.
    pub(super) fn address(&self) -> String {
        let (name, value) = self.field();
        let mut query = Serializer::new(String::new());
        let query = query.append_pair(name, &value).finish();
        format!("{}?{query}", paths::END)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_one_thing() {
        let client_id = ClientId::parse("a&b=c#d%").unwrap();
        for ending in [
            Ending::Application(client_id),
            Ending::Session(Digest::of(b"session")),
            Ending::OtherSessions,
            Ending::Identity(Digest::of(b"identity")),
        ] {
            let address = ending.address();
            assert_eq!(Ending::of_address(&address), Some(ending), "{address}");
        }
        for nonsense in [
            "",
            "?session=others",
            "/auth/?session=others",
            "/auth/end",
            "/auth/end?",
            "/auth/end?session=mine",
            "/auth/end?session=others&session=others",
            "/auth/end?session=others&application=web",
            "/auth/end?application=a%20b",
            "/auth/end?identity=others",
            "/auth/end?session=others&identity=others",
        ] {
            assert_eq!(Ending::of_address(nonsense), None, "{nonsense}");
        }
    }
}
