//! What the token service and token-guard share as processes: the log, output that no reader holds up, the limit of open
//! files, sockets that the parent keeps open, stopping after a signal, the networks of gateways, reading the certificate of a client
//! that a gateway hands over, and requests to configured addresses.

pub mod certificate;
pub mod fetch;
pub mod log;
pub mod networks;
pub mod output;
mod sockets;
mod stop;

pub use sockets::{Opener, PassedSockets};
pub use stop::{Connections, Running, StopSignals, end_on_signals, stop_on_signals};

/// Raises the limit of open files: each connection needs a file descriptor, and the usual soft limit of 1,024 is too low.
pub fn raise_open_files() {
    match rlimit::increase_nofile_limit(rlimit::INFINITY) {
        Ok(limit) => tracing::debug!(limit, "open files"),
        Err(error) => tracing::warn!(%error, "the limit of open files stays as it is"),
    }
}
