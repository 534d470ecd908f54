//! The legacy access token: a JWT of exactly 481 characters, which the filter verifies like any other token
//! (protocol.md §2.5).
//!
//! The token is always signed with Ed25519, because an RSA signature alone has 342 characters. A padding claim without
//! meaning fills the remaining space.

use std::fmt;

use claims::token::ACCESS_TOKEN_TYPE;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::flow::LongestUserId;
use crate::token::{IssuedToken, KeyError, SigningKey, TokenUse, header, sign};
use domain::clock::Timestamp;
use domain::user::json_length;
use domain::{
    Client, ClientId, GrantId, IntegrationType, LegacyInstance, TokenId, TokenReference,
    TokenSubject,
};

/// Length of the token, in characters.
pub(super) const LENGTH: usize = 481;

/// Length of an Ed25519 signature in base64url, in characters.
const SIGNATURE_LENGTH: usize = 86;

/// The subject of a token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names<'a> {
    /// {hostname} of the instance: the issuer is `https://{hostname}`.
    pub(super) hostname: &'a str,
    /// The resource server.
    pub(super) audience: &'a str,
    /// The client.
    pub(super) client_id: &'a str,
    /// User ID of the linked account: `sub`.
    pub(super) user_id: &'a str,
}

/// The names are too long for a token of the fixed length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DoesNotFit {
    hostname: String,
    audience: String,
    client_id: String,
    /// The name and length of the User ID, or only its length.
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
             {hostname} ({}) + api_audience {audience} ({}) + client_id {client_id} ({}) + {user_id} = {needed}",
            json_length(hostname),
            json_length(audience),
            json_length(client_id),
        )
    }
}

impl std::error::Error for DoesNotFit {}

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
    /// Padding.
    p: String,
}

impl<'a> Claims<'a> {
    fn new(
        subject: Names<'a>,
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
pub(super) fn issuer(hostname: &str) -> String {
    format!("https://{hostname}")
}

/// Length that the claims must have as JSON, in bytes, so that the token has its fixed length. `None` if no length
/// fits: base64url text never has 4k + 1 characters.
fn claims_length(header_length: usize) -> Option<usize> {
    let encoded = |bytes: usize| (bytes * 4).div_ceil(3);
    let left = LENGTH.checked_sub(SIGNATURE_LENGTH + 2 + encoded(header_length))?;
    (left % 4 != 1).then_some(left * 3 / 4)
}

/// Length of the JOSE header as JSON, in bytes: the same for every Ed25519 key, because every `kid` has 16 characters.
const HEADER_LENGTH: usize = 55;

/// Checks that tokens for `longest` fit, on this instance and for this client.
///
/// # Errors
/// [`DoesNotFit`] with the lengths.
fn check(
    hostname: &str,
    audience: &str,
    client_id: &str,
    longest: LongestUserId<'_>,
) -> Result<(), DoesNotFit> {
    let subject = Names {
        hostname,
        audience,
        client_id,
        user_id: "",
    };
    // Dates have ten digits until the year 2286.
    let date = Timestamp::from_seconds(9_999_999_999);
    let claims = Claims::new(
        subject,
        GrantId::from_bytes([0; 16]),
        TokenId::from_bytes([0; 16]),
        date,
        date,
    );
    let without = serde_json::to_vec(&claims).map_or(usize::MAX, |json| json.len());
    let smallest = without.saturating_add(longest.length());
    let available = claims_length(HEADER_LENGTH).unwrap_or(0);
    if smallest <= available {
        return Ok(());
    }
    let length = longest.length();
    let names = [hostname, audience, client_id].map(json_length);
    let needed = names.into_iter().sum::<usize>() + length;
    Err(DoesNotFit {
        hostname: hostname.to_owned(),
        audience: audience.to_owned(),
        client_id: client_id.to_owned(),
        user_id: match longest {
            LongestUserId::Named(user_id) => format!("user_id {user_id} ({length})"),
            LongestUserId::Measured(_) => format!("longest registered user_id ({length})"),
        },
        needed,
        available: (needed + available).saturating_sub(smallest),
    })
}

/// The instances on which tokens of `client` do not fit.
pub(super) fn misfits<'a>(
    client: &'a Client,
    instances: &'a [&LegacyInstance],
    audience: &'a str,
    longest: LongestUserId<'a>,
) -> impl Iterator<Item = DoesNotFit> + 'a {
    let serving = instances
        .iter()
        .filter(|instance| serves(client, &instance.hostname));
    serving.filter_map(move |instance| {
        let client_id = client.client_id.as_str();
        check(&instance.hostname, audience, client_id, longest).err()
    })
}

