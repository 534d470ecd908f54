//! Metrics of the writer.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

#[derive(Debug, Clone)]
pub(super) struct WriterMetrics {
    pub batch: Histogram,
    /// Seconds from the start of a transaction until it is durable.
    pub commit: Histogram,
    pub failed: Counter,
    pub queued: Gauge,
}

impl Default for WriterMetrics {
    fn default() -> Self {
        Self {
            batch: Histogram::new(exponential_buckets(1.0, 2.0, 10)),
            commit: Histogram::new(exponential_buckets(0.0001, 2.0, 16)),
            failed: Counter::default(),
            queued: Gauge::default(),
        }
    }
}

impl WriterMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "batch_operations",
            "Operations of one durable transaction",
            self.batch.clone(),
        );
        registry.register_with_unit(
            "commit_duration",
            "Time of one durable transaction",
            Unit::Seconds,
            self.commit.clone(),
        );
        registry.register(
            "failed_transactions",
            "Transactions that failed",
            self.failed.clone(),
        );
        registry.register(
            "queued_operations",
            "Operations that wait for the writer",
            self.queued.clone(),
        );
    }
}
