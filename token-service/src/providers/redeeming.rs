//! The redemption of an authorization code at a provider's token endpoint.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::clock::Clock as _;
use process::fetch::Answer;
use process::fetch::http::Request;
use protocol::identity_provider::Unavailable;
use protocol::oauth::assertion::client;
use secrets::text_file;
use serde_json::Value;
use system::{OsRandom, SystemClock};
use tokio::time::{Instant, timeout_at};
use url::form_urlencoded::{Serializer, byte_serialize};
use zeroize::Zeroizing;

use super::{CREDENTIALS_REFUSED, Endpoints, Provider, UNAVAILABLE, clipped, log_failure};
use crate::config::ProviderCredential;
use crate::jwt::{self, ClientAssertion};
use crate::telemetry::metrics::ProviderOutcome;

/// The request, in metrics and log.
pub(super) const TOKEN: &str = "token";

/// Longest answer of a token endpoint that is read, in bytes. An ID token of a person in hundreds of groups has some 16,000.
const MAX_ANSWER_BYTES: usize = 128 * 1024;

/// Lifetime of an assertion in place of the client secret.
const ASSERTION_LIFETIME: Duration = Duration::from_mins(1);

/// Why a code brought no ID token.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RedeemError {
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The provider's error (RFC 6749 §5.2), without control characters and shortened.
    #[error("{error}: {}", description.as_deref().unwrap_or("no description"))]
    Refused {
        error: String,
        description: Option<String>,
    },
    #[error("{0}")]
    Malformed(String),
}

/// For the metrics and the caller.
type Failed = (ProviderOutcome, RedeemError);

/// Reads the file of a credential, for its problems to show before it is used.
pub(super) fn check(credential: &ProviderCredential) -> anyhow::Result<()> {
    let read = match credential {
        ProviderCredential::SecretFile(path) => secret(path).map(drop),
        ProviderCredential::KeyFile(path) => jwt::read_key(path).map(drop),
    };
    read.context(credential.file().0)
}

/// Read for each use, so that a changed file needs no restart.
fn secret(path: &Path) -> anyhow::Result<Zeroizing<String>> {
    text_file::secret(path).with_context(|| path.display().to_string())
}

impl Provider {
    pub(super) async fn redeem(
        self: &Arc<Self>,
        code: &str,
        redirect_uri: &str,
        code_verifier: &str,
        until: Instant,
    ) -> Result<String, RedeemError> {
        let endpoints = self.endpoints().await?;
        let asked = self.ask(&endpoints, code, redirect_uri, code_verifier, until);
        let redeemed = match timeout_at(until, asked).await {
            Ok(redeemed) => redeemed,
            Err(_) => Err((ProviderOutcome::NoAnswer, self.late().into())),
        };
        self.note(&redeemed);
        redeemed.map_err(|(_, error)| error)
    }

    async fn ask(
        &self,
        endpoints: &Endpoints,
        code: &str,
        redirect_uri: &str,
        code_verifier: &str,
        until: Instant,
    ) -> Result<String, Failed> {
        let unavailable = |outcome, why: String| {
            let error = self.unavailable(clipped(&why)).into();
            (outcome, error)
        };
        let no_answer = |why| unavailable(ProviderOutcome::NoAnswer, self.no_answer(why, until));
        let redemptions = Arc::clone(&self.redemptions);
        let turn = redemptions.acquire_owned().await;
        let turn = turn.map_err(|error| no_answer(error.to_string()))?;
        let request = self.request(endpoints, code, redirect_uri, code_verifier);
        let request = request.map_err(|error| no_answer(format!("{error:#}")))?;
        let left = until.saturating_duration_since(Instant::now());
        let sent = self.client.send(request, left, MAX_ANSWER_BYTES, turn);
        let Answer { status, body } = sent.await.map_err(no_answer)?;
        if status == 429 || status >= 500 {
            let why = format!("status {status}");
            return Err(unavailable(ProviderOutcome::Status, why));
        }
        let body = Zeroizing::new(body.map_err(no_answer)?);
        read(status, &body)
    }

