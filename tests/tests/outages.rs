//! Days on which the store refuses the token services: what operators see, and what `docs/runbook.md` says. `make failover` has
//! the failures of database servers.

use std::process::Command;

use tests::{Artifacts, Postgres, store_causes};

use crate::api::until;
use crate::support::{CREDENTIALS, OwnPair, USER_BOUND, WEB, database, file, get};

/// Two token services whose role at the server has a password.
struct WithRole {
    pair: OwnPair,
    database: Postgres,
    causes: Vec<String>,
}

impl WithRole {
    fn start() -> Self {
        let database = database();
        let file = database.sql("SHOW hba_file").unwrap();
        for statement in [
            "CREATE ROLE tokens LOGIN PASSWORD 'old'",
            "CREATE DATABASE tokens OWNER tokens",
            &format!(
                "COPY (VALUES ('local all postgres trust'), ('local all all scram-sha-256')) TO '{file}'"
            ),
            "SELECT pg_reload_conf()",
        ] {
            database.sql(statement).unwrap();
        }
        let pair = OwnPair::replicated(&Self::url(&database, "old"));
        let causes = store_causes(&Artifacts::find().unwrap().repository).unwrap();
        Self {
            pair,
            database,
            causes,
        }
    }

    fn url(database: &Postgres, password: &str) -> String {
        let url = database.url();
        url.replace("postgres@/postgres", &format!("tokens:{password}@/tokens"))
    }

    /// Both replicas, at the internal listener.
    fn ask(&self, path: &str) -> [(u16, String); 2] {
        let ports = self.pair.pair.ports();
        [ports.internal, ports.internal_replica].map(|port| {
            let reply = get(&format!("http://127.0.0.1:{port}{path}"), &[]);
            (reply.status, reply.body)
        })
    }

    fn until_ready(&self) {
        until("both are ready", || {
            self.ask("/readyz").iter().all(|(status, _)| *status == 200)
        });
    }

    fn failed_transactions(&self) -> [u64; 2] {
        self.ask("/metrics").map(|(status, body)| {
            assert_eq!(status, 200, "{body}");
            let mut lines = body.lines();
            let name = "token_service_store_failed_transactions_total ";
            let failed = lines.find_map(|line| line.strip_prefix(name));
            failed.unwrap().parse().unwrap()
        })
    }

