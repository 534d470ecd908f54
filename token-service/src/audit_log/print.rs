//! Writes entries to standard output.

use serde::Serialize;

use crate::config::LogFormat;
use crate::event_view::EventView;
use domain::AuditEvent;
use process::output;

/// One line on standard output.
#[derive(Serialize)]
struct Line {
    audit: EventView,
}

/// Format of entries on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandardOutput {
    /// No output.
    Nothing,
    /// One JSON object per line, for log collectors.
    Json,
    /// One line of text per entry, for a person who reads the log on the same terminal.
    Text,
}

impl StandardOutput {
    /// The format by configuration and kind of output.
    #[must_use]
    pub const fn of(enabled: bool, log_format: LogFormat, is_terminal: bool) -> Self {
        match (enabled, log_format, is_terminal) {
            (false, _, _) => Self::Nothing,
            (true, LogFormat::Text, true) => Self::Text,
            (true, _, _) => Self::Json,
        }
    }
}

/// Prints an entry and returns it. Moves all values instead of copying them.
pub(super) fn print(event: AuditEvent, format: StandardOutput) -> AuditEvent {
    let (at, expires_at) = (event.at, event.expires_at);
    let line = Line {
        audit: EventView::from(event),
    };
    let text = match format {
        StandardOutput::Text => Ok(line.audit.to_string().into_bytes()),
        StandardOutput::Json | StandardOutput::Nothing => serde_json::to_vec(&line),
    };
    if let Ok(mut text) = text {
        text.push(b'\n');
        // Errors are ignored, because the store also gets the entry.
        output::standard_output().write(text);
    }
    let EventView {
        at: _,
        action,
        actor,
        client_id,
        username,
        grant_id,
        detail,
        address,
        request_id,
    } = line.audit;
    AuditEvent {
        at,
        action,
        actor,
        client_id,
        username,
        grant_id,
        detail,
        address,
        request_id,
        expires_at,
    }
}
