//! Envoy with the project's `envoy.yaml` on other ports.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::artifacts::{Artifacts, Form};
use crate::pair::{Setup, public_url, status_of};
use crate::ports::Ports;
use crate::process::Process;

/// Starts Envoy in `directory` with `envoy/envoy.yaml` and the ports of `setup`. `setup.gateway` lists further
/// replacements; the replaced text must occur in the file.
pub(crate) fn start(artifacts: &Artifacts, setup: &Setup, directory: &Path) -> Result<Process> {
    let ports = setup.ports;
    let source = artifacts.repository.join("envoy/envoy.yaml");
    let template =
        fs::read_to_string(&source).with_context(|| format!("cannot read {}", source.display()))?;
    let config = directory.join("envoy.yaml");
    let feed = setup.feed.unwrap_or(ports.internal);
    let mut text = render(&template, artifacts, ports, feed)?;
    if let Some(folder) = &setup.tls {
        text = with_tls(&text, ports, folder);
    }
    if setup.replica {
        text = with_replica(&text, ports);
    }
    for (from, to) in &setup.gateway {
        if !text.contains(from) {
            bail!("envoy.yaml does not contain {from}");
        }
        text = text.replace(from, to);
    }
    fs::write(&config, text)?;

    let mut command = command(artifacts, &config, setup.workers);
    command
        // Tests read the access log while Envoy runs.
        .args(["--file-flush-interval-msec", "100"])
        .current_dir(&artifacts.repository);
    Process::start("envoy", &command, &directory.join("envoy.log"))
}

/// Starts Envoy with one worker and the configuration file `config`, and waits until Envoy is ready. `admin` is the port of
/// Envoy's admin interface. The log is the file `envoy.log` in the folder of `config`.
///
/// # Errors
/// If Envoy does not become ready; with its log.
pub fn serve(artifacts: &Artifacts, config: &Path, admin: u16) -> Result<Process> {
    let log = config.with_file_name("envoy.log");
    let mut process = Process::start("envoy", &command(artifacts, config, 1), &log)?;
    let ready = format!("http://127.0.0.1:{admin}/ready");
    process.until("ready", || status_of(&ready) == Some(200))?;
    Ok(process)
}

/// Envoy with a configuration file.
#[must_use]
pub fn command(artifacts: &Artifacts, config: &Path, workers: u16) -> Command {
    let mut command = Command::new(&artifacts.envoy);
    command
        .arg("--config-path")
        .arg(config)
        .args(["--concurrency", &workers.to_string()])
        .args(["--log-level", "warning"])
        .args(["--component-log-level", "wasm:info,dynamic_modules:info"])
        // Hot restart uses shared memory with an id; two Envoys must not use the same id.
        .arg("--disable-hot-restart");
    command
}

/// The public listeners with TLS, with the certificate in `folder`. In containers `container.sh` does the same.
fn with_tls(config: &str, ports: Ports, folder: &Path) -> String {
    let public = [ports.api, ports.lobby, ports.lobby_ea];
    let text = public
        .iter()
        .fold(config.replace("#https ", ""), |text, port| {
            text.replace(&public_url(None, *port), &public_url(Some(folder), *port))
        });
    let files = ["server.pem", "server.key"];
    files.iter().fold(text, |text, file| {
        let place = folder.join(file).display().to_string();
        text.replace(
            &format!("filename: {file} }} # TLS_FOLDER"),
            &format!("filename: {place} }}"),
        )
    })
}

