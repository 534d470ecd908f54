//! The guard in the gateway, or asked by it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tests::Artifacts;
use tests::gateways::with_tls;

use super::containers::{container, files};
use super::{RENDERED, cases, component, list, of_kind, pod};
use crate::mounting::{gateway, names, read_configuration, validate};

/// Checks each gateway's configuration with the guard's reader and real Envoy.
#[forms::each]
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
        let form = match case {
            "envoy-gateway-native" => "dynamicModule",
            _ => "wasm",
        };
        let configuration = policy["spec"][form][0]["config"].to_string();
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
    assert_eq!(read, 5);
}

/// Headers from which some frameworks take another method or path. The chart removes them for each gateway.
const OVERRIDES: [&str; 5] = [
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
];

#[test]
fn every_gateway_removes_headers_that_name_another_request() {
    let mut seen = 0;
    for (case, documents) in cases() {
        let removed = if let Some(filter) = of_kind(documents, "EnvoyFilter").first() {
            let manager = &filter["spec"]["configPatches"][0]["patch"]["value"]["typed_config"];
            let extensions = &manager["early_header_mutation_extensions"];
            validate_in_tested_gateway(extensions);
            let mutations = list(&extensions[0]["typed_config"]["mutations"]).iter();
            mutations
                .map(|mutation| mutation["remove"].clone())
                .collect()
        } else if let Some(paths) = of_kind(documents, "ClientTrafficPolicy").first() {
            let early = &paths["spec"]["headers"]["earlyRequestHeaders"];
            list(&early["remove"]).to_vec()
        } else {
            // Traefik: compared with the tested file. token-guard alone: the gateway has its own file.
            assert!(!case.contains("istio") && !case.contains("envoy"), "{case}");
            continue;
        };
        for name in OVERRIDES {
            assert!(removed.contains(&json!(name)), "{case}: {name}");
        }
        seen += 1;
    }
    assert_eq!(seen, 7);
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
            let removed = mutations
                .map(|mutation| &mutation["remove_on_match"]["key_matcher"]["safe_regex"]["regex"]);
            let removed: Vec<&Value> = removed.filter(|regex| regex.is_string()).collect();
            assert_eq!(json!(removed), json!(patterns(&headers)));
            validate_in_tested_gateway(extensions);
            let notes = RENDERED[case]["notes"].as_str().unwrap();
            let (_, provider) = notes.split_once("extensionProviders:\n").unwrap();
            let provider: Value = serde_saphyr::from_str(provider).unwrap();
            let asked = of_kind(documents, "AuthorizationPolicy")[0];
            assert_eq!(provider[0]["name"], asked["spec"]["provider"]["name"]);
            let provider = &provider[0]["envoyExtAuthzHttp"];
            assert_eq!(provider["headersToUpstreamOnAllow"], with_token(&headers));
            assert_eq!(
                provider["includeRequestHeadersInCheck"],
                asked_with("allowed_headers")
            );
            assert_eq!(
                provider["headersToDownstreamOnDeny"],
                asked_with("allowed_client_headers")
            );
            assert_eq!(
                provider["includeAdditionalHeadersInCheck"],
                json!({CERTIFICATE: FINGERPRINT})
            );
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
                "10.244.3.0/24,10.244.4.7,fd00:10:244::7"
            );
            let paths = of_kind(documents, "ClientTrafficPolicy")[0];
            let early = &paths["spec"]["headers"]["earlyRequestHeaders"];
            let others = OVERRIDES.map(Value::from);
            assert_eq!(
                early["remove"],
                json!([&others[..], list(&headers)].concat())
            );
            let removed = list(&early["removeOnMatch"]).iter();
            let removed: Vec<&Value> = removed.map(|matcher| &matcher["value"]).collect();
            assert_eq!(json!(removed), json!(patterns(&headers)));
            assert_eq!(
                paths["spec"]["headers"]["withUnderscoresAction"],
                "DropHeader"
            );
            let policy = &of_kind(documents, "SecurityPolicy")[0]["spec"]["extAuth"];
            assert_eq!(policy["http"]["headersToBackend"], with_token(&headers));
            let mut asked = list(&asked_with("allowed_headers")).to_vec();
            asked.push(json!(CERTIFICATE));
            assert_eq!(policy["headersToExtAuth"], json!(asked));
            let set = json!([{"name": CERTIFICATE, "value": FINGERPRINT}]);
            assert_eq!(early["set"], set);
            assert_eq!(policy["failOpen"], false);
            assert_eq!(policy["http"]["path"], "/ext-authz");
        }
    }
}

