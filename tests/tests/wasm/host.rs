//! Envoy as a host that refuses calls of the filter (`capability_restriction_config`), and that removes its configurations.

use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Read as _};

use serde_json::{Value, json};
use tempfile::TempDir;
use tests::{
    Artifacts, Form, Issuer, Process, SigningKey, envoy, free_port, listens, status_of, wire,
};

use crate::api::until;
use crate::issuers::gate::{address, cluster, listener};
use crate::native::metric;
use crate::support::module::{EXPORTS, IMPORTS, names};
use crate::support::{Reply, get, now};

const AUDIENCE: &str = "https://api.example.com";

/// Without these calls the filter does not start.
const NEEDED: [&str; 8] = [
    "proxy_define_metric",
    "proxy_get_buffer_bytes",
    "proxy_get_current_time_nanoseconds",
    "proxy_get_metric",
    "proxy_increment_metric",
    "proxy_record_metric",
    "proxy_set_effective_context",
    "proxy_set_tick_period_milliseconds",
];

/// Parts of the names of calls that the SDK keeps in the module, and that the filter never makes.
const UNUSED: [&str; 9] = [
    "_grpc_",
    "_queue",
    "close_stream",
    "get_header_map_value",
    "get_status",
    "proxy_done",
    "replace_header",
    "set_buffer",
    "set_header_map",
];

/// A host calls each callback that is exported, for each request. `build.sh` names them.
#[test]
fn the_module_exports_what_the_filter_uses() {
    let expected = [
        "memory",
        "_initialize",
        "proxy_abi_version_0_2_1",
        "proxy_on_memory_allocate",
        "proxy_on_vm_start",
        "proxy_on_configure",
        "proxy_on_context_create",
        "proxy_on_tick",
        "proxy_on_http_call_response",
        "proxy_on_request_headers",
        "proxy_on_delete",
    ];
    let exports: BTreeSet<String> = names(EXPORTS).into_iter().collect();
    assert_eq!(exports, expected.map(str::to_owned).into());
}

/// Envoy with listeners that change.
struct Gateway {
    envoy: Process,
    admin: u16,
    folder: TempDir,
}

impl Gateway {
    /// `keys`: the port of the cluster from which the filter fetches keys.
    fn start(listeners: &[Value], keys: u16) -> Self {
        let folder = TempDir::new().unwrap();
        replace_listeners(&folder, listeners);
        let admin = free_port().unwrap();
        let listeners = json!({"path": folder.path().join("listeners.json")});
        let bootstrap = json!({
            "node": {"id": "gateway", "cluster": "gateways"},
            "admin": {"address": address(admin)},
            "static_resources": {"clusters": [cluster(keys)]},
            "dynamic_resources": {"lds_config": {"resource_api_version": "V3", "path_config_source": listeners}},
        });
        let config = folder.path().join("envoy.json");
        fs::write(&config, bootstrap.to_string()).unwrap();
        let mut command = envoy::command(&Artifacts::of(Form::Wasm).unwrap(), &config, 1);
        // Of listeners that are removed.
        command.args(["--drain-time-s", "1"]);
        let log = folder.path().join("envoy.log");
        let mut envoy = Process::start("envoy", &command, &log).unwrap();
        let ready = format!("http://127.0.0.1:{admin}/ready");
        let is_ready = || status_of(&ready) == Some(200);
        envoy.until("ready", is_ready).unwrap();
        Self {
            envoy,
            admin,
            folder,
        }
    }

    fn metric(&self, name: &str) -> Option<u64> {
        metric(self.admin, name)
    }
}

/// Envoy leaves out a listener that it cannot load.
fn replace_listeners(folder: &TempDir, listeners: &[Value]) {
    let of_type = |listener: &Value| {
        let mut listener = listener.clone();
        listener["@type"] = json!("type.googleapis.com/envoy.config.listener.v3.Listener");
        listener
    };
    let resources: Vec<Value> = listeners.iter().map(of_type).collect();
    let [new, path] = ["new.json", "listeners.json"].map(|name| folder.path().join(name));
    fs::write(&new, json!({"resources": resources}).to_string()).unwrap();
    fs::rename(new, path).unwrap();
}

/// A new port, and a listener at it with the filter.
fn mounted(configuration: &Value) -> (u16, Value) {
    let port = free_port().unwrap();
    let artifacts = Artifacts::of(Form::Wasm).unwrap();
    (port, listener(&artifacts, configuration, port))
}

