//! The ABI between Envoy and the native module, whatever `FILTER` names.

mod failing_host;
mod held;

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use tests::{Artifacts, Form, Issuer, Process, envoy, free_port, gateways};

use crate::api::until;
use crate::issuers::gate::{address, listener};
use crate::support::{file, get, install, stat};

const CALLBACK: &str = "envoy_dynamic_module_callback_";

/// The names in a text that begin with `prefix` and stand before `end`.
fn names<'a>(text: &'a str, prefix: &str, end: char) -> BTreeSet<&'a str> {
    let starts = text.match_indices(prefix).map(|(start, _)| start);
    starts
        .filter_map(|start| {
            let name = &text[start..];
            let is_of_name = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
            let tail = name[prefix.len()..].find(|sign| !is_of_name(sign))?;
            let length = prefix.len() + tail;
            let behind = name[length..].trim_start_matches("<'a>");
            behind.starts_with(end).then(|| &name[..length])
        })
        .collect()
}

/// Envoy's dynamic string table has each name between zero bytes.
#[test]
fn envoy_exports_each_callback_that_the_module_declares() {
    let artifacts = Artifacts::of(Form::Native).unwrap();
    let source = file("filter-native/src/abi.rs");
    let declared = names(&source, &format!("fn {CALLBACK}"), '(');
    assert_eq!(
        declared.len(),
        source.matches(&format!("fn {CALLBACK}")).count()
    );
    let program = fs::read(&artifacts.envoy).unwrap();
    let program = String::from_utf8_lossy(&program);
    let exported = names(&program, &format!("\0{CALLBACK}"), '\0');
    for name in declared {
        let name = name.replace("fn ", "\0");
        assert!(exported.contains(name.as_str()), "{name}");
    }
}

/// A function that got another name would be elsewhere in the module.
#[test]
fn each_line_of_the_linker_script_names_functions_of_the_module() {
    let artifacts = Artifacts::of(Form::Native).unwrap();
    let script = file("filter-native/known_token.ld");
    let module = fs::read(&artifacts.filter).unwrap();
    let module = String::from_utf8_lossy(&module);
    let names = module.split('\0');
    let names: BTreeSet<&str> = names.filter(|name| name.starts_with(['_', 'e'])).collect();
    let lines = script
        .lines()
        .filter_map(|line| line.trim().strip_prefix("*(.text."));
    for line in lines {
        let mut parts = line.trim_end_matches(')').split('*');
        let start = parts.next().unwrap_or_default();
        let is_named = names.iter().any(|name| {
            let rest = name.strip_prefix(start);
            let part_of = |rest: Option<_>, part| Some(str::split_once(rest?, part)?.1);
            parts.clone().fold(rest, part_of).is_some()
        });
        assert!(is_named, "{line}");
    }
}

/// Envoy itself only warns about a module of another ABI.
#[test]
fn the_module_refuses_an_envoy_of_another_abi() {
    let artifacts = Artifacts::of(Form::Native).unwrap();
    let folder = TempDir::new().unwrap();
    let text = file("examples/envoy-native-module/envoy.yaml");
    let config = folder.path().join("envoy.yaml");
    let filter = artifacts.filter.display().to_string();
    fs::write(
        &config,
        text.replace(gateways::mounted(Form::Native), &filter),
    )
    .unwrap();
    let mut program = fs::read(&artifacts.envoy).unwrap();
    let own = b"\x001.40.0\0";
    let place = program.windows(own.len()).position(|bytes| bytes == own);
    let place = place.unwrap() + 1;
    let patched = folder.path().join("envoy");
    for (version, is_taken) in [("1.41.0", true), ("1.42.0", false), ("1.39.9", false)] {
        program[place..place + version.len()].copy_from_slice(version.as_bytes());
        install(&patched, &program);
        let output = Command::new(&patched)
            .args(["--mode", "validate", "--config-path"])
            .arg(&config)
            .output()
            .unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), is_taken, "{log}");
        let refusal =
            log.contains("this module needs Envoy 1.40 or 1.41; --version of this program says");
        assert_eq!(refusal, !is_taken && log.contains(version), "{log}");
    }
}

/// Envoy with these listeners. The second value is the folder of its configuration.
fn serve(
    artifacts: &Artifacts,
    listeners: &[Value],
    clusters: &Value,
    admin: u16,
) -> (Process, TempDir) {
    let bootstrap = json!({
        "admin": {"address": address(admin)},
        "static_resources": {"listeners": listeners, "clusters": clusters},
        // The metrics have the names of `filter.wasm`.
        "layered_runtime": {"layers": [{"name": "native-module", "static_layer": {
            "envoy.reloadable_features.dynamic_modules_strip_custom_stat_prefix": true,
        }}]},
    });
    let folder = TempDir::new().unwrap();
    let config = folder.path().join("envoy.json");
    fs::write(&config, bootstrap.to_string()).unwrap();
    (envoy::serve(artifacts, &config, admin).unwrap(), folder)
}