/// The Job that Helm runs before it installs or changes anything, with its variables and files.
fn check(root: &Path, documents: &[Value]) -> Command {
    let [job] = of_kind(documents, "Job")[..] else {
        panic!("no check");
    };
    let hook = &job["metadata"]["annotations"]["helm.sh/hook"];
    assert_eq!(hook, "pre-install,pre-upgrade");
    let program = Artifacts::find().unwrap().token_service;
    let program = program.with_file_name("token-guard");
    let mut check = container(root, job, documents, &program);
    let arguments = list(&pod(job)["containers"][0]["args"]).iter();
    check.args(arguments.filter_map(Value::as_str));
    check
}

#[test]
fn the_check_before_an_install_finds_what_the_schema_cannot() {
    for (case, documents) in cases() {
        let root = tempfile::TempDir::new().unwrap();
        let output = check(root.path(), documents).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{case}: {said}");
        assert_eq!(said, "", "{case}");
    }
    for (case, problem) in [
        (
            "unreachable-path",
            "rules[0].path_prefix: must start with a slash",
        ),
        (
            "unknown-cluster",
            "the configuration fetches from cluster issuer",
        ),
    ] {
        let documents = RENDERED[case]["documents"].as_array();
        let documents = documents.unwrap_or_else(|| panic!("{}", RENDERED[case]));
        let root = tempfile::TempDir::new().unwrap();
        let output = check(root.path(), documents).output().unwrap();
        assert!(!output.status.success(), "{case}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(problem), "{case}: {said}");
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

/// The header with the digest of the client's certificate, and what Envoy writes there.
const CERTIFICATE: &str = "x-token-guard-client-certificate";
const FINGERPRINT: &str = "sha256:%DOWNSTREAM_PEER_FINGERPRINT_256%";

/// Names of the headers that the gateway takes from token-guard.
fn with_token(headers: &Value) -> Value {
    json!([&[json!("authorization")], list(headers)].concat())
}

/// Names of headers in this list of `gateways/envoy-ext-authz/`.
fn asked_with(list_of: &str) -> Value {
    let gateway = tested_gateway();
    let manager = &gateway["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0];
    let filters = list(&manager["typed_config"]["http_filters"]).iter();
    let mut guards = filters.filter(|filter| filter["name"] == "envoy.filters.http.ext_authz");
    let guard = &guards.next().unwrap()["typed_config"];
    let added = &guard["http_service"]["authorization_request"]["headers_to_add"];
    assert_eq!(added, &json!([{"key": CERTIFICATE, "value": FINGERPRINT}]));
    let answer = &guard["http_service"]["authorization_response"];
    let named = guard.get(list_of).unwrap_or(&answer[list_of]);
    let patterns = list(&named["patterns"]).iter();
    patterns.map(|pattern| pattern["exact"].clone()).collect()
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
    let chain = ["protocol", "headers", "certificate", "guard"]
        .map(|part| json!({"name": format!("gatepass-{part}")}));
    assert_eq!(spec("gatepass")["chain"]["middlewares"], json!(chain));
    let of_websockets = &spec("gatepass-websocket")["chain"]["middlewares"];
    assert_eq!(*of_websockets, json!(chain[1..]));

    let repository = Artifacts::find().unwrap().repository;
    let tested = fs::read_to_string(repository.join("gateways/traefik/dynamic.yaml")).unwrap();
    let tested: Value = serde_saphyr::from_str(&with_tls(&tested)).unwrap();
    let tested = &tested["http"]["middlewares"];
    assert_eq!(spec("gatepass-certificate"), tested["client-certificate"]);
    // Header names are case-insensitive.
    let lower = |value: &Value| -> Value {
        serde_json::from_str(&value.to_string().to_lowercase()).unwrap()
    };
    let removed = &spec("gatepass-headers")["headers"]["customRequestHeaders"];
    let tested_removed = &tested["no-forged-identity"]["headers"]["customRequestHeaders"];
    assert_eq!(lower(removed), lower(tested_removed));
    assert_eq!(spec("gatepass-protocol"), tested["no-other-protocol"]);
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
    let mut copied = vec![json!("Authorization"), json!("DPoP")];
    copied.extend(list(headers).iter().cloned());
    assert_eq!(asked["authResponseHeaders"], json!(copied));
}
