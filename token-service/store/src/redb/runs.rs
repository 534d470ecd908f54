//! Runs operations on the file.

use std::sync::Arc;

use tracing::Instrument as _;

use super::tables::{Snapshot, Tables};
use super::{RedbStore, SYSTEM, audit};
use crate::fault::Fault;
use crate::operations::Runs;
use crate::tx::Entries;
use crate::{FeedStore as _, StoreError, span};
use domain::AuditEvent;

/// The writer runs one transaction at a time, so the modes of writing do not differ.
impl Runs for RedbStore {
    type Snapshot<'t> = Snapshot<'t>;
    type Transaction<'t> = Tables<'t>;

    async fn read<T, F>(&self, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&mut Snapshot<'_>) -> Result<T, Fault> + Send + Sync + 'static,
    {
        Self::read(self, operation)
    }

    async fn snapshot<T, F>(&self, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&mut Snapshot<'_>) -> Result<T, Fault> + Send + Sync + 'static,
    {
        self.read_much(operation).await
    }

    async fn guarded<T, F>(&self, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&mut Tables<'_>) -> Result<T, Fault> + Send + Sync + 'static,
    {
        self.owned(operation).await
    }

    async fn owned<T, F>(&self, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&mut Tables<'_>) -> Result<T, Fault> + Send + Sync + 'static,
    {
        let longest_token = self.longest_token();
        let span = span::of_operation(SYSTEM, &operation);
        let write = move |tables: &mut Tables<'_>| {
            tables.longest_token = longest_token;
            operation(tables)
        };
        self.writer.write(write).instrument(span).await
    }

    async fn entries(&self, events: Arc<[AuditEvent]>) -> Result<Entries, StoreError> {
        audit::packed(events).await
    }
}
