//! User assertions: the signed statement of a non-interactive client about a user (protocol.md §2.3, D-10, RFC 7523).

use std::borrow::Cow;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::json::{JsonError, MAX_DEPTH, numeric_date};
use claims::jws::MAX_TOKEN_BYTES;
use claims::token::ASSERTION_TYPE;
use claims::{Algorithm, CompactJws, JoseHeader, JwsError};
use data_encoding::HEXLOWER_PERMISSIVE;
use serde_json::{Map, Value};

use super::account_selection::NamedAccount;
use super::message::printable;
use crate::settings::Settings;
use domain::clock::Timestamp;
use domain::{Certificate, ClientId};

/// The longest `jti`, in characters.
const MAX_JTI_CHARACTERS: usize = 255;

/// Why an assertion is refused. All are `invalid_grant`; the description is exact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AssertionError {
    /// Not three parts of base64url joined by dots, a part that is not a strict JSON object, or a header that cannot be
    /// read.
    Malformed(JwsError),
    /// `typ` is absent; some integrators send `type` instead (D-22).
    TypMissing,
    /// `typ` is not `JWT`.
    TypWrong,
    /// `alg` is not `RS256`.
    Algorithm,
    /// Neither `x5t` nor `kid`.
    NoKeyNamed,
    /// `x5t` names none of the client's certificates.
    UnknownThumbprint,
    /// `x5t` is in hexadecimal digits; this is the value that it should have.
    ThumbprintInHex(String),
    /// `kid` is the alias of none of the client's certificates.
    UnknownAlias,
    /// `x5t` and `kid` name two certificates.
    KeysDiffer,
    /// The certificate is not valid now.
    CertificateNotValid,
    /// A required claim is absent.
    Missing(&'static str),
    /// A claim has the wrong type or form.
    WrongType(&'static str),
    /// `iss` is not the client.
    Issuer(String),
    /// `aud` is not the identity service.
    Audience {
        /// `aud` as sent; `None` when it is neither a string nor a list of one string.
        received: Option<String>,
        /// The identity service.
        expected: String,
    },
    /// `exp` has passed.
    Expired {
        /// `exp`.
        at: Timestamp,
        /// The time of the server.
        now: Timestamp,
    },
    /// `exp` is too far ahead.
    TooLong {
        /// `exp`.
        at: Timestamp,
        /// The time of the server.
        now: Timestamp,
        /// How far ahead it may be.
        most: Duration,
    },
    /// `iat` or `nbf`, which is named first, is further ahead than the tolerated skew of clocks.
    InFuture(&'static str, Timestamp, Timestamp),
    /// The signature is not the certificate's.
    Signature,
    /// No enabled user has the username in `sub`, or the client may not name that user (D-19).
    Subject,
    /// The `jti` was used before.
    Replayed,
}

impl AssertionError {
    /// What the integrator should change.
    #[must_use]
    pub fn description(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Malformed(error) => return malformed(error),
            Self::ThumbprintInHex(expected) => {
                return format!(
                    "x5t in the assertion header is in hexadecimal digits; it must be base64url, here {expected}"
                )
                .into();
            }
            Self::Issuer(received) => {
                let received = printable(received);
                return format!(
                    "Issuer validation failed: iss must be the Client ID, but is {received}"
                )
                .into();
            }
            Self::Audience { received, expected } => {
                let received = received
                    .as_deref()
                    .map_or_else(|| "not one string".to_owned(), printable);
                let expected = printable(expected);
                return format!(
                    "Audience validation failed: aud is {received}; expected {expected}"
                )
                .into();
            }
            Self::Expired { at, now } => {
                let (ago, at, now) = (now.since(*at).as_secs(), at.rfc3339(), now.rfc3339());
                return format!(
                    "The assertion has expired {ago} s ago: exp is {at}, the time of the server {now}"
                )
                .into();
            }
            Self::TooLong { at, now, most } => {
                let (ahead, now, most) = (at.since(*now).as_secs(), now.rfc3339(), most.as_secs());
                return format!(
                    "exp of the assertion is {ahead} s ahead of the time of the server, {now}; at most {most} s are \
                     allowed"
                )
                .into();
            }
            Self::InFuture(claim, at, now) => {
                let (ahead, now) = (at.since(*now).as_secs(), now.rfc3339());
                return format!(
                    "{claim} of the assertion is {ahead} s ahead of the time of the server, {now}"
                )
                .into();
            }
            Self::TypMissing => "The assertion header lacks typ; it must be JWT",
            Self::TypWrong => "typ in the assertion header must be JWT",
            Self::Algorithm => "alg in the assertion header must be RS256",
            Self::NoKeyNamed => "The assertion header needs x5t or kid",
            Self::UnknownThumbprint => "x5t names no certificate of this client",
            Self::UnknownAlias => "kid is not the alias of a certificate of this client",
            Self::KeysDiffer => "x5t and kid in the assertion header name different certificates",
            Self::CertificateNotValid => {
                "The certificate of the assertion has expired or is not valid yet"
            }
            Self::Missing(claim) => missing(claim),
            Self::WrongType(claim) => wrong_type(claim),
            Self::Signature => "Signature validation failed",
            Self::Subject => "The user in sub is unknown or not available to this client",
            Self::Replayed => "jti of the assertion was used before",
        })
    }
}

