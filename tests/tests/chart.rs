//! The Helm chart: renders it with Helm, and validates the result with Kubernetes' schemas, the gateways, the token
//! service and the guard.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tests::{Artifacts, Process, free_port};

use crate::mounting::{documents, gateway, names, read_configuration, validate};
use crate::support::agent;

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
                "trustedProxies": ["*"],
                "registrations": {"text": "# none", "existingSecret": "registrations"},
                "store": {"kind": "postgres"},
                "httpRoute": {"enabled": true},
            },
            "networkPolicy": {"gateways": [{}]},
            "guard": {"configuration": {"rules": [], "issuers": [{}]}},
            "gateway": {"kind": "istio"},
        },
        "traefik": {
            "tokenService": {"enabled": false},
            "networkPolicy": {"enabled": true, "gateways": [{"podSelector": {}}]},
            "monitoring": {"podMonitors": true},
            "gateway": {"kind": "traefik"},
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
        "istio",
        "token-guard-alone",
        "token-guard-envoy-gateway",
        "token-guard-istio",
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

fn is_custom(document: &Value) -> bool {
    let version = document["apiVersion"].as_str().unwrap();
    [
        "istio.io/",
        "envoyproxy.io/",
        "gateway.networking.k8s.io/",
        "monitoring.coreos.com/",
        "traefik.io/",
    ]
    .iter()
    .any(|group| version.contains(group))
}

#[test]
fn kubernetes_and_the_gateways_accept_what_helm_renders() {
    for (name, _) in cases() {
        let case = &RENDERED[name];
        assert_eq!(case["problems"], json!([]), "{name}");
        assert_eq!(case["lint"], json!([]), "{name}");
    }
    let unknown_field = &RENDERED["check"]["problems"][0];
    assert!(unknown_field.as_str().unwrap().contains("dota"));

    let repository = Artifacts::find().unwrap().repository;
    let mut resources: Vec<Value> = cases()
        .into_iter()
        .flat_map(|(_, documents)| documents.clone())
        .filter(is_custom)
        .collect();
    let kinds: BTreeSet<&str> = resources
        .iter()
        .filter_map(|one| one["kind"].as_str())
        .collect();
    let expected = [
        "AuthorizationPolicy",
        "ClientTrafficPolicy",
        "DestinationRule",
        "EnvoyExtensionPolicy",
        "EnvoyFilter",
        "EnvoyPatchPolicy",
        "HTTPRoute",
        "Middleware",
        "PodMonitor",
        "PrometheusRule",
        "ReferenceGrant",
        "SecurityPolicy",
        "TrafficExtension",
        "WasmPlugin",
    ];
    assert_eq!(kinds, BTreeSet::from(expected));
    for file in MANIFESTS {
        resources.extend(documents(&repository.join(file)));
    }
    // These must be found, otherwise the check proves nothing.
    let extension = of_kind(&resources, "TrafficExtension")[0].clone();
    for (place, member, value) in [
        ("/spec/wasm", "failStrategy", "FAIL_SLOWLY"),
        ("/spec", "phaze", "AUTHN"),
    ] {
        let mut broken = extension.clone();
        broken["metadata"]["name"] = json!("broken");
        broken.pointer_mut(place).unwrap()[member] = json!(value);
        resources.push(broken);
    }
    let mut node = Command::new(repository.join(".cache/node"));
    node.arg(repository.join("tests/chart/crds.mjs"));
    let problems = answer(node, &Value::Array(resources));
    let (expected, others): (Vec<&Value>, Vec<&Value>) =
        list(&problems).iter().partition(|problem| {
            problem
                .as_str()
                .unwrap()
                .starts_with("TrafficExtension broken: ")
        });
    assert!(others.is_empty(), "{others:?}");
    let expected = format!("{expected:?}");
    assert!(
        expected.contains("failStrategy") && expected.contains("phaze"),
        "{expected}"
    );
}

/// The release workflow refuses a tag that names another one.
#[test]
fn the_chart_has_the_version_of_the_programs() {
    let repository = Artifacts::find().unwrap().repository;
    let chart = documents(&repository.join("charts/gatepass/Chart.yaml"));
    for version in ["version", "appVersion"] {
        assert_eq!(chart[0][version], env!("CARGO_PKG_VERSION"));
    }
}

#[test]
fn wrong_values_are_refused_with_every_problem() {
    let error = |case: &str| RENDERED[case]["error"].as_str().unwrap();
    for (case, said) in [
        (
            "unknown-key",
            "additional properties 'tokenServce' not allowed",
        ),
        (
            "open",
            "'/gateway/istio/failStrategy': value must be one of 'FAIL_RELOAD', 'FAIL_CLOSE'",
        ),
        (
            "wrong-store",
            "'/tokenService/store/kind': value must be one of 'redb', 'postgres'",
        ),
        // A new encryption key could not unseal the store.
        ("upgrade", "The Secret token-service-keys is missing"),
    ] {
        assert!(error(case).contains(said), "{}", error(case));
    }
    for (case, places) in [
        (
            "nothing",
            vec![
                "tokenService.issuer:",
                "tokenService.apiAudience:",
                "tokenService.trustedProxies:",
                "networkPolicy.gateways:",
            ],
        ),
        (
            "many",
            vec![
                "tokenService.issuer: \"https://lobby.example.com/\":",
                "tokenService.apiAudience:",
                "tokenService.trustedProxies: \"*\":",
                "tokenService.registrations:",
                "tokenService.store.postgres.urlSecret.name:",
                "networkPolicy.egress:",
                "tokenService.httpRoute.parentRefs:",
                "networkPolicy.gateways:",
                "guard.configuration.issuers:",
                "guard.configuration.rules:",
                "gateway.namespace:",
                "gateway.selector:",
            ],
        ),
        (
            "traefik",
            vec![
                "networkPolicy.monitoring:",
                "gateway.enforcement:",
                "gateway.namespace:",
                "guard.issuers:",
            ],
        ),
        (
            "alone",
            vec!["gateway.tokenGuard.trustedPeers:", "guard.issuers:"],
        ),
    ] {
        let problems: Vec<&str> = error(case).split("\n- ").skip(1).collect();
        assert_eq!(problems.len(), places.len(), "{problems:?}");
        for (problem, place) in problems.iter().zip(places) {
            assert!(problem.starts_with(place), "{problem}");
        }
    }
}

/// The pod template of a workload.
fn pod(workload: &Value) -> &Value {
    &workload["spec"]["template"]["spec"]
}

fn workloads(documents: &[Value]) -> Vec<&Value> {
    let kinds = WORKLOADS.iter();
    kinds.flat_map(|kind| of_kind(documents, kind)).collect()
}

/// Pod Security Standard "restricted", and a read-only file system.
#[test]
fn pods_have_no_privileges() {
    let mut seen = 0;
    for (case, documents) in cases() {
        for workload in workloads(documents) {
            let pod = pod(workload);
            assert_eq!(pod["automountServiceAccountToken"], false, "{case}");
            let security = &pod["securityContext"];
            assert_eq!(security["runAsNonRoot"], true, "{case}");
            assert_eq!(
                security["seccompProfile"]["type"], "RuntimeDefault",
                "{case}"
            );
            assert!(security["runAsUser"].as_u64().unwrap() > 0, "{case}");
            let allowed = ["configMap", "secret"];
            for volume in list(&pod["volumes"]) {
                let mut members = volume.as_object().unwrap().keys();
                assert!(
                    members.all(|kind| kind == "name" || allowed.contains(&kind.as_str())),
                    "{volume}"
                );
            }
            for container in list(&pod["containers"]) {
                let expected = json!({
                    "allowPrivilegeEscalation": false,
                    "readOnlyRootFilesystem": true,
                    "capabilities": {"drop": ["ALL"]},
                });
                assert_eq!(container["securityContext"], expected, "{case}");
                let probe = |name: &str| &container[name]["httpGet"];
                assert_eq!(
                    *probe("startupProbe"),
                    json!({"path": "/healthz", "port": "internal"})
                );
                assert_eq!(
                    *probe("livenessProbe"),
                    json!({"path": "/healthz", "port": "internal"})
                );
                assert_eq!(
                    *probe("readinessProbe"),
                    json!({"path": "/readyz", "port": "internal"})
                );
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 9);
}

/// Only gateways and monitoring reach the internal listener, and no route leads there.
#[test]
fn the_internal_listener_is_internal() {
    for (case, documents) in cases() {
        for workload in workloads(documents) {
            let labels = workload["spec"]["selector"]["matchLabels"]
                .as_object()
                .unwrap();
            let policies = of_kind(documents, "NetworkPolicy");
            let policy = policies.iter().find(|policy| {
                policy["spec"]["podSelector"]["matchLabels"].as_object() == Some(labels)
            });
            let policy = policy.unwrap_or_else(|| panic!("{case}: {labels:?} has no policy"));
            assert_eq!(
                policy["spec"]["policyTypes"],
                json!(["Ingress", "Egress"]),
                "{case}"
            );
            for rule in list(&policy["spec"]["ingress"]) {
                let peers = list(&rule["from"]);
                assert!(!peers.is_empty(), "{case}: an empty list is everybody");
                assert!(peers.iter().all(|peer| *peer != json!({})), "{case}");
                assert!(!list(&rule["ports"]).is_empty(), "{case}: every port");
            }
            for rule in list(&policy["spec"]["egress"]) {
                assert!(!list(&rule["ports"]).is_empty(), "{case}: every port");
            }
        }
        let internal = |service: &Value| {
            let ports = list(&service["spec"]["ports"]).iter();
            ports.clone().any(|port| port["targetPort"] == "internal")
        };
        let services = of_kind(documents, "Service");
        for route in of_kind(documents, "HTTPRoute") {
            for backend in list(&route["spec"]["rules"][0]["backendRefs"]) {
                let to = services
                    .iter()
                    .find(|one| one["metadata"]["name"] == backend["name"]);
                assert!(!internal(to.unwrap()), "{case}");
            }
        }
    }
}

/// Custom resources that are shown as files, too.
const MANIFESTS: [&str; 3] = [
    "envoy/istio/wasm-plugin.yaml",
    "envoy/istio/cors.yaml",
    "envoy/envoy-gateway/extension-policy.yaml",
];

#[test]
fn the_chart_and_the_manifests_agree() {
    let repository = Artifacts::find().unwrap().repository;
    let mut compared = 0;
    for file in MANIFESTS {
        let case = if file.contains("/istio/") {
            "istio"
        } else {
            "envoy-gateway"
        };
        let rendered = list(&RENDERED[case]["documents"]);
        for shown in documents(&repository.join(file)) {
            // Belongs to the API.
            if shown["kind"] == "VirtualService" {
                continue;
            }
            let same = rendered.iter().find(|document| {
                document["kind"] == shown["kind"]
                    && document["metadata"]["name"] == shown["metadata"]["name"]
            });
            let mut same = same.unwrap_or_else(|| panic!("{file}: {shown}")).clone();
            same["metadata"].as_object_mut().unwrap().remove("labels");
            assert_eq!(same, shown, "{file}");
            compared += 1;
        }
    }
    assert_eq!(compared, 6);
}

/// Checks each gateway's configuration with the guard's reader and real Envoy.
#[test]
fn the_guard_reads_the_configuration_that_the_chart_makes() {
    let mut read = 0;
    for (case, documents) in cases() {
        for kind in ["WasmPlugin", "TrafficExtension"] {
            for plugin in of_kind(documents, kind) {
                let spec = &plugin["spec"];
                let plugin = if kind == "WasmPlugin" {
                    spec
                } else {
                    &spec["wasm"]
                };
                for cluster in read_configuration(&plugin["pluginConfig"].to_string()) {
                    let known = ["outbound|9080||", "outbound|9081||"];
                    assert!(
                        known.iter().any(|start| cluster.starts_with(start)),
                        "{case}: {cluster}"
                    );
                }
                read += 1;
            }
        }
        let Some(policy) = of_kind(documents, "EnvoyExtensionPolicy").first().copied() else {
            continue;
        };
        let configuration = policy["spec"]["wasm"][0]["config"].to_string();
        for patches in of_kind(documents, "EnvoyPatchPolicy") {
            let patches = list(&patches["spec"]["jsonPatches"]).iter();
            let clusters: Vec<Value> = patches
                .map(|patch| patch["operation"]["value"].clone())
                .collect();
            assert_eq!(
                read_configuration(&configuration),
                names(&clusters),
                "{case}"
            );
            validate(&gateway(&configuration, &clusters));
        }
        read += 1;
    }
    assert_eq!(read, 4);
}

/// Checks the configuration of token-guard, and the gateways' configuration for token-guard.
#[test]
fn token_guard_and_the_gateway_agree() {
    for (case, headers) in [
        (
            "token-guard-envoy-gateway",
            json!(["x-client-id", "x-user-id"]),
        ),
        ("token-guard-istio", json!(["x-token-payload", "x-user-id"])),
        (
            "token-guard-traefik",
            json!(["x-client-id", "x-scope", "x-user-id"]),
        ),
        ("token-guard-alone", json!(["x-user-id"])),
    ] {
        let documents = list(&RENDERED[case]["documents"]);
        let workload = component(documents, "token-guard").unwrap();
        let name = workload["metadata"]["name"].as_str().unwrap();
        let files = files(documents, "Secret", name);
        let clusters = read_configuration(std::str::from_utf8(&files["guard.json"]).unwrap());
        let variable = |name: &str| {
            let variables = list(&pod(workload)["containers"][0]["env"]).iter();
            let mut named = variables.filter(|variable| variable["name"] == name);
            named.next().unwrap()["value"].as_str().unwrap().to_owned()
        };
        let origins = variable("TOKEN_GUARD_CLUSTERS");
        let origins = origins
            .split(',')
            .map(|origin| origin.split_once('=').unwrap().0.to_owned());
        assert_eq!(clusters, origins.collect(), "{case}");

        let root = tempfile::TempDir::new().unwrap();
        let program = Artifacts::find().unwrap().token_service;
        let program = program.with_file_name("token-guard");
        let mut check = container(root.path(), workload, documents, &program);
        let output = check.arg("--check").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{case}: {said}");

        // The gateway removes the headers that a client may not set, and takes exactly those from token-guard.
        if case == "token-guard-istio" {
            let patches = &of_kind(documents, "EnvoyFilter")[0]["spec"]["configPatches"];
            let manager = &patches[0]["patch"]["value"]["typed_config"];
            let extensions = &manager["early_header_mutation_extensions"];
            let mutations = list(&extensions[0]["typed_config"]["mutations"]).iter();
            let removed =
                mutations.map(|mutation| &mutation["remove_on_match"]["key_matcher"]["safe_regex"]);
            let removed: Vec<&Value> = removed.map(|expression| &expression["regex"]).collect();
            assert_eq!(json!(removed), json!(patterns(&headers)));
            validate_in_tested_gateway(extensions);
            let notes = RENDERED[case]["notes"].as_str().unwrap();
            let (_, provider) = notes.split_once("extensionProviders:\n").unwrap();
            let provider: Value = serde_saphyr::from_str(provider).unwrap();
            let asked = of_kind(documents, "AuthorizationPolicy")[0];
            assert_eq!(provider[0]["name"], asked["spec"]["provider"]["name"]);
            let provider = &provider[0]["envoyExtAuthzHttp"];
            assert_eq!(provider["headersToUpstreamOnAllow"], headers);
            assert_eq!(provider["failOpen"], false);
            assert_eq!(provider["pathPrefix"], "/ext-authz");
        } else if case == "token-guard-traefik" {
            agrees_with_traefik(documents, &headers);
        } else if case == "token-guard-alone" {
            let notes = RENDERED[case]["notes"].as_str().unwrap();
            let host = "gatepass-guard.token-service.svc.cluster.local:9090";
            assert!(
                notes.contains(host) && notes.contains("/auth-request"),
                "{notes}"
            );
        } else {
            assert_eq!(
                variable("TOKEN_GUARD_TRUSTED_PEERS"),
                "10.244.3.0/24,10.244.4.7/32,fd00:10:244::7/128"
            );
            let paths = of_kind(documents, "ClientTrafficPolicy")[0];
            let early = &paths["spec"]["headers"]["earlyRequestHeaders"];
            assert_eq!(early["remove"], headers);
            let removed = list(&early["removeOnMatch"]).iter();
            let removed: Vec<&Value> = removed.map(|matcher| &matcher["value"]).collect();
            assert_eq!(json!(removed), json!(patterns(&headers)));
            assert_eq!(
                paths["spec"]["headers"]["withUnderscoresAction"],
                "DropHeader"
            );
            let policy = &of_kind(documents, "SecurityPolicy")[0]["spec"]["extAuth"];
            assert_eq!(policy["http"]["headersToBackend"], headers);
            assert_eq!(policy["failOpen"], false);
            assert_eq!(policy["http"]["path"], "/ext-authz");
        }
    }
}

/// Expressions for these headers in every spelling, like those of `gateways/envoy-ext-authz/`, which real Envoy runs in
/// other tests.
fn patterns(headers: &Value) -> Vec<String> {
    let names = list(headers).iter().filter_map(Value::as_str);
    let patterns: Vec<String> = names.map(|name| name.replace('-', "[^a-z0-9]")).collect();
    let tested = tested_gateway().to_string();
    let known = patterns.iter().filter(|pattern| tested.contains(*pattern));
    assert!(known.count() > 0, "{patterns:?}");
    patterns
}

fn tested_gateway() -> Value {
    let repository = Artifacts::find().unwrap().repository;
    let path = repository.join("gateways/envoy-ext-authz/envoy.yaml");
    serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Envoy accepts these extensions for early mutations of headers.
#[track_caller]
fn validate_in_tested_gateway(extensions: &Value) {
    let mut gateway = tested_gateway();
    let filters = &mut gateway["static_resources"]["listeners"][0]["filter_chains"][0]["filters"];
    filters[0]["typed_config"]["early_header_mutation_extensions"] = extensions.clone();
    validate(&gateway.to_string());
}

/// The middlewares are those of `gateways/traefik/`, which real Traefik runs in other tests.
#[track_caller]
fn agrees_with_traefik(documents: &[Value], headers: &Value) {
    let middlewares = of_kind(documents, "Middleware");
    let spec = |name: &str| {
        let mut named = middlewares.iter();
        let named = named.find(|middleware| middleware["metadata"]["name"] == name);
        named.unwrap_or_else(|| panic!("no middleware {name}"))["spec"].clone()
    };
    let chain = json!([{"name": "gatepass-headers"}, {"name": "gatepass-guard"}]);
    assert_eq!(spec("gatepass")["chain"]["middlewares"], chain);

    let repository = Artifacts::find().unwrap().repository;
    let tested = fs::read_to_string(repository.join("gateways/traefik/dynamic.yaml")).unwrap();
    let tested: Value = serde_saphyr::from_str(&tested).unwrap();
    let tested = &tested["http"]["middlewares"];
    // Header names are case-insensitive.
    let lower = |value: &Value| -> Value {
        serde_json::from_str(&value.to_string().to_lowercase()).unwrap()
    };
    let removed = &spec("gatepass-headers")["headers"]["customRequestHeaders"];
    let tested_removed = &tested["no-forged-identity"]["headers"]["customRequestHeaders"];
    assert_eq!(lower(removed), lower(tested_removed));
    let mut asked = spec("gatepass-guard")["forwardAuth"].clone();
    assert_eq!(
        asked["address"],
        "http://gatepass-guard.token-service.svc.cluster.local:9090/forward-auth"
    );
    let mut tested = tested["token-guard"]["forwardAuth"].clone();
    for forward_auth in [&mut asked, &mut tested] {
        forward_auth.as_object_mut().unwrap().remove("address");
        forward_auth["authResponseHeaders"]
            .as_array_mut()
            .unwrap()
            .sort_by_key(|name| name.to_string().to_lowercase());
    }
    assert_eq!(lower(&asked), lower(&tested));
    assert_eq!(asked["authResponseHeaders"], *headers);
}

/// The alert rules and the dashboard select the metrics that the PodMonitors collect.
#[test]
fn prometheus_and_grafana_find_what_the_chart_installs() {
    let documents = list(&RENDERED["token-guard-traefik"]["documents"]);
    let rule = of_kind(documents, "PrometheusRule")[0];
    let repository = Artifacts::find().unwrap().repository;
    let file = |name: &str| {
        let file = repository.join("charts/gatepass/files").join(name);
        fs::read_to_string(file).unwrap()
    };
    let alerts: Value = serde_saphyr::from_str(&file("prometheus-alerts.yml")).unwrap();
    assert_eq!(rule["spec"], alerts);
    let dashboards = of_kind(documents, "ConfigMap");
    let dashboard = dashboards
        .iter()
        .find(|map| map["metadata"]["labels"]["grafana_dashboard"] == "1")
        .unwrap();
    let dashboard = dashboard["data"]["gatepass.json"].as_str().unwrap();
    assert_eq!(dashboard, file("grafana-dashboard.json"));

    let monitors = of_kind(documents, "PodMonitor");
    assert_eq!(monitors.len(), 2);
    for monitor in monitors {
        assert_eq!(
            monitor["metadata"]["labels"]["release"],
            "kube-prometheus-stack"
        );
        let spec = &monitor["spec"];
        assert_eq!(spec["jobLabel"], "app.kubernetes.io/component");
        let endpoint = json!([{"port": "internal", "path": "/metrics"}]);
        assert_eq!(spec["podMetricsEndpoints"], endpoint);
        let selected = spec["selector"]["matchLabels"].as_object().unwrap();
        let selected: Vec<&Value> = workloads(documents)
            .into_iter()
            .filter(|workload| {
                let labels = &workload["spec"]["template"]["metadata"]["labels"];
                selected.iter().all(|(name, value)| labels[name] == *value)
            })
            .collect();
        let [workload] = selected[..] else {
            panic!("{selected:?}");
        };
        let job =
            &workload["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"];
        // As Prometheus would match it: `.*token-guard.*`.
        let job = format!("up{{job=~\".*{}.*\"}} == 0", job.as_str().unwrap());
        assert!(
            alerts.to_string().contains(&job.replace('"', "\\\"")),
            "{job}"
        );
        let ports = list(&pod(workload)["containers"][0]["ports"]).iter();
        let mut ports = ports.map(|port| &port["name"]);
        assert!(ports.any(|name| name == "internal"));
    }
}

/// A release publishes the images that the values name, under these names.
#[test]
fn the_chart_names_the_images_of_a_release() {
    let repository = Artifacts::find().unwrap().repository;
    let text = |file: &str| fs::read_to_string(repository.join(file)).unwrap();
    let values: Value = serde_saphyr::from_str(&text("charts/gatepass/values.yaml")).unwrap();
    let release: Value = serde_saphyr::from_str(&text(".github/workflows/release.yml")).unwrap();
    let published = &release["jobs"]["publish-images"]["strategy"]["matrix"]["target"];
    let dockerfile = text("Dockerfile");
    for image in [
        "/tokenService/image",
        "/gateway/filter/image",
        "/gateway/tokenGuard/image",
    ] {
        let repository = &values.pointer(image).unwrap()["repository"];
        let name = repository.as_str().unwrap().rsplit('/').next().unwrap();
        assert!(list(published).contains(&json!(name)), "{image}: {name}");
        assert!(dockerfile.contains(&format!(" AS {name}\n")), "{name}");
    }
}

/// Secrets that the values name but the chart does not create.
fn secrets() -> BTreeMap<&'static str, BTreeMap<&'static str, String>> {
    let key = "A".repeat(43);
    BTreeMap::from([
        (
            "token-service-keys-of-mine",
            BTreeMap::from([("encryption-key", key.clone()), ("admin-token", key)]),
        ),
        (
            "registrations",
            BTreeMap::from([("registrations.toml", String::new())]),
        ),
        (
            "database",
            BTreeMap::from([(
                "url",
                "postgres://service:secret@database.example.com/tokens".to_owned(),
            )]),
        ),
        ("database-ca", BTreeMap::from([("ca.crt", String::new())])),
    ])
}

/// The files of a Secret or ConfigMap, by name.
fn files(documents: &[Value], kind: &str, name: &str) -> BTreeMap<String, Vec<u8>> {
    let found = of_kind(documents, kind);
    let Some(found) = found.iter().find(|one| one["metadata"]["name"] == name) else {
        let secrets = secrets();
        let secret = secrets.get(name).unwrap_or_else(|| panic!("{kind} {name}"));
        let files = secret.iter();
        return files
            .map(|(file, text)| ((*file).to_owned(), text.clone().into_bytes()))
            .collect();
    };
    let texts = |member: &str| -> Vec<(String, String)> {
        let members = found[member].as_object().into_iter().flatten();
        members
            .map(|(file, text)| (file.clone(), text.as_str().unwrap().to_owned()))
            .collect()
    };
    let encoded = if kind == "Secret" {
        texts("data")
    } else {
        Vec::new()
    };
    let plain = if kind == "Secret" {
        texts("stringData")
    } else {
        texts("data")
    };
    let encoded = encoded
        .into_iter()
        .map(|(file, text)| (file, STANDARD.decode(text).unwrap()));
    let plain = plain
        .into_iter()
        .map(|(file, text)| (file, text.into_bytes()));
    encoded.chain(plain).collect()
}

/// Creates the volumes of a workload below `root`, as the kubelet would. Returns a command with the environment of its
/// container and with paths below `root`.
fn container(root: &Path, workload: &Value, documents: &[Value], program: &Path) -> Command {
    let pod = pod(workload);
    let container = &pod["containers"][0];
    let below = |path: &str| root.join(path.trim_start_matches('/'));
    for mount in list(&container["volumeMounts"]) {
        let folder = below(mount["mountPath"].as_str().unwrap());
        fs::create_dir_all(&folder).unwrap();
        let volume = list(&pod["volumes"])
            .iter()
            .find(|volume| volume["name"] == mount["name"]);
        let Some(volume) = volume else {
            let claims = list(&workload["spec"]["volumeClaimTemplates"]);
            assert!(
                claims
                    .iter()
                    .any(|claim| claim["metadata"]["name"] == mount["name"]),
                "{mount}"
            );
            continue;
        };
        assert_eq!(mount["readOnly"], true, "{mount}");
        let (kind, name, mode) = match volume["secret"]["secretName"].as_str() {
            Some(name) => (
                "Secret",
                name,
                volume["secret"]["defaultMode"].as_u64().unwrap(),
            ),
            None => (
                "ConfigMap",
                volume["configMap"]["name"].as_str().unwrap(),
                0o644,
            ),
        };
        for (file, content) in files(documents, kind, name) {
            let file = folder.join(file);
            fs::write(&file, content).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode.try_into().unwrap()))
                .unwrap();
        }
    }
    let mut command = Command::new(program);
    for variable in list(&container["env"]) {
        let value = variable["value"].as_str().unwrap();
        let value = match value.split_once('/') {
            Some(("" | "redb:", _)) => {
                let (kind, path) = value.split_at(value.find('/').unwrap());
                format!("{kind}{}", below(path).display())
            }
            _ => value.to_owned(),
        };
        command.env(variable["name"].as_str().unwrap(), value);
    }
    command
}

/// The workload of a component.
fn component<'a>(documents: &'a [Value], name: &str) -> Option<&'a Value> {
    let named =
        |workload: &&Value| workload["metadata"]["labels"]["app.kubernetes.io/component"] == name;
    workloads(documents).into_iter().find(named)
}

