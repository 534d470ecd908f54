//! The folders of `examples/`. A copy of each folder runs with the command of its README, and the README's `bash` blocks print what it
//! shows. Only ports, and places outside the folder, are changed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use tests::gateways::{self, moved};
use tests::visitor::Visitor;
use tests::{Artifacts, Form, Process, Upstream, envoy, follow, free_port, status_of};

use crate::api::{token, until};
use crate::issuers::server::{AUDIENCE, Issuer};
use crate::mounting::{documents, validate};
use crate::support::{Browser, OwnPair, Reply, file, form_body, get, pair};

fn repository() -> PathBuf {
    Artifacts::find().unwrap().repository
}

/// The names of all folders.
fn folders() -> BTreeSet<String> {
    let entries = fs::read_dir(repository().join("examples")).unwrap();
    let folders = entries
        .map(Result::unwrap)
        .filter(|entry| entry.path().is_dir());
    folders
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect()
}

/// A shell in `folder`, which finds the programs of the tests.
pub(crate) fn bash(folder: &Path) -> Command {
    let artifacts = Artifacts::find().unwrap();
    let programs = [
        artifacts.repository.join(".cache"),
        artifacts.token_service.parent().unwrap().to_owned(),
    ];
    let path = std::env::var_os("PATH").unwrap();
    let path = programs.into_iter().chain(std::env::split_paths(&path));
    let mut bash = Command::new("bash");
    bash.current_dir(folder)
        .env("PATH", std::env::join_paths(path).unwrap());
    bash
}

/// A copy of a folder in which ports are moved.
struct Example {
    name: &'static str,
    page: String,
    ports: Vec<(&'static str, u16)>,
    folder: TempDir,
    environment: Vec<(&'static str, String)>,
}

impl Example {
    /// Copies a folder. `ports` are pairs of a printed port and the one here, `changes` replacements.
    fn copy(name: &'static str, ports: &[(&'static str, u16)], changes: &[(&str, &str)]) -> Self {
        let source = repository().join("examples").join(name);
        let folder = TempDir::new().unwrap();
        let mut unused: BTreeSet<&str> = changes.iter().map(|(from, _)| *from).collect();
        for entry in fs::read_dir(source).unwrap() {
            let path = entry.unwrap().path();
            // What installations leave.
            if !path.is_file() {
                continue;
            }
            let mut text = moved(&fs::read_to_string(&path).unwrap(), ports);
            for (from, to) in changes {
                if text.contains(from) {
                    text = text.replace(from, to);
                    unused.remove(from);
                }
            }
            fs::write(folder.path().join(path.file_name().unwrap()), text).unwrap();
        }
        assert!(unused.is_empty(), "{name} does not contain {unused:?}");
        Self {
            name,
            page: file(&format!("examples/{name}/README.md")),
            ports: ports.to_vec(),
            folder,
            environment: vec![],
        }
    }

    fn here(&self, text: &str) -> String {
        moved(text, &self.ports)
    }

    /// The port here of one that is printed.
    fn port(&self, printed: &str) -> u16 {
        let port = self.ports.iter().find(|(known, _)| *known == printed);
        port.unwrap().1
    }

    fn bash(&self) -> Command {
        let mut bash = bash(self.folder.path());
        bash.envs(self.environment.iter().map(|(name, value)| (name, value)));
        bash
    }

    /// Runs a command, which must succeed.
    #[track_caller]
    fn run(&self, command: &str) {
        let done = self.bash().args(["-c", command]).output().unwrap();
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{command}: {errors}");
    }

    /// Starts what the README starts: the last line of its last `sh` block before the first `bash` block, with these further
    /// arguments. Waits until it listens at the port here of `port`.
    fn start(&self, port: &str, arguments: &str) -> Process {
        let (setup, _) = self.page.split_once("```bash\n").unwrap();
        let (_, block) = setup.rsplit_once("```sh\n").unwrap();
        let (block, _) = block.split_once("\n```").unwrap();
        let line = self.here(block.lines().last().unwrap());
        let mut bash = self.bash();
        bash.args(["-c", &format!("exec {line} {arguments}")]);
        let log = self.folder.path().join("log");
        let mut process = Process::start(self.name, &bash, &log).unwrap();
        process.until_listening(self.port(port)).unwrap();
        process
    }

    /// Runs the `bash` blocks.
    #[track_caller]
    fn follow(&self) {
        let name = format!("examples/{}/README.md", self.name);
        follow(&name, &self.page, self.bash(), |text| self.here(text))
            .unwrap_or_else(|error| panic!("{error:?}"));
    }
}