    /// The server ends all connections, and refuses what follows `statement`. `/readyz` names the cause, which the runbook
    /// knows. The metrics count, and tell nothing about the store.
    fn refuse(&self, statement: &str, cause: &str) {
        let known = self.causes.iter().any(|phrase| cause.contains(phrase));
        assert!(known, "the runbook does not know: {cause}");
        let before = self.failed_transactions();
        self.database.sql(statement).unwrap();
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'tokens'";
        self.database.sql(end).unwrap();
        until(cause, || {
            let replies = self.ask("/readyz");
            replies.iter().all(|(status, body)| {
                *status == 503 && body.contains(r#""reason":"store""#) && body.contains(cause)
            })
        });
        let after = self.failed_transactions();
        assert!(after[0] > before[0] && after[1] > before[1], "{after:?}");
        for (_, metrics) in self.ask("/metrics") {
            assert!(!metrics.contains("\ntoken_service_grants"), "{metrics}");
        }
    }

    /// Waits until the logs of both replicas have the end of the outage with this cause, once each, and a beginning for each
    /// end. The first failure of an outage may have another cause, and a busy machine has other outages.
    fn until_logged(&self, cause: &str) {
        let log = self.pair.pair.log();
        let found = log.until("the end of the outage", |text| {
            let of = |words: &str| text.lines().filter(|line| line.contains(words)).count();
            let lines = text.lines();
            let ended = lines.filter(|line| line.contains(ENDED) && line.contains(cause));
            let ended = ended.count();
            (ended >= 2 && of("the database fails") >= of(ENDED)).then_some(ended)
        });
        assert_eq!(found.unwrap(), 2, "{cause}");
    }
}

const ENDED: &str = "the database works again";

#[test]
fn a_database_that_refuses_is_named_and_nothing_is_restarted() {
    let mut set = WithRole::start();
    let outages = [
        (
            "ALTER ROLE tokens CONNECTION LIMIT 0",
            "(53300)",
            "ALTER ROLE tokens CONNECTION LIMIT -1",
        ),
        (
            "ALTER ROLE tokens SET default_transaction_read_only = on",
            "the database is read-only",
            "ALTER ROLE tokens RESET default_transaction_read_only",
        ),
    ];
    for (refuse, cause, accept) in outages {
        set.refuse(refuse, cause);
        set.database.sql(accept).unwrap();
        set.until_ready();
        let lobby = set.pair.lobby();
        until("tokens are issued", || {
            USER_BOUND.token(&lobby, &CREDENTIALS).status == 200
        });
        set.until_logged(cause);
    }
    set.refuse(
        "ALTER ROLE tokens PASSWORD 'new'",
        "password authentication failed",
    );
    // A client that neither replica has in memory.
    let service = format!("http://127.0.0.1:{}", set.pair.pair.ports().public);
    WEB.post(&service, "/auth/introspect", &[("token", "x")])
        .assert_error(503, "temporarily_unavailable");
    let url = WithRole::url(&set.database, "new");
    let pair = &mut set.pair.pair;
    pair.set_environment("TOKEN_SERVICE__STORE__URL", &url);
    pair.stop_replica();
    pair.start_replica().unwrap();
    pair.stop_token_service();
    pair.start_token_service().unwrap();
    set.until_ready();
    let log = set.pair.pair.end();
    assert!(
        !log.contains("request refused"),
        "the service failed: {log}"
    );
}

/// The lines of the chapter about the restore of a backup that run without systemd.
fn restoring(page: &str) -> Vec<&str> {
    let (_, chapter) = page
        .split_once("\n## To restore a backup of a redb file\n")
        .unwrap();
    let (_, block) = chapter.split_once("```sh\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let lines = block.lines().filter(|line| !line.starts_with("systemctl "));
    lines.collect()
}

#[test]
fn a_damaged_journal_is_refused_and_a_backup_restored() {
    let folder = tempfile::TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let url = format!("redb:{}", at("token-service.redb").display());
    let key = at("encryption-key").display().to_string();
    let mut pair = OwnPair::start(&[
        ("TOKEN_SERVICE__STORE__URL", &url),
        ("TOKEN_SERVICE__ENCRYPTION_KEY_FILE", &key),
    ]);
    let lobby = pair.lobby();
    let grant = || WEB.grant(&lobby).text("refresh_token");
    let kept = grant();
    let backup = at("backup").display().to_string();
    pair.done(&format!("backup {backup}"));
    let lost = grant();
    pair.pair.kill_token_service().unwrap();
    let journal = at("token-service.redb-journal");
    let whole = std::fs::read(&journal).unwrap();
    let mut flipped = whole.clone();
    // A byte in the digest of the first record.
    flipped[4100] ^= 1;
    let page = file("docs/runbook.md");
    let mut refused = |message: &str| {
        let error = pair.pair.start_token_service().unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
        assert!(page.contains(&format!("| `{message}` |")), "{message}");
    };
    for (journal_now, message) in [
        (&whole[..8192], "is not its journal"),
        (&flipped, "is missing or damaged"),
    ] {
        std::fs::write(&journal, journal_now).unwrap();
        refused(message);
    }
    // Nothing has changed: with its journal, the store opens with all that it had.
    std::fs::write(&journal, &whole).unwrap();
    let (store, away) = (at("token-service.redb"), at("away"));
    std::fs::rename(&store, &away).unwrap();
    refused("is missing or empty");
    std::fs::rename(&away, &store).unwrap();
    pair.pair.start_token_service().unwrap();
    let lost = WEB.refresh(&lobby, &lost).done();
    pair.pair.kill_token_service().unwrap();

    let program = pair.pair.artifacts().token_service.display().to_string();
    for line in restoring(&page) {
        let command = line.replacen(" token-service restore", " \"$PROGRAM\" restore", 1);
        let status = Command::new("sh")
            .args(["-c", &command])
            .env("PROGRAM", &program)
            .env("BACKUP", &backup)
            .current_dir(folder.path())
            .status();
        assert!(status.unwrap().success(), "{command}");
    }
    pair.pair.start_token_service().unwrap();
    assert_eq!(WEB.refresh(&lobby, &kept).status, 200);
    WEB.refresh(&lobby, &lost.text("refresh_token"))
        .assert_error(400, "invalid_grant");
}
