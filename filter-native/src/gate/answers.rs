//! How a request continues, or is answered.

use std::sync::MutexGuard;

use guard::answers::Answer;
use guard::denial_log::{Denied, Line};
use guard::{Effect, Fate};

use super::{Member, Reply};
use crate::abi::{self, Level};
use crate::stream::Stream;

/// Carries out, counts and logs an effect.
pub(super) fn finish(
    mut member: MutexGuard<'_, Member>,
    mut stream: Stream<'_>,
    mut effect: Effect,
    denied: &Denied<'_>,
) -> Reply {
    let line = member.driver.carry_out(&mut effect, denied, &mut stream);
    drop(member);
    if let Some(line) = line {
        log(&line);
    }
    match effect.fate {
        Fate::Answer(answer) => Reply::Answer(answer),
        Fate::Pass { .. } => {
            stream.choose_route();
            Reply::Pass
        }
    }
}

#[cold]
fn log(line: &Line) {
    abi::log(Level::Info, &line.json());
}

/// The answer to a request that nothing can decide about.
#[cold]
pub(crate) fn refusal() -> Answer {
    Answer {
        status: 503,
        headers: vec![
            ("content-type", "application/json".to_owned()),
            ("cache-control", "no-store".to_owned()),
            ("retry-after", "1".to_owned()),
        ],
        body: r#"{"error":"temporarily_unavailable","error_description":"The filter failed; try again"}"#
            .to_owned(),
    }
}
