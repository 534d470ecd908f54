//! The steps of docs/moving-in.md, with oidc-provider as the old authorization server.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};
use tests::{Artifacts, Process, envoy, free_port};

use super::gate::{address, cluster, listener};
use super::server::Issuer;
use crate::api::until;
use crate::operations::import::{registrations_of_realm, token_of_kim};
use crate::support::{OwnPair, Reply, get};

/// Envoy with a listener that changes while it runs.
struct Gateway {
    artifacts: Artifacts,
    listeners: PathBuf,
    admin: u16,
    port: u16,
    versions: AtomicUsize,
    process: Process,
    _folder: tempfile::TempDir,
}

impl Gateway {
    fn start(configuration: &Value, clusters: &[Value]) -> Self {
        let artifacts = Artifacts::find().unwrap();
        let folder = tempfile::TempDir::new().unwrap();
        let listeners = folder.path().join("listeners.json");
        let (admin, port) = (free_port().unwrap(), free_port().unwrap());
        let resources = resources(&artifacts, configuration, port, 0);
        std::fs::write(&listeners, resources.to_string()).unwrap();
        let bootstrap = json!({
            "node": {"id": "gateway", "cluster": "gateway"},
            "admin": {"address": address(admin)},
            "dynamic_resources": {"lds_config": {
                "resource_api_version": "V3",
                "path_config_source": {"path": listeners},
            }},
            "static_resources": {"clusters": clusters},
        });
        let config = folder.path().join("envoy.json");
        std::fs::write(&config, bootstrap.to_string()).unwrap();
        let process = envoy::serve(&artifacts, &config, admin).unwrap();
        Self {
            artifacts,
            listeners,
            admin,
            port,
            versions: AtomicUsize::new(0),
            process,
            _folder: folder,
        }
    }

    /// Changes the configuration, and waits until new connections get it.
    fn change(&self, configuration: &Value) {
        let version = 1 + self.versions.fetch_add(1, Ordering::Relaxed);
        let resources = resources(&self.artifacts, configuration, self.port, version);
        let next = self.listeners.with_extension("next");
        std::fs::write(&next, resources.to_string()).unwrap();
        // Envoy reads the file when another one gets its name.
        std::fs::rename(&next, &self.listeners).unwrap();
        let version = version.to_string();
        until("the listener has changed", || {
            self.call("").header("x-version") == Some(&*version)
        });
    }

    fn call(&self, token: &str) -> Reply {
        let url = format!("http://127.0.0.1:{}/projects", self.port);
        let authorization = format!("Bearer {token}");
        match token {
            "" => get(&url, &[]),
            _ => get(&url, &[("authorization", &authorization)]),
        }
    }

    /// Number of requests that were denied, or would have been, for this reason.
    fn denied(&self, reason: &str) -> usize {
        let name = format!("denied.reason.{reason}$");
        let url = format!("http://127.0.0.1:{}/stats?filter={name}", self.admin);
        let stats = get(&url, &[]).body;
        let value = stats.trim().rsplit(' ').next().unwrap();
        value.parse().unwrap_or(0)
    }
}

/// The listener of a version, as Envoy reads it.
fn resources(artifacts: &Artifacts, configuration: &Value, port: u16, version: usize) -> Value {
    let mut listener = listener(artifacts, configuration, port);
    listener["@type"] = json!("type.googleapis.com/envoy.config.listener.v3.Listener");
    listener["name"] = json!("api");
    let routes = "/filter_chains/0/filters/0/typed_config";
    let connection_manager = listener.pointer_mut(routes).unwrap();
    // Also in the answers of the filter.
    connection_manager["local_reply_config"] = json!({"mappers": [{
        "filter": {"status_code_filter": {"comparison": {"op": "GE", "value": {"default_value": 200, "runtime_key": "none"}}}},
        "headers_to_add": [{"header": {"key": "x-version", "value": version.to_string()}}],
    }]});
    json!({"version_info": version.to_string(), "resources": [listener]})
}