#[test]
fn the_token_service_accepts_the_configuration_that_the_chart_makes() {
    let program = Artifacts::find().unwrap().token_service;
    let mut checked = 0;
    for (case, documents) in cases() {
        let Some(workload) = component(documents, "token-service") else {
            continue;
        };
        let root = tempfile::TempDir::new().unwrap();
        let mut command = container(root.path(), workload, documents, &program);
        let output = command.arg("check").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{case}: {said}");
        // The NetworkPolicy already does what this warning recommends.
        let mut warnings = said.lines().filter(|line| line.starts_with("warning: "));
        assert!(
            warnings.all(|warning| warning.starts_with("warning: internal_listen ")),
            "{case}: {said}"
        );
        checked += 1;
    }
    assert!(checked >= 3, "{checked}");
}

/// Runs with the keys from the chart. Only the volume of the store is writable.
#[test]
fn a_token_service_of_the_chart_serves() {
    let program = Artifacts::find().unwrap().token_service;
    let documents = list(&RENDERED["traffic-extension"]["documents"]);
    let root = tempfile::TempDir::new().unwrap();
    let workload = component(documents, "token-service").unwrap();
    let mut command = container(root.path(), workload, documents, &program);
    let internal = free_port().unwrap();
    command
        .arg("serve")
        .env(
            "TOKEN_SERVICE__LISTEN",
            format!("127.0.0.1:{}", free_port().unwrap()),
        )
        .env(
            "TOKEN_SERVICE__INTERNAL_LISTEN",
            format!("127.0.0.1:{internal}"),
        );
    let log = root.path().join("log");
    let mut service = Process::start("token-service", &command, &log).unwrap();
    let url = format!("http://127.0.0.1:{internal}/readyz");
    let ready = || {
        agent()
            .get(&url)
            .call()
            .is_ok_and(|reply| reply.status() == 200)
    };
    service.until("ready", ready).unwrap();
    let mut stored = fs::read_dir(root.path().join("data")).unwrap();
    assert_eq!(
        stored.next().unwrap().unwrap().file_name(),
        "token-service.redb"
    );
    assert!(stored.next().is_none(), "keys come from the Secret");
}
