//! Profiles: how the access tokens of an issuer differ from its other tokens.
//!
//! An issuer signs ID tokens, refresh tokens and logout tokens with the same keys as access tokens, so each
//! kind needs rules that no other kind meets (RFC 8725 §3.12). RFC 9068 marks access tokens by `typ`. For
//! issuers that set no such `typ`, the configuration must name claims that only their access tokens have.

use claims::media_type;
use claims::token::ACCESS_TOKEN_TYPE;
use serde_json::{Map, Value};
use strum::EnumString;

/// Claims that only ID tokens have (OpenID Connect Core §2 and §3.3.2.11, FAPI 1.0 part 2 §5.1), or security
/// events such as logout tokens (RFC 8417 §2.2). A token without the `typ` of access tokens must have none of
/// them.
const OF_OTHER_TOKENS: [&str; 5] = ["nonce", "at_hash", "c_hash", "s_hash", "events"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString)]
pub enum OptionalClaim {
    #[strum(serialize = "sub")]
    Subject,
    /// The client id, from the configured claim.
    #[strum(serialize = "client_id")]
    ClientId,
    #[strum(serialize = "jti")]
    TokenId,
    #[strum(serialize = "iat")]
    IssuedAt,
}

/// The required value of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Required {
    /// Any value except null.
    Present,
    Text(String),
    OneOf(&'static [&'static str]),
}

/// Why a token is not an access token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAccessToken {
    /// The issuer's access tokens do not have this `typ`.
    Type,
    /// The claims belong to another kind of token.
    Kind,
}

/// The rules for the access tokens of one issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Accepted `typ` values, without the prefix `application/`. `None` stands for a token without `typ`.
    pub types: Vec<Option<String>>,
    pub client_id_claim: String,
    /// The claim with the audience of a token without `aud`. `None`: every token needs `aud` (RFC 9068 §2.2).
    pub audience_claim: Option<String>,
    /// Claims that RFC 9068 §2.2 requires, but that may be absent.
    pub optional_claims: Vec<OptionalClaim>,
    /// Claims that every access token of the issuer has, and no other token of the issuer.
    pub access_token_claims: Vec<(String, Required)>,
}

impl Default for Profile {
    /// The profile of RFC 9068.
    fn default() -> Self {
        Self {
            types: vec![Some(ACCESS_TOKEN_TYPE.to_owned())],
            client_id_claim: "client_id".to_owned(),
            audience_claim: None,
            optional_claims: Vec::new(),
            access_token_claims: Vec::new(),
        }
    }
}

impl Profile {
    /// The names of all profiles; the first is the default.
    pub const NAMES: [&'static str; 7] = [
        "rfc9068",
        "keycloak",
        "kubernetes",
        "auth0",
        "okta",
        "entra",
        "cognito",
    ];

    /// Returns the profile with this name. `docs/issuers.md` says what each profile gives up.
    pub fn named(name: &str) -> Option<Self> {
        use OptionalClaim::{ClientId, TokenId};
        let jwt = || Some("JWT".to_owned());
        let at_jwt = || Some(ACCESS_TOKEN_TYPE.to_owned());
        let (types, client_id, optional_claims, (claim, expected)) = match name {
            "rfc9068" => return Some(Self::default()),
            // The payload has its own `typ`: `DPoP` if the token is bound to a key. In other tokens it is `ID`, `Refresh`,
            // `Offline` or `Logout`.
            "keycloak" => {
                let schemes = Required::OneOf(&["Bearer", "DPoP"]);
                (vec![jwt(), at_jwt()], "azp", vec![], ("typ", schemes))
            }
            // API servers before 1.32 set no `jti`.
            "kubernetes" => {
                let own = ("kubernetes.io", Required::Present);
                (vec![None], "client_id", vec![ClientId, TokenId], own)
            }
            "auth0" | "entra" => {
                let own = ("azp", Required::Present);
                (vec![jwt()], "azp", vec![TokenId], own)
            }
            "okta" => (vec![None], "cid", vec![], ("cid", Required::Present)),
            "cognito" => {
                let access = Required::Text("access".to_owned());
                (vec![None], "client_id", vec![], ("token_use", access))
            }
            _ => return None,
        };
        Some(Self {
            types,
            client_id_claim: client_id.to_owned(),
            audience_claim: (name == "cognito").then(|| client_id.to_owned()),
            optional_claims,
            access_token_claims: vec![(claim.to_owned(), expected)],
        })
    }

    /// True if every accepted `typ` marks access tokens.
    pub fn is_marked(&self) -> bool {
        self.types
            .iter()
            .all(|typ| typ.as_deref().is_some_and(is_access_token_type))
    }

    pub fn lets_lack(&self, claim: OptionalClaim) -> bool {
        self.optional_claims.contains(&claim)
    }

    /// Checks that a token with this `typ` and these claims is an access token.
    ///
    /// # Errors
    /// Why it is not an access token.
    pub fn check(
        &self,
        typ: Option<&str>,
        claims: &Map<String, Value>,
    ) -> Result<(), NoAccessToken> {
        let is_accepted = self.types.iter().any(|accepted| match (accepted, typ) {
            (Some(accepted), Some(typ)) => media_type::is_same(accepted, typ),
            (None, None) => true,
            _ => false,
        });
        if !is_accepted {
            return Err(NoAccessToken::Type);
        }
        let is_marked = typ.is_some_and(is_access_token_type);
        let is_another = || {
            OF_OTHER_TOKENS
                .iter()
                .any(|name| claims.contains_key(*name))
        };
        if !is_marked && is_another() {
            return Err(NoAccessToken::Kind);
        }
        let is_met = |(name, expected): &(String, Required)| match (expected, claims.get(name)) {
            (_, None | Some(Value::Null)) => false,
            (Required::Present, Some(_)) => true,
            (Required::Text(expected), Some(value)) => value == expected.as_str(),
            (Required::OneOf(expected), Some(value)) => value
                .as_str()
                .is_some_and(|value| expected.contains(&value)),
        };
        match self.access_token_claims.iter().all(is_met) {
            true => Ok(()),
            false => Err(NoAccessToken::Kind),
        }
    }
}

fn is_access_token_type(typ: &str) -> bool {
    media_type::is_same(ACCESS_TOKEN_TYPE, typ)
}
