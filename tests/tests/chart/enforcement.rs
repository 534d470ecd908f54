//! The guard in the gateway, or asked by it.

use serde_json::{Value, json};
use tests::Artifacts;
use tests::gateways::with_tls;

use super::containers::container;
use super::{cases, documents_of, list, of_kind, pod, result};
use crate::mounting::{gateway, names, read_configuration, validate};
use crate::support::file;

/// Checks each gateway's configuration with the guard's reader and real Envoy.
#[forms::each]
fn the_guard_reads_the_configuration_that_the_chart_makes() {
    let mut read = 0;
    for (case, documents) in cases() {
        for kind in ["WasmPlugin", "TrafficExtension"] {
            for plugin in of_kind(documents, kind) {
                let spec = &plugin["spec"];
                let plugin = spec.get("wasm").unwrap_or(spec);
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
        let spec = &policy["spec"];
        let plugin = spec.get("dynamicModule").unwrap_or(&spec["wasm"]);
        let configuration = plugin[0]["config"].to_string();
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

/// The Job that Helm runs before it installs or changes anything.
#[test]
fn the_check_before_an_install_finds_what_the_schema_cannot() {
    let refused = [
        (
            "unreachable-path",
            "rules[0].path_prefix: must start with a slash",
        ),
        (
            "unknown-cluster",
            "the configuration fetches from cluster issuer",
        ),
    ];
    let accepted = cases().map(|(case, _)| (case, ""));
    for (case, problem) in accepted.chain(refused) {
        let documents = documents_of(case);
        let root = tempfile::TempDir::new().unwrap();
        let job = of_kind(documents, "Job")[0];
        let mut check = container(root.path(), job, documents, &token_guard());
        let arguments = list(&pod(job)["containers"][0]["args"]).iter();
        let output = check.args(arguments.filter_map(Value::as_str)).output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.success(),
            problem.is_empty(),
            "{case}: {said}"
        );
        assert!(said.contains(problem), "{case}: {said}");
        assert!(said.is_empty() || !problem.is_empty(), "{case}: {said}");
    }
}

fn token_guard() -> std::path::PathBuf {
    Artifacts::find().unwrap().token_guard()
}

/// The `HttpConnectionManager` of `examples/envoy-ext-authz/`, which real Envoy runs in other tests.
fn tested_manager(gateway: &mut Value) -> &mut Value {
    let listener = &mut gateway["static_resources"]["listeners"][0];
    &mut listener["filter_chains"][0]["filters"][0]["typed_config"]
}

/// Envoy accepts the early mutations of headers, and token-guard is asked as in the tested gateway.
#[test]
fn envoy_asks_token_guard_as_the_tested_gateway_does() {
    let tested = file("examples/envoy-ext-authz/envoy.yaml");
    let mut gateway: Value = serde_saphyr::from_str(&tested).unwrap();
    let mut validated = 0;
    for (_, documents) in cases() {
        let Some(filter) = of_kind(documents, "EnvoyFilter").first().copied() else {
            continue;
        };
        let manager = &filter["spec"]["configPatches"][0]["patch"]["value"]["typed_config"];
        let early = "early_header_mutation_extensions";
        let mut changed = gateway.clone();
        tested_manager(&mut changed)[early] = manager[early].clone();
        validate(&changed.to_string());
        validated += 1;
    }
    assert_eq!(validated, 3);

    let filters = list(&tested_manager(&mut gateway)["http_filters"]).iter();
    let mut guards = filters.filter(|filter| filter["name"] == "envoy.filters.http.ext_authz");
    let guard = &guards.next().unwrap()["typed_config"];
    let exact = |named: &Value| -> Value {
        let patterns = list(&named["patterns"]).iter();
        patterns.map(|pattern| pattern["exact"].clone()).collect()
    };
    let asked = exact(&guard["allowed_headers"]);
    let denied = exact(&guard["http_service"]["authorization_response"]["allowed_client_headers"]);
    let added = &guard["http_service"]["authorization_request"]["headers_to_add"][0];
    let (certificate, fingerprint) = (&added["key"], &added["value"]);

    let notes = result("token-guard-istio")["notes"].as_str().unwrap();
    let (_, provider) = notes.split_once("extensionProviders:\n").unwrap();
    let provider: Value = serde_saphyr::from_str(provider).unwrap();
    let provider = &provider[0]["envoyExtAuthzHttp"];
    assert_eq!(provider["includeRequestHeadersInCheck"], asked);
    assert_eq!(provider["headersToDownstreamOnDeny"], denied);
    assert_eq!(provider["clearRouteCache"], guard["clear_route_cache"]);
    let additional = &provider["includeAdditionalHeadersInCheck"];
    assert_eq!(additional[certificate.as_str().unwrap()], *fingerprint);

    let documents = documents_of("token-guard-envoy-gateway");
    let policy = &of_kind(documents, "SecurityPolicy")[0]["spec"]["extAuth"];
    let asked = json!([list(&asked), std::slice::from_ref(certificate)].concat());
    assert_eq!(policy["headersToExtAuth"], asked);
    assert_eq!(policy["recomputeRoute"], guard["clear_route_cache"]);
    let headers = &of_kind(documents, "ClientTrafficPolicy")[0]["spec"]["headers"];
    let set = json!([{"name": certificate, "value": fingerprint}]);
    assert_eq!(headers["earlyRequestHeaders"]["set"], set);
    // In every spelling.
    let removed = list(&headers["earlyRequestHeaders"]["removeOnMatch"]);
    assert!(!removed.is_empty());
    for removed in removed {
        let pattern = removed["value"].as_str().unwrap();
        assert!(tested.contains(pattern), "{pattern}");
    }
}

/// The middlewares come from `examples/traefik/`, which real Traefik runs in other tests.
#[test]
fn traefik_asks_token_guard_as_the_tested_gateway_does() {
    let middlewares = of_kind(documents_of("token-guard-traefik"), "Middleware");
    let spec = |name: &str| {
        let mut named = middlewares.iter();
        let named = named.find(|middleware| middleware["metadata"]["name"] == name);
        named.unwrap_or_else(|| panic!("no middleware {name}"))["spec"].clone()
    };
    let tested = with_tls(&file("examples/traefik/dynamic.yaml")).unwrap();
    let tested: Value = serde_saphyr::from_str(&tested).unwrap();
    let tested = &tested["http"]["middlewares"];
    assert_eq!(spec("gatepass-certificate"), tested["client-certificate"]);
    assert_eq!(spec("gatepass-protocol"), tested["no-other-protocol"]);
    // Header names are case-insensitive.
    let lower = |value: &Value| -> Value {
        serde_json::from_str(&value.to_string().to_lowercase()).unwrap()
    };
    let removed = &spec("gatepass-headers")["headers"]["customRequestHeaders"];
    let tested_removed = &tested["no-forged-identity"]["headers"]["customRequestHeaders"];
    assert_eq!(lower(removed), lower(tested_removed));
    let asked = [
        spec("gatepass-guard")["forwardAuth"].clone(),
        tested["token-guard"]["forwardAuth"].clone(),
    ];
    let [asked, tested] = asked.map(|mut forward_auth| {
        forward_auth.as_object_mut().unwrap().remove("address");
        let headers = forward_auth["authResponseHeaders"].as_array_mut().unwrap();
        headers.sort_by_key(|name| name.to_string().to_lowercase());
        lower(&forward_auth)
    });
    assert_eq!(asked, tested);
}
