//! What a token costs here and at other servers: CPU time of the server process for each token.
//!
//! Run: `make bench-peers`. The peers are oidc-provider on Node.js and Glewlwyd out of Debian's package. All three sign with
//! ES256, issue access tokens by RFC 9068, and replace a refresh token at each use. The service keeps its state in redb with
//! durable commits, Glewlwyd in SQLite with durable commits, oidc-provider in a `Map` in memory. Blocks of all three alternate,
//! so that other load on the machine affects all alike. `SHORT=1` measures for a moment.

use std::fs::File;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tests::free_port;

use super::http::Load;
use super::scripts::{Clients, Grant, Web};
use super::seed::signed_in;
use super::server::{Demo, REPOSITORY, Server};
use super::subject::{Subject, alternate};
use crate::measure::{cpu_of_all_time, quartiles, ratios};
use crate::short;

/// Blocks for each issuer and grant.
const ROUNDS: usize = 15;
const BLOCK: Load = Load::fastest(Duration::from_secs(2));
const CONNECTIONS: usize = 16;

/// Users of the service that authorize in turn, because the number of grants per user is capped.
const PERSONS: usize = 2000;

const ALGORITHM: &str = "ES256";
const AUDIENCE: &str = "https://api.example.com";

const OIDC_PROVIDER: Web = Web {
    authorization_path: "/auth",
    token_path: "/token",
    client_id: "web",
    secret: "secret-of-the-test",
    fields: &[("scope", "read"), ("resource", AUDIENCE)],
};

const GLEWLWYD: Web = Web {
    authorization_path: "/api/oidc/auth",
    token_path: "/api/oidc/token",
    client_id: "web",
    secret: "secret-of-web",
    // Without `g_continue`, the browser would come by a page first.
    fields: &[
        ("scope", "read"),
        ("resource", AUDIENCE),
        ("g_continue", ""),
    ],
};

const GRANTS: [Grant; 3] = [Grant::ClientCredentials, Grant::Refresh, Grant::Code];

/// A running server.
struct Issuer {
    name: &'static str,
    server: Server,
    clients: Clients,
    _demo: Option<Demo>,
    _folder: Option<TempDir>,
}

impl Issuer {
    async fn gatepass() -> Self {
        let demo = Demo::on_redb().signing(ALGORITHM);
        // The first start hashes the passwords of the demo.
        demo.serve().stop();
        let sessions = signed_in(&demo, short::count(PERSONS)).await;
        let server = demo.serve();
        Self {
            name: "Gatepass",
            clients: Clients::of_demo(server.address, &sessions).await,
            server,
            _demo: Some(demo),
            _folder: None,
        }
    }

    /// Runs `program` of `.cache`, which prints what its server issued.
    fn peer(name: &'static str, program: &str, script: &str, web: Web) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (log, port) = (folder.path().join("log"), free_port().unwrap());
        let mut command = Command::new(format!("{REPOSITORY}/.cache/{program}"));
        command
            .arg(format!("{REPOSITORY}/tests/clients/{script}"))
            .args([&port.to_string(), AUDIENCE, ALGORITHM])
            .current_dir(folder.path())
            .env("NODE_ENV", "production")
            .stdout(File::create(&log).unwrap());
        let mut server = Server::start(&mut command, port);
        let tokens: Value = server.until(|| {
            let log = std::fs::read_to_string(&log).ok()?;
            let line = log.lines().find_map(|line| line.strip_prefix("TOKENS "))?;
            line.parse().ok()
        });
        let cookie = tokens["cookie"].as_str().unwrap();
        let fields = [&[("grant_type", "client_credentials")], web.fields].concat();
        Self {
            name,
            clients: Clients {
                address: server.address,
                web,
                client_credentials: web.token(&fields),
                browsers: [format!("cookie: {cookie}\r\n")].into(),
            },
            server,
            _demo: None,
            _folder: Some(folder),
        }
    }

    async fn subject(&self, grant: Grant) -> Subject {
        let scripts = self.clients.scripts(grant, CONNECTIONS).await;
        let pid = self.server.pid();
        Subject::new(self.name, self.server.address, scripts, BLOCK)
            .counting(move || cpu_of_all_time(pid) as f64 / 1000.0)
    }
}

pub(crate) async fn measure() {
    let issuers = [
        Issuer::gatepass().await,
        Issuer::peer("oidc-provider", "node", "oidc_provider.mjs", OIDC_PROVIDER),
        Issuer::peer(
            "Glewlwyd",
            "venv/bin/python",
            "glewlwyd_issuer.py",
            GLEWLWYD,
        ),
    ];
    let mut subjects = Vec::new();
    for grant in GRANTS {
        for issuer in &issuers {
            subjects.push(issuer.subject(grant).await);
        }
    }
    alternate(&mut subjects, short::count(ROUNDS)).await;
    let show = |values: Vec<f64>, digits: usize| {
        let [low, median, high] = quartiles(values);
        format!("{median:.digits$} ({low:.digits$} .. {high:.digits$})")
    };
    println!("| grant | server | CPU for each token, us: median (quartiles) | ratio to Gatepass |");
    println!("|---|---|---|---|");
    for (grant, subjects) in GRANTS.iter().zip(subjects.chunks(issuers.len())) {
        for subject in subjects {
            let ratio = ratios(&subject.costs(), &subjects[0].costs());
            let (cost, ratio) = (show(subject.costs(), 0), show(ratio, 1));
            println!("| {} | {} | {cost} | {ratio} |", grant.name(), subject.name);
        }
    }
}
