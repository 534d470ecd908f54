//! Entries on standard output.

use serde::Serialize;

use crate::config::LogFormat;
use crate::event_view::EventView;
use crate::output;
use domain::AuditEvent;

/// One line on standard output.
#[derive(Serialize)]
struct Line {
    audit: EventView,
}

/// How entries are written to standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandardOutput {
    /// Not at all.
    Nothing,
    /// A JSON object on each line, for collectors.
    Json,
    /// A line of text, for a person who reads the log in text on the same terminal.
    Text,
}

impl StandardOutput {
    /// What the configuration asks for, on a terminal or not.
    #[must_use]
    pub const fn of(enabled: bool, log_format: LogFormat, is_terminal: bool) -> Self {
        match (enabled, log_format, is_terminal) {
            (false, _, _) => Self::Nothing,
            (true, LogFormat::Text, true) => Self::Text,
            (true, _, _) => Self::Json,
        }
    }
}

/// Prints an entry, and returns it: everything in it moves, nothing is copied.
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
        // Nobody may listen; the store has the entry all the same.
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
