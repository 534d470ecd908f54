//! The examples with the filter: real Envoy and the filter's own reader accept each configuration.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tests::{Artifacts, Form, envoy, gateways};

use crate::support::file;

/// The documents of a YAML file.
pub(crate) fn documents(path: &Path) -> Vec<Value> {
    serde_saphyr::from_multiple(&fs::read_to_string(path).unwrap())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn document(path: &str, kind: &str) -> Value {
    let path = Artifacts::find().unwrap().repository.join(path);
    documents(&path)
        .into_iter()
        .find(|document| document["kind"] == kind)
        .unwrap_or_else(|| panic!("{} has no {kind}", path.display()))
}

/// `envoy --mode validate` starts the filter and passes it the configuration.
#[track_caller]
pub(crate) fn validate(bootstrap: &str) {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("envoy.yaml");
    fs::write(&path, bootstrap).unwrap();
    let output = Command::new(Artifacts::find().unwrap().envoy)
        .args(["--mode", "validate", "--config-path"])
        .arg(&path)
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}\n{bootstrap}");
    // The next Envoy may remove what is deprecated now.
    assert!(!log.contains("deprecated"), "{log}");
}

/// The texts of all `StringValue`s: plain Envoy's form of a plugin's configuration.
fn string_values(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            if members.get("@type")
                == Some(&json!("type.googleapis.com/google.protobuf.StringValue"))
            {
                found.push(members["value"].as_str().unwrap().to_owned());
            }
            members
                .values()
                .for_each(|member| string_values(member, found));
        }
        Value::Array(list) => list.iter().for_each(|member| string_values(member, found)),
        _ => {}
    }
}

/// Reads a plugin's configuration with the filter's own reader. Returns the clusters that it fetches from.
#[track_caller]
pub(crate) fn read_configuration(text: &str) -> BTreeSet<String> {
    let config = guard::config::Config::parse(text.as_bytes(), &keys::signature::NoHostVerifier);
    let config = config.unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
    config.clusters().into_iter().map(str::to_owned).collect()
}

pub(crate) fn names(clusters: &[Value]) -> BTreeSet<String> {
    clusters
        .iter()
        .map(|cluster| cluster["name"].as_str().unwrap().to_owned())
        .collect()
}

/// A gateway with the filter and these clusters, as Envoy Gateway and Istio create it.
pub(crate) fn gateway(configuration: &str, clusters: &[Value]) -> String {
    let artifacts = Artifacts::find().unwrap();
    let filter = envoy::filter(artifacts.form, &artifacts.filter, configuration);
    let type_of = |name: &str| format!("type.googleapis.com/{name}");
    json!({"static_resources": {"clusters": clusters, "listeners": [{
        "name": "api",
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": 8080}},
        "filter_chains": [{"filters": [{
            "name": "envoy.filters.network.http_connection_manager",
            "typed_config": {
                "@type": type_of("envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"),
                "stat_prefix": "api",
                "route_config": {},
                "http_filters": [
                    filter,
                    {"name": "envoy.filters.http.router", "typed_config": {
                        "@type": type_of("envoy.extensions.filters.http.router.v3.Router"),
                    }},
                ],
            },
        }]}],
    }]}})
    .to_string()
}

#[forms::each]
fn envoy_accepts_every_configuration_of_envoy_that_we_ship() {
    let artifacts = Artifacts::find().unwrap();
    let plain = format!("{}/envoy.yaml", gateways::plain_envoy(artifacts.form));
    let filter = artifacts.filter.display().to_string();
    let own = envoy::mounted(&file("envoy/envoy.yaml"), &artifacts).unwrap();
    let built = file(&plain).replace(gateways::mounted(artifacts.form), &filter);
    for (path, text) in [("envoy/envoy.yaml", own), (&*plain, built)] {
        let bootstrap: Value = serde_saphyr::from_str(&text).unwrap();
        let mut configurations = Vec::new();
        string_values(&bootstrap, &mut configurations);
        assert!(!configurations.is_empty(), "{path}");
        let clusters = bootstrap["static_resources"]["clusters"]
            .as_array()
            .unwrap();
        for configuration in configurations {
            let needed = read_configuration(&configuration);
            assert!(needed.is_subset(&names(clusters)), "{path}");
        }
        // Some frameworks would take another path from it.
        assert!(text.contains("- x-rewrite-url\n"), "{path}");
        // Otherwise a worker whose VM crashed would answer 503 until Envoy restarts.
        let reloads = text.contains("failure_policy: FAIL_RELOAD");
        assert_eq!(reloads, artifacts.form == Form::Wasm, "{path}");
        validate(&text);
    }
}

