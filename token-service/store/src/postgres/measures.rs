//! What operations cost, for the metrics.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::lease::Sent;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
}

#[derive(Debug, Clone)]
pub(super) struct Measures {
    round_trips: Family<Operation, Histogram>,
    statements: Family<Operation, Counter>,
    attempts: Family<Operation, Histogram>,
}

impl Default for Measures {
    fn default() -> Self {
        Self {
            round_trips: Family::new_with_constructor(|| {
                Histogram::new([1.0, 2.0, 3.0, 5.0, 10.0, 50.0])
            }),
            statements: Family::default(),
            attempts: Family::new_with_constructor(|| Histogram::new([1.0, 2.0, 3.0, 5.0, 10.0])),
        }
    }
}

impl Measures {
    /// Notes an operation that has taken place. `usual` is the number of round trips that it should have taken.
    pub(super) fn note(&self, operation: &'static str, attempts: u32, sent: Sent, usual: u32) {
        #[cfg(test)]
        super::tests::round_trips::assert_few(operation, attempts, sent.round_trips, usual);
        #[cfg(not(test))]
        let _ = usual;
        let label = Operation { operation };
        self.round_trips
            .get_or_create(&label)
            .observe(sent.round_trips.into());
        self.attempts.get_or_create(&label).observe(attempts.into());
        self.statements
            .get_or_create(&label)
            .inc_by(sent.statements.into());
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "operation_round_trips",
            "Round trips to the database of an operation, with its attempts",
            self.round_trips.clone(),
        );
        registry.register(
            "operation_attempts",
            "Attempts of an operation. Each but the last conflicted with another operation",
            self.attempts.clone(),
        );
        registry.register(
            "operation_statements",
            "Statements that operations sent to the database",
            self.statements.clone(),
        );
    }
}
