//! Resource servers that others wrote, behind every gateway. Express ignores the case of letters in routes. lighttpd decodes
//! paths, hands headers to programs as variables (CGI), where `X-User-Id` and `X~User~Id` are one, and switches to HTTP/2
//! at a request for `h2c`.
//!
//! Each server prints what it serves. The question about every attack is the same: was a protected route served without the
//! right token, or a request with another identity than that of its token?

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tests::gateways::{Gateway, Kind};
use tests::{Artifacts, Issuer, Process, free_port, wire};

use super::attacks::{Attack, Sent, attacks};
use super::{asking, configuration, http2, neighbours as neighbours_of, ready_guard};
use crate::api::token;
use crate::support::install;

/// Names of requests that pass.
const PASSES: [&str; 3] = [
    "HTTP/2: an anonymous path",
    "a good token",
    "an anonymous path",
];

/// Prints all its variables, among them path and headers. Each file below `www` is this program.
const CGI: &str =
    "#!/bin/sh\nserved=$(set)\necho \"SERVED\n$served\" >&2\nprintf 'Status: 200\\r\\n\\r\\n'\n";

struct Server {
    name: &'static str,
    port: u16,
    process: Process,
    _folder: TempDir,
}

impl Server {
    fn express() -> Self {
        Self::start("Express", |repository, _, port| {
            let mut node = Command::new(repository.join(".cache/node"));
            node.arg(repository.join("tests/clients/express_server.mjs"))
                .arg(port.to_string());
            node
        })
    }

    fn lighttpd() -> Self {
        Self::start("lighttpd", |repository, folder, port| {
            let www = folder.join("www");
            for path in ["healthz", "public/x", "api/projects", "api/documents/1"] {
                let file = www.join(path);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                install(&file, CGI);
            }
            let file = folder.join("lighttpd.conf");
            let configuration = format!(
                "server.document-root = \"{}\"\nserver.bind = \"127.0.0.1\"\nserver.port = {port}\n\
                 server.modules = (\"mod_cgi\")\ncgi.assign = (\"\" => \"\")\n",
                www.display()
            );
            fs::write(&file, configuration).unwrap();
            let mut lighttpd = Command::new(repository.join(".cache/lighttpd"));
            let modules = repository.join(".cache/debian/usr/lib/lighttpd");
            lighttpd
                .arg("-D")
                .arg("-f")
                .arg(file)
                .arg("-m")
                .arg(modules);
            lighttpd
        })
    }

    fn start(name: &'static str, command: impl FnOnce(&Path, &Path, u16) -> Command) -> Self {
        let repository = Artifacts::find().unwrap().repository;
        let folder = TempDir::new().unwrap();
        let port = free_port().unwrap();
        let command = command(&repository, folder.path(), port);
        let mut process = Process::start(name, &command, &folder.path().join("log")).unwrap();
        process.until_listening(port).unwrap();
        Self {
            name,
            port,
            process,
            _folder: folder,
        }
    }

    /// Ends the server. Returns a line for each request that it has served: its own name, that of the gateway and that of the
    /// attack. First the requests that the rules allow with the token `good`, then the others.
    fn judge(self, good: &str, attacks: &[Attack]) -> [Vec<String>; 2] {
        let log = self.process.end().unwrap();
        let mut lines = [const { Vec::new() }; 2];
        for served in log.split("SERVED\n").skip(1).map(Served::read) {
            let test = served.get("HTTP_X_TEST").split_once('/');
            let (gateway, number) = test.unwrap_or_default();
            let attack = number
                .parse()
                .ok()
                .and_then(|number: usize| attacks.get(number));
            let attack = attack.map_or("an unknown request", |attack| &attack.name);
            let line = format!("{}, {gateway}: {attack}", self.name);
            let [allowed, forbidden] = &mut lines;
            match served.is_allowed(good) {
                true => allowed.push(line),
                false => forbidden.push(line),
            }
        }
        lines
    }
}

/// Variables of a request as CGI names them. `SCRIPT_NAME` is the path that the server has found.
struct Served(BTreeMap<String, String>);

