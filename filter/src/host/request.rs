//! The way of one request through the host.

use abi::{Action, host};

use super::shared::{HeldRequest, Shared, now};
use guard::access_log;
use guard::answers::{Answer, Denial};
use guard::denial_log::Denied;
use guard::forward::Header;
use guard::guard::{Decision, Outcome, Patience, Request};
use guard::verify::TokenReference;
use guard::waiting::{Source, Turn};

const AUTHORIZATION: &str = "authorization";
const REQUEST_ID: &[u8] = b"x-request-id";

/// Decides about a request whose headers have come.
pub(super) fn decide(shared: &Shared, context: u32) -> Action {
    // One call for all headers: it also shows whether there is anything to remove, usually nothing.
    let Ok(headers) = host::request_headers() else {
        return refuse_unstripped(shared, &Denied::default());
    };
    let mut parts = Parts::default();
    let guard = shared.guard.borrow();
    let mut is_stripped = true;
    for (name, value) in &headers {
        parts.note(name, value);
        // What only the filter may set, before anything else (RFC 9700 §4.13).
        is_stripped &= !guard.strips(name) || host::remove_request_header(name).is_ok();
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

/// For a request that may still carry what only the filter may set, or a token that the resource server must not see: it
/// does not pass, not even in report-only mode.
fn refuse_unstripped(shared: &Shared, request: &Denied<'_>) -> Action {
    publish(shared, Denial::Busy.name(), None);
    let own = Denial::Busy.answer(shared.guard.borrow().config());
    refuse(shared, &Denial::Busy, &own, request)
}

/// For a request of a root that has no configuration: nobody can say what may pass.
pub(super) fn refuse_unconfigured() -> Action {
    let _ = host::respond(503, &[], b"");
    Action::Pause
}

/// The headers that deciding needs.
#[derive(Default)]
struct Parts<'a> {
    method: &'a [u8],
    target: &'a [u8],
    /// The first two: more than one is refused, whatever they are.
    authorization: [&'a [u8]; 2],
    authorizations: usize,
    /// For the log alone.
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

/// Holds the request until the next fetch from this source has ended.
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
        return deny(shared, &Denial::Busy, None, denied);
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

/// Decides about a request that has waited, and lets it go on, answers it, or holds it again if it may wait. The host must
/// have its context in effect.
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
        Decision::Wait { issuer, subject } if turn.patience == Patience::Left => {
            let mut waiting = shared.waiting.borrow_mut();
            waiting.hold_again(turn, (issuer, subject));
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
                let _ = host::continue_request();
            }
        }
    }
}

fn execute(shared: &Shared, Outcome { decision, token }: Outcome, request: &Denied<'_>) -> Action {
    let token = token.as_deref();
    match decision {
        Decision::Allow(headers) => allow(shared, &headers, token, request),
        Decision::Answer(own) => {
            publish(shared, access_log::METADATA, None);
            answer(&own)
        }
        Decision::Deny(denial) => deny(shared, &denial, token, request),
        // Only a request with patience left is told to wait.
        Decision::Wait { .. } => deny(shared, &Denial::KeysUnavailable, token, request),
    }
}

/// For the access log. One call for everything: each costs as much as the rest of the work on a known token.
fn publish(shared: &Shared, outcome: &str, token: Option<&TokenReference>) {
    if shared.guard.borrow().config().access_log_state {
        let entry = access_log::entry(outcome, token);
        let _ = host::set_property(access_log::PROPERTY, entry.as_bytes());
    }
}

fn allow(
    shared: &Shared,
    headers: &[Header],
    token: Option<&TokenReference>,
    request: &Denied<'_>,
) -> Action {
    for (name, value) in headers {
        if host::add_request_header(name, value).is_err() {
            return deny(shared, &Denial::Busy, token, request);
        }
    }
    if withhold_authorization(shared).is_err() {
        return refuse_unstripped(shared, request);
    }
    let outcome = token.map_or(access_log::ANONYMOUS, |_| access_log::ALLOWED);
    publish(shared, outcome, token);
    Action::Continue
}

/// Removes the token where the resource server must not see it, whatever became of the request.
fn withhold_authorization(shared: &Shared) -> Result<(), host::Refused> {
    if shared.guard.borrow().config().forward_authorization {
        return Ok(());
    }
    host::remove_request_header(AUTHORIZATION.as_bytes())
}

fn deny(
    shared: &Shared,
    denial: &Denial,
    token: Option<&TokenReference>,
    request: &Denied<'_>,
) -> Action {
    publish(shared, denial.name(), token);
    let decision = shared.guard.borrow_mut().execute(denial);
    match decision {
        Decision::Answer(own) => refuse(shared, denial, &own, request),
        // Report-only: it passes, but not with more than an allowed request has.
        _ => {
            if withhold_authorization(shared).is_err() {
                return refuse_unstripped(shared, request);
            }
            let mut log = shared.log.borrow_mut();
            log.refusal(denial, 0, true, request, shared.tick());
            Action::Continue
        }
    }
}

fn refuse(shared: &Shared, denial: &Denial, own: &Answer, request: &Denied<'_>) -> Action {
    // Released before the answer, in which a host may call the filter again.
    shared
        .log
        .borrow_mut()
        .refusal(denial, own.status, false, request, shared.tick());
    answer(own)
}

fn answer(own: &Answer) -> Action {
    let headers: Vec<(&str, &str)> = own
        .headers
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let _ = host::respond(own.status, &headers, own.body.as_bytes());
    Action::Pause
}
