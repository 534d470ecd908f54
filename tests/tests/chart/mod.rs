//! The Helm chart: renders it with Helm, and validates the result with Kubernetes' schemas, the gateways, the token
//! service and the guard.

mod containers;
mod enforcement;
mod monitoring;
mod pods;
mod refused;
mod resources;

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use serde_json::{Value, json};
use tests::Artifacts;

/// The kinds of resources that run pods.
const WORKLOADS: [&str; 2] = ["Deployment", "StatefulSet"];

/// The rendered chart with each file of values in its folder `ci/`, with wrong values, and at an upgrade.
static RENDERED: LazyLock<Value> = LazyLock::new(|| {
    let repository = Artifacts::find().unwrap().repository;
    let wrong = json!({
        "nothing": {},
        "unknown-key": {"tokenServce": {"issuer": "https://lobby.example.com"}},
        "open": {"gateway": {"istio": {"failStrategy": "FAIL_OPEN"}}},
        "wrong-store": {"tokenService": {"store": {"kind": "mysql"}}},
        "many": {
            "tokenService": {
                "issuer": "https://lobby.example.com/",
                "mutualTlsUrl": "https://MTLS.example.com",
                "mutualTlsGateways": ["envoy"],
                "trustedProxies": ["*"],
                "registrations": {"text": "# none", "existingSecret": "registrations"},
                "store": {"kind": "postgres"},
                "httpRoute": {"enabled": true},
            },
            "networkPolicy": {"gateways": [{}]},
            "gateway": {"kind": "istio"},
        },
        "mutual-tls": {
            "tokenService": {
                "issuer": "https://lobby.example.com",
                "apiAudience": "https://api.example.com",
                "mutualTlsUrl": "https://mtls.example.com",
                "trustedProxies": ["10.0.0.0/8"],
            },
            "networkPolicy": {"enabled": false},
        },
        "guard-key": {"guard": {"configuration": {"rules": [{"path_prefx": "/"}]}}},
        "guard-range": {"guard": {"configuration": {"clock_skew_seconds": 301}}},
        "guard-choice": {"guard": {"revocations": {"when_stale": "maybe"}}},
        "guard-rules": {"guard": {"configuration": {"rules": []}}},
        "guard-issuers": {"guard": {"configuration": {"issuers": [{}]}}},
        "guard-issuer": {"guard": {"issuers": [{"audiences": ["https://api.example.com"]}]}},
        "no-resolver": {"networkPolicy": {"dns": {"peers": [{}]}}},
        "traefik": {
            "tokenService": {"enabled": false},
            "networkPolicy": {"enabled": true, "gateways": [{"podSelector": {}}]},
            "monitoring": {"podMonitors": true},
            "gateway": {"kind": "traefik"},
        },
        "token-guard": {
            "tokenService": {"enabled": false},
            "networkPolicy": {"gateways": [{"podSelector": {}}]},
            "guard": {
                "existingSecret": "guard-configuration",
                "issuers": [{"issuer": "https://issuer.example.org"}],
            },
            "gateway": {"enforcement": "tokenGuard", "tokenGuard": {
                "trustedPeers": ["10.0.0.0/8"],
                "clusters": {"issuer": "https://issuer.example.org"},
                "resources": {"requests": {"cpu": null}},
                "autoscaling": {"enabled": true, "minReplicas": 20},
            }},
        },
        "unreachable-path": {
            "tokenService": {"enabled": false},
            "networkPolicy": {"enabled": false},
            "guard": {
                "configuration": {"rules": [{"path_prefix": "api"}]},
                "issuers": [{
                    "issuer": "https://issuer.example.org", "audiences": ["https://api.example.com"],
                    "jwks": {"cluster": "issuer", "path": "/keys"},
                }],
            },
            "gateway": {"kind": "istio", "namespace": "gateways", "selector": {"istio": "ingressgateway"}},
        },
        "unknown-cluster": {
            "tokenService": {"enabled": false},
            "networkPolicy": {"enabled": false},
            "guard": {"issuers": [{
                "issuer": "https://issuer.example.org", "audiences": ["https://api.example.com"],
                "jwks": {"cluster": "issuer", "path": "/keys"},
            }]},
            "gateway": {"enforcement": "tokenGuard", "tokenGuard": {"trustedPeers": ["10.0.0.0/8"]}},
        },
        "filter-secret": {
            "tokenService": {"enabled": false},
            "networkPolicy": {"enabled": false},
            "guard": {"existingSecret": "guard-configuration"},
            "gateway": {"kind": "istio", "namespace": "gateways", "selector": {"istio": "ingressgateway"}},
        },
        "alone": {
            "tokenService": {"enabled": false},
            "networkPolicy": {"enabled": false},
            "gateway": {"enforcement": "tokenGuard"},
        },
    });
    let mut python = Command::new(repository.join(".cache/venv/bin/python"));
    python
        .arg(repository.join("tests/chart/render.py"))
        .arg(repository.join("charts/gatepass"));
    answer(python, &wrong)
});

/// Runs a program that reads JSON and prints JSON.
fn answer(mut program: Command, input: &Value) -> Value {
    let mut child = program
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.to_string().as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The cases that Helm must render, one for each file of values: their names and documents.
fn cases() -> Vec<(&'static str, &'static Vec<Value>)> {
    let cases = [
        "enforcement-only",
        "envoy-gateway",
        "envoy-gateway-native",
        "istio",
        "token-guard-alone",
        "token-guard-envoy-gateway",
        "token-guard-istio",
        "token-guard-secret",
        "token-guard-traefik",
        "traffic-extension",
    ];
    let documents = |case: &'static str| {
        let documents = RENDERED[case]["documents"].as_array();
        (
            case,
            documents.unwrap_or_else(|| panic!("{case}: {}", RENDERED[case])),
        )
    };
    cases.map(documents).into()
}

fn of_kind<'a>(documents: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let found = documents.iter().filter(|document| document["kind"] == kind);
    found.collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The pod template of a workload.
fn pod(workload: &Value) -> &Value {
    &workload["spec"]["template"]["spec"]
}

fn workloads(documents: &[Value]) -> Vec<&Value> {
    let kinds = WORKLOADS.iter();
    kinds.flat_map(|kind| of_kind(documents, kind)).collect()
}

/// The workload of a component.
fn component<'a>(documents: &'a [Value], name: &str) -> Option<&'a Value> {
    let named =
        |workload: &&Value| workload["metadata"]["labels"]["app.kubernetes.io/component"] == name;
    workloads(documents).into_iter().find(named)
}