impl Served {
    fn read(text: &str) -> Self {
        let fields = text.lines().filter_map(|line| line.split_once('='));
        let plain = |text: &str| text.trim_matches('\'').to_owned();
        Self(
            fields
                .map(|(name, value)| (name.to_owned(), plain(value)))
                .collect(),
        )
    }

    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// True if the rules allow this request with `good`, a token without the scope of `/api/documents`.
    fn is_allowed(&self, good: &str) -> bool {
        let identity =
            ["HTTP_X_USER_ID", "HTTP_X_CLIENT_ID", "HTTP_X_SCOPE"].map(|name| self.get(name));
        let authorization = self.get("HTTP_AUTHORIZATION");
        match self.get("SCRIPT_NAME") {
            "/healthz" | "/public/x" => identity == [""; 3] && authorization.is_empty(),
            "/api/projects" => {
                identity == ["1879048402", "user-bound-demo", "projects"]
                    && authorization.ends_with(good)
            }
            _ => false,
        }
    }
}

/// Sends an attack, and waits until the answer has ended or the connection has switched to HTTP/2 and a request in it was
/// answered.
fn send(port: u16, attack: &Attack, test: &str, patience: Duration) {
    let mut connection = wire::connect(port).unwrap();
    if !PASSES.contains(&&*attack.name) {
        connection.set_read_timeout(Some(patience)).unwrap();
    }
    let text = match &attack.sent {
        Sent::Http1(text) => {
            let text = text.replace("TEST", test);
            let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
            text.replace("LENGTH", &body.len().to_string())
        }
        Sent::Http2 { headers, body, end } => {
            let [headers, end] = [headers, end].map(|fields| {
                let fields = fields.iter();
                let named = fields.map(|(name, value)| (*name, value.replace("TEST", test)));
                named.collect::<Vec<_>>()
            });
            let [headers, end] = [&headers, &end].map(|fields| {
                let fields = fields.iter();
                fields
                    .map(|(name, value)| (*name, value.as_str()))
                    .collect::<Vec<_>>()
            });
            http2::send(connection, &headers, &body.replace("TEST", test), &end);
            return;
        }
    };
    // A server may answer and close the connection before it has read everything.
    let _sent = connection.write_all(text.as_bytes());
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && matches!(connection.read(&mut byte), Ok(1)) {
        head.extend(byte);
    }
    if head.starts_with(b"HTTP/1.1 101 ") {
        let smuggled = [
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "localhost"),
            (":path", "/api/documents/1"),
            ("x-test", test),
            ("x-user-id", "admin"),
        ];
        http2::send(connection, &smuggled, "", &[]);
    } else if text.contains("Connection: close") {
        let _ended = std::io::copy(&mut connection, &mut std::io::sink());
    }
}

/// Sends these attacks to what listens at `port`, four at a time.
fn send_all(port: u16, name: &str, attacks: &[Attack], patience: Duration) {
    let numbered: Vec<_> = attacks.iter().enumerate().collect();
    std::thread::scope(|scope| {
        for part in numbered.chunks(attacks.len().div_ceil(4)) {
            scope.spawn(move || {
                for (number, attack) in part {
                    send(port, attack, &format!("{name}/{number}"), patience);
                }
            });
        }
    });
}

/// A gateway with replacements in its configuration, or none.
type Mount<'a> = (Option<Kind>, &'a [(&'a str, &'a str)]);

const fn mounted(mount: Option<Kind>) -> &'static str {
    match mount {
        Some(kind) => kind.name(),
        None => "no gateway",
    }
}

/// Attacks both servers through all these mounts, with the attacks whose names contain one of `names`. `path_case` is that of
/// the guard, and `patience` the wait for an answer to an attack. Returns the lines of [`Server::judge`].
fn run(mounts: &[Mount], path_case: &str, names: &[&str], patience: Duration) -> [Vec<String>; 2] {
    let issuer = Issuer::new().unwrap();
    let mut plugin: Value = configuration(&issuer).parse().unwrap();
    plugin["path_case"] = path_case.into();
    let plugin = plugin.to_string();
    let good = token();
    let mut attacks = attacks(&good);
    attacks.retain(|attack| names.iter().any(|name| attack.name.contains(name)));
    let guard = ready_guard(&plugin, &[]);
    let servers = [Server::express(), Server::lighttpd()];
    let form = tests::Form::chosen().unwrap();
    std::thread::scope(|scope| {
        for (mount, changes) in mounts {
            let neighbours = servers.each_ref();
            let neighbours = neighbours.map(|server| neighbours_of(&guard, &plugin, server.port));
            let attacks = &attacks;
            let check = move || {
                for neighbours in neighbours {
                    let gateway = mount.map(|kind| Gateway::start(kind, &neighbours, changes));
                    let gateway = gateway.transpose().unwrap();
                    let port = gateway
                        .as_ref()
                        .map_or(neighbours.resource_server, Gateway::port);
                    send_all(port, mounted(*mount), attacks, patience);
                }
            };
            scope.spawn(move || form.run(check));
        }
    });
    let [express, lighttpd] = servers.map(|server| server.judge(&good, &attacks));
    [0, 1].map(|index| [&express[index][..], &lighttpd[index][..]].concat())
}