/// A metric of the module. `None` before Envoy has it.
pub(crate) fn metric(admin: u16, name: &str) -> Option<u64> {
    stat(admin, &format!("wasmcustom.token_filter.{name}"))
}

/// Envoy chooses a route before the filters run, and again after the filter has changed headers: by those that it set, and not
/// by those that the client sent under their names.
#[test]
fn no_client_chooses_a_route_by_a_header_that_only_the_filter_may_set() {
    let audience = "https://api.example.com";
    let issuer = Issuer::new().unwrap();
    let configuration = json!({
        "issuers": [issuer.configuration(audience)],
        "rules": [{"path_prefix": "/"}],
        "forward": {"x-scope": "scope"},
    });
    let route = json!({
        "match": {"prefix": "/", "headers": [{"name": "x-scope", "string_match": {"exact": "admin"}}]},
        "direct_response": {"status": 206},
    });
    for form in [Form::Native, Form::Wasm] {
        let artifacts = Artifacts::of(form).unwrap();
        let [api, admin] = [(); 2].map(|()| free_port().unwrap());
        let mut listener = listener(&artifacts, &configuration, api);
        let routes = listener.pointer_mut(
            "/filter_chains/0/filters/0/typed_config/route_config/virtual_hosts/0/routes",
        );
        routes
            .unwrap()
            .as_array_mut()
            .unwrap()
            .insert(0, route.clone());
        let (_envoy, _folder) = serve(&artifacts, &[listener], &json!([]), admin);
        let status = |scope: &str, forged: &str| {
            let token = issuer.token(audience, &[("scope", json!(scope))]).unwrap();
            let bearer = format!("Bearer {token}");
            let headers = [("authorization", bearer.as_str()), ("x-scope", forged)];
            get(&format!("http://127.0.0.1:{api}/"), &headers).status
        };
        assert_eq!(status("projects", "admin"), 200, "{form:?}");
        assert_eq!(status("admin", "projects"), 206, "{form:?}");
    }
}

/// Envoy ends the module's calls while it shuts down.
#[test]
fn the_gateway_ends_in_order_while_keys_are_fetched() {
    let artifacts = Artifacts::of(Form::Native).unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let configuration = json!({
        "issuers": [{
            "issuer": "https://lobby.example.com",
            "audiences": ["https://api.example.com"],
            "jwks": {"cluster": "silent", "path": "/jwks"},
        }],
        "rules": [{"path_prefix": "/"}],
    });
    let clusters = json!([{
        "name": "silent",
        "load_assignment": {"cluster_name": "silent", "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(port)}}]}]},
    }]);
    let [api, admin] = [(); 2].map(|()| free_port().unwrap());
    let listener = listener(&artifacts, &configuration, api);
    let (envoy, _folder) = serve(&artifacts, &[listener], &clusters, admin);
    let _fetch = silent.accept().unwrap();
    let log = envoy.end().unwrap();
    assert!(!log.contains("Caught"), "{log}");
}

/// A panic refuses the request, is counted, and ends nothing, nor does one on the main thread. A module without optimization
/// panics for `x-panic`.
#[test]
fn a_panic_refuses_its_request_and_the_gateway_goes_on() {
    let artifacts = Artifacts::of(Form::Native).unwrap();
    let audience = "https://api.example.com";
    let (issuer, other) = (Issuer::new().unwrap(), Issuer::new().unwrap());
    let configuration = json!({
        "issuers": [issuer.configuration(audience)],
        "rules": [{"path": "/open", "access": "anonymous"}, {"path_prefix": "/"}],
    });
    let [api, admin] = [(); 2].map(|()| free_port().unwrap());
    let listener = listener(&artifacts, &configuration, api);
    let (envoy, _folder) = serve(&artifacts, &[listener], &json!([]), admin);
    let bearer = |issuer: &Issuer| format!("Bearer {}", issuer.token(audience, &[]).unwrap());
    let (good, forged) = (bearer(&issuer), bearer(&other));
    let call = |path: &str, headers: &[(&str, &str)]| {
        get(&format!("http://127.0.0.1:{api}{path}"), headers)
    };
    let requests = [
        ("/open", &good, "here"),
        ("/api", &forged, "here"),
        ("/api", &good, "here"),
        ("/api", &good, "main"),
    ];
    for (panics, (path, token, place)) in (1..).zip(requests) {
        let reply = call(path, &[("authorization", token), ("x-panic", place)]);
        if place == "here" {
            reply.assert_error(503, "temporarily_unavailable");
            assert_eq!(reply.header("x-client-id"), None);
        }
        until("the module lets good tokens in", || {
            let status = call("/api", &[("authorization", &forged)]).status;
            assert!(matches!(status, 401 | 503), "{status}");
            call("/api", &[("authorization", &good)]).status == 200
        });
        assert_eq!(call("/open", &[]).status, 200);
        until("the panic is counted", || {
            metric(admin, "panics") == Some(panics)
        });
    }
    let log = envoy.end().unwrap();
    assert!(log.contains("a header asked for it"), "{log}");
}
