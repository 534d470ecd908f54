//! The fetch of a provider's metadata and keys.

use keys::discovery::{self, Discovery, MAX_METADATA_BYTES};
use keys::endpoint::Endpoint;
use keys::schedule::TIMEOUT_SECONDS;
use keys::{KeySet, MAX_JWKS_BYTES};
use process::fetch::http::Request;
use serde_json::{Map, Value};
use std::path::Path;
use std::sync::Arc;
use tokio::io::AsyncReadExt as _;
use tokio::time::Instant;
use url::Url;

use super::{Endpoints, Provider, UNAVAILABLE, clipped, log_failure};
use crate::config::{ProviderKeyPlace, ProviderKeySource};
use crate::telemetry::metrics::ProviderOutcome;

/// The requests of a fetch, in metrics and log.
const METADATA: &str = "metadata";
const KEYS: &str = "keys";

type Failure = (&'static str, String);

impl Provider {
    /// Fetches metadata and keys, and keeps what is usable.
    pub(super) async fn fetch(&self) {
        self.state().schedule.started(self.now(), TIMEOUT_SECONDS);
        let fetched = self.fetch_all(Instant::now() + self.limit).await;
        let now = self.now();
        let mut guard = self.state();
        let state = &mut *guard;
        match fetched {
            Ok(()) => {
                state.schedule.succeeded(now);
                state.failure = None;
                if state.fetches.succeeded() {
                    tracing::info!(
                        provider = self.settings.id,
                        "identity provider answers again"
                    );
                }
            }
            Err((request, why)) => {
                let why = clipped(&why);
                state.schedule.failed(now);
                let severity = state.fetches.failed(&why, state.keys_at.is_some(), now);
                log_failure(severity, &self.settings.id, request, &why, UNAVAILABLE);
                state.failure = Some(format!("{request}: {why}"));
            }
        }
    }

    async fn fetch_all(&self, until: Instant) -> Result<(), Failure> {
        match &self.connection.keys {
            ProviderKeySource::Discovery(discovery) => {
                let (metadata, keys) = self.metadata(discovery, until).await?;
                // Keys are of use also if the provider has no usable endpoints.
                self.keys(&keys, until).await?;
                if self.settings.client_id.is_some() {
                    let endpoints = self.endpoints_of(discovery, &metadata);
                    let endpoints = endpoints.map_err(|why| (METADATA, why))?;
                    self.state().endpoints = Some(Arc::new(endpoints));
                }
                Ok(())
            }
            ProviderKeySource::Configured { keys, endpoints } => {
                if let Some((authorization, token)) = endpoints {
                    self.state().endpoints = Some(Arc::new(Endpoints {
                        authorization_endpoint: authorization.clone(),
                        token_endpoint: token.clone(),
                        iss_parameter_supported: false,
                        token_endpoint_auth_methods: Vec::new(),
                    }));
                }
                match keys {
                    ProviderKeyPlace::Uri(url) => self.keys(url.as_str(), until).await,
                    ProviderKeyPlace::File(path) => self.take_keys(read(path).await),
                }
            }
        }
    }

    /// Returns the metadata, and the address of the keys.
    async fn metadata(
        &self,
        discovery: &Discovery,
        until: Instant,
    ) -> Result<(Map<String, Value>, String), Failure> {
        let url = address(&discovery.endpoint);
        let body = self.get(&url, MAX_METADATA_BYTES, until).await;
        let body = body.map_err(|failure| self.failed(METADATA, failure))?;
        let issuer = &self.settings.issuer;
        let metadata = discovery::read(issuer, &body).and_then(|metadata| {
            let keys = discovery.endpoint_of(issuer, &metadata, "jwks_uri", "hosts")?;
            Ok((metadata, address(&keys)))
        });
        let metadata =
            metadata.map_err(|why| self.failed(METADATA, (ProviderOutcome::Malformed, why)))?;
        self.count(METADATA, ProviderOutcome::Ok);
        Ok(metadata)
    }

    fn endpoints_of(
        &self,
        discovery: &Discovery,
        metadata: &Map<String, Value>,
    ) -> Result<Endpoints, String> {
        let endpoint = |name: &str| {
            let endpoint = discovery.endpoint_of(&self.settings.issuer, metadata, name, "hosts")?;
            Url::parse(&address(&endpoint)).map_err(|error| format!("its {name}: {error}"))
        };
        let methods = metadata.get("token_endpoint_auth_methods_supported");
        let methods = methods.and_then(Value::as_array).into_iter().flatten();
        let methods = methods.filter_map(Value::as_str).map(str::to_owned);
        let iss = metadata.get("authorization_response_iss_parameter_supported");
        Ok(Endpoints {
            authorization_endpoint: endpoint("authorization_endpoint")?,
            token_endpoint: endpoint("token_endpoint")?,
            iss_parameter_supported: iss == Some(&Value::Bool(true)),
            token_endpoint_auth_methods: methods.collect(),
        })
    }

    async fn keys(&self, url: &str, until: Instant) -> Result<(), Failure> {
        let body = self.get(url, MAX_JWKS_BYTES, until).await;
        self.take_keys(body)
    }

    fn take_keys(&self, body: Result<Vec<u8>, (ProviderOutcome, String)>) -> Result<(), Failure> {
        let body = body.map_err(|failure| self.failed(KEYS, failure))?;
        let previous = self.state().keys.clone();
        let parsed = KeySet::parse(&body, &self.settings.algorithms, &previous);
        let (keys, skipped) =
            parsed.map_err(|why| self.failed(KEYS, (ProviderOutcome::Malformed, why)))?;
        // The keys that were fetched before stay in use.
        if keys.is_empty() {
            let why = match skipped.line() {
                line if line.is_empty() => "the JWK set has no keys".to_owned(),
                line => format!("no key is usable: {line}"),
            };
            return Err(self.failed(KEYS, (ProviderOutcome::Malformed, why)));
        }
        let mut state = self.state();
        state.keys = keys;
        state.keys_at = Some(Instant::now());
        drop(state);
        self.count(KEYS, ProviderOutcome::Ok);
        Ok(())
    }

    async fn get(
        &self,
        url: &str,
        longest: usize,
        until: Instant,
    ) -> Result<Vec<u8>, (ProviderOutcome, String)> {
        let at = |why: String| format!("GET {url}: {why}");
        let none = |why| (ProviderOutcome::NoAnswer, at(self.no_answer(why, until)));
        let request = Request::get(url).header("accept", "application/json");
        let request = request.body(None::<String>);
        let request = request.map_err(|error| none(error.to_string()))?;
        let left = until.saturating_duration_since(Instant::now());
        let answer = self.client.send(request, left, longest, ()).await;
        let answer = answer.map_err(none)?;
        match answer.status {
            200 => answer.body.map_err(none),
            status => Err((ProviderOutcome::Status, at(format!("status {status}")))),
        }
    }

    fn failed(&self, request: &'static str, failure: (ProviderOutcome, String)) -> Failure {
        let (outcome, why) = failure;
        self.count(request, outcome);
        (request, why)
    }

    pub(super) fn count(&self, request: &'static str, outcome: ProviderOutcome) {
        self.metrics.count(&self.settings.id, request, outcome);
    }
}

/// The URL of an endpoint, whose cluster is an origin.
fn address(endpoint: &Endpoint) -> String {
    format!("{}{}", endpoint.cluster, endpoint.path)
}

/// Reads the file with a provider's keys, up to one byte more than is allowed.
async fn read(path: &Path) -> Result<Vec<u8>, (ProviderOutcome, String)> {
    let read = async {
        let mut body = Vec::new();
        let file = tokio::fs::File::open(path).await?;
        let mut bounded = file.take(MAX_JWKS_BYTES as u64 + 1);
        bounded.read_to_end(&mut body).await?;
        Ok(body)
    };
    let unreadable = |error: std::io::Error| format!("{}: {error}", path.display());
    read.await
        .map_err(|error| (ProviderOutcome::NoAnswer, unreadable(error)))
}