#[test]
fn every_folder_has_a_page_of_a_screen_with_a_curl_line() {
    let list = file("examples/README.md");
    for folder in folders() {
        let page = file(&format!("examples/{folder}/README.md"));
        assert!(
            list.contains(&format!("]({folder}/README.md)")),
            "{folder} is not in the list"
        );
        assert!(page.lines().count() <= 45, "{folder}: more than a screen");
        let is_asked = page.contains("\ncurl ") || page.contains("\nNo curl line: ");
        assert!(is_asked, "{folder}: neither a curl line nor a reason");
        let files = fs::read_dir(repository().join("examples").join(&folder)).unwrap();
        let files = files.filter(|entry| entry.as_ref().unwrap().path().is_file());
        assert!(
            files.count() <= 5,
            "{folder}: more than four files and a page"
        );
    }
}

/// Starts a gateway that listens at `port` by its files, and follows its README with this token.
fn check_gateway(mut gateway: Example, port: &str, arguments: &str, token: &str) {
    gateway.environment = vec![("TOKEN", token.to_owned())];
    let _process = gateway.start(port, arguments);
    let port = gateway.port(port);
    let url = format!("http://127.0.0.1:{port}/api/projects");
    // Traefik listens before it has routes.
    until("the gateway has its routes", || {
        get(&url, &[]).status != 404
    });
    gateway.follow();
}

#[test]
fn gateways_that_ask_token_guard_do_what_their_pages_say() {
    let ports = pair().ports();
    let [guard_port, internal] = [(); 2].map(|()| free_port().unwrap());
    let own = [
        ("8080", ports.api),
        ("8081", ports.lobby),
        ("9080", ports.public),
        ("9081", ports.internal),
        ("9090", guard_port),
    ];
    let mut guard = Example::copy("token-guard", &own, &[]);
    guard.environment = vec![
        ("TOKEN_GUARD_LISTEN", format!("127.0.0.1:{guard_port}")),
        (
            "TOKEN_GUARD_INTERNAL_LISTEN",
            format!("127.0.0.1:{internal}"),
        ),
        ("TOKEN_GUARD_DRAIN_FOR", "0s".to_owned()),
    ];
    let _guard = guard.start("9090", "");
    guard.follow();

    let upstream = Upstream::start(false).unwrap();
    let token = token();
    let gateways = [
        ("nginx", ""),
        ("caddy", ""),
        ("traefik", ""),
        ("haproxy", ""),
        ("envoy-ext-authz", ALONE),
    ];
    let form = Form::chosen().unwrap();
    std::thread::scope(|scope| {
        for (name, arguments) in gateways {
            let (token, upstream) = (&token, &upstream);
            let check = move || {
                let ports = [
                    ("8080", free_port().unwrap()),
                    ("9090", guard_port),
                    ("8000", upstream.port()),
                    ("9901", free_port().unwrap()),
                ];
                check_gateway(Example::copy(name, &ports, &[]), "8080", arguments, token);
            };
            scope.spawn(move || form.run(check));
        }
    });
}

/// What an Envoy needs if others run on the machine.
const ALONE: &str = "--disable-hot-restart --log-level warning --concurrency 1";

/// The filter in both forms, whatever the form of the pair.
#[test]
fn envoy_with_the_filter_does_what_its_pages_say() {
    let (pair, upstream) = (pair(), Upstream::start(false).unwrap());
    let token = token();
    for (name, form) in [("envoy", Form::Wasm), ("envoy-native-module", Form::Native)] {
        let filter = Artifacts::of(form).unwrap().filter;
        // The addresses of `make up`, which is this pair.
        let ports = [
            ("8070", free_port().unwrap()),
            ("8000", upstream.port()),
            ("8080", pair.ports().api),
            ("8081", pair.ports().lobby),
            ("9080", pair.ports().public),
            ("9081", pair.ports().internal),
            ("9911", free_port().unwrap()),
        ];
        let changes = [(gateways::mounted(form), filter.to_str().unwrap())];
        let example = Example::copy(name, &ports, &changes);
        check_gateway(example, "8070", ALONE, &token);
    }
}

