//! The gates that decide about tokens: the filter in real Envoy, in both forms, and token-guard.

use serde_json::{Value, json};
use tests::gateways::TokenGuard;
use tests::{Artifacts, Form, Log, Process, envoy, free_port};

use crate::support::{Reply, get};

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Filter(Form),
    TokenGuard,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [
        Self::Filter(Form::Wasm),
        Self::Filter(Form::Native),
        Self::TokenGuard,
    ];
}

/// A gate with one entrance for each list of issuers. Each entrance has one worker.
pub(super) struct Gate {
    kind: Kind,
    entrances: Vec<String>,
    running: Running,
    _folder: Option<tempfile::TempDir>,
}

enum Running {
    Envoy(Box<Process>),
    TokenGuards(Vec<TokenGuard>),
}

impl Gate {
    /// A gate of each kind, as [`Gate::start`] starts it.
    pub(super) fn all(issuers: &[Value], ports: &[u16]) -> [Self; 3] {
        Kind::ALL.map(|kind| Self::start(kind, issuers, ports))
    }

    /// Each entrance accepts the tokens of one of these issuers; the cluster of each port is `at-PORT`.
    pub(super) fn start(kind: Kind, issuers: &[Value], ports: &[u16]) -> Self {
        let lists: Vec<Value> = issuers.iter().map(|issuer| json!([issuer])).collect();
        Self::of_lists(kind, &lists, ports)
    }

    /// The same, with an entrance for each list of issuers.
    pub(super) fn of_lists(kind: Kind, lists: &[Value], ports: &[u16]) -> Self {
        match kind {
            Kind::Filter(form) => Self::envoy(form, lists, ports),
            Kind::TokenGuard => Self::token_guard(lists, ports),
        }
    }

    fn envoy(form: Form, lists: &[Value], ports: &[u16]) -> Self {
        let artifacts = Artifacts::of(form).unwrap();
        let folder = tempfile::TempDir::new().unwrap();
        let admin = free_port().unwrap();
        let apis: Vec<u16> = lists.iter().map(|_| free_port().unwrap()).collect();
        let listeners: Vec<Value> = lists
            .iter()
            .zip(&apis)
            .map(|(issuers, port)| listener(&artifacts, &configuration(issuers), *port))
            .collect();
        let clusters: Vec<Value> = ports.iter().map(|port| cluster(*port)).collect();
        let bootstrap = json!({
            "admin": {"address": address(admin)},
            "static_resources": {"listeners": listeners, "clusters": clusters},
        });
        let config = folder.path().join("envoy.json");
        std::fs::write(&config, bootstrap.to_string()).unwrap();
        let process = envoy::serve(&artifacts, &config, admin).unwrap();
        let entrance = |port: &u16| format!("http://127.0.0.1:{port}/projects");
        Self {
            kind: Kind::Filter(form),
            entrances: apis.iter().map(entrance).collect(),
            running: Running::Envoy(Box::new(process)),
            _folder: Some(folder),
        }
    }

    fn token_guard(lists: &[Value], ports: &[u16]) -> Self {
        let names: Vec<(String, u16)> = ports
            .iter()
            .map(|port| (format!("at-{port}"), *port))
            .collect();
        let clusters: Vec<(&str, u16)> = names
            .iter()
            .map(|(name, port)| (name.as_str(), *port))
            .collect();
        let start = |issuers| {
            TokenGuard::start(
                &configuration(issuers).to_string(),
                &clusters,
                &["--workers", "1"],
            )
            .unwrap()
        };
        let guards: Vec<TokenGuard> = lists.iter().map(start).collect();
        let entrance =
            |guard: &TokenGuard| format!("http://127.0.0.1:{}/ext-authz/projects", guard.port());
        Self {
            kind: Kind::TokenGuard,
            entrances: guards.iter().map(entrance).collect(),
            running: Running::TokenGuards(guards),
            _folder: None,
        }
    }

    /// What the gate writes.
    pub(super) fn log(&self) -> Log {
        match &self.running {
            Running::Envoy(process) => process.log().clone(),
            Running::TokenGuards(guards) => {
                Log::joined(guards.iter().map(|guard| guard.log().clone()))
            }
        }
    }

