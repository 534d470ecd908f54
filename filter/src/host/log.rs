//! One line of JSON per refusal, at most so many a second, without token and personal data.

use abi::host::{self, LogLevel};
use serde_json::json;

use guard::answers::Denial;

/// Lines a second at most; what is left out is counted.
const LINES_PER_SECOND: u32 = 10;

/// Writes the lines of one VM.
#[derive(Debug, Default)]
pub(super) struct Log {
    second: u64,
    lines: u32,
    left_out: u64,
}

impl Log {
    /// A refused request. `reported` says that it was let through all the same.
    pub(super) fn refusal(&mut self, denial: &Denial, status: u32, reported: bool, tick: u64) {
        if tick != self.second {
            self.second = tick;
            self.lines = 0;
        }
        if self.lines >= LINES_PER_SECOND {
            self.left_out += 1;
            return;
        }
        self.lines += 1;
        let left_out = std::mem::take(&mut self.left_out);
        let line = json!({
            "event": if reported { "would_deny" } else { "denied" },
            "reason": denial.name(),
            "status": status,
            "left_out": left_out,
        });
        write(LogLevel::Info, &line.to_string());
    }
}

/// Writes a line; a host that does not take it has other troubles.
pub(super) fn write(level: LogLevel, line: &str) {
    let _ = host::log(level, line);
}