/// oauth2-mock-server in the place of Keycloak, without TLS.
#[test]
fn envoy_admits_tokens_with_the_claims_of_keycloak() {
    let filter = Artifacts::of(Form::Wasm).unwrap().filter;
    let place = "/etc/envoy/filter.wasm";
    let text = file("examples/envoy-keycloak/envoy.yaml");
    validate(&text.replace(place, filter.to_str().unwrap()));

    let (issuer, upstream) = (Issuer::mock_server(&[]), Upstream::start(true).unwrap());
    let start = text.find("      transport_socket:\n").unwrap();
    let end = text.rfind("      load_assignment:\n").unwrap();
    let ports = [
        ("8080", free_port().unwrap()),
        ("8000", upstream.port()),
        ("443", issuer.port),
        ("9901", free_port().unwrap()),
    ];
    let changes = [
        (&text[start..end], ""),
        ("0.0.0.0", "127.0.0.1"),
        ("address: resource-server", "address: 127.0.0.1"),
        ("address: sso.example.com", "address: 127.0.0.1"),
        ("https://sso.example.com/realms/staff", issuer.url()),
        (place, filter.to_str().unwrap()),
    ];
    assert!(text.contains(&format!("\"{AUDIENCE}\"")));
    let mut gateway = Example::copy("envoy-keycloak", &ports, &changes);
    gateway.environment = vec![("TOKEN", issuer.token("of_keycloak").to_owned())];
    let _process = gateway.start("8080", ALONE);
    gateway.follow();
    let url = format!("http://127.0.0.1:{}/projects", gateway.port("8080"));
    let statuses = ["of_keycloak", "access", "id", "refresh"].map(|token| {
        let authorization = format!("Bearer {}", issuer.token(token));
        let headers = [
            ("authorization", authorization.as_str()),
            ("x-test", token),
            ("x-user-id", "eve"),
        ];
        get(&url, &headers).status
    });
    assert_eq!(statuses, [200, 401, 401, 401]);
    let arrived = upstream.arrived("of_keycloak").unwrap();
    assert_eq!(arrived.values("x-user-id"), ["ada"]);
    assert_eq!(arrived.values("x-client-id"), ["web"]);
}

/// The two files differ in the mounted filter, and in the names of its metrics.
#[test]
fn the_file_with_the_native_module_is_that_of_envoy() {
    let around = |folder: &str| {
        let text = file(&format!("examples/{folder}/envoy.yaml"));
        let (before, filter) = text.split_once("  - name: token-filter\n").unwrap();
        let (_, after) = filter.split_once(" value: |\n").unwrap();
        (before.to_owned(), after.to_owned())
    };
    let (plain, mut native) = (around("envoy"), around("envoy-native-module"));
    let start = native.0.find("# The names of the metrics").unwrap();
    let end = native.0.find("\nstatic_resources:").unwrap();
    native.0.replace_range(start..end, "");
    assert_eq!(native, plain);
}

/// The command of `envoy/README.md` makes what the tests run with the native module.
#[test]
fn the_lines_with_the_native_module_are_found_by_the_printed_command() {
    let artifacts = Artifacts::of(Form::Native).unwrap();
    let sed = file("envoy/README.md");
    let (_, sed) = sed.split_once("```sh\nsed -i ").unwrap();
    let (arguments, _) = sed.split_once(" envoy.yaml\n").unwrap();
    let output = Command::new("bash")
        .args(["-c", &format!("sed {arguments} envoy/envoy.yaml")])
        .current_dir(repository())
        .output()
        .unwrap();
    let made = String::from_utf8(output.stdout).unwrap();
    let made = made.replace(
        "target/release/libtoken_filter.so",
        artifacts.filter.to_str().unwrap(),
    );
    let run = envoy::mounted(&file("envoy/envoy.yaml"), &artifacts).unwrap();
    assert!(made == run, "{made}");
}

