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
