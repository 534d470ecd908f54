//! Client authentication (protocol.md §4.2, §5.2, §5.3, §5.12; RFC 6749 §2.3).

use std::sync::Arc;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use zeroize::Zeroizing;

use super::assertion::AssertionError;
use super::assertion::client::{self, ClientAssertion, Unverified};
use super::error::{TokenError, required};
use super::parameter::Parameter;
use super::parameters::{Parameters, form_decode};
use crate::Context;
use crate::settings::Settings;
use domain::Client;
use domain::client::ClientSecret;
use domain::clock::Timestamp;
use store::{AssertionId, Claim as StoreClaim};

/// Padding is optional because some clients omit it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A client, authenticated or only identified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PresentedClient {
    Authenticated(Arc<Client>, Proof),
    /// The client sent only its `client_id`. This is all that a public client has; a confidential client must authenticate.
    Named(Arc<Client>),
}

/// What proved the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// `client_secret_basic`.
    Secret(ClientSecret),
    /// `private_key_jwt`.
    Assertion(ClientAssertion),
}

impl PresentedClient {
    pub const fn client(&self) -> &Arc<Client> {
        match self {
            Self::Authenticated(client, _) | Self::Named(client) => client,
        }
    }

    /// Records the use of the secret, if the client authenticated with a secret.
    pub fn note_use(&self, context: &Context<'_>) {
        if let Self::Authenticated(client, Proof::Secret(secret)) = self {
            let uses = context.secret_uses;
            uses.note(&client.client_id, secret, context.now);
        }
    }

    pub const fn is_authenticated(&self) -> bool {
        matches!(self, Self::Authenticated(..))
    }

    /// The client, if the authentication is sufficient for its integration type.
    ///
    /// # Errors
    /// [`TokenError::SecretRequired`] or [`TokenError::ClientAssertionRequired`] if a confidential client did not
    /// authenticate.
    pub fn fully_authenticated(&self) -> Result<&Arc<Client>, TokenError> {
        match self {
            Self::Named(client) if client.is_public() => Ok(client),
            _ => self.authenticated(),
        }
    }

    /// The client, if it authenticated.
    ///
    /// # Errors
    /// As [`Self::fully_authenticated`], for public clients too.
    pub fn authenticated(&self) -> Result<&Arc<Client>, TokenError> {
        match self {
            Self::Authenticated(client, _) => Ok(client),
            Self::Named(client)
                if client.secrets().is_empty() && !client.key_authentication.is_empty() =>
            {
                Err(TokenError::ClientAssertionRequired)
            }
            Self::Named(_) => Err(TokenError::SecretRequired),
        }
    }
}

/// The clients that an endpoint serves.
#[derive(Debug, Clone, Copy)]
pub enum Served<'a> {
    /// Clients of the current flows.
    Current,
    /// Clients of the current flows and the legacy flow.
    AnyFlow,
    /// Clients of the legacy flow on the instance with this hostname.
    Legacy(&'a str),
}

/// Authenticates the client from its Authorization headers and its form. Claims the `jti` of a client assertion, durably.
///
/// # Errors
/// A [`TokenError`] for all combinations except these three: one Basic header with the right secret, or a client assertion
/// (each with no `client_id` in the body, or the same Client ID), or only a `client_id` in the body.
pub async fn authenticate(
    context: &Context<'_>,
    served: Served<'_>,
    authorization: &[&[u8]],
    form: &Parameters<'_>,
) -> Result<PresentedClient, TokenError> {
    let claim = Claim::read(authorization, form)?;
    let directory = context.directory;
    for client_id in claim.client_ids() {
        let found = match served {
            Served::Current => directory.client(&client_id).await?,
            Served::AnyFlow => directory.client_of_any_flow(&client_id).await?,
            Served::Legacy(hostname) => directory.legacy_client(&client_id, hostname).await?,
        };
        if let Some(client) = found {
            let presented = claim.check(client, context.settings, context.now)?;
            claim_assertion(context, &presented).await?;
            return Ok(presented);
        }
    }
    Err(match claim {
        Claim::Assertion { .. } => TokenError::ClientAssertion(AssertionError::UnknownClient),
        Claim::Named(_) | Claim::Basic { .. } => TokenError::UnknownClient,
    })
}

