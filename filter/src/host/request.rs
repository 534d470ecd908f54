//! The handling of one request.

use std::cell::RefCell;

use proxy_wasm::types::{Action, LogLevel};

use super::calls;
use super::clock::Clocks;
use super::log;
use guard::access_log;
use guard::answers::Denial;
use guard::denial_log::Denied;
use guard::driver::Driver;
use guard::guard::{Effect, Fate, Request};

const AUTHORIZATION: &str = "authorization";
const REQUEST_ID: &[u8] = b"x-request-id";

/// Decides about a request when its headers have arrived. `None` if the request waits.
pub(super) fn decide(driver: &RefCell<Driver>, context: u32) -> Option<Action> {
    // One call returns all headers. In most requests, none of them must be removed.
    let Ok(headers) = calls::request_headers() else {
        return Some(refuse_unstripped(driver, &Denied::default()));
    };
    let mut parts = Parts::default();
    let stripping = driver.borrow();
    let mut is_stripped = true;
    for (name, value) in &headers {
        parts.note(name, value);
        // Headers that only the filter may set are removed first (RFC 9700 §4.13).
        is_stripped &=
            !stripping.guard().strips(name) || calls::remove_request_header(name).is_ok();
    }
    drop(stripping);
    let (request, denied) = (parts.as_request(), parts.as_denied());
    if !is_stripped {
        return Some(refuse_unstripped(driver, &denied));
    }
    let mut deciding = driver.borrow_mut();
    let effect = deciding.arrived(context, request, &denied, &Clocks)?;
    drop(deciding);
    Some(carry_out(driver, effect, &denied))
}

/// Refuses a request that may still carry a header that only the filter may set, in report-only mode too.
fn refuse_unstripped(driver: &RefCell<Driver>, denied: &Denied<'_>) -> Action {
    let refusal = driver.borrow().guard().refusal(Denial::Host, None);
    carry_out(driver, refusal, denied)
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

/// Carries out, counts and logs an effect. If the host refuses to change the request, the request is refused.
pub(super) fn carry_out(driver: &RefCell<Driver>, effect: Effect, denied: &Denied<'_>) -> Action {
    let effect = alter(driver, effect);
    let mut counting = driver.borrow_mut();
    let line = counting.carried_out(&effect, denied);
    // One property for everything, because each call costs as much as the rest of the work for a cached token.
    if counting.guard().config().access_log_state {
        let entry = access_log::entry(effect.name(), effect.token.as_deref());
        let _ = calls::set_property(access_log::PROPERTY, entry.as_bytes());
    }
    // The driver is released before the answer, during which a host may call the filter again.
    drop(counting);
    if let Some(line) = line {
        log::write(LogLevel::Info, &line.json());
    }
    let Fate::Answer(answer) = &effect.fate else {
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
fn alter(driver: &RefCell<Driver>, effect: Effect) -> Effect {
    let Fate::Pass {
        add,
        withhold_authorization,
    } = &effect.fate
    else {
        return effect;
    };
    if *withhold_authorization && calls::remove_request_header(AUTHORIZATION.as_bytes()).is_err() {
        let refused = driver.borrow();
        return refused.guard().refusal(Denial::Host, effect.token);
    }
    let added = add
        .iter()
        .all(|(name, value)| calls::add_request_header(name, value).is_ok());
    if added {
        return effect;
    }
    let denied = driver.borrow();
    denied.guard().denial(Denial::Host, effect.token)
}
