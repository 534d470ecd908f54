//! Standard output of commands.

use std::fmt::Display;
use std::io::{ErrorKind, Write as _};

use serde::Serialize;

use crate::telemetry::visible::{visible_json, visible_lines};

/// The reader of standard output has closed it, as `head` does. This is not an error of the command.
#[derive(Debug, thiserror::Error)]
#[error("standard output is closed")]
pub(super) struct ReaderGone;

/// For commands whose exit code tells more than success: a reader that has gone does not change that code.
///
/// # Errors
/// Any other error of `printed`.
pub(super) fn unless_gone(printed: anyhow::Result<()>) -> anyhow::Result<()> {
    match printed {
        Err(error) if error.is::<ReaderGone>() => Ok(()),
        printed => printed,
    }
}

/// Prints one or more lines. Escapes characters that would control a terminal, because others chose much of the text.
///
/// # Errors
/// [`ReaderGone`], or the error of standard output.
pub(super) fn line(text: impl Display) -> anyhow::Result<()> {
    let text = text.to_string();
    bytes(format!("{}\n", visible_lines(&text)).as_bytes())
}

/// Prints a value as JSON; see [`line`].
pub(super) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    bytes(format!("{}\n", visible_json(&text)).as_bytes())
}

/// Prints each value as a line of JSON; see [`line`].
pub(super) fn json_lines(values: &[impl Serialize]) -> anyhow::Result<()> {
    let mut text = String::new();
    for value in values {
        text += &serde_json::to_string(value)?;
        text.push('\n');
    }
    bytes(visible_json(&text).as_bytes())
}

/// A number and what is counted, in the singular or plural.
pub(super) fn counted(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// Prints bytes as they are.
pub(super) fn bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    match output.write_all(bytes).and_then(|()| output.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        Err(error) => Err(anyhow::Error::new(error).context("standard output")),
    }
}
