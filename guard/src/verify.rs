//! Verification of access tokens (RFC 9068 §4, RFC 8725). Each cause has its own [`Refusal`]. Callers pass the time and
//! the host.

use std::collections::BTreeMap;
use std::sync::Arc;

use claims::json::{JsonError, numeric_date};
use claims::{CompactJws, Confirmation, JwsError};
use keys::algorithm::Algorithm;
use keys::signature::HostVerifier;
use keys::{Key, KeySet};
use serde_json::{Map, Value};
use strum::{IntoStaticStr, VariantArray};

use crate::config::IssuerConfig;
use crate::profile::{NoAccessToken, OptionalClaim, Profile};

/// Dates beyond the year 9999 are not dates; refusing them keeps every calculation far from overflow.
const LAST_DATE: u64 = 253_402_300_799;

/// Why a token is refused. The texts are for integrators: they name the check, but contain no value of the
/// token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Refusal {
    /// Not a compact JWS with strict JSON parts.
    Malformed,
    /// Longer than [`claims::jws::MAX_TOKEN_BYTES`].
    TooLong,
    /// Header or claims are nested deeper than [`claims::json::MAX_DEPTH`].
    TooDeep,
    /// The header contains `crit`.
    Critical,
    /// `typ` is not that of the issuer's access tokens, as with refresh tokens, assertions or identity tokens
    /// (RFC 8725 §3.11).
    Type,
    /// The claims belong to another kind of token, or lack the claims that mark the issuer's access tokens
    /// (RFC 8725 §3.12).
    Kind,
    /// `cnf` asks for something that is not known here (RFC 7800 §3.1).
    Confirmation,
    /// The token has no `cnf`, but the configuration requires bound tokens of its issuer.
    Unbound,
    /// The token is bound to a key of the client (`cnf.jkt`), but was sent as a bearer token (RFC 9449 §7.2).
    Bound,
    /// The token is not bound to a key, but was sent with the scheme DPoP.
    NotBoundToKey,
    /// The token is bound to a certificate (`cnf.x5t#S256`), but the connection has none (RFC 8705 §3).
    CertificateMissing,
    /// The connection has another certificate than the one that the token is bound to.
    CertificateOther,
    /// The issuer does not use this `alg` (RFC 8725 §3.1).
    Algorithm,
    /// No configured issuer has this `iss`.
    Issuer,
    /// The header has no `kid`.
    KeyMissing,
    /// The issuer has no key with this `kid`.
    KeyUnknown,
    /// All keys with this `kid` are for other algorithms.
    KeyAlgorithm,
    /// The signature does not verify with the key.
    Signature,
    /// `aud` contains none of the configured audiences.
    Audience,
    /// `exp` is missing or not a date.
    ExpiryMissing,
    /// `exp` has passed.
    Expired,
    /// `nbf` or `iat` lies in the future.
    NotYetValid,
    /// Another required claim is missing or of the wrong type (RFC 9068 §2.2).
    Claims,
    Revoked,
    /// It is unknown whether the token is revoked, because the table of revocations was full and dropped the
    /// entries for tokens of this age.
    Folded,
}

impl Refusal {
    /// Message for the client: ASCII without quotes and backslashes (RFC 6750 §3).
    pub const fn description(self) -> &'static str {
        match self {
            Self::Malformed => "The access token is not a signed JWT",
            Self::TooLong => "The access token is longer than 16384 bytes",
            Self::TooDeep => "The access token is nested deeper than 64 levels",
            Self::Critical => "The access token has a crit header that is not understood",
            Self::Type => {
                "The token is not an access token: its typ is not one of access tokens of its issuer"
            }
            Self::Kind => {
                "The token is not an access token: its claims belong to another kind of token"
            }
            Self::Confirmation => "The access token is bound in a way that is not known here",
            Self::Unbound => "The access token is not bound to its client, which is required here",
            Self::Bound => {
                "The access token is bound to a key of its client, and is not accepted as a bearer token"
            }
            Self::NotBoundToKey => {
                "The access token is not bound to a key: send Authorization: Bearer"
            }
            Self::CertificateMissing => {
                "The access token is bound to a certificate, and the connection has none"
            }
            Self::CertificateOther => {
                "The access token is bound to another certificate than that of the connection"
            }
            Self::Algorithm => "The access token is signed with an algorithm that is not accepted",
            Self::Issuer => "The access token comes from an issuer that is not accepted here",
            Self::KeyMissing => "The header of the access token has no kid",
            Self::KeyUnknown => "The access token names a key that its issuer does not have",
            Self::KeyAlgorithm => "The access token names a key for another algorithm",
            Self::Signature => "The signature of the access token is wrong",
            Self::Audience => "The access token is for another audience",
            Self::ExpiryMissing => {
                "The exp of the access token is missing or is not a number of seconds"
            }
            Self::Expired => "The access token has expired",
            Self::NotYetValid => "The access token is not valid yet",
            Self::Claims => {
                "The access token lacks a required claim, or a claim has the wrong type: iat and nbf are numbers"
            }
            Self::Revoked => "The access token has been revoked",
            Self::Folded => {
                "The access token was issued too long ago for the gateway to know whether it is revoked: get a new one"
            }
        }
    }
}

