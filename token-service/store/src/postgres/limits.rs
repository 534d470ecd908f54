//! Time limits of the service. The session settings have the limits that the server keeps.
//!
//! A database may hang without breaking a connection: a frozen machine acknowledges what it receives, and a proxy keeps
//! connections whose other end is gone. Every wait for the database therefore has its own limit.

use std::time::Duration;

/// How long an operation waits for a free connection before it fails.
pub(super) const LEASE: Duration = Duration::from_secs(2);

/// Time limit for opening a connection to one server, until the server has taken the session settings.
pub(super) const CONNECT: Duration = Duration::from_secs(3);

/// How long the service tries a server before it also tries the next one.
pub(super) const HEAD_START: Duration = Duration::from_millis(500);

/// How long the service waits for the answer to a statement, to the beginning of a transaction or to a commit. Longer
/// than `statement_timeout`, so that a server that works ends the statement first.
pub(super) const ANSWER: Duration = Duration::from_secs(12);

/// Time without an acknowledgement after which a peer counts as gone, because a crashed machine does not close its
/// connections.
pub(super) const SILENCE: Duration = Duration::from_secs(5);