/// RFC 7523 §3 rule 7: each client assertion works once.
async fn claim_assertion(
    context: &Context<'_>,
    presented: &PresentedClient,
) -> Result<(), TokenError> {
    let PresentedClient::Authenticated(client, Proof::Assertion(assertion)) = presented else {
        return Ok(());
    };
    let id = AssertionId::of_client_assertion(&client.client_id, &assertion.jti);
    let until = assertion.remembered_until;
    match context.store.claim_jti(id, until, context.now).await? {
        StoreClaim::Claimed => Ok(()),
        StoreClaim::AlreadyClaimed => Err(TokenError::ClientAssertion(AssertionError::Replayed)),
    }
}

/// Which client a request claims to come from, and the proof.
enum Claim<'a> {
    /// Only a `client_id` in the body.
    Named(&'a str),
    Basic {
        client_id: Zeroizing<String>,
        secret: Zeroizing<String>,
        /// The `client_id` in the body.
        also_named: Option<&'a str>,
    },
    Assertion {
        /// `sub`.
        client_id: String,
        assertion: Unverified<'a>,
        /// The `client_id` in the body.
        also_named: Option<&'a str>,
    },
}

impl<'a> Claim<'a> {
    fn read(authorization: &[&[u8]], form: &'a Parameters<'_>) -> Result<Self, TokenError> {
        let named = form.get(Parameter::ClientId);
        let asserts = form.contains(Parameter::ClientAssertion)
            || form.contains(Parameter::ClientAssertionType);
        let in_body = asserts || form.contains(Parameter::ClientSecret);
        match (authorization, in_body) {
            ([], false) => named.map(Self::Named).ok_or(TokenError::NoClient),
            ([], true) if !asserts => Err(TokenError::SecretInBody),
            ([], true) if form.contains(Parameter::ClientSecret) => {
                Err(TokenError::SeveralAuthentications)
            }
            ([], true) => Self::read_assertion(form, named),
            ([header], false) => {
                let credentials = decode_basic(header).ok_or(TokenError::BasicMalformed)?;
                let (client_id, secret) = credentials
                    .split_once(':')
                    .ok_or(TokenError::BasicMalformed)?;
                Ok(Self::Basic {
                    client_id: Zeroizing::new(client_id.to_owned()),
                    secret: Zeroizing::new(secret.to_owned()),
                    also_named: named,
                })
            }
            // RFC 6749 §2.3: "The client MUST NOT use more than one authentication method in each request."
            ([_], true) | ([_, _, ..], _) => Err(TokenError::SeveralAuthentications),
        }
    }

    fn read_assertion(
        form: &'a Parameters<'_>,
        named: Option<&'a str>,
    ) -> Result<Self, TokenError> {
        if required(form, Parameter::ClientAssertionType)? != client::TYPE {
            return Err(TokenError::ClientAssertionType);
        }
        let assertion = required(form, Parameter::ClientAssertion)?;
        let assertion = Unverified::parse(assertion).map_err(TokenError::ClientAssertion)?;
        let client_id = assertion.client_id().map_err(TokenError::ClientAssertion)?;
        Ok(Self::Assertion {
            client_id: client_id.to_owned(),
            assertion,
            also_named: named,
        })
    }

    /// The Client IDs that the request may mean. The first registered Client ID counts.
    fn client_ids(&self) -> Vec<Zeroizing<String>> {
        match self {
            Self::Named(client_id) => vec![Zeroizing::new((*client_id).to_owned())],
            Self::Basic { client_id, .. } => readings(client_id).collect(),
            Self::Assertion { client_id, .. } => vec![Zeroizing::new(client_id.clone())],
        }
    }

    fn check(
        &self,
        client: Arc<Client>,
        settings: &Settings,
        now: Timestamp,
    ) -> Result<PresentedClient, TokenError> {
        let (secret, also_named) = match self {
            Self::Named(_) => return Ok(PresentedClient::Named(client)),
            Self::Basic {
                secret, also_named, ..
            } => (secret, also_named),
            Self::Assertion {
                assertion,
                also_named,
                ..
            } => {
                if also_named.is_some_and(|named| named != client.client_id.as_str()) {
                    return Err(TokenError::ClientAssertion(AssertionError::ClientIdDiffers));
                }
                let verified = assertion.verify(&client, settings, now);
                let verified = verified.map_err(TokenError::ClientAssertion)?;
                return Ok(PresentedClient::Authenticated(
                    client,
                    Proof::Assertion(verified),
                ));
            }
        };
        if client.is_public() {
            return Err(TokenError::PublicClientInHeader);
        }
        let proved = readings(secret).find_map(|presented| {
            let mut secrets = client.secrets().iter();
            secrets.find(|secret| secret.matches(&presented)).cloned()
        });
        match (proved, also_named) {
            (None, _) => Err(TokenError::WrongSecret),
            (Some(_), Some(named)) if *named != client.client_id.as_str() => {
                Err(TokenError::ClientIdDiffers)
            }
            (Some(secret), _) => Ok(PresentedClient::Authenticated(
                client,
                Proof::Secret(secret),
            )),
        }
    }
}

