//! Tokens of issuers that we did not write, through real Envoy: `oidc-provider`, `oauth2-mock-server` and Authlib.

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tests::{Artifacts, Process, free_port};
use ureq::http::Request;

use crate::api::until;
use crate::support::{Reply, agent, form_body, get, send};

const AUDIENCE: &str = "https://api.example.com";

/// A server of others, and tokens that it issued.
struct Issuer {
    _process: Process,
    _folder: tempfile::TempDir,
    port: u16,
    tokens: Value,
}

impl Issuer {
    fn start(name: &'static str, program: &str, script: &str) -> Self {
        let repository = Artifacts::find().unwrap().repository;
        let folder = tempfile::TempDir::new().unwrap();
        let port = free_port().unwrap();
        let mut command = Command::new(repository.join(program));
        command
            .arg(repository.join("tests/clients").join(script))
            .args([&port.to_string(), AUDIENCE])
            // Authlib insists on https unless it is told that this is a test.
            .env("AUTHLIB_INSECURE_TRANSPORT", "1");
        let log = folder.path().join("log");
        let mut process = Process::start(name, &command, &log).unwrap();
        let tokens = || {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            let line = log.lines().find_map(|line| line.strip_prefix("TOKENS "))?;
            line.parse::<Value>().ok()
        };
        process.until("serving", || tokens().is_some()).unwrap();
        let tokens = tokens().unwrap();
        Self {
            _process: process,
            _folder: folder,
            port,
            tokens,
        }
    }

    fn oidc_provider() -> Self {
        Self::start("oidc-provider", ".cache/node", "oidc_provider.mjs")
    }

    fn mock_server() -> Self {
        Self::start("oauth2-mock-server", ".cache/node", "mock_issuer.mjs")
    }

    fn authlib() -> Self {
        Self::start("authlib", ".cache/venv/bin/python", "authlib_issuer.py")
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    #[track_caller]
    fn token(&self, name: &str) -> &str {
        self.tokens[name].as_str().unwrap()
    }

    /// Its part in the filter's configuration, with these members.
    fn configured(&self, members: &Value) -> Value {
        let mut issuer = json!({"issuer": self.url(), "audiences": [AUDIENCE]});
        let members = members.as_object().unwrap().clone();
        issuer.as_object_mut().unwrap().extend(members);
        issuer
    }
}

/// An Envoy with one listener for each configuration of an issuer, and a cluster for each port: `at-PORT`.
struct Gateway {
    process: Process,
    _folder: tempfile::TempDir,
    apis: Vec<u16>,
}

impl Gateway {
    fn start(issuers: &[Value], ports: &[u16]) -> Self {
        let artifacts = Artifacts::find().unwrap();
        let folder = tempfile::TempDir::new().unwrap();
        let admin = free_port().unwrap();
        let apis: Vec<u16> = issuers.iter().map(|_| free_port().unwrap()).collect();
        let listeners: Vec<Value> = issuers
            .iter()
            .zip(&apis)
            .map(|(issuer, port)| listener(&artifacts, issuer, *port))
            .collect();
        let clusters: Vec<Value> = ports.iter().map(|port| cluster(*port)).collect();
        let bootstrap = json!({
            "admin": {"address": address(admin)},
            "static_resources": {"listeners": listeners, "clusters": clusters},
        });
        let config = folder.path().join("envoy.json");
        std::fs::write(&config, bootstrap.to_string()).unwrap();
        let mut envoy = Command::new(&artifacts.envoy);
        envoy.arg("--config-path").arg(&config).args([
            "--concurrency",
            "1",
            "--disable-hot-restart",
            "--log-level",
            "warning",
            "--component-log-level",
            "wasm:info",
        ]);
        let mut process = Process::start("envoy", &envoy, &folder.path().join("log")).unwrap();
        let ready = format!("http://127.0.0.1:{admin}/ready");
        let is_ready = || {
            let reply = agent().get(&ready).call();
            reply.is_ok_and(|reply| reply.status() == 200)
        };
        process.until("ready", is_ready).unwrap();
        Self {
            process,
            _folder: folder,
            apis,
        }
    }

    /// A request of the API behind this listener, with this token.
    fn call(&self, listener: usize, token: &str) -> Reply {
        let url = format!("http://127.0.0.1:{}/projects", self.apis[listener]);
        get(&url, &[("authorization", &format!("Bearer {token}"))])
    }

