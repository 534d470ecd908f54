//! An Envoy whose functions fail, one after the other. The module then lets nothing pass that it must not.
//!
//! Envoy is the real one. The copy of the module calls the function by another name, under which a library has one that does
//! nothing and says that it failed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;
use tests::{Artifacts, Form, Issuer, Process, free_port};

use super::{CALLBACK, metric, serve};
use crate::api::until;
use crate::issuers::gate::{cluster, listener};
use crate::support::{get, install};

const AUDIENCE: &str = "https://api.example.com";

/// The functions that may fail, and what they then return. `true` and 0 are success.
const MAY_FAIL: [(&str, u32); 10] = [
    ("http_filter_config_define_counter", 1),
    ("http_filter_config_define_gauge", 1),
    ("http_filter_config_increment_counter", 1),
    ("http_filter_config_set_gauge", 1),
    ("http_filter_config_http_callout", 1),
    ("http_get_headers", 0),
    ("http_filter_get_attribute_string", 0),
    ("http_add_header", 0),
    ("http_set_header", 0),
    ("http_set_filter_state_bytes", 0),
];

/// The other name of a function, which is as long.
fn other(name: &str) -> String {
    format!("_{}", &format!("{CALLBACK}{name}")[1..])
}

/// A library with all functions that fail.
fn library(folder: &Path) -> PathBuf {
    let functions = MAY_FAIL.map(|(name, result)| {
        let name = other(name);
        format!("#[unsafe(no_mangle)] extern \"C\" fn {name}() -> u32 {{ {result} }}\n")
    });
    let (source, library) = (folder.join("failing.rs"), folder.join("failing.so"));
    fs::write(&source, functions.concat()).unwrap();
    let mut compiler = Command::new("rustc");
    compiler.args(["--edition", "2024", "--crate-type", "cdylib", "-o"]);
    let status = compiler.arg(&library).arg(&source).status().unwrap();
    assert!(status.success());
    library
}

/// The module, which calls this function by its other name.
fn module(artifacts: &Artifacts, name: &str) -> Vec<u8> {
    let mut module = fs::read(&artifacts.filter).unwrap();
    let text = format!("\0{CALLBACK}{name}\0").into_bytes();
    let mut from = 0;
    while let Some(place) = module[from..]
        .windows(text.len())
        .position(|bytes| bytes == text)
    {
        let start = from + place + 1;
        module[start] = b'_';
        from = start;
    }
    assert_ne!(from, 0, "the module calls {name}");
    module
}

/// A gateway with three entrances: keys in the configuration, the same in report-only mode, and keys that a fetch brings. It
/// serves the keys itself.
struct Gateway {
    entrances: [u16; 3],
    admin: u16,
    _envoy: Process,
    _folders: [TempDir; 2],
}

impl Gateway {
    fn with(issuer: &Issuer, library: &Path, failing: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let mut artifacts = Artifacts::of(Form::Native).unwrap();
        let filter = folder.path().join("libtoken_filter.so");
        fs::write(&filter, module(&artifacts, failing)).unwrap();
        artifacts.filter = filter;
        let script = format!(
            "#!/bin/sh\nLD_PRELOAD='{}' exec '{}' \"$@\"\n",
            library.display(),
            artifacts.envoy.display()
        );
        artifacts.envoy = folder.path().join("envoy");
        install(&artifacts.envoy, script);
        let [keys, admin] = [(); 2].map(|()| free_port().unwrap());
        let configuration = |issuer, report_only| {
            json!({
                "issuers": [issuer],
                "rules": [{"path_prefix": "/"}],
                "forward": {"x-client-id": "client_id"},
                "report_only": report_only,
                "access_log_state": true,
            })
        };
        let inline = issuer.configuration(AUDIENCE);
        let answer = json!({"status": 200, "body": {"inline_string": inline["jwks"].to_string()}});
        let mut fetched = inline.clone();
        fetched["jwks"] = json!({"cluster": format!("at-{keys}"), "path": "/jwks"});
        let entrances = [(); 3].map(|()| free_port().unwrap());
        let configurations = [
            configuration(inline.clone(), false),
            configuration(inline, true),
            configuration(fetched, false),
        ];
        let mut listeners: Vec<_> = (entrances.iter().zip(&configurations))
            .map(|(port, configuration)| listener(&artifacts, configuration, *port))
            .collect();
        let mut of_keys = listener(&artifacts, &configurations[0], keys);
        let manager = &mut of_keys["filter_chains"][0]["filters"][0]["typed_config"];
        let routes = &mut manager["route_config"]["virtual_hosts"][0]["routes"];
        routes[0]["direct_response"] = answer;
        manager["http_filters"].as_array_mut().unwrap().remove(0);
        listeners.push(of_keys);
        let (envoy, configured) = serve(&artifacts, &listeners, &json!([cluster(keys)]), admin);
        Self {
            entrances,
            admin,
            _envoy: envoy,
            _folders: [folder, configured],
        }
    }

    /// The status of a request that also has a header which only the filter may set, and this header at the resource server.
    fn call(&self, entrance: usize, token: &str) -> (u16, Option<String>) {
        let bearer = format!("Bearer {token}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("x-client-id", "forged"),
        ];
        let port = self.entrances[entrance];
        let reply = get(&format!("http://127.0.0.1:{port}/"), &headers);
        let header = reply.header("x-client-id").map(str::to_owned);
        (reply.status, header)
    }
}

#[test]
fn an_envoy_that_fails_gets_nothing_past_the_module() {
    let folder = TempDir::new().unwrap();
    let library = library(folder.path());
    let (issuer, other) = (Issuer::new().unwrap(), Issuer::new().unwrap());
    let good = issuer.token(AUDIENCE, &[]).unwrap();
    let forged = other.token(AUDIENCE, &[]).unwrap();
    let of_certificate = json!({"x5t#S256": "A".repeat(43)});
    let bound = issuer.token(AUDIENCE, &[("cnf", of_certificate)]).unwrap();
    for (failing, _) in MAY_FAIL {
        let gateway = Gateway::with(&issuer, &library, failing);
        // Without headers the filter knows nothing of a request, with their changes it can protect nobody.
        let is_refused = matches!(
            failing,
            "http_get_headers" | "http_set_header" | "http_add_header"
        );
        let expected = match is_refused {
            true => (503, None),
            false => (200, Some("client-1".to_owned())),
        };
        for sight in ["first", "second"] {
            assert_eq!(gateway.call(0, &good), expected, "{failing}, {sight}");
        }
        for bad in ["", "nonsense", &forged, &bound] {
            let (status, _) = gateway.call(0, bad);
            assert!(matches!(status, 400 | 401 | 503), "{failing}: {status}");
            let (status, header) = gateway.call(1, bad);
            assert!(matches!(status, 200 | 503), "{failing}: {status}");
            assert_eq!(header, None, "{failing}");
        }
        let has_keys = failing != "http_filter_config_http_callout";
        let expected = if has_keys { expected.0 } else { 503 };
        assert_eq!(gateway.call(2, &good).0, expected, "{failing}");
        if is_refused {
            until("the refusals are counted", || {
                let count = |name| metric(gateway.admin, name);
                count("allowed") == Some(0) && count("denied.reason.host") > Some(0)
            });
        }
    }
}
