//! The Helm chart: Kubernetes, the gateways, the token service and the guard accept what Helm renders from each file of values in its
//! folder `ci/`. Two of these renderings, and what the chart refuses, stand in `tests/chart/rendered/`.

mod containers;
mod enforcement;
mod resources;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use serde_json::{Value, json};
use tests::Artifacts;

/// The rendered chart: with each file of values, with wrong values, and at an upgrade.
static RENDERED: LazyLock<Value> = LazyLock::new(|| {
    let repository = Artifacts::find().unwrap().repository;
    let mut python = Command::new(repository.join(".cache/venv/bin/python"));
    python
        .arg(repository.join("tests/chart/render.py"))
        .arg(repository.join("charts/gatepass"));
    answer(python, &Value::Null)
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

/// What Helm made of the values with this name.
fn result(case: &str) -> &'static Value {
    &RENDERED["results"][case]
}

fn documents_of(case: &str) -> &'static [Value] {
    let documents = result(case)["documents"].as_array();
    documents.unwrap_or_else(|| panic!("{case}: {}", result(case)))
}

/// The files of values: their names and documents.
fn cases() -> impl Iterator<Item = (&'static str, &'static [Value])> {
    let names = list(&RENDERED["cases"]).iter().filter_map(Value::as_str);
    names.map(|name| (name, documents_of(name)))
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

/// The workload of a component.
fn component<'a>(documents: &'a [Value], name: &str) -> Option<&'a Value> {
    documents.iter().find(|document| {
        let is_workload = document["kind"] == "Deployment" || document["kind"] == "StatefulSet";
        is_workload && document["metadata"]["labels"]["app.kubernetes.io/component"] == name
    })
}

/// What a reader of many renderings may overlook.
#[test]
fn no_rendering_lacks_what_protects() {
    for (case, document) in cases().flat_map(|(case, all)| all.iter().map(move |one| (case, one))) {
        let at = format!(
            "{case}: {} {}",
            document["kind"], document["metadata"]["name"]
        );
        let pod = match document["kind"] == "Pod" {
            true => &document["spec"],
            false => pod(document),
        };
        for container in list(&pod["containers"]) {
            let context = &container["securityContext"];
            assert_eq!(pod["automountServiceAccountToken"], false, "{at}");
            assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{at}");
            assert_eq!(context["allowPrivilegeEscalation"], false, "{at}");
            assert_eq!(context["readOnlyRootFilesystem"], true, "{at}");
            assert_eq!(context["capabilities"]["drop"], json!(["ALL"]), "{at}");
        }
        // An empty list in a rule means everybody, or every port.
        let rules = match document["kind"] == "NetworkPolicy" {
            true => list(&document["spec"]["ingress"]),
            false => &[],
        };
        for rule in rules {
            let (from, ports) = (list(&rule["from"]), list(&rule["ports"]));
            assert!(!from.is_empty() && !ports.is_empty(), "{at}: {rule}");
        }
        let text = document.to_string();
        let opens = ["\"failOpen\":true", "FAIL_OPEN"].map(|open| text.contains(open));
        assert_eq!(opens, [false; 2], "{at}");
    }
}

/// A change of the chart changes these files, and is read there: `WRITE_RENDERED=1` writes them.
#[test]
fn the_chart_renders_what_was_reviewed() {
    let folder = Artifacts::find().unwrap().repository;
    let folder = folder.join("tests/chart/rendered");
    let rendered: BTreeMap<String, String> =
        serde_json::from_value(RENDERED["files"].clone()).unwrap();
    if std::env::var_os("WRITE_RENDERED").is_some() {
        for (name, text) in &rendered {
            fs::write(folder.join(name), text).unwrap();
        }
    }
    let reviewed = fs::read_dir(&folder).unwrap().map(|file| {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(path).unwrap())
    });
    let mut reviewed: BTreeMap<String, String> = reviewed.collect();
    for (name, text) in &rendered {
        let known = reviewed.remove(name).unwrap_or_default();
        let (mut new, mut old) = (text.lines(), known.lines());
        let line = new.by_ref().zip(old.by_ref()).find(|(new, old)| new != old);
        assert!(
            *text == known,
            "{name}: {line:?}: WRITE_RENDERED=1 cargo test --test end_to_end -- chart::the_chart_renders"
        );
    }
    assert!(reviewed.is_empty(), "nothing renders {:?}", reviewed.keys());
}