#[forms::each]
fn an_api_moves_to_the_token_service_and_no_client_notices() {
    let old = Issuer::oidc_provider();
    let new = OwnPair::start(&[]);
    let ports = new.pair.ports();
    let old_issuer = old.configured(&json!({
        "discovery": {"cluster": old.cluster(), "document": "openid-configuration"},
    }));
    let new_issuer = json!({
        "issuer": new.lobby(),
        "audiences": [new.pair.api_url()],
        "jwks": {"cluster": format!("at-{}", ports.public), "path": "/auth/jwks"},
        "revocations": {
            "cluster": format!("at-{}", ports.internal),
            "authority": format!("127.0.0.1:{}", ports.internal),
            "path": "/revocations",
        },
    });
    let accepting = |issuers: &[&Value]| {
        json!({
            "issuers": issuers,
            "rules": [{"path_prefix": "/"}],
            "forward": {
                "x-client-id": "client_id", "x-token-issuer": "iss", "x-user-id": ["user_id", "sub"],
            },
        })
    };
    let mut watching = accepting(&[&old_issuer]);
    watching["report_only"] = json!(true);
    watching["forward_authorization"] = json!(true);

    let clusters = [old.port, ports.public, ports.internal].map(cluster);
    let gateway = Gateway::start(&watching, &clusters);
    let of_old = old.token("access");
    let token = Mutex::new(of_old.to_owned());
    let failures = Mutex::new(Vec::new());
    let calls = AtomicUsize::new(0);
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        // The client that must not notice.
        scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                let reply = gateway.call(&token.lock().unwrap().clone());
                calls.fetch_add(1, Ordering::Relaxed);
                if reply.status != 200 {
                    failures.lock().unwrap().push(format!("{reply:?}"));
                }
                tests::pace();
            }
        });
        let ended = EndsAtDrop(&has_ended);

        // 1. Watch: the API still gets every request with its token, and decides.
        let reply = gateway.call(of_old);
        assert_eq!(
            reply.header("x-authorization"),
            Some(&*format!("Bearer {of_old}"))
        );
        assert_eq!(reply.header("x-client-id"), Some("web"));
        assert_eq!(gateway.denied("issuer"), 0);
        let of_new = new.token();
        assert_eq!(gateway.call(&of_new).status, 200);
        until("the refusal is counted", || gateway.denied("issuer") == 1);
        gateway.process.log().until_it_says("would_deny").unwrap();

        // 2. Enforce.
        gateway.change(&accepting(&[&old_issuer]));
        assert_eq!(gateway.call("").status, 401);
        gateway.call(&of_new).assert_error(401, "invalid_token");
        // And back, and again.
        gateway.change(&watching);
        assert_eq!(gateway.call("").status, 200);
        gateway.change(&accepting(&[&old_issuer]));

        // 3. The token service together with the old server.
        gateway.change(&accepting(&[&old_issuer, &new_issuer]));
        let issuer_of = |token: &str| {
            gateway
                .call(token)
                .header("x-token-issuer")
                .map(str::to_owned)
        };
        assert_eq!(issuer_of(of_old).as_deref(), Some(old.url()));
        assert_eq!(issuer_of(&of_new), Some(new.lobby()));

        // 4. The client moves, and people: passwords come along, and the old `sub` is the user's id.
        token.lock().unwrap().clone_from(&of_new);
        new.done(&format!("apply --import {}", registrations_of_realm(&new)));
        let reply = gateway.call(&token_of_kim(&new));
        assert_eq!(reply.header("x-token-issuer"), Some(&*new.lobby()));
        assert_eq!(reply.header("x-user-id"), Some("0190f3a2-0000000000a"));

        // 5. The old server leaves.
        gateway.change(&accepting(&[&new_issuer]));
        let before = gateway.denied("issuer");
        gateway.call(of_old).assert_error(401, "invalid_token");
        until("the refusal is counted", || {
            gateway.denied("issuer") > before
        });
        let so_far = calls.load(Ordering::Relaxed);
        until("the client has called on", || {
            calls.load(Ordering::Relaxed) > so_far + 5
        });
        drop(ended);
    });
    assert_eq!(failures.into_inner().unwrap(), [""; 0]);
}

/// Ends the client, also when an assertion fails.
struct EndsAtDrop<'a>(&'a AtomicBool);

impl Drop for EndsAtDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
