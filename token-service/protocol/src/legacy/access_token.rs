//! The legacy access token: a JWT of exactly 481 characters, which the filter verifies like any other token
//! (protocol.md §2.5).
//!
//! The token is always signed with Ed25519, because even the signature of RSA has 342 characters. A padding claim without
//! meaning fills the remaining space.

use claims::Confirmation;
use claims::token::ACCESS_TOKEN_TYPE;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::flow::TokenName;
use crate::settings::Settings;
use crate::token::{IssuedToken, KeyError, SigningKey, TokenUse, header, sign};
use domain::clock::Timestamp;
use domain::legacy_instance::issuer;
use domain::user::json_length;
use domain::{Client, ClientId, GrantId, IntegrationType, TokenId, TokenReference, TokenSubject};

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
    pub(super) client_id: &'a str,
    /// User ID of the linked account: `sub`.
    pub(super) user_id: &'a str,
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

/// Length that the claims must have as JSON, in bytes, so that the token has its fixed length. `None` if no length
/// fits: base64url text never has 4k + 1 characters.
fn claims_length(header_length: usize) -> Option<usize> {
    let encoded = |bytes: usize| (bytes * 4).div_ceil(3);
    let left = LENGTH.checked_sub(SIGNATURE_LENGTH + 2 + encoded(header_length))?;
    (left % 4 != 1).then_some(left * 3 / 4)
}

/// Length of the JOSE header as JSON, in bytes: the same for every Ed25519 key, because every `kid` has 16 characters.
const HEADER_LENGTH: usize = 55;

/// Bytes of JSON that all names of a token may have together: what the header, the signature and the other claims leave.
fn room() -> usize {
    let subject = Names {
        hostname: "",
        audience: "",
        client_id: "",
        user_id: "",
    };
    let (grant_id, id) = (GrantId::from_bytes([0; 16]), TokenId::from_bytes([0; 16]));
    // Dates have ten digits until the year 2286.
    let date = Timestamp::from_seconds(9_999_999_999);
    let claims = serde_json::to_vec(&Claims::new(subject, grant_id, id, date, date));
    let rest = claims.map_or(usize::MAX, |json| json.len());
    let all = claims_length(HEADER_LENGTH).unwrap_or(0);
    all.saturating_sub(rest)
}

/// Why tokens have no room for a name. Each name has its own bound, so that every client, every user and every instance
/// fit together. The bound of Client IDs is what `api_audience` and the configured bounds leave.
pub(super) fn misfit(name: TokenName<'_>, settings: &Settings) -> Option<String> {
    let audience = json_length(&settings.api_audience);
    let user_id_max = usize::from(settings.legacy_user_id_max);
    let hostname_max = usize::from(settings.legacy_hostname_max);
    let most = room().saturating_sub(audience + user_id_max + hostname_max);
    let arithmetic = || {
        format!(
            "a legacy access token has {LENGTH} characters, which leaves {} bytes for names: client_id ({most}) + \
             api_audience ({audience}) + legacy_hostname_max ({hostname_max}) + legacy_user_id_max ({user_id_max})",
            room()
        )
    };
    match name {
        TokenName::Client(client) => {
            let client_id = client.client_id.as_str();
            let length = json_length(client_id);
            let is_legacy = matches!(client.integration, IntegrationType::Legacy { .. });
            (is_legacy && length > most)
                .then(|| format!("{client_id} has {length} characters: {}", arithmetic()))
        }
        TokenName::UserId(user_id) => {
            let length = json_length(user_id);
            (length > user_id_max).then(|| {
                format!(
                    "user_id {user_id} has {length} characters; legacy_user_id_max is {user_id_max}"
                )
            })
        }
        TokenName::Hostname(hostname) => {
            let length = json_length(hostname);
            if length > hostname_max {
                return Some(format!(
                    "hostname {hostname} has {length} characters; legacy_hostname_max is {hostname_max}"
                ));
            }
            (most == 0).then(|| format!("no client_id fits: {}", arithmetic()))
        }
    }
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
            bound_to: Confirmation::default(),
            issued_at: Timestamp::from_seconds(claims.iat),
            issuer: claims.iss,
        },
        audience: claims.aud,
        subject: claims.sub,
        scope: None,
        jti: claims.jti,
        confirmation: None,
        expires_at: Timestamp::from_seconds(claims.exp),
    })
}

/// Why a token was not minted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MintError {
    /// The names are too long. Registration refuses such names, except of users who were registered before any legacy instance.
    NoRoom,
    Key(KeyError),
}

impl From<KeyError> for MintError {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

/// Mints a token.
///
/// # Errors
/// A [`MintError`].
pub(super) fn mint(
    key: &SigningKey,
    subject: Names<'_>,
    grant_id: GrantId,
    id: TokenId,
    issued_at: Timestamp,
    expires_at: Timestamp,
) -> Result<String, MintError> {
    let mut claims = Claims::new(subject, grant_id, id, issued_at, expires_at);
    let length = serde_json::to_vec(&claims).map_err(|_| KeyError)?.len();
    let wanted = claims_length(header(key, ACCESS_TOKEN_TYPE)?.len()).ok_or(KeyError)?;
    claims.p = "0".repeat(wanted.checked_sub(length).ok_or(MintError::NoRoom)?);
    let token = sign(key, ACCESS_TOKEN_TYPE, &claims)?;
    if token.len() == LENGTH {
        Ok(token)
    } else {
        Err(KeyError.into())
    }
}

#[cfg(test)]
mod tests {
    use ::claims::Algorithm;
    use domain::IntegrationKind;
    use proptest::prelude::*;

