//! An upgrade of replicas on PostgreSQL, from the operator's side: the commands and messages of `docs/runbook.md`, the metrics
//! and the alert. `make test-upgrade` runs two versions.

use std::process::{Command, Stdio};

use serde_json::json;
use tests::{Artifacts, Postgres, Series};

use crate::api::until;
use crate::support::{OwnPair, get, signal};

/// Two replicas of this version on a database of an upgrade that is not finished.
struct Unfinished {
    pair: OwnPair,
    database: Postgres,
}

impl Unfinished {
    fn start() -> Self {
        let database = Postgres::start(&Artifacts::find().unwrap().repository).unwrap();
        let pair = OwnPair::replicated(database.url());
        let set = Self { pair, database };
        set.sql("UPDATE counters SET value = 16 WHERE name = 'schema_version'");
        until("the replicas know", || set.layouts() == ["16", "16"]);
        set
    }

    fn sql(&self, statements: &str) -> String {
        self.database.sql(statements).unwrap()
    }

    /// The metrics of both replicas.
    fn metrics(&self) -> [String; 2] {
        let ports = self.pair.pair.ports();
        let services = [ports.internal, ports.internal_replica];
        services.map(|port| get(&format!("http://127.0.0.1:{port}/metrics"), &[]).body)
    }

    /// The layout in use at each replica.
    fn layouts(&self) -> [String; 2] {
        self.metrics().map(|metrics| {
            let mut lines = metrics.lines();
            let layout = lines.find_map(|line| line.strip_prefix("token_service_store_layout "));
            layout.unwrap_or_default().to_owned()
        })
    }

    fn migrate(&self) -> Command {
        let mut migrate = Command::new(&self.pair.pair.artifacts().token_service);
        migrate
            .arg("migrate")
            .env("TOKEN_SERVICE_CONFIG", self.pair.config())
            .env("TOKEN_SERVICE__STORE__URL", self.database.url())
            .stdin(Stdio::null());
        migrate
    }

    /// Runs `token-service migrate` with these arguments. Returns whether it succeeded, and what it printed.
    fn migrated(&self, arguments: &[&str]) -> (bool, String) {
        let output = self.migrate().args(arguments).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    }
}

#[test]
fn an_unfinished_upgrade_is_noticed_and_finished() {
    let set = Unfinished::start();
    let pair = &set.pair;
    let runbook = pair.pair.artifacts().repository.join("docs/runbook.md");
    let runbook = std::fs::read_to_string(runbook).unwrap();
    // A row as an earlier version makes it.
    set.sql(
        "INSERT INTO replicas VALUES ('old', 'host-old', '0.3.0', 16, extract(epoch FROM now())::BIGINT)",
    );
    let (_, state) = set.migrated(&[]);
    assert!(state.contains("A step back needs nothing"), "{state}");
    let (done, refused) = set.migrated(&["--finish"]);
    assert!(!done && refused.contains("host-old (0.3.0)"), "{refused}");
    let key = r#"{"require_pushed_authorization_requests": true}"#;
    let premature = pair.administrate("PATCH", "/clients/web-demo", key).body;
    for (message, said) in [
        ("A step back needs nothing", &state),
        ("services of an earlier version run", &refused),
        ("finish the upgrade first", &premature),
    ] {
        assert!(said.contains(message), "{said}");
        assert!(runbook.contains(message), "{message}");
    }
    // A replica of the earlier version would not know the request that a client pushes.
    let metadata = format!("{}/.well-known/oauth-authorization-server", pair.lobby());
    let offers_pushing = || {
        let metadata = get(&metadata, &[]).json();
        metadata
            .get("pushed_authorization_request_endpoint")
            .is_some()
    };
    assert!(!offers_pushing());
    set.sql("DELETE FROM replicas WHERE id = 'old'");

    let mut series = Series::of_rules(&pair.pair.artifacts().repository).unwrap();
    let mut take = || {
        let number = series.count();
        for (service, metrics) in ["a", "b"].iter().zip(&set.metrics()) {
            series.take("token-service", service, number, Some(metrics));
        }
        series.repeat(24 * 60);
    };
    take();
    for command in ["migrate", "migrate --finish"] {
        assert!(runbook.contains(&format!("\ntoken-service {command}\n")));
        let (_, arguments) = command.split_at("migrate".len());
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let (done, said) = set.migrated(&arguments);
        assert!(done, "{said}");
    }
    until("the replicas use the layout", || {
        set.layouts() == ["18", "18"]
    });
    take();
    assert!(offers_pushing());
    let fires = r#"ALERTS{alertname="TokenServiceUpgradeUnfinished", alertstate="firing", severity="warning", job="token-service"}"#;
    let expected = json!([
        {"expr": r#"ALERTS{alertstate="firing"}"#, "eval_time": "1439m", "exp_samples": []},
        {"expr": "ALERTS", "eval_time": "1440m", "exp_samples": [{"labels": fires, "value": 1}]},
        {"expr": "ALERTS", "eval_time": "1441m", "exp_samples": []},
    ]);
    series.expect(pair.state(), ("1m", 0), &expected).unwrap();

    let entry = pair.done("audit --action upgrade_finished");
    assert!(entry.contains("from layout 16 to layout 18"), "{entry}");
    assert!(entry.contains("by=command:"), "{entry}");
    let (_, again) = set.migrated(&["--finish"]);
    assert!(again.contains("nothing to finish"), "{again}");
    let entries = pair.done("audit --action upgrade_finished");
    assert_eq!(entries.matches("upgrade_finished").count(), 1, "{entries}");
    let changed = pair.administrate("PATCH", "/clients/web-demo", key);
    assert_eq!(changed.status, 200, "{}", changed.body);
}

/// The transaction sets the layout, and then appends to the audit log.
#[test]
fn a_finish_that_is_killed_leaves_the_upgrade_unfinished() {
    let set = Unfinished::start();
    let held = "BEGIN; LOCK TABLE audit_waiting IN EXCLUSIVE MODE; SELECT pg_sleep(3600)";
    let mut holder = set.database.psql(held).spawn().unwrap();
    let is_locked =
        "SELECT count(*) FROM pg_locks WHERE relation = 'audit_waiting'::regclass AND granted
        AND mode = 'ExclusiveLock'";
    until("the table is locked", || set.sql(is_locked) == "1");
    let mut migrate = set.migrate().arg("--finish").spawn().unwrap();
    let waits = "SELECT count(*) FROM pg_locks AS wanted JOIN pg_locks AS held USING (pid)
        WHERE wanted.relation = 'audit_waiting'::regclass AND NOT wanted.granted
        AND held.relation = 'counters'::regclass AND held.mode = 'RowExclusiveLock'";
    until("the command has set the layout and waits", || {
        set.sql(waits) == "1"
    });
    signal(migrate.id(), "KILL");
    assert!(!migrate.wait().unwrap().success());
    set.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = 'audit_waiting'::regclass",
    );
    assert!(!holder.wait().unwrap().success());
    let (_, state) = set.migrated(&[]);
    assert!(state.contains("layout 16 is in use"), "{state}");
    let (done, said) = set.migrated(&["--finish"]);
    assert!(done, "{said}");
    let entries = set.pair.done("audit --action upgrade_finished");
    assert_eq!(entries.matches("upgrade_finished").count(), 1, "{entries}");
}
