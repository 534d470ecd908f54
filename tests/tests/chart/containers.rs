//! Runs the programs as the containers of the chart would.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tests::{Artifacts, Process, free_port, status_of};

use super::{cases, component, documents_of, list, of_kind, pod};
use crate::support::{file, get};

/// What an operator puts into the Secret of `guard.existingSecret`.
const GUARD_CONFIGURATION: &str = r#"{
    "issuers": [{
        "issuer": "https://issuer.example.org", "audiences": ["https://api.example.com"],
        "discovery": {"cluster": "issuer"}, "algorithms": ["ES384"],
        "introspection": {"cluster": "issuer", "path": "/introspect", "bearer": "not-for-real-use"}
    }],
    "rules": [{"path_prefix": "/"}]
}"#;

/// Secrets and ConfigMaps that the values name but the chart does not create.
fn secrets() -> BTreeMap<&'static str, BTreeMap<&'static str, String>> {
    let key = "A".repeat(43);
    let certificate = file("demo/non-interactive-demo.cert.pem");
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
        (
            "guard-configuration",
            BTreeMap::from([("guard.json", GUARD_CONFIGURATION.to_owned())]),
        ),
        ("issuer-ca", BTreeMap::from([("ca.crt", certificate)])),
        ("further", BTreeMap::new()),
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
    let members = |member: &str| found[member].as_object().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let plain = members(if kind == "Secret" {
        "stringData"
    } else {
        "data"
    });
    let plain = plain.map(|(file, value)| (file.clone(), text(value).into_bytes()));
    let encoded = members("data").filter(|_| kind == "Secret");
    let encoded =
        encoded.map(|(file, value)| (file.clone(), STANDARD.decode(text(value)).unwrap()));
    plain.chain(encoded).collect()
}

/// Creates the volumes of a workload below `root`, as the kubelet would. Returns a command with the environment of its
/// container and with paths below `root`.
pub(super) fn container(
    root: &Path,
    workload: &Value,
    documents: &[Value],
    program: &Path,
) -> Command {
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
        let output = command.args(["check", "--offline"]).output().unwrap();
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

/// The token service of the chart, on these ports.
fn token_service(root: &Path, documents: &[Value], [public, internal]: [u16; 2]) -> Process {
    let program = Artifacts::find().unwrap().token_service;
    let workload = component(documents, "token-service").unwrap();
    let mut command = container(root, workload, documents, &program);
    let here = |port| format!("127.0.0.1:{port}");
    command
        .arg("serve")
        .env("TOKEN_SERVICE__LISTEN", here(public))
        .env("TOKEN_SERVICE__INTERNAL_LISTEN", here(internal));
    // Of the listeners that a chart may have, the third one: another program may have its port here.
    let third = "TOKEN_SERVICE__MUTUAL_TLS__LISTEN";
    if command.get_envs().any(|(name, _)| name == third) {
        command.env(third, here(free_port().unwrap()));
    }
    Process::start("token-service", &command, &root.join("log")).unwrap()
}

/// Runs with the keys from the chart. Only the volume of the store is writable.
#[test]
fn a_token_service_of_the_chart_serves() {
    let documents = documents_of("traffic-extension");
    let root = tempfile::TempDir::new().unwrap();
    let [public, internal] = [(); 2].map(|()| free_port().unwrap());
    let mut service = token_service(root.path(), documents, [public, internal]);
    let url = format!("http://127.0.0.1:{internal}/readyz");
    service
        .until("ready", || status_of(&url) == Some(200))
        .unwrap();
    // The host that the filter names, in a cluster with its own domain.
    let plugin = &of_kind(documents, "TrafficExtension")[0]["spec"]["wasm"]["pluginConfig"];
    let feed = &plugin["issuers"][0]["revocations"];
    let url = format!("http://127.0.0.1:{internal}/revocations");
    let host = feed["authority"].as_str().unwrap();
    assert_eq!(get(&url, &[("host", host)]).status, 200, "{host}");
    let stored = fs::read_dir(root.path().join("data")).unwrap();
    let mut stored: Vec<_> = stored.map(|entry| entry.unwrap().file_name()).collect();
    stored.sort();
    // Keys come from the Secret.
    assert_eq!(stored, ["token-service.redb", "token-service.redb-journal"]);
}

/// Runs the commands of `helm test`: token-guard is ready when it has read keys and revocations by the addresses that the chart
/// gives it.
#[test]
fn helm_test_finds_running_programs() {
    let documents = documents_of("token-guard-traefik");
    let roots = [(); 2].map(|()| tempfile::TempDir::new().unwrap());
    let [of_guard, of_service] = roots.each_ref().map(tempfile::TempDir::path);
    let [ask, guarded, public, internal] = [(); 4].map(|()| free_port().unwrap());
    let program = Artifacts::find().unwrap().token_guard();
    let here = |text: &str, port: u16, moved: u16| {
        let (before, _) = text.split_once("http://").unwrap();
        assert!(text.ends_with(&format!(":{port}")), "{text}");
        format!("{before}http://127.0.0.1:{moved}")
    };
    let workload = component(documents, "token-guard").unwrap();
    let mut command = container(of_guard, workload, documents, &program);
    let variables = list(&pod(workload)["containers"][0]["env"]).iter();
    let mut clusters = variables.filter(|one| one["name"] == "TOKEN_GUARD_CLUSTERS");
    let clusters = clusters.next().unwrap()["value"].as_str().unwrap();
    let moved = clusters.split(',').map(|one| match one.ends_with(":9081") {
        true => here(one, 9081, internal),
        false => here(one, 9080, public),
    });
    let moved: Vec<String> = moved.collect();
    command
        .env("TOKEN_GUARD_CLUSTERS", moved.join(","))
        .env("TOKEN_GUARD_LISTEN", format!("127.0.0.1:{ask}"))
        .env(
            "TOKEN_GUARD_INTERNAL_LISTEN",
            format!("127.0.0.1:{guarded}"),
        );
    let mut guard = Process::start("token-guard", &command, &of_guard.join("log")).unwrap();
    let succeeds = |name: &str| {
        let mut tests = of_kind(documents, "Pod").into_iter();
        let is_named = |test: &&Value| test["metadata"]["name"].as_str().unwrap().ends_with(name);
        let container = &tests.find(is_named).unwrap()["spec"]["containers"][0];
        let arguments = list(&container["args"]).iter();
        let arguments = arguments.map(|one| match one.as_str().unwrap() {
            url if url.starts_with("http:") && name == "-guard" => here(url, 9091, guarded),
            url if url.starts_with("http:") => here(url, 9081, internal),
            other => other.to_owned(),
        });
        let image = container["image"].as_str().unwrap();
        let program = match name {
            "-guard" => program.clone(),
            _ => Artifacts::find().unwrap().token_service,
        };
        let called = program.file_name().unwrap().to_str().unwrap();
        assert!(image.contains(called), "{image}");
        Command::new(program)
            .args(arguments)
            .output()
            .unwrap()
            .status
            .success()
    };
    guard.until_listening(guarded).unwrap();
    assert!(!succeeds("-guard"), "it has no keys yet");
    assert!(!succeeds("-service"), "nothing listens");
    let mut service = token_service(of_service, documents, [public, internal]);
    service.until("ready", || succeeds("-service")).unwrap();
    guard.until("ready", || succeeds("-guard")).unwrap();
}
