//! One Envoy with a listener per variant.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::visitor::Visitor;
use tests::{Artifacts, Form, Process, envoy, free_port, listens};

use super::tokens::{AUDIENCE, FORWARDED, Issuers};

/// The filter that verifies tokens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Enforcer {
    None,
    Native,
    NativeWithCache,
    /// A module of WebAssembly that reads the headers of a request, and nothing else.
    Crossing,
    Filter,
    /// The filter as a native module.
    Module,
    /// Another version of the filter.
    Baseline,
}

impl Enforcer {
    /// In the order of their numbers.
    pub(crate) const ALL: [Self; 7] = [
        Self::None,
        Self::Native,
        Self::NativeWithCache,
        Self::Crossing,
        Self::Filter,
        Self::Module,
        Self::Baseline,
    ];

    /// With a cache, and nothing else.
    pub(crate) const fn with_cache(self) -> Variant {
        Variant {
            enforcer: self,
            claims: false,
            cached: true,
            proofs: false,
        }
    }
}

/// [`Enforcer::Crossing`].
const CROSSING: &str = include_str!("crossing.wat");

/// One listener.
#[derive(Clone, Copy)]
pub(crate) struct Variant {
    pub(crate) enforcer: Enforcer,
    /// True to forward six claims.
    pub(crate) claims: bool,
    /// True if the filter caches tokens.
    pub(crate) cached: bool,
    /// True if the filter accepts DPoP proofs.
    pub(crate) proofs: bool,
}

/// The modules that Envoy loads.
pub(crate) struct Modules {
    pub(crate) filter: PathBuf,
    pub(crate) native: PathBuf,
    pub(crate) baseline: Option<PathBuf>,
}

/// A running Envoy.
pub(crate) struct Gateway {
    process: Process,
    ports: Vec<u16>,
    admin: u16,
    _folder: TempDir,
}

impl Gateway {
    /// Starts Envoy with a listener for each variant. `feed` is the port of a revocation feed, which filter and module read.
    pub(crate) fn start(
        artifacts: &Artifacts,
        modules: &Modules,
        issuers: &Issuers,
        variants: &[Variant],
        feed: u16,
        workers: u16,
    ) -> Result<Self> {
        let folder = TempDir::new()?;
        let crossing = folder.path().join("crossing.wasm");
        fs::write(&crossing, wat::parse_str(CROSSING)?)?;
        let mut ports = Vec::new();
        let mut listeners = Vec::new();
        for variant in variants {
            let port = free_port()?;
            let module = match variant.enforcer {
                Enforcer::Crossing => &crossing,
                Enforcer::Baseline => modules.baseline.as_ref().context("there is a baseline")?,
                Enforcer::Module => &modules.native,
                _ => &modules.filter,
            };
            listeners.push(listener(module, issuers, *variant, port)?);
            ports.push(port);
        }
        let config = folder.path().join("envoy.json");
        let admin = free_port()?;
        let bootstrap = json!({
            "admin": {"address": address(admin)},
            "static_resources": {"listeners": listeners, "clusters": [{
                "name": "feed",
                "connect_timeout": "2s",
                "load_assignment": {
                    "cluster_name": "feed",
                    "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(feed)}}]}],
                },
            }]},
        });
        fs::write(&config, bootstrap.to_string())?;
        let command = envoy::command(artifacts, &config, workers);
        let mut process = Process::start("envoy", &command, &folder.path().join("envoy.log"))?;
        process.until("listening", || ports.iter().all(|port| listens(*port)))?;
        Ok(Self {
            process,
            ports,
            admin,
            _folder: folder,
        })
    }

    /// The listeners' ports, in the order of the variants.
    pub(crate) fn ports(&self) -> &[u16] {
        &self.ports
    }

    pub(crate) fn pid(&self) -> Result<u32> {
        self.process.pid()
    }

    /// A number of the filter or module; 0 before it has a value.
    pub(crate) fn metric(&self, name: &str) -> Result<u64> {
        let name = format!("wasmcustom.token_filter.{name}");
        let url = format!("http://127.0.0.1:{}/stats?filter=^{name}$", self.admin);
        let line = Visitor::default().get(&url, &[])?.body;
        let value = line.trim().rsplit(' ').next().unwrap_or_default();
        Ok(value.parse().unwrap_or(0))
    }
}