/// The Client ID that a refused request claims, for the log and the audit log, so that an operator sees which client's
/// secret is being guessed: in the header, the body or the client assertion. At most [`LONGEST_CLAIM`] characters; unprintable characters are escaped.
pub fn claimed(authorization: &[&[u8]], body: &[u8]) -> Option<String> {
    let in_header = authorization.iter().find_map(|header| {
        let credentials = decode_basic(header)?;
        let (client_id, _) = credentials.split_once(':')?;
        readings(client_id)
            .next()
            .map(|client_id| client_id.to_string())
    });
    let in_body = || {
        let form = Parameters::parse(body).ok()?;
        let named = form.get(Parameter::ClientId).map(str::to_owned);
        named.or_else(|| {
            let assertion = Unverified::parse(form.get(Parameter::ClientAssertion)?).ok()?;
            assertion.client_id().ok().map(str::to_owned)
        })
    };
    let claimed = in_header.or_else(in_body)?;
    let printable = claimed.chars().flat_map(char::escape_default);
    let mut bounded: String = printable.take(LONGEST_CLAIM + 1).collect();
    if bounded.len() > LONGEST_CLAIM {
        bounded.truncate(LONGEST_CLAIM);
        bounded.push_str("...");
    }
    Some(bounded)
}

/// Maximum length of a claimed Client ID in the log and the audit log, in characters: the maximum length of a Client
/// ID.
const LONGEST_CLAIM: usize = 128;

fn decode_basic(header: &[u8]) -> Option<Zeroizing<String>> {
    let (scheme, encoded) = std::str::from_utf8(header).ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = BASE64.decode(encoded.trim_start_matches(' ')).ok()?;
    String::from_utf8(decoded).ok().map(Zeroizing::new)
}