fn malformed(error: &JwsError) -> Cow<'static, str> {
    match error {
        JwsError::TooLong => format!("The assertion is longer than {MAX_TOKEN_BYTES} bytes").into(),
        JwsError::Parts => {
            "The assertion is not a JWT: three parts of base64url without padding, joined by dots"
                .into()
        }
        JwsError::Base64(part) => {
            format!("The {part} of the assertion is not base64url without padding").into()
        }
        JwsError::Json(part, JsonError::NotAnObject) => {
            format!("The {part} of the assertion is not a JSON object").into()
        }
        JwsError::Json(part, JsonError::Duplicate(name)) => {
            let name = printable(name);
            format!("{name} occurs twice in the {part} of the assertion").into()
        }
        JwsError::Json(part, JsonError::TooDeep) => {
            format!("The {part} of the assertion is nested deeper than {MAX_DEPTH} levels").into()
        }
        JwsError::HeaderType(name) => {
            format!("{name} in the assertion header must be a string").into()
        }
        JwsError::Critical => {
            "The assertion header has a crit extension that is not understood".into()
        }
    }
}

const fn missing(claim: &'static str) -> &'static str {
    match claim.as_bytes() {
        b"iss" => "iss is missing in the assertion",
        b"sub" => "sub is missing in the assertion",
        b"aud" => "aud is missing in the assertion",
        b"exp" => "exp is missing in the assertion",
        b"iat" => "iat is missing in the assertion",
        b"jti" => "jti is missing in the assertion",
        _ => "A claim is missing in the assertion",
    }
}

const fn wrong_type(claim: &'static str) -> &'static str {
    match claim.as_bytes() {
        b"iss" => "iss in the assertion must be a string",
        b"sub" => "sub in the assertion must be a string",
        b"exp" => "exp in the assertion must be a number of seconds since 1970",
        b"iat" => "iat in the assertion must be a number of seconds since 1970",
        b"nbf" => "nbf in the assertion must be a number of seconds since 1970",
        b"jti" => "jti in the assertion must be a string of 1 to 255 characters",
        b"user_id" => "user_id in the assertion must be a string",
        b"user_site" => "user_site in the assertion must be a string",
        _ => "A claim in the assertion has the wrong type",
    }
}

/// A verified assertion. Only [`verify`] makes one; its `jti` is not claimed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assertion {
    /// Username of the user.
    pub subject: String,
    /// The id that may be used once.
    pub jti: String,
    /// From then on its `jti` may be forgotten: `exp` and the skew of clocks. To a replica whose clock is behind, or to
    /// this one after its clock was set back, the assertion is not expired before (RFC 7523 §3, "ensure that JWTs are
    /// not replayed by maintaining the set of used \"jti\" values").
    pub remembered_until: Timestamp,
    /// `user_id`, if given.
    pub user_id: Option<String>,
    /// `user_site`, if given.
    pub user_site: Option<String>,
}

impl Assertion {
    /// The linked account that the assertion names, if any.
    #[must_use]
    pub fn named_account(&self) -> NamedAccount<'_> {
        NamedAccount {
            user_id: self.user_id.as_deref(),
            user_site: self.user_site.as_deref(),
        }
    }
}

