//! The host's log.

use proxy_wasm::types::LogLevel;

use super::calls;
use guard::driver::Remark;
use keys::failures::Severity;

/// Writes a line to the host's log. A refusal is ignored.
pub(super) fn write(level: LogLevel, line: &str) {
    let _ = calls::log(level, line);
}

pub(super) fn remark(remark: &Remark) {
    let level = match remark.severity {
        Severity::Info => LogLevel::Info,
        Severity::Warning => LogLevel::Warn,
        Severity::Error => LogLevel::Error,
    };
    write(level, &remark.to_string());
}