    /// The credential is only in the request, and the request is dropped after it was sent.
    fn request(
        &self,
        endpoints: &Endpoints,
        code: &str,
        redirect_uri: &str,
        code_verifier: &str,
    ) -> anyhow::Result<Request<Option<Zeroizing<String>>>> {
        let client_id = self.settings.client_id.as_deref().unwrap_or_default();
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", redirect_uri)
            .append_pair("code_verifier", code_verifier);
        let mut request = Request::post(endpoints.token_endpoint.as_str())
            .header("accept", "application/json")
            .header("content-type", "application/x-www-form-urlencoded");
        match &self.connection.credential {
            Some(ProviderCredential::KeyFile(path)) => {
                let key = jwt::read_key(path)?;
                let assertion = ClientAssertion {
                    client_id,
                    kid: Some(key.kid()),
                    // Not the token endpoint, for which the provider of another entry could ask (draft-ietf-oauth-rfc7523bis §4).
                    audience: &self.settings.issuer,
                    lifetime: ASSERTION_LIFETIME,
                };
                let assertion = assertion.sign(&key, SystemClock.now(), &OsRandom)?;
                form.append_pair("client_id", client_id)
                    .append_pair("client_assertion_type", client::TYPE)
                    .append_pair("client_assertion", &assertion);
            }
            Some(ProviderCredential::SecretFile(path)) => {
                let secret = secret(path)?;
                let offers = |method: &str| {
                    let mut methods = endpoints.token_endpoint_auth_methods.iter();
                    methods.any(|offered| offered == method)
                };
                if offers("client_secret_post") && !offers("client_secret_basic") {
                    form.append_pair("client_id", client_id)
                        .append_pair("client_secret", &secret);
                } else {
                    // RFC 6749 §2.3.1: both are form-encoded, so that a colon in the Client ID does not end it.
                    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                    let pair =
                        Zeroizing::new(format!("{}:{}", encoded(client_id), encoded(&secret)));
                    let value = Zeroizing::new(format!("Basic {}", STANDARD.encode(&*pair)));
                    request = request.header("authorization", value.as_str());
                }
            }
            None => anyhow::bail!("the configuration has no credential for it"),
        }
        Ok(request.body(Some(Zeroizing::new(form.finish())))?)
    }

    /// Counts a redemption, and logs a failure once. A refused code is the matter of one person.
    fn note(&self, redeemed: &Result<String, Failed>) {
        let now = self.now();
        let mut state = self.state();
        let outcome = match redeemed {
            Ok(_) => {
                if state.redemptions.succeeded() {
                    let provider = &self.settings.id;
                    tracing::info!(provider, "identity provider redeems codes again");
                }
                ProviderOutcome::Ok
            }
            Err((ProviderOutcome::Refused, _)) => ProviderOutcome::Refused,
            Err((outcome, error)) => {
                // Descriptions have the time and the number of the request.
                let (reason, why) = match error {
                    RedeemError::Unavailable(unavailable) => (&unavailable.why, &unavailable.why),
                    RedeemError::Refused { error: code, .. } => (code, &error.to_string()),
                    RedeemError::Malformed(why) => (why, why),
                };
                let severity = state.redemptions.failed(reason, true, now);
                let message = match outcome {
                    ProviderOutcome::InvalidClient => CREDENTIALS_REFUSED,
                    _ => UNAVAILABLE,
                };
                log_failure(severity, &self.settings.id, TOKEN, why, message);
                *outcome
            }
        };
        self.count(TOKEN, outcome);
    }
}

/// Reads the answer of a token endpoint: nothing but the ID token, or the error.
fn read(status: u16, body: &[u8]) -> Result<String, Failed> {
    let malformed = |why: &str| {
        let why = format!("status {status}: {}", clipped(why));
        (ProviderOutcome::Malformed, RedeemError::Malformed(why))
    };
    if body.len() > MAX_ANSWER_BYTES {
        return Err(malformed(&format!("larger than {MAX_ANSWER_BYTES} bytes")));
    }
    let answer = claims::json::parse_file(body).map_err(|error| malformed(&error.to_string()))?;
    let text = |name: &str| answer.get(name).and_then(Value::as_str);
    match (status, text("id_token"), text("error")) {
        (200, Some(token), _) => Ok(token.to_owned()),
        (200, None, _) => Err(malformed("no id_token")),
        (400..=499, _, Some(error)) => {
            let outcome = match error {
                "invalid_client" | "unauthorized_client" => ProviderOutcome::InvalidClient,
                _ => ProviderOutcome::Refused,
            };
            let refused = RedeemError::Refused {
                error: clipped(error),
                description: text("error_description").map(clipped),
            };
            Err((outcome, refused))
        }
        _ => Err(malformed("neither an ID token nor an error")),
    }
}