    use super::*;

    fn key() -> &'static SigningKey {
        static KEY: std::sync::OnceLock<SigningKey> = std::sync::OnceLock::new();
        KEY.get_or_init(|| {
            let pkcs8 = SigningKey::generate_pkcs8(Algorithm::EdDsa).unwrap();
            SigningKey::from_pkcs8(Algorithm::EdDsa, &pkcs8).unwrap()
        })
    }

    fn minted(subject: Names<'_>, now: u64) -> Result<String, MintError> {
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

    fn settings(audience: usize, user_id_max: u8, hostname_max: u8) -> Settings {
        Settings {
            api_audience: "a".repeat(audience),
            legacy_user_id_max: user_id_max,
            legacy_hostname_max: hostname_max,
            ..Settings::default()
        }
    }

    fn client(id: &str) -> Client {
        Client::new(ClientId::parse(id).unwrap(), IntegrationKind::Legacy)
    }

    #[test]
    fn a_refusal_names_the_bound() {
        let settings = Settings::default();
        let refusal = |name| misfit(name, &settings).unwrap_or_default();
        let long = client(&"c".repeat(23));
        assert_eq!(
            refusal(TokenName::Client(&long)),
            format!(
                "{} has 23 characters: a legacy access token has 481 characters, which leaves 91 bytes for names: \
                 client_id (22) + api_audience (21) + legacy_hostname_max (24) + legacy_user_id_max (24)",
                "c".repeat(23)
            )
        );
        let long = "1".repeat(25);
        assert_eq!(
            refusal(TokenName::UserId(&long)),
            format!("user_id {long} has 25 characters; legacy_user_id_max is 24")
        );
        assert_eq!(
            refusal(TokenName::Hostname(&long)),
            format!("hostname {long} has 25 characters; legacy_hostname_max is 24")
        );
        // Not of the legacy flow.
        let other = Client::new(
            ClientId::parse(&"c".repeat(128)).unwrap(),
            IntegrationKind::Installed,
        );
        assert_eq!(refusal(TokenName::Client(&other)), "");
    }

    /// The longest names of each kind fill a token, and one more character of any kind does not fit.
    #[test]
    fn the_bounds_together_are_the_room() {
        for (audience, user_id, hostname) in
            [(1, 1, 1), (21, 24, 24), (40, 1, 49), (1, 88, 1), (1, 1, 88)]
        {
            let settings = settings(audience, user_id, hostname);
            let (user_id, hostname) = ("u".repeat(user_id.into()), "h".repeat(hostname.into()));
            let most = room() - audience - user_id.len() - hostname.len();
            let client_id = "c".repeat(most);
            let subject = Names {
                hostname: &hostname,
                audience: &settings.api_audience,
                client_id: &client_id,
                user_id: &user_id,
            };
            let longest = client(&client_id);
            for name in [
                TokenName::Client(&longest),
                TokenName::UserId(&user_id),
                TokenName::Hostname(&hostname),
            ] {
                assert_eq!(misfit(name, &settings), None);
            }
            assert_eq!(minted(subject, 9_999_990_000).unwrap().len(), LENGTH);
            let [more_client, more_user, more_host] =
                [&client_id, &user_id, &hostname].map(|name| format!("{name}x"));
            let client = client(&more_client);
            for name in [
                TokenName::Client(&client),
                TokenName::UserId(&more_user),
                TokenName::Hostname(&more_host),
            ] {
                assert!(misfit(name, &settings).is_some(), "{name:?}");
            }
            let longer = Names {
                client_id: &more_client,
                ..subject
            };
            assert_eq!(minted(longer, 9_999_990_000), Err(MintError::NoRoom));
        }
        let none = settings(1, 45, 45);
        assert!(
            misfit(TokenName::Hostname("h"), &none)
                .is_some_and(|reason| reason.starts_with("no client_id fits"))
        );
        assert!(misfit(TokenName::Client(&client("c")), &none).is_some());
    }

    proptest! {
        /// Names that registration accepts one by one always give exactly 481 characters.
        #[test]
        fn whatever_is_not_refused_has_exactly_481_characters(
            hostname in "[a-z]{1,10}(\\.[a-z0-9-]{1,10}){1,2}",
            client_id in "[!-~]{1,30}",
            user_id in "[ -~]{1,30}",
            now in 1_700_000_000_u64..9_999_990_000,
        ) {
            let settings = Settings::default();
            let client = client(&client_id);
            let names = [TokenName::Client(&client), TokenName::UserId(&user_id), TokenName::Hostname(&hostname)];
            if names.into_iter().all(|name| misfit(name, &settings).is_none()) {
                let subject = Names { hostname: &hostname, audience: &settings.api_audience, client_id: &client_id, user_id: &user_id };
                prop_assert_eq!(minted(subject, now).unwrap().len(), LENGTH);
            }
        }
    }
}