/// HTTP/2 without TLS where the configuration can have it together with HTTP/1.1. And Envoy need not wait for a second before it closes
/// the connection of a request that it has refused.
const fn http2_and_quick(kind: Kind) -> &'static [(&'static str, &'static str)] {
    match kind {
        Kind::Nginx => &[(
            "proxy_http_version 1.1;",
            "proxy_http_version 1.1; http2 on;",
        )],
        Kind::Caddy => &[("servers {", "servers {\n\t\tprotocols h1 h2c")],
        Kind::EnvoyExtAuthz | Kind::EnvoyFilter => &[(
            "stat_prefix: api",
            "stat_prefix: api\n                delayed_close_timeout: 0.01s",
        )],
        Kind::DebianNginx | Kind::Traefik | Kind::HaProxy => &[],
    }
}

fn no_server_of_others_is_opened(kinds: &[Kind]) {
    let mounts: Vec<Mount> = kinds
        .iter()
        .map(|kind| (Some(*kind), http2_and_quick(*kind)))
        .collect();
    // A server that waits for more of a request has served nothing yet.
    let patience = Duration::from_secs(5);
    let [allowed, forbidden] = run(&mounts, "insensitive", &[""], patience);
    assert!(forbidden.is_empty(), "{}", forbidden.join("\n"));
    for kind in kinds {
        // The nginx of Debian has no HTTP/2.
        let passes = &PASSES[usize::from(*kind == Kind::DebianNginx)..];
        for (server, passes) in ["Express", "lighttpd"]
            .iter()
            .flat_map(|server| passes.iter().map(move |passes| (server, passes)))
        {
            let line = format!("{server}, {}: {passes}", kind.name());
            assert!(allowed.contains(&line), "{line}: did not arrive");
        }
    }
}

#[test]
fn no_gateway_that_asks_opens_a_server_of_others() {
    no_server_of_others_is_opened(&asking().collect::<Vec<_>>());
}

#[forms::each]
fn envoy_with_the_filter_opens_no_server_of_others() {
    no_server_of_others_is_opened(&[Kind::EnvoyFilter]);
}

/// Shows that the servers open what a careless configuration lets through.
#[test]
fn a_careless_gateway_opens_the_servers_of_others() {
    let [case, h2c, name] = [
        "/api/DOCUMENTS/1 with a token",
        "\"Upgrade: h2c\\r\\n\"",
        "X~User~Id",
    ];
    let upgrade = [
        ("Upgrade $upgrade_header", "Upgrade $http_upgrade"),
        (
            "Connection $connection_header",
            "Connection $http_connection",
        ),
        ("proxy_set_header HTTP2-Settings \"\";", ""),
    ];
    let identity = [(
        "http-request del-header ^x[^a-z0-9]user[^a-z0-9]id$ -m reg",
        "",
    )];
    let mounts: [Mount; 4] = [
        (None, &[]),
        (Some(Kind::DebianNginx), &upgrade),
        (Some(Kind::HaProxy), &identity),
        (Some(Kind::Traefik), &[]),
    ];
    let [_, forbidden] = run(&mounts, "sensitive", &[case, h2c, name], wire::PATIENCE);
    for (server, mount, attack) in [
        ("Express", None, case),
        ("lighttpd", None, h2c),
        ("lighttpd", None, name),
        ("lighttpd", Some(Kind::DebianNginx), h2c),
        ("lighttpd", Some(Kind::HaProxy), name),
        ("Express", Some(Kind::Traefik), case),
    ] {
        let start = format!("{server}, {}: ", mounted(mount));
        let is_noticed = |line: &String| line.starts_with(&start) && line.contains(attack);
        assert!(
            forbidden.iter().any(is_noticed),
            "{start}{attack}: {forbidden:#?}"
        );
    }
}
