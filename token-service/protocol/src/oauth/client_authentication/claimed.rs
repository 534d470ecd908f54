//! The client that a refused request claims to be, authenticated or not.

use std::fmt::{self, Display, Formatter};

use zeroize::Zeroizing;

use super::{decode_basic, readings};
use crate::Directory;
use crate::oauth::assertion::Unverified;
use crate::oauth::parameter::Parameter;
use crate::oauth::parameters::Parameters;
use domain::ClientId;

/// The client that a refused request claims to be, for log and audit log, so that an operator sees which client is
/// refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimedClient {
    Registered(ClientId),
    /// Beginning and length of another text: if a client swaps its credentials, the text is its secret.
    Unknown(String),
}

impl ClaimedClient {
    /// The first registered client of these [`ids`]. `None` without ids. If the store fails, no client counts as
    /// registered.
    pub async fn find(directory: &Directory, ids: &[Zeroizing<String>]) -> Option<Self> {
        for id in ids {
            if let Ok(Some(client)) = directory.registered_client(id).await {
                return Some(Self::Registered(client.client_id.clone()));
            }
        }
        ids.first().map(|id| Self::Unknown(excerpt(id)))
    }
}

impl Display for ClaimedClient {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registered(client_id) => client_id.fmt(formatter),
            Self::Unknown(excerpt) => excerpt.fmt(formatter),
        }
    }
}

/// Characters of an unknown Client ID in log and audit log: enough to find a client with a wrong configuration, and the
/// prefix of a generated secret without its underscore.
const EXCERPT: usize = 4;

fn excerpt(text: &str) -> String {
    let start = text.chars().take(EXCERPT).flat_map(char::escape_default);
    let start: String = start.collect();
    format!("{start}... (length {})", text.chars().count())
}

/// The Client IDs that a request may claim: in the header, the body, the client assertion or, as legacy clients may (D-16), the
/// query. Not for log and audit log, because a client that swaps its credentials sends its secret here: see [`ClaimedClient`].
pub fn ids(authorization: &[&[u8]], body: &[u8], query: &str) -> Vec<Zeroizing<String>> {
    let in_header = authorization.iter().find_map(|header| {
        let credentials = decode_basic(header)?;
        let (client_id, _) = credentials.split_once(':')?;
        Some(readings(client_id).collect())
    });
    let in_parameters = |encoded: &[u8]| {
        let form = Parameters::parse(encoded).ok()?;
        let named = form.get(Parameter::ClientId).map(str::to_owned);
        let claimed = named.or_else(|| {
            let assertion = Unverified::parse(form.get(Parameter::ClientAssertion)?).ok()?;
            assertion.client_id().ok().map(str::to_owned)
        });
        Some(vec![Zeroizing::new(claimed?)])
    };
    in_header
        .or_else(|| in_parameters(body))
        .or_else(|| in_parameters(query.as_bytes()))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;

    use super::super::BASE64;
    use super::*;

    fn basic(text: &str) -> String {
        format!("Basic {}", BASE64.encode(text))
    }

    #[test]
    fn a_claimed_client_is_read_from_header_body_or_query() {
        let claim = |header: &str, body: &str| {
            let claimed = ids(&[header.as_bytes()], body.as_bytes(), "client_id=legacy");
            let claimed = claimed.iter().map(|id| id.to_string());
            claimed.collect::<Vec<_>>()
        };
        assert_eq!(claim(&basic("web:guess"), ""), ["web"]);
        assert_eq!(claim(&basic("a%3Ab:guess"), ""), ["a:b", "a%3Ab"]);
        assert_eq!(claim("Bearer x", "client_id=app&x=y"), ["app"]);
        for nobody in ["Basic !", "Basic", &basic("no colon")] {
            assert_eq!(claim(nobody, "a=b"), ["legacy"], "{nobody}");
            assert!(ids(&[nobody.as_bytes()], b"a=b", "").is_empty());
        }
    }

    #[test]
    fn an_unknown_client_is_named_bounded_and_escaped() {
        assert_eq!(excerpt("tscs_0123456789"), "tscs... (length 15)");
        assert_eq!(excerpt("a\u{1b}\n[31m"), "a\\u{1b}\\n[... (length 7)");
        assert_eq!(excerpt(&"x".repeat(5000)), "xxxx... (length 5000)");
        assert_eq!(excerpt("\u{e9}"), "\\u{e9}... (length 1)");
    }
}