    /// Stops the gate, and returns everything that it wrote.
    pub(super) fn end(self) -> String {
        match self.running {
            Running::Envoy(process) => process.end().unwrap(),
            Running::TokenGuards(guards) => guards
                .into_iter()
                .map(|guard| guard.end().unwrap())
                .collect(),
        }
    }

    /// A request with this token.
    pub(super) fn call(&self, entrance: usize, token: &str) -> Reply {
        let authorization = format!("Bearer {token}");
        self.call_with(entrance, &[("authorization", &authorization)])
    }

    /// A request with these headers. Clients know its URL as `https://api.example.com/projects`.
    pub(super) fn call_with(&self, entrance: usize, headers: &[(&str, &str)]) -> Reply {
        get(&self.entrances[entrance], headers)
    }

    #[track_caller]
    pub(super) fn accepts(&self, entrance: usize, token: &str) -> Reply {
        let reply = self.call(entrance, token);
        assert_eq!(reply.status, 200, "{:?}: {reply:?}", self.kind);
        reply
    }

    /// Asserts that the gate refuses the token, with this text in the description.
    #[track_caller]
    pub(super) fn refuses(&self, entrance: usize, token: &str, words: &str) {
        let reply = self.call(entrance, token);
        let description = reply.assert_error(401, "invalid_token");
        assert!(
            description.contains(words),
            "{:?}: {description}",
            self.kind
        );
    }

    /// Asserts that the gate gets no answer about the token, and refuses the request.
    #[track_caller]
    pub(super) fn cannot_tell(&self, entrance: usize, token: &str) {
        let reply = self.call(entrance, token);
        reply.assert_error(503, "temporarily_unavailable");
    }
}

fn configuration(issuers: &Value) -> Value {
    json!({
        "issuers": issuers,
        "rules": [{"path_prefix": "/"}],
        "forward": {"x-client-id": ["client_id", "azp"], "x-scope": "scope"},
        "clock_skew_seconds": 0,
        "dpop": {"origins": ["https://api.example.com"]},
    })
}

pub(crate) fn address(port: u16) -> Value {
    json!({"socket_address": {"address": "127.0.0.1", "port_value": port}})
}

pub(crate) fn cluster(port: u16) -> Value {
    let endpoint = json!({"endpoint": {"address": address(port)}});
    json!({
        "name": format!("at-{port}"),
        "type": "STATIC",
        "connect_timeout": "2s",
        "load_assignment": {
            "cluster_name": format!("at-{port}"),
            "endpoints": [{"lb_endpoints": [endpoint]}],
        },
    })
}

/// A listener whose responses contain the headers that the resource server would get.
pub(crate) fn listener(artifacts: &Artifacts, configuration: &Value, port: u16) -> Value {
    let type_of = |name: &str| format!("type.googleapis.com/{name}");
    json!({
        "name": format!("api-{port}"),
        "address": address(port),
        "enable_reuse_port": false,
        "filter_chains": [{"filters": [{
            "name": "envoy.filters.network.http_connection_manager",
            "typed_config": {
                "@type": type_of("envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"),
                "stat_prefix": "api",
                "route_config": {"virtual_hosts": [{
                    "name": "api",
                    "domains": ["*"],
                    "response_headers_to_add": [
                        {"header": {"key": "x-client-id", "value": "%REQ(x-client-id)%"}},
                        {"header": {"key": "x-user-id", "value": "%REQ(x-user-id)%"}},
                        {"header": {"key": "x-scope", "value": "%REQ(x-scope)%"}},
                        {"header": {"key": "x-token-issuer", "value": "%REQ(x-token-issuer)%"}},
                        {"header": {"key": "x-authorization", "value": "%REQ(authorization)%"}},
                        {"header": {"key": "x-proof", "value": "%REQ(dpop)%"}},
                    ],
                    "routes": [{"match": {"prefix": "/"}, "direct_response": {"status": 200}}],
                }]},
                "http_filters": [
                    envoy::filter(artifacts.form, &artifacts.filter, &configuration.to_string()),
                    {"name": "envoy.filters.http.router", "typed_config": {
                        "@type": type_of("envoy.extensions.filters.http.router.v3.Router"),
                    }},
                ],
            },
        }]}],
    })
}
