//! What the service does on its own: removing expired rows.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::service::Service;

/// How often a sweep starts.
const SWEEP_EVERY: Duration = Duration::from_secs(30);

/// Rows removed in one transaction at most, so that no request waits long behind a sweep.
const SWEEP_BATCH: usize = 500;

/// Runs until it is aborted.
pub async fn run(service: Arc<Service>) {
    let mut ticks = interval(SWEEP_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        sweep(&service).await;
    }
}

async fn sweep(service: &Service) {
    loop {
        match service.store.sweep(service.clock.now(), SWEEP_BATCH).await {
            Ok(swept) if swept.more => {
                tracing::debug!(removed = swept.removed, "expired rows removed")
            }
            Ok(_) => return,
            Err(error) => {
                tracing::error!(%error, "expired rows could not be removed");
                return;
            }
        }
    }
}
