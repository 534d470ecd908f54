//! Stopping after SIGTERM or SIGINT.

use std::io;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for SIGTERM or SIGINT and calls `start_draining`. The servers continue to serve for `drain_for`, and complete
/// running requests. A second signal stops them at once.
pub async fn stop_on_signals(
    servers: [ServerHandle; 2],
    drain_for: Duration,
    start_draining: impl FnOnce(),
) {
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => {
            tracing::error!(%error, "signals cannot be awaited: only killing the process stops it");
            return;
        }
    };
    signals.next().await;
    tracing::info!(?drain_for, "stopping; a second signal stops at once");
    start_draining();
    let [public, internal] = servers;
    let orderly = async {
        // Only a second signal ends the pause early.
        let pause = tokio::time::timeout(drain_for, std::future::pending::<()>());
        let _ = pause.await;
        public.stop(true).await;
        internal.stop(true).await;
    };
    tokio::select! {
        () = orderly => {}
        () = signals.next() => {
            tracing::warn!("a second signal: stopping at once");
            tokio::join!(public.stop(false), internal.stop(false));
        }
    }
}

/// SIGTERM and SIGINT.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