/// Each guide says what a crash of the filter's VM means in its gateway.
#[test]
fn every_guide_says_how_the_gateway_comes_back_after_a_crash() {
    let policies = file("docs/gateways.md");
    for policy in ["FAIL_RELOAD", "FAIL_CLOSED", "FAIL_OPEN"] {
        assert!(policies.contains(policy), "{policy}");
    }
    for guide in ["envoy", "istio", "envoy-gateway"] {
        let guide = file(&format!("examples/{guide}/README.md")).replace('\n', " ");
        assert!(guide.contains("gateways.md#failure-policies)"), "{guide}");
    }
}

#[forms::each]
fn istio_hands_the_filter_a_configuration_that_it_reads() {
    let plugin = document("examples/istio/wasm-plugin.yaml", "WasmPlugin");
    assert_eq!(plugin["spec"]["failStrategy"], "FAIL_RELOAD");
    let configuration = plugin["spec"]["pluginConfig"].to_string();
    for cluster in read_configuration(&configuration) {
        let port = cluster
            .strip_prefix("outbound|")
            .and_then(|rest| rest.split_once("||"))
            .map(|(port, _)| port);
        assert!(matches!(port, Some("9080" | "9081")), "{cluster}");
    }
    validate(&gateway(&configuration, &[]));
}

#[forms::each]
fn envoy_gateway_hands_the_filter_a_configuration_and_clusters() {
    let file = "examples/envoy-gateway/extension-policy.yaml";
    let policy = document(file, "EnvoyExtensionPolicy");
    let [plugin] = policy["spec"]["wasm"].as_array().unwrap().as_slice() else {
        panic!("one plugin");
    };
    assert_eq!(plugin["failOpen"], false);
    let configuration = plugin["config"].to_string();
    let clusters: Vec<Value> = document(file, "EnvoyPatchPolicy")["spec"]["jsonPatches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|patch| {
            assert_eq!(patch["name"], patch["operation"]["value"]["name"]);
            patch["operation"]["value"].clone()
        })
        .collect();
    assert_eq!(read_configuration(&configuration), names(&clusters));
    validate(&gateway(&configuration, &clusters));
}

/// The lists of a CORS policy: origins, methods, headers of requests, headers that the page may read.
fn lists(policy: &Value, names: [&str; 4]) -> [Vec<String>; 4] {
    names.map(|name| match &policy[name] {
        Value::String(list) => list.split(", ").map(str::to_owned).collect(),
        Value::Array(list) => list
            .iter()
            .map(|entry| {
                entry["exact"]
                    .as_str()
                    .or(entry.as_str())
                    .unwrap()
                    .to_owned()
            })
            .collect(),
        other => panic!("{name}: {other}"),
    })
}

/// Each guide allows the same origins, before the token filter gets their preflights.
#[test]
fn every_guide_lets_single_page_apps_in() {
    let repository = Artifacts::find().unwrap().repository;
    let plain = documents(&repository.join("examples/envoy/envoy.yaml")).remove(0);
    let manager = &plain["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0];
    let manager = &manager["typed_config"];
    let filters = names(manager["http_filters"].as_array().unwrap());
    assert!(filters.contains("envoy.filters.http.cors"));
    assert_eq!(
        manager["http_filters"][0]["name"],
        "envoy.filters.http.cors"
    );
    let hosts = &manager["route_config"]["virtual_hosts"];
    let policy = &hosts[0]["typed_per_filter_config"]["envoy.filters.http.cors"];
    let expected = lists(
        policy,
        [
            "allow_origin_string_match",
            "allow_methods",
            "allow_headers",
            "expose_headers",
        ],
    );
    let camel_case = [
        "allowOrigins",
        "allowMethods",
        "allowHeaders",
        "exposeHeaders",
    ];

    let filter = document("examples/istio/cors.yaml", "EnvoyFilter");
    let patch = &filter["spec"]["configPatches"][0];
    assert_eq!(patch["patch"]["operation"], "INSERT_FIRST");
    assert_eq!(patch["patch"]["value"], manager["http_filters"][0]);
    let routes = document("examples/istio/cors.yaml", "VirtualService");
    let policy = &routes["spec"]["http"][0]["corsPolicy"];
    assert_eq!(lists(policy, camel_case), expected);

    let file = "examples/envoy-gateway/extension-policy.yaml";
    let policy = &document(file, "SecurityPolicy")["spec"]["cors"];
    assert_eq!(lists(policy, camel_case), expected);
}
