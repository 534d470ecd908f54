//! `[signing]`.

use claims::Algorithm;
use document::Section;
use protocol::settings::Signing;

use super::duration::{DAY, HOUR, SECOND, duration};

pub(super) fn read(mut section: Section<'_>, default: Signing) -> Signing {
    let algorithm = section.parsed("algorithm", |name| {
        Algorithm::from_name(name).ok_or_else(|| {
            let names = Algorithm::ALL.map(Algorithm::name).join(", ");
            format!("expected one of {names}")
        })
    });
    let signing = Signing {
        algorithm: algorithm.map_or(default.algorithm, |algorithm| algorithm.value),
        rotate_every: duration(
            &mut section,
            "rotate_every",
            default.rotate_every,
            HOUR..=365 * DAY,
        ),
        // The service announces a successor while its predecessor signs. The shortest `rotate_every` is as long as the longest
        // `announce_for`, so there are never two successors at once.
        announce_for: duration(
            &mut section,
            "announce_for",
            default.announce_for,
            SECOND..=HOUR,
        ),
    };
    section.finish();
    signing
}
