//! Replicas on PostgreSQL when an upgrade is finished, from the operator's side: the commands and messages of
//! `docs/runbook.md`. `make test-upgrade` runs two versions.

use std::process::Command;

use crate::api::until;
use crate::support::{OwnPair, database, file, get};

/// Layout 2 stands for the layout of a later version.
#[test]
fn replicas_of_an_earlier_version_stop_at_the_end_of_an_upgrade() {
    let database = database();
    let pair = OwnPair::replicated(database.url());
    let ports = pair.pair.ports();
    let services = [ports.internal, ports.internal_replica];
    let ready = || services.map(|port| get(&format!("http://127.0.0.1:{port}/readyz"), &[]));
    let migrate = |arguments: &[&str]| {
        let mut migrate = Command::new(&pair.pair.artifacts().token_service);
        migrate.arg("migrate").args(arguments);
        migrate.env("TOKEN_SERVICE_CONFIG", pair.config());
        migrate.env("TOKEN_SERVICE__STORE__URL", database.url());
        let output = migrate.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    let runbook = file("docs/runbook.md");
    for command in ["migrate", "migrate --finish"] {
        assert!(runbook.contains(&format!("\ntoken-service {command}\n")));
    }
    let (done, state) = migrate(&[]);
    assert!(done && state.contains("layout 1 is in use"), "{state}");
    assert_eq!(state.matches("knows layout 1, seen").count(), 2, "{state}");
    let (done, said) = migrate(&["--finish"]);
    assert!(done && said.contains("nothing to finish"), "{said}");

    let set = |layout: u32| {
        let sql = format!("UPDATE counters SET value = {layout} WHERE name = 'layout'");
        database.sql(&sql).unwrap();
    };
    set(2);
    let message = "layout 2 is in use, and this version knows 1 at most";
    assert!(runbook.contains(message));
    until("both replicas stop", || {
        let answers = ready();
        answers
            .iter()
            .all(|answer| answer.status == 503 && answer.body.contains(message))
    });
    let (done, refused) = migrate(&["--finish"]);
    assert!(!done && refused.contains(message), "{refused}");
    set(1);
    until("both replicas go on", || {
        ready().iter().all(|answer| answer.status == 200)
    });
}
