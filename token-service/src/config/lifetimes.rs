//! `[lifetimes]`.

use std::time::Duration;

use document::Section;
use domain::grant::MAX_CODE_LIFETIME;
use protocol::lifetimes::Lifetimes;

use super::duration::{DAY, MINUTE, SECOND, duration};

pub(super) fn read(mut section: Section<'_>, default: Lifetimes) -> Lifetimes {
    let mut read = |key, default, range| duration(&mut section, key, default, range);
    let lifetimes = Lifetimes {
        access_token: read("access_token", default.access_token, SECOND..=DAY),
        refresh_token: read("refresh_token", default.refresh_token, SECOND..=365 * DAY),
        authorization_code: read(
            "authorization_code",
            default.authorization_code,
            SECOND..=MAX_CODE_LIFETIME,
        ),
        legacy_access_token: read(
            "legacy_access_token",
            default.legacy_access_token,
            SECOND..=DAY,
        ),
        refresh_reuse_grace: read(
            "refresh_reuse_grace",
            default.refresh_reuse_grace,
            Duration::ZERO..=5 * MINUTE,
        ),
        session: read("session", default.session, SECOND..=90 * DAY),
        session_idle: read("session_idle", default.session_idle, SECOND..=90 * DAY),
        recent_sign_in: read("recent_sign_in", default.recent_sign_in, SECOND..=DAY),
        assertion_max: read("assertion_max", default.assertion_max, SECOND..=30 * DAY),
        clock_skew: read(
            "clock_skew",
            default.clock_skew,
            Duration::ZERO..=5 * MINUTE,
        ),
    };
    section.finish();
    lifetimes
}