/// The same, in a VM for which Envoy refuses this call.
fn refused(call: &str, configuration: &Value) -> (u16, Value) {
    let (port, mut listener) = mounted(configuration);
    let manager = &mut listener["filter_chains"][0]["filters"][0]["typed_config"];
    let plugin = &mut manager["http_filters"][0]["typed_config"]["config"];
    plugin["vm_config"]["vm_id"] = json!(call);
    let mut allowed: Value = [IMPORTS, EXPORTS]
        .into_iter()
        .flat_map(names)
        .map(|name| (name, json!({})))
        .collect();
    allowed.as_object_mut().unwrap().remove(call);
    plugin["capability_restriction_config"] = json!({"allowed_capabilities": allowed});
    (port, listener)
}

/// A request that also has a header which only the filter may set.
fn call(port: u16, token: &str) -> Reply {
    let bearer = format!("Bearer {token}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("x-client-id", "forged"),
    ];
    get(&format!("http://127.0.0.1:{port}/api/x"), &headers)
}

/// The headers that the resource server gets.
fn forwarded(reply: &Reply) -> [Option<&str>; 3] {
    ["x-client-id", "x-user-id", "x-authorization"].map(|name| reply.header(name))
}

/// Whichever call Envoy refuses: the filter does not start, or lets no forbidden request and no forged header pass.
#[test]
fn an_envoy_that_refuses_a_call_gets_nothing_past_the_filter() {
    let (issuer, other) = (Issuer::new().unwrap(), Issuer::new().unwrap());
    let nowhere = free_port().unwrap();
    let configuration = |fetches: bool, report_only: bool| {
        let mut issuer = issuer.configuration(AUDIENCE);
        if fetches {
            issuer["jwks"] = json!({"cluster": format!("at-{nowhere}"), "path": "/jwks"});
        }
        json!({
            "issuers": [issuer],
            "rules": [{"path_prefix": "/"}],
            "forward": {"x-client-id": "client_id", "x-user-id": "user_id"},
            "forward_authorization": false,
            "access_log_state": true,
            "report_only": report_only,
        })
    };
    let calls: Vec<String> = names(IMPORTS)
        .into_iter()
        .filter(|name| name.starts_with("proxy_") || name == "clock_time_get")
        .filter(|name| !UNUSED.iter().any(|part| name.contains(part)))
        .collect();
    let mut listeners = Vec::new();
    let mut mount = |name: &str, configuration| {
        let (port, listener) = refused(name, &configuration);
        listeners.push(listener);
        port
    };
    let ports: Vec<[u16; 2]> = calls
        .iter()
        .map(|name| {
            let fetches = name == "proxy_http_call";
            let modes = [configuration(fetches, false), configuration(false, true)];
            modes.map(|configuration| mount(name, configuration))
        })
        .collect();
    let gateway = Gateway::start(&listeners, nowhere);

    let good = issuer.token(AUDIENCE, &[]).unwrap();
    let of_certificate = json!({"x5t#S256": "A".repeat(43)});
    let bad = [
        "nonsense".to_owned(),
        other.token(AUDIENCE, &[]).unwrap(),
        issuer
            .token(AUDIENCE, &[("exp", json!(now() - 7200))])
            .unwrap(),
        issuer.token(AUDIENCE, &[("cnf", of_certificate)]).unwrap(),
    ];
    for (name, [enforcing, reporting]) in calls.iter().zip(ports) {
        let starts = listens(enforcing);
        assert_eq!(starts, !NEEDED.contains(&name.as_str()), "{name}");
        if !starts {
            continue;
        }
        let passes = !matches!(
            name.as_str(),
            "proxy_get_header_map_pairs"
                | "proxy_remove_header_map_value"
                | "proxy_add_header_map_value"
                | "proxy_http_call"
        );
        // Without keys each request waits for them.
        let waits = name == "proxy_http_call";
        for _ in 0..if waits { 1 } else { 2 } {
            let reply = call(enforcing, &good);
            let expected = if passes {
                (200, [Some("client-1"), Some("17"), None])
            } else {
                (503, [None; 3])
            };
            assert_eq!((reply.status, forwarded(&reply)), expected, "{name}");
        }
        for token in &bad {
            let reply = call(reporting, token);
            assert!(matches!(reply.status, 200 | 503), "{name}: {reply:?}");
            assert_eq!(forwarded(&reply), [None; 3], "{name}");
        }
        if name == "proxy_send_local_response" {
            // The request gets no answer, and stays where it is.
            let request = "GET / HTTP/1.1\r\nhost: api\r\n\r\n";
            let mut stream = wire::begin(enforcing, request).unwrap();
            gateway.envoy.log().until_it_says(name).unwrap();
            stream.set_nonblocking(true).unwrap();
            assert_eq!(
                stream.read(&mut [0]).unwrap_err().kind(),
                ErrorKind::WouldBlock
            );
            continue;
        }
        for token in bad.iter().filter(|_| !waits) {
            let status = call(enforcing, token).status;
            assert!(matches!(status, 401 | 503), "{name}: {status}");
        }
    }
    until("the refusals are counted", || {
        gateway.metric("denied.reason.host") > Some(0)
    });
    let log = gateway.envoy.end().unwrap();
    for name in calls.iter().filter(|name| *name != "proxy_continue_stream") {
        assert!(log.contains(&format!("capability: {name}")), "{name}");
    }
}

