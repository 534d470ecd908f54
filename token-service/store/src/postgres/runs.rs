//! How the store runs operations.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracing::{Instrument as _, Span};

use super::PostgresStore;
use super::operation::{Connection, Isolation, run};
use super::view::View;
use crate::fault::Fault;
use crate::operations::Runs;
use crate::row::RowError;
use crate::tx::{Entries, Form as _};
use crate::{StoreError, span};
use domain::AuditEvent;

/// The database in traces (`db.system.name`).
const SYSTEM: &str = "postgresql";

impl PostgresStore {
    /// The name of an operation, and its span.
    fn begin<F>(&self, operation: &F) -> Result<(&'static str, Span), StoreError> {
        self.knows_layout()?;
        let span = span::of_operation(SYSTEM, operation);
        Ok((span::name(operation), span))
    }
}

impl Runs for PostgresStore {
    type Snapshot<'t> = View<'t>;
    type Transaction<'t> = View<'t>;

    async fn read<T, F>(&self, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&mut View<'_>) -> Result<T, Fault> + Send + Sync + 'static,
    {
        let (name, span) = self.begin(&operation)?;
        self.engine.read(name, operation).instrument(span).await
    }

    async fn look_up<T, F>(&self, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&mut View<'_>) -> Result<T, Fault> + Send + Sync + 'static,
    {
        let (name, span) = self.begin(&operation)?;
        self.engine.look_up(name, operation).instrument(span).await
    }

    async fn snapshot<T, F>(&self, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&mut View<'_>) -> Result<T, Fault> + Send + Sync + 'static,
    {
        let (name, span) = self.begin(&operation)?;
        self.engine.snapshot(name, operation).instrument(span).await
    }

    async fn guarded<T, F>(&self, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&mut View<'_>) -> Result<T, Fault> + Send + Sync + 'static,
    {
        let (name, span) = self.begin(&operation)?;
        self.engine.guarded(name, operation).instrument(span).await
    }

    async fn owned<T, F>(&self, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&mut View<'_>) -> Result<T, Fault> + Send + Sync + 'static,
    {
        let (name, span) = self.begin(&operation)?;
        self.engine.owned(name, operation).instrument(span).await
    }

    async fn position(&self) -> Result<u64, StoreError> {
        let asked = async |client: &Connection<'_>| {
            let sql = "SELECT (SELECT v FROM meta WHERE k = 'registry_version'),
                (SELECT value FROM counters WHERE name = 'layout')";
            let Some(row) = client.query_opt(sql, &[]).await? else {
                return Ok((0, 0));
            };
            let position: Option<&[u8]> = row.try_get(0)?;
            let position = position.map(u64::decode).transpose();
            let position = position.map_err(|fault| RowError(fault.to_string()))?;
            Ok((
                position.unwrap_or_default(),
                row.try_get::<_, Option<i64>>(1)?.unwrap_or_default(),
            ))
        };
        let (position, layout) = run(&self.pool, Isolation::Statement, asked).await?;
        let before = self.layout.swap(layout, Ordering::AcqRel);
        self.knows_layout()?;
        if layout != before {
            tracing::info!(before, layout, "the layout in use has changed");
        }
        Ok(position)
    }

    async fn entries(&self, events: Arc<[AuditEvent]>) -> Result<Entries, StoreError> {
        Ok(Entries::new(events))
    }
}
