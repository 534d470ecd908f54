//! The log, the audit log, metrics and traces, and untrusted text in a visible form.

pub(crate) mod audit_log;
pub(crate) mod log;
pub(crate) mod metrics;
pub(crate) mod traces;
pub(crate) mod visible;
