//! The way of one request through the host.

use std::rc::Rc;

use proxy_wasm::hostcalls;
use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::{Action, Bytes, MapType};

use super::shared::{MAX_WAITING, Shared, Waiting, now};
use crate::access_log;
use crate::answers::{Answer, Denial};
use crate::fetch::TIMEOUT_SECONDS;
use crate::forward::Header;
use crate::guard::{Decision, Outcome, Patience, Request, Subject};
use crate::verify::TokenReference;

const AUTHORIZATION: &str = "authorization";

/// One request.
pub(super) struct RequestContext {
    context_id: u32,
    shared: Rc<Shared>,
}

impl RequestContext {
    pub(super) const fn new(context_id: u32, shared: Rc<Shared>) -> Self {
        Self { context_id, shared }
    }
}

impl Context for RequestContext {}

impl HttpContext for RequestContext {
    fn on_http_request_headers(&mut self, _: usize, _: bool) -> Action {
        // One call for all headers: it also shows whether there is anything to remove, usually nothing.
        let Ok(headers) = hostcalls::get_map_bytes(MapType::HttpRequestHeaders) else {
            publish(&self.shared, Denial::Busy.name(), None);
            return answer(&Denial::Busy.answer(self.shared.guard.borrow().config()));
        };
        strip(&self.shared, &headers);
        let request = Parts::of(&headers);
        let outcome = self.shared.guard.borrow_mut().decide(
            request.as_request(),
            Patience::Left,
            self.shared.tick(),
            now,
        );
        match outcome.decision {
            Decision::Wait { issuer, subject } => {
                wait(self.context_id, &self.shared, (issuer, subject), &request)
            }
            _ => execute(&self.shared, outcome),
        }
    }
}

impl Drop for RequestContext {
    fn drop(&mut self) {
        if let Ok(mut waiting) = self.shared.waiting.try_borrow_mut() {
            waiting.remove(&self.context_id);
        }
    }
}

/// The headers that deciding needs.
struct Parts<'a> {
    method: &'a [u8],
    target: &'a [u8],
    authorization: Vec<&'a [u8]>,
}

impl<'a> Parts<'a> {
    fn of(headers: &'a [(String, Bytes)]) -> Self {
        let mut parts = Self {
            method: b"",
            target: b"",
            authorization: Vec::with_capacity(1),
        };
        for (name, value) in headers {
            match name.as_str() {
                ":method" => parts.method = value,
                ":path" => parts.target = value,
                AUTHORIZATION => parts.authorization.push(value),
                _ => {}
            }
        }
        parts
    }

    fn as_request(&self) -> Request<'_> {
        Request {
            method: self.method,
            target: self.target,
            authorization: &self.authorization,
        }
    }
}

/// Removes what only the filter may set, before anything else (RFC 9700 §4.13).
fn strip(shared: &Shared, headers: &[(String, Bytes)]) {
    let guard = shared.guard.borrow();
    for (name, _) in headers {
        if guard.strips(name.as_bytes()) {
            let _ = hostcalls::remove_map_value(MapType::HttpRequestHeaders, name);
        }
    }
}

/// Holds the request until the next fetch from this source has ended.
fn wait(context_id: u32, shared: &Shared, source: (usize, Subject), request: &Parts<'_>) -> Action {
    let mut waiting = shared.waiting.borrow_mut();
    if waiting.len() >= MAX_WAITING {
        drop(waiting);
        return deny(shared, &Denial::Busy, None);
    }
    waiting.insert(
        context_id,
        Waiting {
            source,
            method: request.method.to_vec(),
            target: request.target.to_vec(),
            authorization: request
                .authorization
                .iter()
                .map(|header| header.to_vec())
                .collect(),
            fetch_started: false,
            until: shared.tick() + TIMEOUT_SECONDS,
        },
    );
    drop(waiting);
    shared.hurry();
    Action::Pause
}

/// Decides about a request that has waited, and lets it go on, answers it, or has it wait on if it may. The host must
/// have its context in effect.
pub(super) fn resume(shared: &Shared, context_id: u32, mut waited: Waiting, patience: Patience) {
    let authorization: Vec<&[u8]> = waited.authorization.iter().map(Vec::as_slice).collect();
    let request = Request {
        method: &waited.method,
        target: &waited.target,
        authorization: &authorization,
    };
    let outcome = shared
        .guard
        .borrow_mut()
        .decide(request, patience, shared.tick(), now);
    match outcome.decision {
        Decision::Wait { issuer, subject } if patience == Patience::Left => {
            waited.source = (issuer, subject);
            shared.waiting.borrow_mut().insert(context_id, waited);
            shared.hurry();
        }
        _ => {
            if execute(shared, outcome) == Action::Continue {
                let _ = hostcalls::resume_http_request();
            }
        }
    }
}

fn execute(shared: &Shared, Outcome { decision, token }: Outcome) -> Action {
    let token = token.as_deref();
    match decision {
        Decision::Allow(headers) => allow(shared, &headers, token),
        Decision::Answer(own) => {
            publish(shared, access_log::METADATA, None);
            answer(&own)
        }
        Decision::Deny(denial) => deny(shared, &denial, token),
        // Only a request that has not waited yet is told to.
        Decision::Wait { .. } => deny(shared, &Denial::KeysUnavailable, token),
    }
}

/// For the access log. One call for everything: each costs as much as the rest of the work on a known token.
fn publish(shared: &Shared, outcome: &str, token: Option<&TokenReference>) {
    if shared.guard.borrow().config().access_log_state {
        let entry = access_log::entry(outcome, token);
        let _ = hostcalls::set_property(vec![access_log::PROPERTY], Some(entry.as_bytes()));
    }
}

fn allow(shared: &Shared, headers: &[Header], token: Option<&TokenReference>) -> Action {
    for (name, value) in headers {
        if hostcalls::add_map_value(MapType::HttpRequestHeaders, name, value).is_err() {
            return deny(shared, &Denial::Busy, token);
        }
    }
    if !shared.guard.borrow().config().forward_authorization {
        let _ = hostcalls::remove_map_value(MapType::HttpRequestHeaders, AUTHORIZATION);
    }
    let outcome = token.map_or(access_log::ANONYMOUS, |_| access_log::ALLOWED);
    publish(shared, outcome, token);
    Action::Continue
}

fn deny(shared: &Shared, denial: &Denial, token: Option<&TokenReference>) -> Action {
    publish(shared, denial.name(), token);
    let decision = shared.guard.borrow_mut().execute(denial);
    let mut log = shared.log.borrow_mut();
    match decision {
        Decision::Answer(own) => {
            log.refusal(denial, own.status, false, shared.tick());
            answer(&own)
        }
        _ => {
            log.refusal(denial, 0, true, shared.tick());
            Action::Continue
        }
    }
}

fn answer(own: &Answer) -> Action {
    let headers = own
        .headers
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let _ = hostcalls::send_http_response(own.status, headers, Some(own.body.as_bytes()));
    Action::Pause
}