    #[track_caller]
    fn accepts(&self, listener: usize, token: &str) -> Reply {
        let reply = self.call(listener, token);
        assert_eq!(reply.status, 200, "{reply:?}\n{}", self.process.log());
        reply
    }

    /// The token is refused, with these words in the description.
    #[track_caller]
    fn refuses(&self, listener: usize, token: &str, words: &str) {
        let reply = self.call(listener, token);
        let description = reply.assert_error(401, "invalid_token");
        assert!(description.contains(words), "{description}");
    }
}

fn address(port: u16) -> Value {
    json!({"socket_address": {"address": "127.0.0.1", "port_value": port}})
}

fn cluster(port: u16) -> Value {
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

/// A listener that tells what the resource server would see.
fn listener(artifacts: &Artifacts, issuer: &Value, port: u16) -> Value {
    let type_of = |name: &str| format!("type.googleapis.com/{name}");
    let configuration = json!({
        "issuers": [issuer],
        "rules": [{"path_prefix": "/"}],
        "forward": {"x-client-id": ["client_id", "azp"], "x-scope": "scope"},
        "clock_skew_seconds": 0,
    });
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
                        {"header": {"key": "seen-client", "value": "%REQ(x-client-id)%"}},
                        {"header": {"key": "seen-scope", "value": "%REQ(x-scope)%"}},
                    ],
                    "routes": [{"match": {"prefix": "/"}, "direct_response": {"status": 200}}],
                }]},
                "http_filters": [
                    {"name": "token-filter", "typed_config": {
                        "@type": type_of("envoy.extensions.filters.http.wasm.v3.Wasm"),
                        "config": {
                            "name": "token-filter",
                            "failure_policy": "FAIL_RELOAD",
                            "vm_config": {
                                "runtime": "envoy.wasm.runtime.v8",
                                "code": {"local": {"filename": artifacts.filter}},
                            },
                            "configuration": {
                                "@type": type_of("google.protobuf.StringValue"),
                                "value": configuration.to_string(),
                            },
                        },
                    }},
                    {"name": "envoy.filters.http.router", "typed_config": {
                        "@type": type_of("envoy.extensions.filters.http.router.v3.Router"),
                    }},
                ],
            },
        }]}],
    })
}

/// What must hold for every issuer behind its listener: access tokens pass, and no other token does.
#[track_caller]
fn assert_guarded(gateway: &Gateway, listener: usize, issuer: &Issuer, others: &[&Issuer]) {
    for _ in 0..2 {
        let reply = gateway.accepts(listener, issuer.token("access"));
        assert_eq!(reply.header("seen-scope"), Some("read"));
    }
    gateway.refuses(listener, issuer.token("id"), "not an access token");
    let refresh = gateway.call(listener, issuer.token("refresh"));
    assert_eq!(refresh.status, 401, "{refresh:?}");
    let elsewhere = issuer.token("for_another_audience");
    gateway.refuses(listener, elsewhere, "another audience");
    for other in others {
        let access = other.token("access");
        gateway.refuses(listener, access, "issuer that is not accepted");
    }
    until("the short-lived token expires", || {
        gateway.call(listener, issuer.token("short_lived")).status == 401
    });
    gateway.refuses(listener, issuer.token("short_lived"), "has expired");
    // The same token under another signature.
    let (signed, _) = issuer.token("access").rsplit_once('.').unwrap();
    let (_, of_another) = elsewhere.rsplit_once('.').unwrap();
    gateway.refuses(listener, &format!("{signed}.{of_another}"), "signature");
}

/// Each with the profile that `docs/issuers.md` names for it, and its keys found by its metadata.
#[test]
fn rfc8725_s3_12_access_tokens_of_three_issuers_pass_and_their_other_tokens_do_not() {
    let oidc_provider = Issuer::oidc_provider();
    let mock_server = Issuer::mock_server();
    let authlib = Issuer::authlib();
    let discovery = |issuer: &Issuer, document: &str| json!({"cluster": format!("at-{}", issuer.port), "document": document});
    let openid = "openid-configuration";
    let issuers = [
        oidc_provider.configured(&json!({"discovery": discovery(&oidc_provider, openid)})),
        mock_server.configured(&json!({
            "discovery": discovery(&mock_server, openid),
            "types": ["JWT"],
            "access_token_claims": {"scope": true},
            "optional_claims": ["sub", "client_id", "jti"],
        })),
        authlib.configured(&json!({
            "profile": "rfc9068",
            "discovery": discovery(&authlib, "oauth-authorization-server"),
        })),
    ];
    let all = [&oidc_provider, &mock_server, &authlib];
    let gateway = Gateway::start(&issuers, &all.map(|issuer| issuer.port));
    for (listener, issuer) in all.into_iter().enumerate() {
        let others: Vec<&Issuer> = all
            .into_iter()
            .filter(|other| other.port != issuer.port)
            .collect();
        assert_guarded(&gateway, listener, issuer, &others);
    }
    let person = gateway.accepts(0, oidc_provider.token("access_of_a_person"));
    assert_eq!(person.header("seen-client"), Some("web"));
}

