//! One line of JSON per refusal, at most so many a second, without token and personal data.

use proxy_wasm::types::LogLevel;

use super::calls;
use guard::answers::Denial;
use guard::denial_log::{self, Denied};

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
    pub(super) fn refusal(
        &mut self,
        denial: &Denial,
        status: u32,
        reported: bool,
        request: &Denied<'_>,
        tick: u64,
    ) {
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
        let line = denial_log::line(denial, status, reported, left_out, request);
        write(LogLevel::Info, &line);
    }
}

/// Writes a line; a host that does not take it has other troubles.
pub(super) fn write(level: LogLevel, line: &str) {
    let _ = calls::log(level, line);
}
