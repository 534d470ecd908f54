//! `[audit]`.

use std::time::Duration;

use document::Section;

use super::duration::{DAY, HOUR, duration};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Audit {
    pub keep_for: Duration,
    /// True if the service also writes each entry as a line of JSON to standard output.
    pub standard_output: bool,
}

pub(super) fn read(mut section: Section<'_>, default: Audit) -> Audit {
    let audit = Audit {
        keep_for: duration(
            &mut section,
            "keep_for",
            default.keep_for,
            HOUR..=3650 * DAY,
        ),
        standard_output: section
            .flag("standard_output")
            .map_or(default.standard_output, |flag| flag.value),
    };
    section.finish();
    audit
}
