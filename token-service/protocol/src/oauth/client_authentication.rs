//! Client authentication (protocol.md §4.2, §5.2, §5.3, §5.12, §5.14; RFC 6749 §2.3).

pub mod claimed;

use std::sync::Arc;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use claims::Thumbprint;
use zeroize::Zeroizing;

use super::assertion::client::{self, ClientAssertion};
use super::assertion::{AssertionError, Unverified};
use super::error::{TokenError, required};
use super::parameter::Parameter;
use super::parameters::{Parameters, form_decode};
use crate::Context;
use crate::settings::Settings;
use domain::client::ClientSecret;
use domain::clock::Timestamp;
use domain::{Client, KeyAuthentication};
use store::{OnceId, Use};

/// Padding is optional because some clients omit it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A client, authenticated or only identified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PresentedClient {
    Authenticated(Arc<Client>, ProvenBy),
    /// The client sent only its `client_id`. This is all that a public client has; a confidential client must authenticate.
    Named(Arc<Client>),
}

/// What proved the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProvenBy {
    /// `client_secret_basic`.
    Secret(ClientSecret),
    /// `private_key_jwt`.
    Assertion(ClientAssertion),
    /// `self_signed_tls_client_auth`.
    Certificate,
}

impl PresentedClient {
    pub const fn client(&self) -> &Arc<Client> {
        match self {
            Self::Authenticated(client, _) | Self::Named(client) => client,
        }
    }

    /// Records the use of the secret, if the client authenticated with a secret.
    pub fn note_use(&self, context: &Context<'_>) {
        if let Self::Authenticated(client, ProvenBy::Secret(secret)) = self {
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
    /// [`TokenError::SecretRequired`], [`TokenError::ClientAssertionRequired`] or [`TokenError::CertificateRequired`] if a
    /// confidential client did not authenticate.
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
            Self::Named(client) => {
                let KeyAuthentication {
                    keys,
                    tls_client_certificates: certificates,
                    ..
                } = &client.key_authentication;
                match (client.secrets(), keys.as_slice(), certificates.as_slice()) {
                    ([], [], [_, ..]) => Err(TokenError::CertificateRequired),
                    ([], [_, ..], _) => Err(TokenError::ClientAssertionRequired),
                    _ => Err(TokenError::SecretRequired),
                }
            }
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

/// Authenticates the client from its Authorization headers, the certificate of its connection and its form. Claims the `jti`
/// of a client assertion, durably.
///
/// # Errors
/// A [`TokenError`] for all combinations except these three: one Basic header with the right secret, or a client assertion
/// (each with no `client_id` in the body, or the same Client ID), or only a `client_id` in the body. The latter is authenticated
/// if the certificate is registered for the client.
pub async fn authenticate(
    context: &Context<'_>,
    served: Served<'_>,
    authorization: &[&[u8]],
    certificate: Option<Thumbprint>,
    form: &Parameters<'_>,
) -> Result<PresentedClient, TokenError> {
    let authentication = Authentication::read(authorization, form)?;
    let directory = context.directory;
    for client_id in authentication.client_ids() {
        let found = match served {
            Served::Current => directory.client(&client_id).await?,
            Served::AnyFlow => directory.client_of_any_flow(&client_id).await?,
            Served::Legacy(hostname) => directory.legacy_client(&client_id, hostname).await?,
        };
        if let Some(client) = found {
            let presented =
                authentication.check(client, certificate, context.settings, context.now)?;
            use_assertion(context, &presented).await?;
            return Ok(presented);
        }
    }
    Err(match authentication {
        Authentication::Assertion { .. } => {
            TokenError::ClientAssertion(AssertionError::UnknownClient)
        }
        Authentication::Named(_) | Authentication::Basic { .. } => TokenError::UnknownClient,
    })
}

/// RFC 7523 §3 rule 7: each client assertion works once.
async fn use_assertion(
    context: &Context<'_>,
    presented: &PresentedClient,
) -> Result<(), TokenError> {
    let PresentedClient::Authenticated(client, ProvenBy::Assertion(assertion)) = presented else {
        return Ok(());
    };
    let id = OnceId::of_client_assertion(&client.client_id, &assertion.jti);
    let until = assertion.remembered_until;
    match context.store.use_once(id, until, context.now).await? {
        Use::First => Ok(()),
        Use::Again => Err(TokenError::ClientAssertion(AssertionError::Replayed)),
    }
}

/// How a request authenticates its client.
enum Authentication<'a> {
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

impl<'a> Authentication<'a> {
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
        certificate: Option<Thumbprint>,
        settings: &Settings,
        now: Timestamp,
    ) -> Result<PresentedClient, TokenError> {
        let (secret, also_named) = match self {
            Self::Named(_) => return by_certificate(client, certificate),
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
                let verified = assertion.of_client(&client, settings, now).verify();
                let verified = verified.map_err(TokenError::ClientAssertion)?;
                return Ok(PresentedClient::Authenticated(
                    client,
                    ProvenBy::Assertion(verified),
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
                ProvenBy::Secret(secret),
            )),
        }
    }
}

/// RFC 8705 §2.2. The certificate of a client without registered certificates does not authenticate.
fn by_certificate(
    client: Arc<Client>,
    shown: Option<Thumbprint>,
) -> Result<PresentedClient, TokenError> {
    let registered = &client.key_authentication.tls_client_certificates;
    match shown {
        Some(shown) if registered.contains(&shown) => Ok(PresentedClient::Authenticated(
            client,
            ProvenBy::Certificate,
        )),
        Some(_) if !registered.is_empty() => Err(TokenError::CertificateOther),
        Some(_) | None => Ok(PresentedClient::Named(client)),
    }
}

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
mod tests;