/// An issuer whose metadata names another issuer, as after a mistake in its proxy.
#[test]
fn rfc8414_s3_3_metadata_of_another_issuer_is_not_used() {
    let issuer = Issuer::mock_server();
    let members = json!({
        "issuer": format!("http://localhost:{}", issuer.port),
        "discovery": {"cluster": format!("at-{}", issuer.port)},
    });
    let gateway = Gateway::start(&[issuer.configured(&members)], &[issuer.port]);
    until("the log names the mistake", || {
        let log = gateway.process.log();
        log.contains("its issuer is not the configured one")
    });
    let access = issuer.token("access");
    gateway.refuses(0, access, "issuer that is not accepted");
}

/// What Authlib was asked about, as the `jti` of each token.
fn introspections(authlib: &Issuer) -> Vec<Value> {
    let reply = get(&format!("{}/introspections", authlib.url()), &[]);
    reply.json().as_array().unwrap().clone()
}

fn revoke(authlib: &Issuer, token: &str) {
    let credentials = STANDARD.encode("web:secret-of-web");
    let request = Request::post(format!("{}/revoke", authlib.url()))
        .header("authorization", format!("Basic {credentials}"))
        .header("content-type", "application/x-www-form-urlencoded");
    let form = form_body(&[("token", token), ("token_type_hint", "access_token")]);
    let reply = send(&agent(), request.body(form).unwrap());
    assert_eq!(reply.status, 200, "{}", reply.body);
}

#[test]
fn rfc7662_a_token_that_its_issuer_revoked_is_refused_once_its_answer_is_old() {
    let authlib = Issuer::authlib();
    let cluster = format!("at-{}", authlib.port);
    let dead = free_port().unwrap();
    let asked = |port: u16, cache_seconds: u64, when_unavailable: &str| {
        authlib.configured(&json!({
            "jwks": {"cluster": cluster, "path": "/keys"},
            "introspection": {
                "cluster": format!("at-{port}"), "path": "/introspect",
                "client_id": "gate way", "client_secret": "secret:of the gateway",
                "cache_seconds": cache_seconds, "when_unavailable": when_unavailable,
            },
        }))
    };
    let issuers = [
        asked(authlib.port, 1, "deny"),
        asked(authlib.port, 600, "deny"),
        asked(dead, 1, "deny"),
        asked(dead, 1, "allow"),
    ];
    let [brief, long, closed, open] = [0, 1, 2, 3];
    let gateway = Gateway::start(&issuers, &[authlib.port, dead]);

    // Asked once, and only about tokens that are good otherwise.
    let (token, another) = (authlib.token("access"), authlib.token("another"));
    let (signed, _) = token.rsplit_once('.').unwrap();
    let (_, of_another) = another.rsplit_once('.').unwrap();
    gateway.refuses(long, &format!("{signed}.{of_another}"), "signature");
    let elsewhere = authlib.token("for_another_audience");
    gateway.refuses(long, elsewhere, "another audience");
    assert_eq!(introspections(&authlib), Vec::<Value>::new());
    for _ in 0..5 {
        gateway.accepts(long, token);
    }
    assert_eq!(introspections(&authlib).len(), 1);

    gateway.accepts(brief, token);
    revoke(&authlib, token);
    until("the revocation is seen", || {
        gateway.call(brief, token).status == 401
    });
    gateway.refuses(brief, token, "revoked");
    gateway.accepts(brief, another);
    // The answer about it is not old yet.
    gateway.accepts(long, token);

    // Nobody answers: closed or open, as configured.
    let refused = gateway.call(closed, token);
    refused.assert_error(503, "temporarily_unavailable");
    gateway.accepts(open, token);
    let log = gateway.process.log();
    assert!(log.contains("introspection of "), "{log}");
    assert!(!log.contains(token) && !log.contains("secret"), "{log}");
}
