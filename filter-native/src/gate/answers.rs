//! How a request goes on, or is answered.

use std::sync::MutexGuard;

use guard::answers::Answer;
use guard::denial_log::{Denied, Line};
use guard::guard::{Effect, Fate};

use super::Member;
use crate::abi::{self, Action, Level, Stream};

/// Carries out, counts and logs an effect. The member is released before the answer, during which Envoy may call the filter
/// again.
pub(super) fn finish(
    mut member: MutexGuard<'_, Member>,
    mut stream: Stream,
    mut effect: Effect,
    denied: &Denied<'_>,
) -> Action {
    let line = member.driver.carry_out(&mut effect, denied, &mut stream);
    drop(member);
    if let Some(line) = line {
        log(&line);
    }
    match &effect.fate {
        Fate::Answer(answer) => respond(&mut stream, answer),
        Fate::Pass { .. } => {
            stream.choose_route();
            Action::Continue
        }
    }
}

#[cold]
fn log(line: &Line) {
    abi::log(Level::Info, &line.json());
}

#[cold]
fn respond(stream: &mut Stream, answer: &Answer) -> Action {
    stream.respond(answer.status, &answer.headers, answer.body.as_bytes());
    Action::Stop
}

/// Refuses a request that nothing can decide about.
#[cold]
pub(crate) fn refuse(stream: &mut Stream) -> Action {
    let headers = [
        ("content-type", "application/json".to_owned()),
        ("cache-control", "no-store".to_owned()),
        ("retry-after", "1".to_owned()),
    ];
    let body = br#"{"error":"temporarily_unavailable","error_description":"The filter failed; try again"}"#;
    stream.respond(503, &headers, body);
    Action::Stop
}