/// Verifies an assertion that the authenticated client `client_id` sent, against its `certificates`.
///
/// Edges: refused at `exp` itself; accepted up to `assertion_max` ahead; `iat` and `nbf` may lie `clock_skew`
/// ahead; the certificate is valid in its last second. Structure comes first, then key, claims and
/// signature; the key is only ever one that was uploaded (RFC 8725 §3.10).
///
/// # Errors
/// The first [`AssertionError`].
pub fn verify(
    assertion: &str,
    client_id: &ClientId,
    certificates: &[Certificate],
    settings: &Settings,
    now: Timestamp,
) -> Result<Assertion, AssertionError> {
    let jws = parse(assertion)?;
    check_type(&jws.header)?;
    check_algorithm(&jws.header)?;
    let certificate = find_certificate(&jws.header, certificates)?;
    check_certificate(certificate, now)?;
    let claims = jws.claims().map_err(AssertionError::Malformed)?;
    check_issuer(&claims, client_id)?;
    let subject = required_text(&claims, "sub")?;
    check_audience(&claims, &settings.identity_audience)?;
    let expires_at = check_expiry(&claims, settings, now)?;
    check_issue_time(&claims, settings, now)?;
    check_not_before(&claims, settings, now)?;
    let jti = check_id(&claims)?;
    let named = (text(&claims, "user_id")?, text(&claims, "user_site")?);
    check_signature(&jws, certificate)?;
    Ok(Assertion {
        subject: subject.to_owned(),
        jti: jti.to_owned(),
        remembered_until: expires_at + settings.lifetimes.clock_skew,
        user_id: named.0.map(str::to_owned),
        user_site: named.1.map(str::to_owned),
    })
}

/// One check of [`verify`] with its outcome, for the person who wonders why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What is compared.
    pub name: &'static str,
    /// What was found, or why it is refused.
    pub outcome: Result<String, AssertionError>,
}

/// Every check of [`verify`], by the same functions; one that fails does not hide the later ones. An assertion without
/// structure has no further checks.
#[must_use]
pub fn explain(
    assertion: &str,
    client_id: &ClientId,
    certificates: &[Certificate],
    settings: &Settings,
    now: Timestamp,
) -> Vec<Check> {
    let check = |name, outcome| Check { name, outcome };
    let read = parse(assertion).and_then(|jws| {
        let claims = jws.claims().map_err(AssertionError::Malformed)?;
        Ok((jws, claims))
    });
    let (jws, claims) = match read {
        Ok(read) => read,
        Err(error) => return vec![check("structure", Err(error))],
    };
    let certificate = find_certificate(&jws.header, certificates);
    let named =
        |certificate: &Certificate| format!("{} (x5t {})", certificate.alias, certificate.x5t());
    let until = |at: Timestamp| format!("{}, {} s from now", at.rfc3339(), at.since(now).as_secs());
    let mut checks = vec![
        check("structure", Ok("three parts of base64url".to_owned())),
        check("typ", check_type(&jws.header).map(|()| "JWT".to_owned())),
        check(
            "alg",
            check_algorithm(&jws.header).map(|()| "RS256".to_owned()),
        ),
        check("certificate", certificate.clone().map(named)),
    ];
    // Without a certificate there is nothing to check these against: its absence is the cause.
    if let Ok(certificate) = certificate {
        checks.push(check(
            "certificate validity",
            check_certificate(certificate, now).map(|()| "valid now".to_owned()),
        ));
        checks.push(check(
            "signature",
            check_signature(&jws, certificate).map(|()| "the certificate's".to_owned()),
        ));
    }
    let named = text(&claims, "user_id").and_then(|_| text(&claims, "user_site"));
    checks.extend([
        check(
            "iss",
            check_issuer(&claims, client_id).map(|()| client_id.to_string()),
        ),
        check("sub", required_text(&claims, "sub").map(str::to_owned)),
        check(
            "aud",
            check_audience(&claims, &settings.identity_audience)
                .map(|()| settings.identity_audience.clone()),
        ),
        check("exp", check_expiry(&claims, settings, now).map(until)),
        check(
            "iat",
            check_issue_time(&claims, settings, now).map(Timestamp::rfc3339),
        ),
        check(
            "nbf",
            check_not_before(&claims, settings, now).map(|()| "has come, or is absent".to_owned()),
        ),
        check("jti", check_id(&claims).map(str::to_owned)),
    ]);
    if let Err(error) = named {
        checks.push(check("user_id, user_site", Err(error)));
    }
    checks
}

