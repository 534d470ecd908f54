//! Writes entries to standard output.

use std::collections::BTreeMap;

use super::AuditView;
use crate::config::LogFormat;
use domain::AuditEvent;
use process::output;

/// Format of entries on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StandardOutput {
    Nothing,
    /// One JSON object per line, for log collectors.
    Json,
    /// One line of text per entry, for a person who reads the log on the same terminal.
    Text,
}

impl StandardOutput {
    /// The format by configuration and kind of output.
    pub(crate) const fn of(enabled: bool, log_format: LogFormat, is_terminal: bool) -> Self {
        match (enabled, log_format, is_terminal) {
            (false, _, _) => Self::Nothing,
            (true, LogFormat::Text, true) => Self::Text,
            (true, _, _) => Self::Json,
        }
    }

    pub(super) fn print(self, event: &AuditEvent) {
        let line = || AuditView::from(event);
        let text = match self {
            Self::Nothing => return,
            Self::Text => Ok(line().to_string().into_bytes()),
            Self::Json => serde_json::to_vec(&BTreeMap::from([("audit", line())])),
        };
        if let Ok(mut text) = text {
            text.push(b'\n');
            // Errors are ignored, because the store also gets the entry.
            output::standard_output().write(text);
        }
    }
}
