//! `log_format`.

/// Format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One line of text per event, in colour on a terminal.
    Text,
    /// One JSON object per line, for log collectors.
    Json,
}

pub(super) fn parse(text: &str) -> Result<LogFormat, &'static str> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("expected text or json"),
    }
}