fn parse(assertion: &str) -> Result<CompactJws<'_>, AssertionError> {
    CompactJws::parse(assertion).map_err(AssertionError::Malformed)
}

fn check_type(header: &JoseHeader) -> Result<(), AssertionError> {
    match header.typ.as_deref() {
        None => Err(AssertionError::TypMissing),
        Some(ASSERTION_TYPE) => Ok(()),
        Some(_) => Err(AssertionError::TypWrong),
    }
}

fn check_algorithm(header: &JoseHeader) -> Result<(), AssertionError> {
    match header.alg.as_deref() {
        Some(alg) if alg == Algorithm::Rs256.name() => Ok(()),
        _ => Err(AssertionError::Algorithm),
    }
}

fn check_certificate(certificate: &Certificate, now: Timestamp) -> Result<(), AssertionError> {
    if certificate.is_valid_at(now) {
        Ok(())
    } else {
        Err(AssertionError::CertificateNotValid)
    }
}

/// The certificate that the header names; never "whichever fits" (protocol.md §2.3).
fn find_certificate<'a>(
    header: &JoseHeader,
    certificates: &'a [Certificate],
) -> Result<&'a Certificate, AssertionError> {
    let by_thumbprint = header
        .x5t
        .as_deref()
        .map(|x5t| {
            let thumbprint = URL_SAFE_NO_PAD
                .decode(x5t.trim_end_matches('='))
                .unwrap_or_default();
            certificates
                .iter()
                .find(|certificate| certificate.sha1_thumbprint == thumbprint.as_slice())
                .ok_or_else(|| unknown_thumbprint(x5t))
        })
        .transpose()?;
    let by_alias = header
        .kid
        .as_deref()
        .map(|kid| {
            certificates
                .iter()
                .find(|certificate| certificate.alias == kid)
                .ok_or(AssertionError::UnknownAlias)
        })
        .transpose()?;
    match (by_thumbprint, by_alias) {
        (Some(one), Some(other)) if one != other => Err(AssertionError::KeysDiffer),
        (Some(certificate), _) | (None, Some(certificate)) => Ok(certificate),
        (None, None) => Err(AssertionError::NoKeyNamed),
    }
}

/// Tools such as `openssl x509 -fingerprint` print thumbprints in hexadecimal digits.
fn unknown_thumbprint(x5t: &str) -> AssertionError {
    let digits = x5t.replace(':', "");
    match HEXLOWER_PERMISSIVE.decode(digits.as_bytes()) {
        Ok(thumbprint) if thumbprint.len() == 20 => {
            AssertionError::ThumbprintInHex(URL_SAFE_NO_PAD.encode(thumbprint))
        }
        _ => AssertionError::UnknownThumbprint,
    }
}

fn check_issuer(claims: &Map<String, Value>, client_id: &ClientId) -> Result<(), AssertionError> {
    let issuer = required_text(claims, "iss")?;
    if issuer == client_id.as_str() {
        Ok(())
    } else {
        Err(AssertionError::Issuer(issuer.to_owned()))
    }
}

fn check_expiry(
    claims: &Map<String, Value>,
    settings: &Settings,
    now: Timestamp,
) -> Result<Timestamp, AssertionError> {
    let expires_at = date(claims, "exp")?.ok_or(AssertionError::Missing("exp"))?;
    if expires_at <= now {
        return Err(AssertionError::Expired {
            at: expires_at,
            now,
        });
    }
    let most = settings.lifetimes.assertion_max;
    if expires_at > now + most {
        return Err(AssertionError::TooLong {
            at: expires_at,
            now,
            most,
        });
    }
    Ok(expires_at)
}

