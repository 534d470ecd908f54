//! The audit log in the database.

use super::*;
use crate::conformance::audit_event;
use domain::{AuditEvent, AuditKind, AuditRange};

/// Replicas trim millions of entries twice a minute.
#[tokio::test]
async fn the_audit_log_is_trimmed_by_an_index() {
    let database = Database::new(false).await;
    let events: Vec<AuditEvent> = (0..5000).map(audit_event).collect();
    database.store.append_audit(events.into()).await.unwrap();
    let newest = AuditRange::Before(None);
    assert_eq!(
        database.store.audit(newest, 1).await.unwrap()[0].sequence,
        5000
    );
    let client = database.store.pool.get().await.unwrap();
    client.batch_execute("ANALYZE audit_log").await.unwrap();
    let kind = AuditKind::SignIn.number().to_string();
    let values = [("$1", kind.as_str()), ("$2", "1000"), ("$3", "500")];
    let sql = values.iter().fold(
        crate::postgres::audit::FORGET.to_owned(),
        |sql, (name, value)| sql.replace(name, value),
    );
    let rows = client.query(&format!("EXPLAIN {sql}"), &[]).await.unwrap();
    let plan: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    let plan = plan.join("\n");
    assert_eq!(plan.matches("audit_log_by_kind").count(), 2, "{plan}");
}

/// After an outage, or on a busy service, many entries wait. Numbering them must take less than a statement may.
#[tokio::test]
async fn many_entries_that_wait_reach_the_log() {
    let database = Database::new(false).await;
    let store = &database.store;
    for _ in 0..2 {
        let events: Vec<AuditEvent> = (0..25_000).map(audit_event).collect();
        store.append_audit(events.into()).await.unwrap();
    }
    let newest = store.audit(AuditRange::Before(None), 1).await.unwrap();
    assert_eq!(newest[0].sequence, 50_000);
    let client = store.pool.get().await.unwrap();
    let sql = "SELECT count(DISTINCT number), min(number), max(number) FROM audit_log";
    let row = client.query_one(sql, &[]).await.unwrap();
    let numbers = [row.get::<_, i64>(0), row.get(1), row.get(2)];
    assert_eq!(numbers, [50_000, 1, 50_000]);
}
