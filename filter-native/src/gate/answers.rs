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
    let description = "The filter failed; try again";
    Answer::error(503, "temporarily_unavailable", description)
}