fn any(name: &str, mut value: Value) -> Value {
    if let Some(members) = value.as_object_mut() {
        members.insert(
            "@type".to_owned(),
            json!(format!("type.googleapis.com/{name}")),
        );
    }
    value
}

fn address(port: u16) -> Value {
    json!({"socket_address": {"address": "127.0.0.1", "port_value": port}})
}

fn listener(module: &Path, issuers: &Issuers, variant: Variant, port: u16) -> Result<Value> {
    let router = json!({
        "name": "envoy.filters.http.router",
        "typed_config": any("envoy.extensions.filters.http.router.v3.Router", json!({})),
    });
    let mut filters = match variant.enforcer {
        Enforcer::None => vec![],
        Enforcer::Native | Enforcer::NativeWithCache => vec![native(issuers, variant)?],
        Enforcer::Crossing | Enforcer::Filter | Enforcer::Module | Enforcer::Baseline => {
            vec![filter(module, issuers, variant)]
        }
    };
    filters.push(router);
    let manager = any(
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        json!({
            "stat_prefix": "api",
            "http_filters": filters,
            "route_config": {"virtual_hosts": [{
                "name": "api",
                "domains": ["*"],
                "routes": [{"match": {"prefix": "/"}, "direct_response": {"status": 200}}],
            }]},
        }),
    );
    Ok(json!({
        "name": port.to_string(),
        "address": address(port),
        "filter_chains": [{"filters": [{
            "name": "envoy.filters.network.http_connection_manager",
            "typed_config": manager,
        }]}],
    }))
}

fn native(issuers: &Issuers, variant: Variant) -> Result<Value> {
    let jwks = json!({"keys": [issuers.jwk()]}).to_string();
    let providers: serde_json::Map<String, Value> = issuers
        .names()
        .map(|issuer| {
            let mut provider = json!({
                "issuer": issuer,
                "audiences": [AUDIENCE],
                "local_jwks": {"inline_string": jwks},
                "forward": true,
            });
            if variant.enforcer == Enforcer::NativeWithCache {
                provider["jwt_cache_config"] = json!({"jwt_cache_size": 10_000});
            }
            if variant.claims {
                provider["claim_to_headers"] = FORWARDED
                    .iter()
                    .map(|(header, claim)| json!({"header_name": header, "claim_name": claim}))
                    .collect();
            }
            (issuer, provider)
        })
        .collect();
    let all: Vec<Value> = providers
        .keys()
        .map(|name| json!({"provider_name": name}))
        .collect();
    let requires = match all.as_slice() {
        [one] => one.clone(),
        several => json!({"requires_any": {"requirements": several}}),
    };
    Ok(json!({
        "name": "envoy.filters.http.jwt_authn",
        "typed_config": any("envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication", json!({
            "providers": providers,
            "rules": [{"match": {"prefix": "/"}, "requires": requires}],
        })),
    }))
}

fn filter(module: &Path, issuers: &Issuers, variant: Variant) -> Value {
    let jwk = issuers.jwk();
    let list: Vec<Value> = issuers
        .names()
        .map(|issuer| {
            let feed = json!({"cluster": "feed", "path": "/revocations"});
            json!({
                "issuer": issuer, "audiences": [AUDIENCE], "jwks": {"keys": [jwk]}, "revocations": feed,
            })
        })
        .collect();
    let forward: serde_json::Map<String, Value> = FORWARDED
        .iter()
        .filter(|_| variant.claims)
        .map(|(header, claim)| ((*header).to_owned(), json!(claim)))
        .collect();
    let mut configuration = json!({
        "issuers": list,
        "rules": [{"path_prefix": "/"}],
        "forward": forward,
        "token_cache_entries": if variant.cached { 10_000 } else { 0 },
    });
    if variant.proofs {
        // The proofs of a whole run are made before it.
        configuration["dpop"] = json!({"origins": [AUDIENCE], "proof_max_age_seconds": 600});
    }
    let form = match variant.enforcer {
        Enforcer::Module => Form::Native,
        _ => Form::Wasm,
    };
    envoy::filter(form, module, &configuration.to_string())
}
