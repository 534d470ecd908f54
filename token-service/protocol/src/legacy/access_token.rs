//! The legacy access token: a JWT of exactly 481 characters that the filter verifies like any other (protocol.md §2.5).
//!
//! It is signed with Ed25519 whatever the configuration says: an RSA signature alone has 342 characters. What the
//! claims leave over is filled with a claim that means nothing.

use std::fmt;

use claims::token::ACCESS_TOKEN_TYPE;
use serde::Serialize;

use crate::token::{KeyError, SigningKey, header, sign};
use domain::clock::Timestamp;
use domain::{Client, GrantId, IntegrationType, LegacyInstance, TokenId, User};

/// Length of the token, in characters.
pub const LENGTH: usize = 481;

/// Length of an Ed25519 signature in base64url, in characters.
const SIGNATURE_LENGTH: usize = 86;

/// Whom a token speaks for.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// {hostname} of the instance: the issuer is `https://{hostname}`.
    pub hostname: &'a str,
    /// The resource server.
    pub audience: &'a str,
    /// The client.
    pub client_id: &'a str,
    /// User ID of the linked account: `sub`.
    pub user_id: &'a str,
}

/// Names that leave no room for the rest of the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoesNotFit {
    hostname: String,
    audience: String,
    /// The client.
    pub client_id: String,
    user_id: String,
    needed: usize,
    available: usize,
}

impl fmt::Display for DoesNotFit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            hostname,
            audience,
            client_id,
            user_id,
            needed,
            available,
        } = self;
        write!(
            formatter,
            "a legacy access token has {LENGTH} characters, which leaves {available} bytes for names: hostname \
             {hostname} ({}) + api_audience {audience} ({}) + client_id {client_id} ({}) + user_id {user_id} ({}) \
             = {needed}",
            written(hostname),
            written(audience),
            written(client_id),
            written(user_id),
        )
    }
}

impl std::error::Error for DoesNotFit {}

/// Length of a text in JSON, without its quotes: some characters are escaped.
fn written(text: &str) -> usize {
    serde_json::to_string(text).map_or(usize::MAX, |json| json.len().saturating_sub(2))
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: String,
    aud: &'a str,
    sub: &'a str,
    client_id: &'a str,
    iat: u64,
    exp: u64,
    jti: String,
    grant_id: String,
    /// Means nothing.
    p: String,
}

impl<'a> Claims<'a> {
    fn new(
        subject: Subject<'a>,
        grant_id: GrantId,
        id: TokenId,
        issued_at: Timestamp,
        expires_at: Timestamp,
    ) -> Self {
        Self {
            iss: issuer(subject.hostname),
            aud: subject.audience,
            sub: subject.user_id,
            client_id: subject.client_id,
            iat: issued_at.seconds(),
            exp: expires_at.seconds(),
            jti: id.legacy(),
            grant_id: grant_id.to_string(),
            p: String::new(),
        }
    }
}

/// `iss` of an instance's tokens.
#[must_use]
pub fn issuer(hostname: &str) -> String {
    format!("https://{hostname}")
}

/// Bytes that the claims must have, as JSON, for the token to have its length. `None` when no claims could: a
/// base64url text of 4k + 1 characters does not exist.
fn claims_length(header_length: usize) -> Option<usize> {
    let encoded = |bytes: usize| (bytes * 4).div_ceil(3);
    let left = LENGTH.checked_sub(SIGNATURE_LENGTH + 2 + encoded(header_length))?;
    (left % 4 != 1).then_some(left * 3 / 4)
}

/// Length of the JOSE header as JSON, in bytes: the same for every Ed25519 key, because every `kid` has 16 characters.
const HEADER_LENGTH: usize = 55;

/// Whether tokens for this subject fit.
///
/// # Errors
/// [`DoesNotFit`] with the arithmetic.
pub fn check(subject: Subject<'_>) -> Result<(), DoesNotFit> {
    // Dates have ten digits until the year 2286.
    let date = Timestamp::from_seconds(9_999_999_999);
    let claims = Claims::new(
        subject,
        GrantId::from_bytes([0; 16]),
        TokenId::from_bytes([0; 16]),
        date,
        date,
    );
    let smallest = serde_json::to_vec(&claims).map_or(usize::MAX, |json| json.len());
    let available = claims_length(HEADER_LENGTH).unwrap_or(0);
    if smallest <= available {
        return Ok(());
    }
    let names = [
        subject.hostname,
        subject.audience,
        subject.client_id,
        subject.user_id,
    ];
    let needed: usize = names.into_iter().map(written).sum();
    Err(DoesNotFit {
        hostname: subject.hostname.to_owned(),
        audience: subject.audience.to_owned(),
        client_id: subject.client_id.to_owned(),
        user_id: subject.user_id.to_owned(),
        needed,
        available: (needed + available).saturating_sub(smallest),
    })
}

