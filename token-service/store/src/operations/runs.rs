//! What runs the operations of a store. Each topic implements its trait once, for all that run operations.

use std::sync::Arc;

use super::change_log;
use crate::StoreError;
use crate::fault::Fault;
use crate::tx::{Entries, Read, Tx};
use domain::AuditEvent;

/// Runs operations. A result means that what the operation wrote is durable.
pub(crate) trait Runs: Send + Sync {
    type Snapshot<'t>: Read;
    type Transaction<'t>: Tx;

    /// For an operation that knows at once what it reads.
    fn read<T, F>(&self, operation: F) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        F: Fn(&mut Self::Snapshot<'_>) -> Result<T, Fault> + Send + Sync + 'static;

    /// As [`Self::read`], for what every request looks up: a store may read for many operations at once.
    fn look_up<T, F>(&self, operation: F) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        F: Fn(&mut Self::Snapshot<'_>) -> Result<T, Fault> + Send + Sync + 'static,
    {
        self.read(operation)
    }

    /// For an operation that reads much, or first reads what else to read.
    fn snapshot<T, F>(&self, operation: F) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        F: Fn(&mut Self::Snapshot<'_>) -> Result<T, Fault> + Send + Sync + 'static;

    /// For an operation that decides by one row that it replaces, and by rows that others may change meanwhile. Locks nothing, and
    /// runs again if its row is another at the commit.
    fn guarded<T, F>(&self, operation: F) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        F: Fn(&mut Self::Transaction<'_>) -> Result<T, Fault> + Send + Sync + 'static;

    /// For an operation that locks the owners of what it decides.
    fn owned<T, F>(&self, operation: F) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        F: Fn(&mut Self::Transaction<'_>) -> Result<T, Fault> + Send + Sync + 'static;

    /// Entries of the audit log for an operation, which must not spend its time on their form.
    fn entries(
        &self,
        events: Arc<[AuditEvent]>,
    ) -> impl Future<Output = Result<Entries, StoreError>> + Send;

    /// The position in the sequence of changes of the registry. Asked twice a second.
    fn position(&self) -> impl Future<Output = Result<u64, StoreError>> + Send {
        self.read(|tx| change_log::position(tx))
    }
}