/// A token of a configured issuer, parsed but **not verified**. It shows which issuer's keys are needed.
#[derive(Debug)]
pub struct ParsedToken<'a> {
    pub issuer: usize,
    signing_input: &'a str,
    signature: Vec<u8>,
    algorithm: Algorithm,
    kid: String,
    claims: Map<String, Value>,
    confirmation: Option<Confirmation>,
}

/// A verified token. Only [`ParsedToken::verify`] creates this type, and headers are only forwarded from this
/// type.
#[derive(Debug)]
pub struct VerifiedToken {
    pub issuer: usize,
    pub key: Arc<Key>,
    /// Time from which the token is refused, clock skew included, in seconds since 1970.
    pub refused_from: u64,
    pub claims: Map<String, Value>,
    /// What the client must prove. `None` for a bearer token: anybody who has it may use it.
    pub confirmation: Option<Confirmation>,
    pub reference: Arc<TokenReference>,
}

/// The claims by which a revocation can name a token.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(Default))]
pub struct TokenReference {
    /// `jti`. Here and below, `None` only if the issuer's profile allows that.
    pub jti: Option<String>,
    /// `grant_id`, which not every issuer's tokens have.
    pub grant_id: Option<String>,
    pub client_id: Option<String>,
    pub sub: Option<String>,
    /// `user_id`, if it is a string.
    pub user_id: Option<String>,
    /// `user_site`, if it is a string.
    pub user_site: Option<String>,
    /// `cnf`: the key and the certificate to which the token is bound; empty for an unbound token.
    pub bound_to: Confirmation,
    /// `iat` in seconds since 1970; 0 if absent.
    pub iat: u64,
    /// Seconds since 1970.
    pub exp: u64,
}

impl TokenReference {
    /// The client that got the token, or else its subject.
    pub fn client(&self) -> &str {
        let client = self.client_id.as_ref().or(self.sub.as_ref());
        client.map_or("", String::as_str)
    }
}

impl<'a> ParsedToken<'a> {
    /// Parses a token and finds its issuer by `iss`, without trying keys.
    ///
    /// # Errors
    /// A [`Refusal`] that no key could change.
    pub fn parse(
        token: &'a str,
        issuers: &[IssuerConfig],
        by_name: &BTreeMap<String, usize>,
    ) -> Result<Self, Refusal> {
        let refusal = |error| match error {
            JwsError::Critical => Refusal::Critical,
            JwsError::TooLong => Refusal::TooLong,
            JwsError::Json(_, JsonError::TooDeep) => Refusal::TooDeep,
            _ => Refusal::Malformed,
        };
        let jws = CompactJws::parse(token).map_err(refusal)?;
        let algorithm = jws
            .header
            .alg
            .as_deref()
            .and_then(Algorithm::from_name)
            .ok_or(Refusal::Algorithm)?;
        let claims = jws.claims().map_err(refusal)?;
        let issuer = claims
            .get("iss")
            .and_then(Value::as_str)
            .and_then(|issuer| by_name.get(issuer))
            .copied()
            .ok_or(Refusal::Issuer)?;
        let config = issuers.get(issuer).ok_or(Refusal::Issuer)?;
        let typ = jws.header.typ.as_deref();
        config
            .profile
            .check(typ, &claims)
            .map_err(|why| match why {
                NoAccessToken::Type => Refusal::Type,
                NoAccessToken::Kind => Refusal::Kind,
            })?;
        let confirmation = match claims.get("cnf") {
            Some(cnf) => Some(Confirmation::read(cnf).ok_or(Refusal::Confirmation)?),
            None if config.sender_constrained => return Err(Refusal::Unbound),
            None => None,
        };
        if !config.algorithms.contains(&algorithm) {
            return Err(Refusal::Algorithm);
        }
        let kid = jws.header.kid.ok_or(Refusal::KeyMissing)?;
        Ok(Self {
            issuer,
            signing_input: jws.signing_input,
            signature: jws.signature,
            algorithm,
            kid,
            claims,
            confirmation,
        })
    }

