//! The handling of one request.

use proxy_wasm::types::Action;

use super::calls;
use super::shared::{HeldRequest, Shared, now};
use guard::access_log;
use guard::answers::Denial;
use guard::denial_log::Denied;
use guard::guard::{Decision, Effect, Fate, Outcome, Patience, Request};
use guard::waiting::{Source, Turn};

const AUTHORIZATION: &str = "authorization";
const REQUEST_ID: &[u8] = b"x-request-id";

/// Decides about a request when its headers have arrived.
pub(super) fn decide(shared: &Shared, context: u32) -> Action {
    // One call returns all headers. In most requests, none of them must be removed.
    let Ok(headers) = calls::request_headers() else {
        return refuse_unstripped(shared, &Denied::default());
    };
    let mut parts = Parts::default();
    let guard = shared.guard.borrow();
    let mut is_stripped = true;
    for (name, value) in &headers {
        parts.note(name, value);
        // Headers that only the filter may set are removed first (RFC 9700 §4.13).
        is_stripped &= !guard.strips(name) || calls::remove_request_header(name).is_ok();
    }
    drop(guard);
    let (request, denied) = (parts.as_request(), parts.as_denied());
    if !is_stripped {
        return refuse_unstripped(shared, &denied);
    }
    let outcome = shared
        .guard
        .borrow_mut()
        .decide(request, Patience::Left, shared.tick(), now);
    match outcome.decision {
        Decision::Wait { issuer, subject } => {
            wait(context, shared, (issuer, subject), request, &denied)
        }
        _ => execute(shared, outcome, &denied),
    }
}

/// Refuses a request that may still carry a header that only the filter may set, in report-only mode too.
fn refuse_unstripped(shared: &Shared, denied: &Denied<'_>) -> Action {
    let refusal = shared.guard.borrow().refusal(Denial::Host, None);
    carry_out(shared, refusal, denied)
}

/// Refuses every request while the plugin has no valid configuration.
pub(super) fn refuse_unconfigured() -> Action {
    let _ = calls::respond(503, &[], b"");
    Action::Pause
}

/// The headers that the decision needs.
#[derive(Default)]
struct Parts<'a> {
    method: &'a [u8],
    target: &'a [u8],
    /// The first two `Authorization` headers. A request with more than one is refused.
    authorization: [&'a [u8]; 2],
    authorizations: usize,
    /// Only for the log.
    request_id: &'a [u8],
}

impl<'a> Parts<'a> {
    fn note(&mut self, name: &[u8], value: &'a [u8]) {
        match name {
            b":method" => self.method = value,
            b":path" => self.target = value,
            REQUEST_ID => self.request_id = value,
            _ if name == AUTHORIZATION.as_bytes() => {
                if let Some(place) = self.authorization.get_mut(self.authorizations) {
                    *place = value;
                    self.authorizations += 1;
                }
            }
            _ => {}
        }
    }

    fn as_request(&self) -> Request<'_> {
        Request {
            method: self.method,
            target: self.target,
            authorization: self
                .authorization
                .get(..self.authorizations)
                .unwrap_or_default(),
        }
    }

    const fn as_denied(&self) -> Denied<'a> {
        Denied {
            method: self.method,
            target: self.target,
            request_id: self.request_id,
        }
    }
}

/// Holds the request until the next fetch from `source` has ended.
fn wait(
    context: u32,
    shared: &Shared,
    source: Source,
    request: Request<'_>,
    denied: &Denied<'_>,
) -> Action {
    let mut waiting = shared.waiting.borrow_mut();
    if waiting.is_full() {
        drop(waiting);
        return execute(shared, Denial::Busy.into(), denied);
    }
    let held = HeldRequest {
        method: request.method.to_vec(),
        target: request.target.to_vec(),
        authorization: request
            .authorization
            .iter()
            .map(|header| header.to_vec())
            .collect(),
        request_id: denied.bounded_request_id().to_vec(),
    };
    waiting.hold(context, source, shared.steady(), held);
    drop(waiting);
    shared.hurry();
    Action::Pause
}

/// Decides again about a request that has waited: passes, answers or refuses it, or holds it again. The host
/// must have the request's context in effect.
pub(super) fn resume(shared: &Shared, turn: Turn<HeldRequest>) {
    let held = &turn.request;
    let authorization: Vec<&[u8]> = held.authorization.iter().map(Vec::as_slice).collect();
    let request = Request {
        method: &held.method,
        target: &held.target,
        authorization: &authorization,
    };
    let outcome = shared
        .guard
        .borrow_mut()
        .decide(request, turn.patience, shared.tick(), now);
    match outcome.decision {
        Decision::Wait { issuer, subject } => {
            let mut waiting = shared.waiting.borrow_mut();
            waiting.hold_again(turn, (issuer, subject), shared.steady());
            drop(waiting);
            shared.hurry();
        }
        _ => {
            let denied = Denied {
                method: &held.method,
                target: &held.target,
                request_id: &held.request_id,
            };
            if execute(shared, outcome, &denied) == Action::Continue {
                let _ = calls::continue_request();
            }
        }
    }
}

fn execute(shared: &Shared, outcome: Outcome, denied: &Denied<'_>) -> Action {
    let effect = shared.guard.borrow().effect(outcome);
    carry_out(shared, effect, denied)
}

/// Carries out, counts and logs an effect. If the host refuses to change the request, the request is refused.
fn carry_out(shared: &Shared, effect: Effect, denied: &Denied<'_>) -> Action {
    let effect = alter(shared, effect);
    let Effect {
        fate,
        denial,
        token,
    } = &effect;
    let mut guard = shared.guard.borrow_mut();
    guard.count(&effect);
    // One property for everything, because each call costs as much as the rest of the work for a cached token.
    if guard.config().access_log_state {
        let entry = access_log::entry(effect.name(), token.as_deref());
        let _ = calls::set_property(access_log::PROPERTY, entry.as_bytes());
    }
    // Guard and log are released before the answer, during which a host may call the filter again.
    drop(guard);
    let (status, passes) = match fate {
        Fate::Pass { .. } => (0, true),
        Fate::Answer(answer) => (answer.status, false),
    };
    if let Some(denial) = denial {
        let mut log = shared.log.borrow_mut();
        log.refusal(denial, status, passes, denied, shared.tick());
    }
    let Fate::Answer(answer) = fate else {
        return Action::Continue;
    };
    let headers: Vec<(&str, &str)> = answer
        .headers
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let _ = calls::respond(answer.status, &headers, answer.body.as_bytes());
    Action::Pause
}

/// Changes the headers of a request that passes.
fn alter(shared: &Shared, effect: Effect) -> Effect {
    let Fate::Pass {
        add,
        withhold_authorization,
    } = &effect.fate
    else {
        return effect;
    };
    if *withhold_authorization && calls::remove_request_header(AUTHORIZATION.as_bytes()).is_err() {
        return shared.guard.borrow().refusal(Denial::Host, effect.token);
    }
    let added = add
        .iter()
        .all(|(name, value)| calls::add_request_header(name, value).is_ok());
    if added {
        return effect;
    }
    let outcome = Outcome {
        decision: Decision::Deny(Denial::Host),
        token: effect.token,
    };
    shared.guard.borrow().effect(outcome)
}
