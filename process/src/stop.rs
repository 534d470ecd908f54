//! Stopping after SIGTERM or SIGINT.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use actix_web::dev::{Extensions, ServerHandle};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_shutdown;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::sockets::Opener;

/// Time from the last accepted connection to the stop of the server, if the next process gets the same sockets. The server
/// drops accepted connections that no worker has begun to serve, and does not report when workers have begun all of them.
const SETTLE: Duration = Duration::from_millis(250);

/// The open connections of a server.
#[derive(Debug, Clone)]
pub struct Connections(watch::Sender<()>);

impl Default for Connections {
    fn default() -> Self {
        Self(watch::Sender::new(()))
    }
}

impl Connections {
    /// For `HttpServer::on_connect`: `data` lives as long as the connection.
    pub fn begin(&self, data: &mut Extensions) {
        data.insert(self.0.subscribe());
    }

    async fn ended(&self) {
        self.0.closed().await;
    }
}

/// A running server.
#[derive(Debug)]
pub struct Running {
    pub server: ServerHandle,
    pub connections: Connections,
}

impl Running {
    /// Closes idle connections, and waits for running requests. Does not wait for the server's own report, which looks at the
    /// connections once a second.
    async fn stop(&self) {
        tokio::select! {
            () = self.server.stop(true) => {}
            () = self.connections.ended() => {}
        }
    }
}

/// Waits for SIGTERM or SIGINT, calls `start_draining`, stops the servers in their order, and returns. The servers continue to
/// serve for `drain_for`, and complete running requests. A second signal stops them at once.
///
/// If the parent opened the sockets, connections wait in the queues of the sockets from the end of `drain_for` on.
pub async fn stop_on_signals(
    mut signals: StopSignals,
    servers: Vec<Running>,
    opener: Opener,
    drain_for: Duration,
    start_draining: impl FnOnce(),
) {
    signals.next().await;
    tracing::info!(?drain_for, sockets_opened_by = ?opener, "stopping; a second signal stops at once");
    start_draining();
    let orderly = async {
        pause(drain_for).await;
        if opener == Opener::Parent {
            for Running { server, .. } in &servers {
                server.pause().await;
            }
            pause(SETTLE).await;
        }
        for running in &servers {
            running.stop().await;
        }
    };
    tokio::select! {
        () = orderly => {}
        () = signals.next() => {
            tracing::warn!("a second signal: stopping at once");
            for Running { server, .. } in &servers {
                server.stop(false).await;
            }
        }
    }
}

/// Only a second signal ends the pause early.
async fn pause(time: Duration) {
    let _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
}

/// True until the program handles the signals itself.
static ENDS_AT_ONCE: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| Arc::new(AtomicBool::new(true)));

/// Lets SIGTERM and SIGINT end the process until [`StopSignals::begin`], also if it is process 1 of a container: the kernel
/// drops signals to process 1 that it does not handle (`pid_namespaces(7)`). Call this first, because a start may take long.
/// Any other process keeps the default action, which tells shells and systemd of the signal.
///
/// # Errors
/// The operating system refuses the handler.
pub fn end_on_signals() -> io::Result<()> {
    if std::process::id() != 1 {
        return Ok(());
    }
    for signal in [SIGTERM, SIGINT] {
        register_conditional_shutdown(signal, 128 + signal, Arc::clone(&ENDS_AT_ONCE))?;
    }
    Ok(())
}

/// SIGTERM and SIGINT.
#[derive(Debug)]
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// From now on, the signals do not end the process. Call this before the process listens: otherwise, a signal in between
    /// would cut off the first connections.
    ///
    /// # Errors
    /// The operating system refuses the handler.
    pub fn begin() -> io::Result<Self> {
        let signals = Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        };
        ENDS_AT_ONCE.store(false, Ordering::Relaxed);
        Ok(signals)
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[tokio::test]
    async fn a_signal_before_the_servers_run_stops_them() {
        let signals = StopSignals::begin().unwrap();
        let own = std::process::id().to_string();
        let sent = Command::new("kill").args(["-TERM", &own]).status();
        assert!(sent.unwrap().success());
        let mut drained = false;
        let drain = || drained = true;
        stop_on_signals(signals, vec![], Opener::Program, Duration::ZERO, drain).await;
        assert!(drained);
    }
}
