//! Durations such as `10m`, under any key.

use std::ops::RangeInclusive;
use std::time::Duration;

use document::Section;

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const HOUR: Duration = Duration::from_secs(60 * 60);
pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The duration at `key`, in whole seconds and within `range`; `default` if it is absent or invalid.
pub(super) fn duration(
    section: &mut Section<'_>,
    key: &'static str,
    default: Duration,
    range: RangeInclusive<Duration>,
) -> Duration {
    if let Some(number) = section.integer(key) {
        let message = format!(
            "expected a duration in quotes, such as \"60s\", \"10m\", \"1h\" or \"7d\"; write \"{number}s\" for {number} seconds"
        );
        section.problem(key, &message);
        section.skip(key);
        return default;
    }
    let read = section.parsed(key, |text| {
        let duration = humantime::parse_duration(text)
            .map_err(|_| format!("{text} is not a duration such as 60s, 10m, 1h or 7d"))?;
        if duration.subsec_nanos() != 0 {
            return Err("must be whole seconds".to_owned());
        }
        if !range.contains(&duration) {
            let [least, most] = [range.start(), range.end()].map(|limit| spell(*limit));
            return Err(format!("must be from {least} to {most}"));
        }
        Ok(duration)
    });
    read.map_or(default, |duration| duration.value)
}

/// Writes a limit in days, because the library would write months and years.
fn spell(limit: Duration) -> String {
    let days = limit.as_secs() / DAY.as_secs();
    if days >= 1 {
        format!("{days}d")
    } else {
        humantime::format_duration(limit).to_string()
    }
}
