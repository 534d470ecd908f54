//! What a driver does with a request that is decided.

use super::Driver;
use crate::access_log;
use crate::denial_log::{Denied, Line};
use crate::parts::{AUTHORIZATION, DPOP};
use crate::verdict::Denial;
use crate::{Authorization, Effect, Fate};

/// A request in the hands of a host that changes headers itself.
pub trait Passing {
    /// Removes every header of this name. Returns false if the host refuses.
    fn remove(&mut self, name: &str) -> bool;

    /// Adds a header. Returns false if the host refuses.
    fn add(&mut self, name: &str, value: &str) -> bool;

    /// Gives [`access_log`]'s data to the gateway's access log.
    fn tell_access_log(&mut self, entry: &str);
}

impl Driver {
    /// Changes the headers of a request that passes, and counts the effect. If the host refuses a change, the effect becomes a
    /// refusal. Returns the line for the host's log. The host may call the driver again while it answers.
    pub fn carry_out(
        &mut self,
        effect: &mut Effect,
        denied: &Denied<'_>,
        request: &mut impl Passing,
    ) -> Option<Line> {
        self.alter(effect, request);
        let line = self.carried_out(effect, denied);
        // One property for everything, because in some hosts each call costs as much as the rest of the work for a cached
        // token.
        if self.guard.config().access_log_state {
            tell_access_log(effect, request);
        }
        line
    }

    fn alter(&self, effect: &mut Effect, request: &mut impl Passing) {
        let Fate::Pass { add, authorization } = &effect.fate else {
            return;
        };
        let is_done = match authorization {
            Authorization::AsSent => true,
            Authorization::Withheld => request.remove(AUTHORIZATION),
            Authorization::AsBearer(value) => {
                request.remove(AUTHORIZATION)
                    && request.remove(DPOP)
                    && request.add(AUTHORIZATION, value)
            }
        };
        if !is_done {
            *effect = self.guard.refusal(Denial::Host, effect.token.take());
        } else if !add.iter().all(|(name, value)| request.add(name, value)) {
            *effect = self.guard.denial(Denial::Host, effect.token.take());
        }
    }

    /// Counts what the host has done with a request. Returns a line for the log if the request was refused, or would have
    /// been without report-only mode. A nonce for a proof (D-54) would only displace lines about refused requests.
    pub fn carried_out(&mut self, effect: &Effect, request: &Denied<'_>) -> Option<Line> {
        self.guard.count(effect);
        let denial = effect.denial.as_ref().filter(|denial| !denial.is_step())?;
        let (status, passes) = match &effect.fate {
            Fate::Pass { .. } => (0, true),
            Fate::Answer(answer) => (answer.status, false),
        };
        self.denial_line(denial.name(), status, passes, request)
    }

    /// The line for the log about a request that the host refused for its own reason; `None` if there have been too many
    /// lines in this second. `passes`: the request passes because of report-only mode.
    #[cold]
    pub fn denial_line(
        &mut self,
        reason: &'static str,
        status: u32,
        passes: bool,
        request: &Denied<'_>,
    ) -> Option<Line> {
        let left_out = self.throttle.admits(self.time.steady)?;
        Some(Line::new(reason, status, passes, left_out, request))
    }
}

#[inline(never)]
fn tell_access_log(effect: &Effect, request: &mut impl Passing) {
    let entry = access_log::entry(effect.name(), effect.token.as_deref());
    request.tell_access_log(&entry);
}
