//! What the service tells of itself: audit log, metrics and traces, and untrusted text in a visible form.

pub mod audit_log;
pub mod metrics;
pub mod traces;
pub mod visible;
