//! Runs operations on PostgreSQL, each in the mode that it needs.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::registry::Registry;

use super::attempt::{Core, Mode};
use super::connection::Pool;
use super::together::Together;
use super::view::View;
use crate::StoreError;
use crate::fault::Fault;

pub(crate) struct Engine {
    core: Arc<Core>,
    look_ups: Together,
    changes: Together,
}

impl Engine {
    pub(super) fn new(pool: Pool, longest_token: Arc<AtomicU64>) -> Self {
        Self {
            core: Arc::new(Core::new(pool, longest_token)),
            look_ups: Together::new(1),
            changes: Together::new(2),
        }
    }

    /// Runs an operation that reads at once all that it reads. If it does not, it runs as [`Self::snapshot`].
    pub(crate) async fn read<T>(
        &self,
        name: &'static str,
        operation: impl Fn(&mut View<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.core.run_in(Mode::Read, name, operation).await
    }

    /// Runs an operation that reads rows that depend on others.
    pub(crate) async fn snapshot<T>(
        &self,
        name: &'static str,
        operation: impl Fn(&mut View<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.core.run_in(Mode::Snapshot, name, operation).await
    }

    /// Runs an operation that locks the rows that own what it decides.
    pub(crate) async fn owned<T>(
        &self,
        name: &'static str,
        operation: impl Fn(&mut View<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.core.run_in(Mode::Owned, name, operation).await
    }

    /// Runs an operation that looks up few rows, which it reads at once, together with others.
    pub(crate) async fn look_up<T: Send + 'static>(
        &self,
        name: &'static str,
        operation: impl Fn(&mut View<'_>) -> Result<T, Fault> + Send + Sync + 'static,
    ) -> Result<T, StoreError> {
        self.look_ups.run(&self.core, name, operation).await
    }

    /// Runs an operation whose decision depends on one row, together with others. If the row changes in the meantime, the
    /// operation runs again.
    pub(crate) async fn guarded<T: Send + 'static>(
        &self,
        name: &'static str,
        operation: impl Fn(&mut View<'_>) -> Result<T, Fault> + Send + Sync + 'static,
    ) -> Result<T, StoreError> {
        self.changes.run(&self.core, name, operation).await
    }

    pub(super) fn register_metrics(&self, registry: &mut Registry) {
        self.core.measures.register(registry);
    }
}