fn check_issue_time(
    claims: &Map<String, Value>,
    settings: &Settings,
    now: Timestamp,
) -> Result<Timestamp, AssertionError> {
    let issued_at = date(claims, "iat")?.ok_or(AssertionError::Missing("iat"))?;
    if issued_at > now + settings.lifetimes.clock_skew {
        return Err(AssertionError::InFuture("iat", issued_at, now));
    }
    Ok(issued_at)
}

fn check_not_before(
    claims: &Map<String, Value>,
    settings: &Settings,
    now: Timestamp,
) -> Result<(), AssertionError> {
    match date(claims, "nbf")? {
        Some(not_before) if not_before > now + settings.lifetimes.clock_skew => {
            Err(AssertionError::InFuture("nbf", not_before, now))
        }
        _ => Ok(()),
    }
}

fn check_id(claims: &Map<String, Value>) -> Result<&str, AssertionError> {
    let jti = required_text(claims, "jti")?;
    if jti.is_empty() || jti.chars().count() > MAX_JTI_CHARACTERS {
        return Err(AssertionError::WrongType("jti"));
    }
    Ok(jti)
}

fn required_text<'a>(
    claims: &'a Map<String, Value>,
    name: &'static str,
) -> Result<&'a str, AssertionError> {
    text(claims, name)?.ok_or(AssertionError::Missing(name))
}

/// One string, or a list of one string; compared byte for byte (D-10).
fn check_audience(claims: &Map<String, Value>, expected: &str) -> Result<(), AssertionError> {
    let audience = match present(claims, "aud").ok_or(AssertionError::Missing("aud"))? {
        Value::String(audience) => Some(audience),
        Value::Array(audiences) => match audiences.as_slice() {
            [Value::String(audience)] => Some(audience),
            _ => None,
        },
        _ => None,
    };
    if audience.is_some_and(|audience| audience == expected) {
        Ok(())
    } else {
        Err(AssertionError::Audience {
            received: audience.cloned(),
            expected: expected.to_owned(),
        })
    }
}

/// A claim's value. Some libraries write a claim that is not set as `null`: it counts as absent.
fn present<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    claims.get(name).filter(|value| !value.is_null())
}

fn text<'a>(
    claims: &'a Map<String, Value>,
    name: &'static str,
) -> Result<Option<&'a str>, AssertionError> {
    match present(claims, name) {
        None => Ok(None),
        Some(Value::String(value)) => Ok(Some(value)),
        Some(_) => Err(AssertionError::WrongType(name)),
    }
}

fn date(
    claims: &Map<String, Value>,
    name: &'static str,
) -> Result<Option<Timestamp>, AssertionError> {
    match present(claims, name) {
        None => Ok(None),
        Some(value) => numeric_date(value)
            .map(|seconds| Some(Timestamp::from_seconds(seconds)))
            .ok_or(AssertionError::WrongType(name)),
    }
}

