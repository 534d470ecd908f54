//! Kubernetes, the gateways and the Prometheus Operator accept the resources, which the guides show.

use std::process::Command;

use serde_json::{Value, json};
use tests::Artifacts;

use super::{RENDERED, answer, cases, documents_of, list, of_kind, result};
use crate::mounting::documents;
use crate::support::file;

/// Groups of the resources that Kubernetes itself does not know.
const CUSTOM: [&str; 5] = [
    "istio.io/",
    "envoyproxy.io/",
    "gateway.networking.k8s.io/",
    "monitoring.coreos.com/",
    "traefik.io/",
];

/// Custom resources that are shown as files, too.
const MANIFESTS: [&str; 4] = [
    "examples/istio/wasm-plugin.yaml",
    "examples/istio/headers.yaml",
    "examples/istio/cors.yaml",
    "examples/envoy-gateway/extension-policy.yaml",
];

#[test]
fn kubernetes_and_the_gateways_accept_what_helm_renders() {
    for (name, _) in cases() {
        let case = result(name);
        assert_eq!(case["problems"], json!([]), "{name}");
        assert_eq!(case["lint"], json!([]), "{name}");
    }
    let unknown_field = &RENDERED["unknown field"][0];
    assert!(unknown_field.as_str().unwrap().contains("dota"));

    let repository = Artifacts::find().unwrap().repository;
    let mut resources: Vec<Value> = cases()
        .flat_map(|(_, documents)| documents.to_vec())
        .filter(|document| {
            let version = document["apiVersion"].as_str().unwrap();
            CUSTOM.iter().any(|group| version.contains(group))
        })
        .collect();
    let route = "examples/kubernetes-external-auth/http-route.yaml";
    for file in MANIFESTS.into_iter().chain([route]) {
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
fn the_chart_and_the_manifests_agree() {
    let repository = Artifacts::find().unwrap().repository;
    let mut compared = 0;
    for file in MANIFESTS {
        let case = if file.contains("/istio/") {
            "istio"
        } else {
            "envoy-gateway"
        };
        let rendered = documents_of(case);
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
    assert_eq!(compared, 7);
}

/// A release publishes the images that the values name, under these names.
#[test]
fn the_chart_names_the_images_of_a_release() {
    let values: Value = serde_saphyr::from_str(&file("charts/gatepass/values.yaml")).unwrap();
    let release: Value = serde_saphyr::from_str(&file(".github/workflows/release.yml")).unwrap();
    let published = &release["jobs"]["publish-images"]["strategy"]["matrix"]["target"];
    let dockerfile = file("Dockerfile");
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
