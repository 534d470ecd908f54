//! The log of refusals: one line of JSON for each, limited by rate, without tokens and personal data.

use proxy_wasm::types::LogLevel;

use super::calls;
use guard::answers::Denial;
use guard::denial_log::{self, Denied};

/// Most lines in a second. Further lines are only counted.
const LINES_PER_SECOND: u32 = 10;

#[derive(Debug, Default)]
pub(super) struct Log {
    second: u64,
    lines: u32,
    left_out: u64,
}

impl Log {
    /// Logs a refused request. `reported`: the request passed because of report-only mode.
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

/// Writes a line to the host's log. A refusal is ignored.
pub(super) fn write(level: LogLevel, line: &str) {
    let _ = calls::log(level, line);
}