/// RFC 6749 §2.3.1 requires form encoding of id and secret before Base64, but protocol.md §5.2 does not mention this
/// encoding. Clients do either, so the service tries both readings.
fn readings(text: &str) -> impl Iterator<Item = Zeroizing<String>> {
    let decoded = form_decode(text)
        .ok()
        .map(|decoded| Zeroizing::new(decoded.into_owned()));
    let verbatim =
        Some(Zeroizing::new(text.to_owned())).filter(|text| Some(text) != decoded.as_ref());
    decoded.into_iter().chain(verbatim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::testing::{installed, web_server};

    fn authenticate_with(headers: &[&str], form: &str) -> Result<PresentedClient, TokenError> {
        let registered = [
            web_server("web", &["first:+%41", "second"], &[]),
            web_server("we:b", &["secret"], &[]),
            installed("app", &[]),
        ];
        let headers: Vec<&[u8]> = headers.iter().map(|header| header.as_bytes()).collect();
        let form = Parameters::parse(form.as_bytes()).unwrap();
        let claim = Claim::read(&headers, &form)?;
        let found = claim.client_ids().into_iter().find_map(|claimed| {
            let mut registered = registered.iter();
            registered.find(|client| client.client_id.as_str() == claimed.as_str())
        });
        let found = Arc::new(found.ok_or(TokenError::UnknownClient)?.clone());
        let now = Timestamp::from_seconds(1_800_000_000);
        claim.check(found, &Settings::default(), now)
    }

    fn basic(credentials: &str) -> String {
        format!("Basic {}", BASE64.encode(credentials))
    }

    fn outcome(headers: &[&str], form: &str) -> Result<(String, bool), TokenError> {
        authenticate_with(headers, form).map(|presented| {
            (
                presented.client().client_id.to_string(),
                presented.is_authenticated(),
            )
        })
    }

    /// Form-encoded and verbatim secrets, `:` `+` `%` included.
    #[test]
    fn rfc6749_s2_3_1_basic_is_read_encoded_and_verbatim() {
        let web = Ok(("web".to_owned(), true));
        assert_eq!(outcome(&[&basic("web:first:+%41")], ""), web);
        assert_eq!(outcome(&[&basic("web:first%3A%2B%2541")], ""), web);
        assert_eq!(outcome(&[&basic("web:second")], "client_id=web"), web);
        assert_eq!(
            outcome(&[&basic("web:second").replace("Basic", "bAsIc  ")], ""),
            web
        );
        assert_eq!(
            outcome(&[basic("web:second").trim_end_matches('=')], ""),
            web
        );
        assert_eq!(
            outcome(&[&basic("we%3Ab:secret")], ""),
            Ok(("we:b".to_owned(), true))
        );
    }

    #[test]
    fn a_client_id_alone_names_but_does_not_prove() {
        assert_eq!(outcome(&[], "client_id=app"), Ok(("app".to_owned(), false)));
        assert_eq!(outcome(&[], "client_id=web"), Ok(("web".to_owned(), false)));
        let web = authenticate_with(&[], "client_id=web").unwrap();
        assert_eq!(web.fully_authenticated(), Err(TokenError::SecretRequired));
        assert!(
            authenticate_with(&[], "client_id=app")
                .unwrap()
                .fully_authenticated()
                .is_ok()
        );
    }

    /// D-31.
    #[test]
    fn rfc6749_s3_2_an_empty_secret_was_not_sent() {
        let named = Ok(("app".to_owned(), false));
        assert_eq!(outcome(&[], "client_id=app&client_secret="), named);
        let web = Ok(("web".to_owned(), true));
        let header = basic("web:second");
        assert_eq!(outcome(&[&header], "client_id=&client_secret="), web);
    }

    #[test]
    fn everything_else_is_refused_for_its_own_reason() {
        let good = basic("web:second");
        for (headers, form, reason) in [
            (vec![], "", TokenError::NoClient),
            (vec![], "client_id=", TokenError::NoClient),
            (vec![], "client_id=nobody", TokenError::UnknownClient),
            (
                vec![],
                "client_id=web&client_secret=second",
                TokenError::SecretInBody,
            ),
            (
                vec![good.clone()],
                "client_secret=second",
                TokenError::SeveralAuthentications,
            ),
            (
                vec![good.clone(), good.clone()],
                "",
                TokenError::SeveralAuthentications,
            ),
            (
                vec![good.clone()],
                "client_id=app",
                TokenError::ClientIdDiffers,
            ),
            (vec![basic("web:wrong")], "", TokenError::WrongSecret),
            (vec![basic("web:")], "", TokenError::WrongSecret),
            (vec![basic("nobody:second")], "", TokenError::UnknownClient),
            (vec![basic("app:")], "", TokenError::PublicClientInHeader),
            (
                vec![basic("app:x")],
                "client_id=app",
                TokenError::PublicClientInHeader,
            ),
            (vec![basic("web")], "", TokenError::BasicMalformed),
            (vec!["Basic".into()], "", TokenError::BasicMalformed),
            (vec!["Basic !!!".into()], "", TokenError::BasicMalformed),
            (vec!["Basic /w==".into()], "", TokenError::BasicMalformed),
            (vec!["Bearer abc".into()], "", TokenError::BasicMalformed),
        ] {
            let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
            assert_eq!(outcome(&headers, form), Err(reason), "{headers:?} {form}");
        }
    }

    #[test]
    fn a_refused_client_is_named_bounded_and_escaped() {
        let basic = |text: &str| format!("Basic {}", BASE64.encode(text));
        let claim = |header: &str, body: &str| claimed(&[header.as_bytes()], body.as_bytes());
        assert_eq!(claim(&basic("web:guess"), ""), Some("web".to_owned()));
        assert_eq!(claim(&basic("a%3Ab:guess"), ""), Some("a:b".to_owned()));
        assert_eq!(claimed(&[], b"client_id=app&x=y"), Some("app".to_owned()));
        assert_eq!(claim("Bearer x", "client_id=app"), Some("app".to_owned()));
        let escaped = claim(&basic("a\u{1b}[31m\n:guess"), "").unwrap();
        assert_eq!(escaped, "a\\u{1b}[31m\\n");
        let long = claim(&basic(&format!("{}:guess", "x".repeat(5000))), "").unwrap();
        assert_eq!(long.len(), 131);
        for nobody in ["Basic !", "Basic", &basic("no colon")] {
            assert_eq!(claim(nobody, "a=b"), None, "{nobody}");
        }
    }
}