/// The route of the Gateway API asks token-guard as the tested Envoy does.
#[test]
fn the_route_with_external_auth_asks_as_envoy_does() {
    let yaml = |path: &str| documents(&repository().join(path));
    let [route, grant] = &yaml("examples/kubernetes-external-auth/http-route.yaml")[..] else {
        panic!("a route and a grant");
    };
    let asked = &route["spec"]["rules"][0]["filters"][0]["externalAuth"];
    // In another namespace, a service needs the grant.
    let (service, from) = (&asked["backendRef"], &grant["spec"]["from"][0]);
    assert_eq!(grant["spec"]["to"][0]["name"], service["name"]);
    assert_eq!(grant["metadata"]["namespace"], service["namespace"]);
    assert_eq!(from["namespace"], route["metadata"]["namespace"]);
    let asked = &asked["http"];
    let envoy = &yaml("examples/envoy-ext-authz/envoy.yaml")[0];
    let manager = &envoy["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0];
    let filters = manager["typed_config"]["http_filters"].as_array().unwrap();
    let filter = filters
        .iter()
        .find(|filter| filter["name"] == "envoy.filters.http.ext_authz");
    let tested = &filter.unwrap()["typed_config"];
    let names = |list: &Value| -> Vec<Value> {
        let patterns = list["patterns"].as_array().unwrap().iter();
        patterns.map(|pattern| pattern["exact"].clone()).collect()
    };
    let service = &tested["http_service"];
    assert_eq!(asked["path"], service["path_prefix"]);
    assert_eq!(
        asked["allowedHeaders"],
        Value::Array(names(&tested["allowed_headers"]))
    );
    let answered = &service["authorization_response"]["allowed_upstream_headers"];
    assert_eq!(
        asked["allowedResponseHeaders"],
        Value::Array(names(answered))
    );
}

/// Registers the client of a README as it says. Returns its secret, if it has one.
fn register(example: &Example, pair: &OwnPair) -> Option<String> {
    let page = example.here(&example.page);
    let mut lines = page.lines();
    let line = lines.find(|line| line.starts_with("token-service client add "));
    let words = line.unwrap().strip_prefix("token-service ").unwrap();
    let words = words.strip_suffix(" --config demo/config.toml").unwrap();
    pair.json(words)["client_secret"]
        .as_str()
        .map(str::to_owned)
}

/// An application next to the pair: at its own port in place of 3000.
fn application(name: &'static str, pair: &OwnPair) -> Example {
    let ports = pair.pair.ports();
    let moved = [
        ("3000", free_port().unwrap()),
        ("8080", ports.api),
        ("8081", ports.lobby),
    ];
    let mut example = Example::copy(name, &moved, &[]);
    if let Some(secret) = register(&example, pair) {
        example.environment = vec![("CLIENT_SECRET", secret)];
    }
    example
}

/// A visitor signs in as Ada, and sees what the API answers to her.
fn sign_in(example: &Example, pair: &OwnPair) {
    let (visitor, home) = (
        Visitor::default(),
        format!("http://127.0.0.1:{}/", example.port("3000")),
    );
    let led_to = |url: &str| -> String {
        let reply: Reply = visitor.get(url, &[]).unwrap().into();
        assert_eq!(reply.status, 302, "{}: {}", example.name, reply.body);
        reply.header("location").unwrap().to_owned()
    };
    let browser = Browser::new(&pair.lobby());
    let page = browser.open(&led_to(&home));
    let done = browser.sign_in(&page, "ada@example.com", "demo-password-of-ada");
    assert_eq!(led_to(done.header("location").unwrap()), "/");
    for _ in 0..2 {
        let reply = visitor.get(&home, &[]).unwrap();
        assert_eq!(reply.status, 200, "{}: {}", example.name, reply.body);
        assert!(
            reply.body.contains("\"x-auth-subject\":\"1879048401\""),
            "{}",
            reply.body
        );
    }
}

/// A file of the examples pins the versions that the tests have installed.
fn assert_pinned(file_of_example: &str, installed: &str, is_pin: impl Fn(&str) -> bool) {
    let installed = file(installed);
    for line in file(file_of_example).lines().filter(|line| is_pin(line)) {
        let pin = line.trim().trim_end_matches(',');
        assert!(
            installed.contains(pin),
            "{file_of_example}: {pin} is not what the tests run"
        );
    }
}

#[test]
fn applications_do_what_their_pages_say() {
    // So short that each server refreshes before each call of the API.
    let pair = OwnPair::start(&[("TOKEN_SERVICE__LIFETIMES__ACCESS_TOKEN", "9s")]);
    let cache = repository().join(".cache");

    let page = application("single-page-app", &pair);
    let _page = page.start("3000", "");
    page.follow();

    let node = application("server-node", &pair);
    assert_pinned(
        "examples/server-node/package.json",
        "tests/clients/package.json",
        |line| line.starts_with("    "),
    );
    symlink(
        cache.join("node_modules"),
        node.folder.path().join("node_modules"),
    )
    .unwrap();
    let _node = node.start("3000", "");
    node.follow();
    sign_in(&node, &pair);

    let python = application("server-python", &pair);
    assert_pinned(
        "examples/server-python/requirements.txt",
        "tests/clients/requirements.txt",
        |_| true,
    );
    symlink(cache.join("venv"), python.folder.path().join(".venv")).unwrap();
    let _python = python.start("3000", "");
    python.follow();
    sign_in(&python, &pair);

    let mut go = application("server-go", &pair);
    go.environment.extend([
        ("GO111MODULE", "off".to_owned()),
        (
            "GOPATH",
            cache.join("debian/usr/share/gocode").display().to_string(),
        ),
        ("GOCACHE", cache.join("go-build").display().to_string()),
    ]);
    go.run("go build -o server-go .");
    let _go = go.start("3000", "");
    go.follow();
    sign_in(&go, &pair);
    let metrics = get(&format!("{}/metrics", pair.pair.internal_url()), &[]).body;
    let refreshed = "token_requests_total{grant_type=\"refresh_token\",outcome=\"ok\"} 6\n";
    assert!(metrics.contains(refreshed), "{metrics}");

    let ports = pair.pair.ports();
    Example::copy("k6", &[("8080", ports.api), ("8081", ports.lobby)], &[]).follow();
}

/// The queries of the dashboard, with values for its variables.
fn queries() -> Vec<String> {
    let dashboard: Value =
        serde_json::from_str(&file("charts/gatepass/files/grafana-dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().cloned().unwrap_or_default());
    let queries = targets.map(|target| {
        let query = target["expr"]
            .as_str()
            .unwrap()
            .replace("$__rate_interval", "5s");
        query.replace("$job", ".*").replace("$gateway", ".*")
    });
    queries.collect()
}

/// What the containers mount is in this repository, and they use the networks of the pair.
#[test]
fn the_containers_for_monitoring_have_what_they_name() {
    let yaml = |path: &str| -> Value { serde_saphyr::from_str(&file(path)).unwrap() };
    let (pair, own) = (
        yaml("docker-compose.yml"),
        yaml("examples/monitoring/compose.yaml"),
    );
    let texts = |list: &Value| -> Vec<String> {
        let list = list.as_array().unwrap().iter();
        list.map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    for service in own["services"].as_object().unwrap().values() {
        for network in texts(&service["networks"]) {
            assert!(pair["networks"].get(&network).is_some(), "{network}");
        }
        for mount in texts(&service["volumes"]) {
            let (source, _) = mount.split_once(':').unwrap();
            let is_there = match source.strip_prefix("./") {
                Some(path) => repository().join(path).is_file(),
                None => own["volumes"].get(source).is_some(),
            };
            assert!(is_there, "{mount}");
        }
    }
    for provisioned in own["configs"].as_object().unwrap().values() {
        let content = provisioned["content"].as_str().unwrap();
        let content: Value = serde_saphyr::from_str(content).unwrap();
        assert_eq!(content["apiVersion"], 1);
    }
}

/// Prometheus with the files of the folder. Grafana is not run.
#[test]
fn prometheus_reads_the_pair_and_answers_every_query_of_the_dashboard() {
    let ports = pair().ports();
    let here = [
        ("9081", ports.internal),
        ("9901", ports.envoy_admin),
        ("9095", free_port().unwrap()),
    ];
    let changes = [
        ("\"token-service:", "\"127.0.0.1:"),
        ("\"gateway:", "\"127.0.0.1:"),
        ("scrape_interval: 15s", "scrape_interval: 1s"),
    ];
    let example = Example::copy("monitoring", &here, &changes);
    // compose.yaml mounts it into the folder of the configuration.
    let alerts = file("charts/gatepass/files/prometheus-alerts.yml");
    fs::write(example.folder.path().join("prometheus-alerts.yml"), alerts).unwrap();
    example.run("promtool check config prometheus.yml");

    let address = format!("127.0.0.1:{}", example.port("9095"));
    let mut prometheus = example.bash();
    prometheus.args(["-c", &format!(
        "exec prometheus --config.file=prometheus.yml --storage.tsdb.path=data --web.listen-address={address}"
    )]);
    let log = example.folder.path().join("log");
    let mut process = Process::start("prometheus", &prometheus, &log).unwrap();
    let ready = format!("http://{address}/-/ready");
    process
        .until("ready", || status_of(&ready) == Some(200))
        .unwrap();
    let ask = |query: &str| -> Value {
        let query = form_body(&[("query", query)]);
        let reply = get(&format!("http://{address}/api/v1/query?{query}"), &[]);
        assert_eq!(reply.status, 200, "{query}: {}", reply.body);
        reply.json()["data"]["result"].clone()
    };
    until("both are read", || {
        ask("count(up==1)")[0]["value"][1] == "2"
    });
    example.follow();
    for query in queries() {
        let is_empty = ask(&query) == Value::Array(vec![]);
        // What counts a change needs two readings, and token-guard does not run.
        let may_be = query.contains("rate(") || query.contains("increase(");
        assert!(!is_empty || may_be, "{query}");
    }
    let rules = get(&format!("http://{address}/api/v1/rules"), &[]).json();
    let alerts = rules["data"]["groups"][0]["rules"].as_array().unwrap();
    assert!(alerts.len() > 5);
}