/// The filter verifies what Envoy does not, in its own code.
#[test]
fn where_envoy_verifies_no_signature_the_module_does() {
    const ALGORITHMS: [&str; 6] = ["EdDSA", "ES256", "RS256", "RS384", "RS512", "PS256"];
    let keys = ALGORITHMS.map(|algorithm| SigningKey::new(algorithm).unwrap());
    let jwks = json!({"keys": keys.each_ref().map(SigningKey::jwk)});
    let configuration = json!({
        "issuers": [{"issuer": Issuer::NAME, "audiences": [AUDIENCE], "algorithms": ALGORITHMS, "jwks": jwks}],
        "rules": [{"path_prefix": "/"}],
        "forward": {"x-client-id": "client_id", "x-user-id": "user_id"},
        "forward_authorization": false,
    });
    let (port, listener) = refused("proxy_call_foreign_function", &configuration);
    let gateway = Gateway::start(&[listener], 1);
    let token = |key: &SigningKey, jti: &str| {
        let claims = json!({
            "iss": Issuer::NAME, "aud": AUDIENCE, "sub": "ada", "client_id": "client-1", "user_id": "17",
            "jti": jti, "iat": now() - 10, "exp": now() + 3600,
        });
        key.token(&claims).unwrap()
    };
    for (key, algorithm) in keys.iter().zip(ALGORITHMS) {
        let (good, other) = (token(key, "one"), token(key, "other"));
        for sight in ["first", "second"] {
            let reply = call(port, &good);
            assert_eq!(
                forwarded(&reply),
                [Some("client-1"), Some("17"), None],
                "{algorithm}, {sight}"
            );
        }
        let (signed, _) = good.rsplit_once('.').unwrap();
        let (_, signature) = other.rsplit_once('.').unwrap();
        let description =
            call(port, &format!("{signed}.{signature}")).assert_error(401, "invalid_token");
        assert_eq!(
            description, "The signature of the access token is wrong",
            "{algorithm}"
        );
    }
    let count = Some(ALGORITHMS.len() as u64);
    until("the refusals are counted", || {
        gateway.metric("denied.reason.signature") == count
    });
    assert_eq!(gateway.metric("allowed"), count.map(|count| 2 * count));
    for algorithm in ["rs256", "rs384", "rs512", "es256", "es384"] {
        assert_eq!(
            gateway.metric(&format!("host_verifies_{algorithm}")),
            Some(0)
        );
    }
}

/// Configurations with one `vm_id` share a VM. Each decides about its own requests, and what it adds to the gauges ends with it.
#[test]
fn two_configurations_in_one_vm_keep_apart() {
    let issuer = Issuer::new().unwrap();
    let absent = free_port().unwrap();
    let without_keys = json!({
        "issuer": "https://absent.test", "audiences": [AUDIENCE],
        "jwks": {"cluster": format!("at-{absent}"), "path": "/jwks"},
    });
    let (one, of_one) = mounted(&json!({
        "issuers": [issuer.configuration(AUDIENCE)],
        "rules": [{"path_prefix": "/api/"}],
    }));
    let (other, of_other) = mounted(&json!({
        "issuers": [issuer.configuration("https://other.example.com"), without_keys],
        "rules": [{"path": "/public", "access": "anonymous"}, {"path_prefix": "/api/"}],
    }));
    let gateway = Gateway::start(&[of_one.clone(), of_other], absent);
    let good = issuer.token(AUDIENCE, &[]).unwrap();
    let public = |port| get(&format!("http://127.0.0.1:{port}/public"), &[]).status;
    assert_eq!((call(one, &good).status, public(one)), (200, 403));
    assert_eq!((call(other, &good).status, public(other)), (401, 200));
    until("keys are missing", || {
        gateway.metric("keys_missing") > Some(0)
    });

    replace_listeners(&gateway.folder, &[of_one]);
    until("no keys are missing", || {
        gateway.metric("keys_missing") == Some(0)
    });
    assert_eq!((call(one, &good).status, public(one)), (200, 403));
}