/// Adds an endpoint with the ports of the replica to each endpoint of the token service. In containers both endpoints
/// have one name.
fn with_replica(config: &str, ports: Ports) -> String {
    let port = |port: u16| format!("port_value: {port} ");
    let pairs = [
        (port(ports.public), port(ports.public_replica)),
        (port(ports.internal), port(ports.internal_replica)),
    ];
    let mut lines = config.lines().peekable();
    let mut text = String::new();
    while let Some(line) = lines.next() {
        let mut block = format!("{line}\n");
        if line.trim() == "- endpoint:" {
            let indent = indent_of(line);
            while let Some(line) = lines.next_if(|line| indent_of(line) > indent) {
                block += &format!("{line}\n");
            }
            let mut another = block.clone();
            for (from, to) in &pairs {
                another = another.replace(from, to);
            }
            if another != block {
                block += &another;
            }
        }
        text += &block;
    }
    text
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// A configuration of `envoy/` with the filter of `artifacts`, in its form.
///
/// # Errors
/// If the configuration does not have both forms.
pub fn mounted(text: &str, artifacts: &Artifacts) -> Result<String> {
    let mut mounted = String::with_capacity(text.len());
    // Lines of the filter in WebAssembly: from its type to `configuration:`.
    let (mut of_wasm, mut native, mut file) = (false, 0, 0);
    for line in text.lines() {
        of_wasm |= line.ends_with(".http.wasm.v3.Wasm");
        let is_native = line.trim_start().starts_with(NATIVE);
        native += usize::from(is_native);
        let drop = match artifacts.form {
            Form::Wasm => is_native,
            Form::Native => of_wasm,
        };
        if !drop {
            let line = line.replace(NATIVE, "");
            let name = line.split_once("filename: ").map(|(_, name)| name);
            let name = name.filter(|_| !line.trim_start().starts_with('#'));
            match name.and_then(|name| name.split([' ', '}']).next()) {
                Some(name) => {
                    file += 1;
                    mounted += &line.replace(name, &artifacts.filter.display().to_string());
                }
                None => mounted += &line,
            }
            mounted.push('\n');
        }
        of_wasm &= line.trim() != "configuration:";
    }
    ensure!(native > 0 && file == 1, "one filter in each form");
    Ok(mounted)
}

/// What begins each line of the native module.
const NATIVE: &str = "#native ";

/// The filter in this form, of this file and with this configuration: an HTTP filter as JSON.
#[must_use]
pub fn filter(form: Form, file: &Path, configuration: &str) -> Value {
    let of = |name: &str| format!("type.googleapis.com/{name}");
    let configuration = json!({"@type": of("google.protobuf.StringValue"), "value": configuration});
    let typed_config = match form {
        Form::Wasm => json!({
            "@type": of("envoy.extensions.filters.http.wasm.v3.Wasm"),
            "config": {
                "name": "token-filter",
                "failure_policy": "FAIL_RELOAD",
                "vm_config": {
                    "vm_id": "token-filter",
                    "runtime": "envoy.wasm.runtime.v8",
                    "code": {"local": {"filename": file}},
                },
                "configuration": configuration,
            },
        }),
        Form::Native => json!({
            "@type": of("envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter"),
            "dynamic_module_config": {
                "module": {"local": {"filename": file}},
                "do_not_close": true,
                "metrics_namespace": "wasmcustom",
            },
            "filter_name": "token-filter",
            "filter_config": configuration,
        }),
    };
    json!({"name": "token-filter", "typed_config": typed_config})
}

/// `template` with other values: the addresses of lobby and api everywhere, and in each line that ends in the comment
/// `# NAME` the value of NAME in place of its default. A name without a line, or a line without the default, is an
/// error: the file and this table must agree. `feed` is the port of the revocation feed.
fn render(template: &str, artifacts: &Artifacts, ports: Ports, feed: u16) -> Result<String> {
    let defaults = Ports::default();
    let values = [
        ("API_PORT", defaults.api, ports.api),
        ("LOBBY_PORT", defaults.lobby, ports.lobby),
        ("ENVOY_ADMIN_PORT", defaults.envoy_admin, ports.envoy_admin),
        ("PUBLIC_PORT", defaults.public, ports.public),
        ("INTERNAL_PORT", defaults.internal, feed),
        ("READYZ_PORT", defaults.internal, ports.internal),
        ("LOBBY_EA_PORT", defaults.lobby_ea, ports.lobby_ea),
        ("LEGACY_PORT", defaults.legacy, ports.legacy),
        ("KEYS_PORT", defaults.keys, ports.keys),
        ("PUBLIC_EA_PORT", defaults.public_ea, ports.public_ea),
        ("INTERNAL_EA_PORT", defaults.internal_ea, ports.internal_ea),
    ];
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    let template = mounted(template, artifacts)?
        .replace(&url(defaults.lobby), &url(ports.lobby))
        .replace(&url(defaults.lobby_ea), &url(ports.lobby_ea))
        .replace(&url(defaults.api), &url(ports.api));
    let mut lines: Vec<String> = template.lines().map(str::to_owned).collect();
    for (name, default, value) in values {
        let [default, value] = [default, value].map(|port| port.to_string());
        let mut marked = 0_usize;
        for line in &mut lines {
            let Some((content, comment)) = line.rsplit_once('#') else {
                continue;
            };
            if !comment.split_whitespace().any(|word| word == name) {
                continue;
            }
            if !content.contains(&default) {
                bail!("envoy.yaml: the line marked {name} does not contain {default}: {line}");
            }
            *line = format!("{}#{comment}", content.replace(&default, &value));
            marked += 1;
        }
        if marked == 0 {
            bail!("envoy.yaml: no line is marked {name}");
        }
    }
    refuse_shared_ports(&mut lines)?;
    Ok(lines.join("\n") + "\n")
}

/// Prevents another Envoy from listening at the same ports. Envoy allows that by default, for its own workers.
fn refuse_shared_ports(lines: &mut Vec<String>) -> Result<()> {
    let resources = lines.iter().position(|line| line == "static_resources:");
    let mut position = resources.context("envoy.yaml: no static_resources")?;
    while position + 1 < lines.len() {
        if lines[position].trim() == "address:" && lines[position + 1].contains("# LISTEN_ADDRESS")
        {
            let indent = lines[position].len() - "address:".len();
            let line = format!("{:indent$}enable_reuse_port: false", "");
            lines.insert(position, line);
            position += 1;
        }
        position += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered() -> String {
        rendered_with(Form::Wasm)
    }

    fn rendered_with(form: Form) -> String {
        let artifacts = Artifacts {
            repository: "..".into(),
            token_service: "token-service".into(),
            form,
            filter: "the-filter".into(),
            envoy: "envoy".into(),
        };
        let template = include_str!("../../../envoy/envoy.yaml");
        let ports = Ports::default();
        render(template, &artifacts, ports, ports.internal).unwrap()
    }

    /// The token service closes idle connections of the public listener. A request that is on its way meanwhile fails.
    #[test]
    fn the_gateway_closes_idle_connections_to_public_listeners_first() {
        let text = rendered();
        assert!(text.contains("common_http_protocol_options: { idle_timeout: 60s }"));
        let (_, clusters) = text.split_once("\n  clusters:\n").unwrap();
        let mut public = 0;
        for cluster in clusters.split("    - name: ") {
            let is_public = |line: &str| line.contains("PUBLIC_") && line.contains("port_value");
            if cluster.lines().any(is_public) {
                let options = ["options: &connections\n", "options: *connections\n"];
                let is_bounded = options.iter().any(|options| cluster.contains(options));
                assert!(is_bounded, "{cluster}");
                public += 1;
            }
        }
        assert_eq!(public, 4);
    }

    #[test]
    fn each_endpoint_of_the_token_service_gets_a_replica() {
        let text = with_replica(&rendered(), Ports::default());
        let count = |part: &str| text.matches(part).count();
        assert_eq!(count("port_value: 9080 }"), 2);
        assert_eq!(count("port_value: 9084 }"), 2);
        assert_eq!(count("health_check_config: { port_value: 9085 }"), 1);
        assert_eq!(count("port_value: 9085 }"), 2);
    }

    /// The native module takes the place of the filter in WebAssembly, and has its configuration.
    #[test]
    fn the_two_forms_differ_in_what_loads_the_filter_alone() {
        let filter = |form| -> Value {
            let of_file: Value = serde_saphyr::from_str(&rendered_with(form)).unwrap();
            let listeners = of_file["static_resources"]["listeners"].as_array().unwrap();
            let api = listeners.iter().find(|listener| listener["name"] == "api");
            let manager = &api.unwrap()["filter_chains"][0]["filters"][1]["typed_config"];
            manager["http_filters"][1].clone()
        };
        let wasm = filter(Form::Wasm);
        let text = &wasm["typed_config"]["config"]["configuration"]["value"];
        for form in [Form::Wasm, Form::Native] {
            let shared = super::filter(form, Path::new("the-filter"), text.as_str().unwrap());
            assert_eq!(filter(form), shared);
        }
    }

    #[test]
    fn no_listener_shares_its_port() {
        let text = rendered();
        let lines: Vec<&str> = text.lines().collect();
        let mut listeners = 0;
        for (position, line) in lines.iter().enumerate() {
            let is_listener =
                line.contains("# LISTEN_ADDRESS") && !line.contains("ENVOY_ADMIN_PORT");
            if is_listener && !line.trim_start().starts_with('#') {
                assert_eq!(lines[position - 2], "      enable_reuse_port: false");
                listeners += 1;
            }
        }
        assert_eq!(listeners, 5);
    }
}