/// True if `client` uses the legacy flow and is not bound to another instance.
pub(super) fn serves(client: &Client, hostname: &str) -> bool {
    match &client.integration {
        IntegrationType::Legacy { hostname: only, .. } => {
            only.as_deref().is_none_or(|only| only == hostname)
        }
        _ => false,
    }
}

/// The claims of a legacy access token.
#[derive(Deserialize)]
struct ReadClaims {
    iss: String,
    aud: String,
    sub: String,
    client_id: String,
    iat: u64,
    exp: u64,
    jti: String,
    grant_id: String,
}

/// Reads the claims of a token. `None` if this service did not make such claims.
pub(super) fn read(claims: Value) -> Option<IssuedToken> {
    let claims: ReadClaims = serde_json::from_value(claims).ok()?;
    Some(IssuedToken {
        token_use: TokenUse::Access,
        reference: TokenReference {
            token_id: TokenId::parse_legacy(&claims.jti)?,
            grant_id: GrantId::parse(&claims.grant_id)?,
            client_id: ClientId::parse(&claims.client_id)?,
            subject: TokenSubject::Account {
                user_id: claims.sub.clone(),
            },
            issued_at: Timestamp::from_seconds(claims.iat),
            issuer: claims.iss,
        },
        audience: claims.aud,
        subject: claims.sub,
        scope: None,
        jti: claims.jti,
        expires_at: Timestamp::from_seconds(claims.exp),
    })
}

/// Mints a token.
///
/// # Errors
/// [`KeyError`] if signing fails or the names do not fit. Registration refuses such names.
pub(super) fn mint(
    key: &SigningKey,
    subject: Names<'_>,
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

    fn minted(subject: Names<'_>, now: u64) -> Result<String, KeyError> {
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
        let subject = Names {
            hostname: "a-very-long-hostname.of-an-instance.example.com",
            audience: "https://api.example.com",
            client_id: "a-client-id-of-some-length",
            user_id: "1879048401",
        };
        let refused = |longest| {
            let refusal = check(
                subject.hostname,
                subject.audience,
                subject.client_id,
                longest,
            );
            refusal.unwrap_err().to_string()
        };
        let refusal = refused(LongestUserId::Named(subject.user_id));
        assert!(
            refusal.contains("(47)")
                && refusal.contains("(23)")
                && refusal.contains("(26)")
                && refusal.contains("(10)"),
            "{refusal}"
        );
        assert!(refusal.contains("= 106"), "{refusal}");
        assert_eq!(
            refused(LongestUserId::Measured(10)),
            refusal.replace("user_id 1879048401", "longest registered user_id")
        );
        assert_eq!(minted(subject, 1_800_000_000), Err(KeyError));
    }

    proptest! {
        /// Accepted names always give exactly 481 characters; longer names are refused.
        #[test]
        fn whatever_is_not_refused_has_exactly_481_characters(
            hostname in "[a-z]{1,20}(\\.[a-z0-9-]{1,15}){1,3}",
            client_id in "[!-~]{1,60}",
            user_id in "[ -~]{1,60}",
            now in 1_700_000_000_u64..9_999_990_000,
        ) {
            let subject = Names { hostname: &hostname, audience: "http://127.0.0.1:8080", client_id: &client_id, user_id: &user_id };
            let check = |longest| check(&hostname, subject.audience, &client_id, longest).is_ok();
            let fits = check(LongestUserId::Named(&user_id));
            prop_assert_eq!(check(LongestUserId::Measured(json_length(&user_id))), fits);
            match (fits, minted(subject, now)) {
                (true, Ok(token)) => prop_assert_eq!(token.len(), LENGTH),
                (false, Err(KeyError)) => {}
                (fits, minted) => prop_assert!(false, "{:?} {:?}", fits, minted),
            }
        }
    }
}
