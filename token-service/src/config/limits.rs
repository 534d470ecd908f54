//! `[limits]`.

use std::num::NonZeroU32;

use document::Section;

/// Rate limits per client. Each replica counts separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Average number of access tokens per second that a client revokes at `/auth/revoke`.
    pub revocations_per_second: NonZeroU32,
    /// Maximum burst of revocations after a pause.
    pub revocations_burst: NonZeroU32,
}

impl Limits {
    /// The rate is enough for users who sign out. The burst is enough for an integrator that signs out all its users.
    pub(super) const DEFAULT: Self = Self {
        revocations_per_second: NonZeroU32::MIN.saturating_add(19),
        revocations_burst: NonZeroU32::MIN.saturating_add(999),
    };
}

pub(super) fn read(mut section: Section<'_>, default: Limits) -> Limits {
    let mut read = |key, default| section.positive(key).map_or(default, |number| number.value);
    let limits = Limits {
        revocations_per_second: read("revocations_per_second", default.revocations_per_second),
        revocations_burst: read("revocations_burst", default.revocations_burst),
    };
    section.finish();
    limits
}

#[cfg(test)]
mod tests {
    use crate::config::tests::load;

    #[test]
    fn a_limit_is_a_positive_number() {
        let text = "[limits]\nrevocations_per_second = 0\nrevocations_burst = '3'\n";
        assert_eq!(
            load(text, &[]).unwrap_err(),
            [
                "config.toml:2: revocations_per_second: must be a whole number from 1 to 4294967295",
                "config.toml:3: revocations_burst: expected an integer, found a string",
            ]
        );
    }
}