/// Every instance and client whose tokens would not fit for the longest user ID. Registration refuses those.
#[must_use]
pub fn misfits<'a>(
    api_audience: &str,
    instances: impl IntoIterator<Item = &'a LegacyInstance> + Clone,
    clients: impl IntoIterator<Item = &'a Client>,
    users: impl IntoIterator<Item = &'a User>,
) -> Vec<DoesNotFit> {
    let longest = users
        .into_iter()
        .flat_map(|user| &user.accounts)
        .map(|account| account.user_id.as_str())
        .max_by_key(|user_id| written(user_id))
        .unwrap_or_default();
    let mut misfits = Vec::new();
    for client in clients {
        let IntegrationType::Legacy { hostname, .. } = &client.integration else {
            continue;
        };
        for instance in instances.clone() {
            if hostname
                .as_ref()
                .is_some_and(|only| *only != instance.hostname)
            {
                continue;
            }
            let subject = Subject {
                hostname: &instance.hostname,
                audience: api_audience,
                client_id: client.client_id.as_str(),
                user_id: longest,
            };
            misfits.extend(check(subject).err());
        }
    }
    misfits
}

/// Mints a token.
///
/// # Errors
/// [`KeyError`] when signing fails or the names do not fit, which registration refuses.
pub fn mint(
    key: &SigningKey,
    subject: Subject<'_>,
    grant_id: GrantId,
    id: TokenId,
    issued_at: Timestamp,
    expires_at: Timestamp,
) -> Result<String, KeyError> {
    let mut claims = Claims::new(subject, grant_id, id, issued_at, expires_at);
    let length = serde_json::to_vec(&claims).map_err(|_| KeyError)?.len();
    let wanted = claims_length(header(key, ACCESS_TOKEN_TYPE)?.len()).ok_or(KeyError)?;
    claims.p = "0".repeat(wanted.checked_sub(length).ok_or(KeyError)?);
    let token = sign(key, ACCESS_TOKEN_TYPE, &claims)?;
    if token.len() == LENGTH {
        Ok(token)
    } else {
        Err(KeyError)
    }
}

#[cfg(test)]
mod tests {
    use ::claims::Algorithm;
    use proptest::prelude::*;

    use super::*;

    fn key() -> &'static SigningKey {
        static KEY: std::sync::OnceLock<SigningKey> = std::sync::OnceLock::new();
        KEY.get_or_init(|| {
            let pkcs8 = SigningKey::generate_pkcs8(Algorithm::EdDsa).unwrap();
            SigningKey::from_pkcs8(Algorithm::EdDsa, &pkcs8).unwrap()
        })
    }

    fn minted(subject: Subject<'_>, now: u64) -> Result<String, KeyError> {
        let at = Timestamp::from_seconds;
        mint(
            key(),
            subject,
            GrantId::from_bytes([7; 16]),
            TokenId::from_bytes([9; 16]),
            at(now),
            at(now + 3600),
        )
    }

    #[test]
    fn every_key_has_the_same_header_length() {
        assert_eq!(
            header(key(), ACCESS_TOKEN_TYPE).unwrap().len(),
            HEADER_LENGTH
        );
        assert!(claims_length(HEADER_LENGTH).is_some());
    }

    #[test]
    fn the_refusal_shows_the_arithmetic() {
        let subject = Subject {
            hostname: "a-very-long-hostname.of-an-instance.example.com",
            audience: "https://api.example.com",
            client_id: "a-client-id-of-some-length",
            user_id: "1879048401",
        };
        let refusal = check(subject).unwrap_err().to_string();
        assert!(
            refusal.contains("(47)")
                && refusal.contains("(23)")
                && refusal.contains("(26)")
                && refusal.contains("(10)"),
            "{refusal}"
        );
        assert!(refusal.contains("= 106"), "{refusal}");
        assert_eq!(minted(subject, 1_800_000_000), Err(KeyError));
    }

    proptest! {
        /// Every name that is not refused gives exactly 481 characters, and every longer one is refused.
        #[test]
        fn whatever_is_not_refused_has_exactly_481_characters(
            hostname in "[a-z]{1,20}(\\.[a-z0-9-]{1,15}){1,3}",
            client_id in "[!-~]{1,60}",
            user_id in "[ -~]{1,60}",
            now in 1_700_000_000_u64..9_999_990_000,
        ) {
            let subject = Subject { hostname: &hostname, audience: "http://127.0.0.1:8080", client_id: &client_id, user_id: &user_id };
            match (check(subject), minted(subject, now)) {
                (Ok(()), Ok(token)) => prop_assert_eq!(token.len(), LENGTH),
                (Err(_), Err(KeyError)) => {}
                (check, minted) => prop_assert!(false, "{:?} {:?}", check, minted),
            }
        }
    }
}