fn check_signature(jws: &CompactJws<'_>, certificate: &Certificate) -> Result<(), AssertionError> {
    if certificate.verifies(jws.signing_input.as_bytes(), &jws.signature) {
        Ok(())
    } else {
        Err(AssertionError::Signature)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use jwt_simple::prelude::RS256KeyPair;
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

    /// A key pair and the certificate that was uploaded for it.
    fn registered(alias: &str) -> (&'static RS256KeyPair, Certificate) {
        static KEYS: OnceLock<[RS256KeyPair; 2]> = OnceLock::new();
        let keys = KEYS.get_or_init(|| [0; 2].map(|_| RS256KeyPair::generate(2048).unwrap()));
        let index = u8::from(alias != "cert-1");
        let key = &keys[usize::from(index)];
        let certificate = Certificate {
            alias: alias.to_owned(),
            sha1_thumbprint: [index; 20],
            public_key_der: key.public_key().to_der().unwrap(),
            not_before: Timestamp::from_seconds(NOW.seconds() - 1000),
            not_after: Timestamp::from_seconds(NOW.seconds() + 1000),
            parsed: Default::default(),
        };
        (key, certificate)
    }

    fn header() -> Value {
        json!({"typ": "JWT", "alg": "RS256", "kid": "cert-1"})
    }

    fn body() -> Value {
        json!({
            "iss": "machine", "sub": "ada@example.com", "aud": "https://identity.example.com/",
            "iat": NOW.seconds(), "exp": NOW.seconds() + 300, "jti": "j-1",
        })
    }

    /// `value` with one member replaced, or removed when the new value is null.
    fn with(mut value: Value, name: &str, member: Value) -> Value {
        let object = value.as_object_mut().unwrap();
        if member.is_null() {
            object.remove(name);
        } else {
            object.insert(name.to_owned(), member);
        }
        value
    }

    fn sign_text(header: &str, body: &str) -> String {
        let input = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(header),
            URL_SAFE_NO_PAD.encode(body)
        );
        // The library signs claims of its own making only, so its key signs through ours.
        let pkcs8 = registered("cert-1").0.to_der().unwrap();
        let key = aws_lc_rs::rsa::KeyPair::from_der(&pkcs8)
            .or_else(|_| aws_lc_rs::rsa::KeyPair::from_pkcs8(&pkcs8))
            .unwrap();
        let mut signature = vec![0; key.public_modulus_len()];
        let random = aws_lc_rs::rand::SystemRandom::new();
        key.sign(
            &aws_lc_rs::signature::RSA_PKCS1_SHA256,
            &random,
            input.as_bytes(),
            &mut signature,
        )
        .unwrap();
        format!("{input}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn sign(header: &Value, body: &Value) -> String {
        sign_text(&header.to_string(), &body.to_string())
    }

    fn verify_at(assertion: &str, now: Timestamp) -> Result<Assertion, AssertionError> {
        let certificates = [registered("cert-1").1, registered("cert-2").1];
        let client_id = ClientId::parse("machine").unwrap();
        verify(
            assertion,
            &client_id,
            &certificates,
            &Settings::default(),
            now,
        )
    }

    fn outcome(header: &Value, body: &Value) -> Result<Assertion, AssertionError> {
        verify_at(&sign(header, body), NOW)
    }

    fn at(offset: i64) -> Timestamp {
        Timestamp::from_seconds(NOW.seconds().checked_add_signed(offset).unwrap())
    }

    #[test]
    fn a_good_assertion_is_read_whole() {
        let body = with(
            with(body(), "user_id", json!("7")),
            "user_site",
            json!("https://us1"),
        );
        let assertion = outcome(&header(), &body).unwrap();
        assert_eq!(assertion.subject, "ada@example.com");
        assert_eq!(assertion.jti, "j-1");
        let skew = Settings::default().lifetimes.clock_skew;
        assert_eq!(assertion.remembered_until, at(300) + skew);
        let named = NamedAccount {
            user_id: Some("7"),
            user_site: Some("https://us1"),
        };
        assert_eq!(assertion.named_account(), named);
    }

    /// protocol.md §2.3.
    #[test]
    fn rfc8725_s3_1_headers() {
        let x5t = |byte: u8| json!(URL_SAFE_NO_PAD.encode([byte; 20]));
        let no_kid = with(header(), "kid", Value::Null);
        for good in [
            with(no_kid.clone(), "x5t", x5t(0)),
            with(header(), "x5t", x5t(0)),
            with(header(), "jku", json!("http://127.0.0.1:1/keys")),
            with(header(), "x5c", json!(["AA"])),
        ] {
            assert!(outcome(&good, &body()).is_ok(), "{good}");
        }
        use AssertionError as E;
        for (bad, reason) in [
            (no_kid.clone(), E::NoKeyNamed),
            (with(no_kid.clone(), "x5t", x5t(9)), E::UnknownThumbprint),
            (with(no_kid, "x5t", json!("!")), E::UnknownThumbprint),
            (with(header(), "kid", json!("cert-9")), E::UnknownAlias),
            (with(header(), "x5t", x5t(1)), E::KeysDiffer),
            (with(header(), "kid", json!("cert-2")), E::Signature),
            (with(header(), "typ", Value::Null), E::TypMissing),
            (
                with(with(header(), "typ", Value::Null), "type", json!("JWT")),
                E::TypMissing,
            ),
            (with(header(), "typ", json!("at+jwt")), E::TypWrong),
            (with(header(), "alg", Value::Null), E::Algorithm),
            (with(header(), "alg", json!("none")), E::Algorithm),
            (with(header(), "alg", json!("HS256")), E::Algorithm),
            (with(header(), "alg", json!("PS256")), E::Algorithm),
            (with(header(), "alg", json!("ES256")), E::Algorithm),
            (
                with(header(), "crit", json!(["exp"])),
                E::Malformed(JwsError::Critical),
            ),
            // Thumbprints as openssl prints them.
            (
                with(header(), "x5t", json!("ab".repeat(20))),
                E::ThumbprintInHex(URL_SAFE_NO_PAD.encode([0xab; 20])),
            ),
            (
                with(header(), "x5t", json!(["AB"; 20].join(":"))),
                E::ThumbprintInHex(URL_SAFE_NO_PAD.encode([0xab; 20])),
            ),
        ] {
            assert_eq!(outcome(&bad, &body()), Err(reason), "{bad}");
        }
    }

    #[test]
    fn rfc7523_s3_claims() {
        use AssertionError as E;
        let list = with(body(), "aud", json!(["https://identity.example.com/"]));
        assert!(outcome(&header(), &list).is_ok());
        for name in ["iss", "sub", "aud", "exp", "iat", "jti"] {
            let bad = with(body(), name, Value::Null);
            assert_eq!(outcome(&header(), &bad), Err(E::Missing(name)));
        }
        for name in ["exp", "iat", "nbf"] {
            for wrong in [
                json!("1800000300"),
                json!(-1),
                json!(1e99),
                json!([1]),
                json!(true),
            ] {
                let bad = with(body(), name, wrong);
                assert_eq!(outcome(&header(), &bad), Err(E::WrongType(name)), "{bad}");
            }
        }
        for name in ["iss", "sub", "jti", "user_id", "user_site"] {
            let bad = with(body(), name, json!(5));
            assert_eq!(outcome(&header(), &bad), Err(E::WrongType(name)));
        }
        let audience = |received: Option<&str>| E::Audience {
            received: received.map(str::to_owned),
            expected: "https://identity.example.com/".to_owned(),
        };
        for (name, value, reason) in [
            ("iss", json!("other"), E::Issuer("other".to_owned())),
            (
                "aud",
                json!("https://identity.example.com"),
                audience(Some("https://identity.example.com")),
            ),
            ("aud", json!([]), audience(None)),
            (
                "aud",
                json!(["https://identity.example.com/", "https://other"]),
                audience(None),
            ),
            ("aud", json!(7), audience(None)),
            ("jti", json!(""), E::WrongType("jti")),
            ("jti", json!("j".repeat(256)), E::WrongType("jti")),
        ] {
            assert_eq!(
                outcome(&header(), &with(body(), name, value)),
                Err(reason),
                "{name}"
            );
        }
        assert!(outcome(&header(), &with(body(), "jti", json!("ü".repeat(255)))).is_ok());
    }

    /// The edges.
    #[test]
    fn rfc7523_s3_times() {
        use AssertionError as E;
        let day = 24 * 3600;
        let too_long = E::TooLong {
            at: at(day + 1),
            now: NOW,
            most: Duration::from_secs(24 * 3600),
        };
        for (name, offset, expected) in [
            ("exp", 0, Err(E::Expired { at: NOW, now: NOW })),
            ("exp", 1, Ok(())),
            ("exp", day, Ok(())),
            ("exp", day + 1, Err(too_long)),
            ("iat", 30, Ok(())),
            ("iat", 31, Err(E::InFuture("iat", at(31), NOW))),
            ("nbf", 30, Ok(())),
            ("nbf", 31, Err(E::InFuture("nbf", at(31), NOW))),
        ] {
            let body = with(body(), name, json!(at(offset).seconds()));
            assert_eq!(
                outcome(&header(), &body).map(|_| ()),
                expected,
                "{name} {offset}"
            );
        }
        let long = with(body(), "exp", json!(at(2000).seconds()));
        let long = sign(&header(), &with(long, "iat", json!(at(-2000).seconds())));
        for (offset, expected) in [
            (-1001, Err(E::CertificateNotValid)),
            (-1000, Ok(())),
            (1000, Ok(())),
            (1001, Err(E::CertificateNotValid)),
        ] {
            assert_eq!(
                verify_at(&long, at(offset)).map(|_| ()),
                expected,
                "{offset}"
            );
        }
    }

    #[test]
    fn only_the_signed_bytes_are_accepted() {
        let assertion = sign(&header(), &body());
        assert!(verify_at(&assertion, NOW).is_ok());
        for length in 0..assertion.len() {
            assert!(
                verify_at(&assertion[..length], NOW).is_err(),
                "cut at {length}"
            );
        }
        let (input, signature) = assertion.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        for position in 0..signature.len() {
            let mut changed = signature.clone();
            changed[position] ^= 1 << (position % 8);
            let forged = format!("{input}.{}", URL_SAFE_NO_PAD.encode(changed));
            assert_eq!(verify_at(&forged, NOW), Err(AssertionError::Signature));
        }
        let other = sign(&header(), &with(body(), "sub", json!("eve@example.com")));
        let swapped = format!("{}.{}", input, other.rsplit_once('.').unwrap().1);
        assert_eq!(verify_at(&swapped, NOW), Err(AssertionError::Signature));
    }

    #[test]
    fn rfc7515_strict_forms() {
        let repeated = body()
            .to_string()
            .replacen('{', "{\"sub\":\"eve@example.com\",", 1);
        let repeated = sign_text(&header().to_string(), &repeated);
        let refused = |assertion: &str| verify_at(assertion, NOW).unwrap_err().description();
        assert_eq!(
            refused(&repeated),
            "sub occurs twice in the body of the assertion"
        );
        for text in ["", "a", "a.b", "a.b.c", "..", "💥.💥.💥"] {
            let error = verify_at(text, NOW).unwrap_err();
            assert!(matches!(error, AssertionError::Malformed(_)), "{text}");
        }
    }

    /// Each refusal says what is wrong, so that nobody has to guess.
    #[test]
    fn descriptions_name_what_was_received_and_expected() {
        let described = |header: &Value, body: &Value| {
            let error = outcome(header, body).unwrap_err();
            error.description().into_owned()
        };
        let changed = |name: &str, value: Value| described(&header(), &with(body(), name, value));
        let now = NOW.seconds();
        assert_eq!(
            changed("aud", json!("https://elsewhere/\"\\é")),
            "Audience validation failed: aud is https://elsewhere/???; expected https://identity.example.com/"
        );
        assert_eq!(
            changed("exp", json!(now - 90)),
            format!(
                "The assertion has expired 90 s ago: exp is {}, the time of the server {}",
                at(-90).rfc3339(),
                NOW.rfc3339()
            )
        );
        assert_eq!(
            changed("iat", json!(now + 90)),
            format!(
                "iat of the assertion is 90 s ahead of the time of the server, {}",
                NOW.rfc3339()
            )
        );
        let mut null_kid = header();
        null_kid["kid"] = Value::Null;
        assert_eq!(
            described(&null_kid, &body()),
            "kid in the assertion header must be a string"
        );
        let deep = format!("{{\"deep\":{}0{}}}", "[".repeat(100), "]".repeat(100));
        let deep = verify_at(&sign_text(&header().to_string(), &deep), NOW).unwrap_err();
        assert_eq!(
            deep.description(),
            "The body of the assertion is nested deeper than 64 levels"
        );
        assert_eq!(
            changed("large", json!("x".repeat(16 * 1024))),
            "The assertion is longer than 16384 bytes"
        );
    }

    /// Some libraries write claims that are not set.
    #[test]
    fn explicit_nulls_of_optional_claims_count_as_absent() {
        let mut nulls = body();
        for name in ["user_id", "user_site", "nbf"] {
            nulls[name] = Value::Null;
        }
        let assertion = outcome(&header(), &nulls).unwrap();
        assert_eq!(assertion.named_account(), NamedAccount::default());
        for name in ["iss", "sub", "aud", "exp", "iat", "jti"] {
            let mut null = body();
            null[name] = Value::Null;
            assert_eq!(
                outcome(&header(), &null),
                Err(AssertionError::Missing(name))
            );
        }
    }
}
