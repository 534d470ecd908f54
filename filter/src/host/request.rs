//! The handling of one request.

use std::cell::RefCell;

use proxy_wasm::types::{Action, LogLevel};

use super::calls;
use super::clock::Clocks;
use super::log;
use claims::Thumbprint;
use guard::access_log;
use guard::denial_log::Denied;
use guard::driver::{Driver, Passing};
use guard::parts::{CERTIFICATE_DIGEST, Parts};
use guard::verdict::Denial;
use guard::{Connection, Effect, Fate};

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
    let (request, denied) = (parts.as_request(&OfThisContext), parts.as_denied());
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

/// Carries out, counts and logs an effect. If the host refuses to change the request, the request is refused.
pub(super) fn carry_out(
    driver: &RefCell<Driver>,
    mut effect: Effect,
    denied: &Denied<'_>,
) -> Action {
    // The driver is released before the answer, during which a host may call the filter again.
    let line = driver
        .borrow_mut()
        .carry_out(&mut effect, denied, &mut OfThisContext);
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

/// The request whose context is in effect.
#[derive(Debug)]
struct OfThisContext;

impl Connection for OfThisContext {
    fn certificate(&self) -> Option<Thumbprint> {
        let path = CERTIFICATE_DIGEST.replace('.', "\0");
        Thumbprint::parse_hexadecimal(&calls::property(&path).ok()?)
    }
}

impl Passing for OfThisContext {
    fn remove(&mut self, name: &str) -> bool {
        calls::remove_request_header(name.as_bytes()).is_ok()
    }

    fn add(&mut self, name: &str, value: &str) -> bool {
        calls::add_request_header(name, value).is_ok()
    }

    fn tell_access_log(&mut self, entry: &str) {
        let _ = calls::set_property(access_log::PROPERTY, entry.as_bytes());
    }
}