    /// Verifies the token with the keys of its issuer. `now` and `skew` are in seconds.
    ///
    /// The token is accepted until one second before `exp + skew`. `nbf` and `iat` may lie up to `skew` in the
    /// future.
    ///
    /// # Errors
    /// A [`Refusal`]. After [`Refusal::KeyUnknown`] and [`Refusal::KeyAlgorithm`], newer keys of the issuer may verify the
    /// token.
    pub fn verify(
        self,
        keys: &KeySet,
        config: &IssuerConfig,
        host: &dyn HostVerifier,
        now: u64,
        skew: u64,
    ) -> Result<VerifiedToken, Refusal> {
        let key =
            keys.get(&self.kid, self.algorithm)
                .ok_or_else(|| match keys.has_kid(&self.kid) {
                    true => Refusal::KeyAlgorithm,
                    false => Refusal::KeyUnknown,
                })?;
        let times = Times::read(&self.claims, &config.profile)?;
        let reference = TokenReference::read(&self.claims, &times, &config.profile)?;
        if !has_audience(&self.claims, config) {
            return Err(Refusal::Audience);
        }
        let message = self.signing_input.as_bytes();
        if !key.signature_key.signed(host, message, &self.signature) {
            return Err(Refusal::Signature);
        }
        let refused_from = times.exp.saturating_add(skew);
        if now >= refused_from {
            return Err(Refusal::Expired);
        }
        if times.latest_start > now.saturating_add(skew) {
            return Err(Refusal::NotYetValid);
        }
        Ok(VerifiedToken {
            issuer: self.issuer,
            key: Arc::clone(key),
            refused_from,
            claims: self.claims,
            confirmation: self.confirmation,
            reference: Arc::new(reference),
        })
    }
}

struct Times {
    exp: u64,
    iat: u64,
    /// The later of `iat` and `nbf`.
    latest_start: u64,
}

impl Times {
    /// RFC 8725 §3.4: a date of the wrong type is a refusal, never an absent date. `null` is absent, as some libraries write
    /// it.
    fn read(claims: &Map<String, Value>, profile: &Profile) -> Result<Self, Refusal> {
        let date = |name: &str, no_date, beyond_all| match claims.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match numeric_date(value) {
                None => Err(no_date),
                Some(date) if date > LAST_DATE => Err(beyond_all),
                date => Ok(date),
            },
        };
        let exp = date("exp", Refusal::ExpiryMissing, Refusal::ExpiryMissing)?
            .ok_or(Refusal::ExpiryMissing)?;
        let iat = match date("iat", Refusal::Claims, Refusal::NotYetValid)? {
            None if profile.lets_lack(OptionalClaim::IssuedAt) => 0,
            iat => iat.ok_or(Refusal::Claims)?,
        };
        let nbf = date("nbf", Refusal::Claims, Refusal::NotYetValid)?.unwrap_or(0);
        Ok(Self {
            exp,
            iat,
            latest_start: iat.max(nbf),
        })
    }
}

impl TokenReference {
    /// RFC 9068 §2.2: these claims are required, unless the issuer is known to leave them out.
    fn read(
        claims: &Map<String, Value>,
        times: &Times,
        profile: &Profile,
    ) -> Result<Self, Refusal> {
        let text = |name: &str| match claims.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
            Some(_) => Err(Refusal::Claims),
        };
        let required = |name: &str, claim| match text(name)? {
            None if !profile.lets_lack(claim) => Err(Refusal::Claims),
            value => Ok(value),
        };
        let optional = |name: &str| claims.get(name).and_then(Value::as_str).map(str::to_owned);
        Ok(Self {
            jti: required("jti", OptionalClaim::TokenId)?,
            grant_id: text("grant_id")?,
            client_id: required(&profile.client_id_claim, OptionalClaim::ClientId)?,
            sub: required("sub", OptionalClaim::Subject)?,
            user_id: optional("user_id"),
            user_site: optional("user_site"),
            bound_to: (claims.get("cnf").and_then(Confirmation::read)).unwrap_or_default(),
            iat: times.iat,
            exp: times.exp,
        })
    }
}

/// True if `aud` is a configured audience, or a list that contains one. A list with anything but strings is
/// refused. Another claim counts only in a token without `aud`.
fn has_audience(claims: &Map<String, Value>, config: &IssuerConfig) -> bool {
    let ours = |audience: &str| config.audiences.iter().any(|ours| ours == audience);
    let other = || claims.get(config.profile.audience_claim.as_ref()?);
    match claims.get("aud").or_else(other) {
        Some(Value::String(audience)) => ours(audience),
        Some(Value::Array(list)) => {
            list.iter().all(Value::is_string) && list.iter().filter_map(Value::as_str).any(ours)
        }
        _ => false,
    }
}

/// The scopes of a token, from `scope` with words (RFC 9068 §2.2.3), or from `scp`, which other servers write
/// as a list or as words.
pub fn scopes(claims: &Map<String, Value>) -> Vec<String> {
    let words = |text: &str| -> Vec<String> {
        text.split(' ')
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    match claims.get("scope").or_else(|| claims.get("scp")) {
        Some(Value::String(text)) => words(text),
        Some(Value::Array(list)) => list
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
