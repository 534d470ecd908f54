//! The reader of one revocation feed: when it sends which request to the token service, and what it shares with
//! the gateway's other VMs. Several issuers may use the same feed.
//!
//! The reader asks for one version, and refuses pages of another. It skips and counts entries of an unknown kind, and
//! applies the rest of the page.

mod freshness;
mod in_step;
mod sharing;
mod stalls;
mod wire;

use claims::revocation::{MAX_WAIT_SECONDS, VERSION};
use keys::endpoint::Endpoint;
use keys::schedule::{Schedule, TIMEOUT_SECONDS};

pub use self::freshness::Freshness;
use self::sharing::{NewPage, Role, Sharing, prefix};
use self::stalls::Stalls;
use crate::clock::Time;
use crate::revocations::{Page, Revocations};
use crate::shared_data::SharedData;

/// Seconds without held requests after a held request failed, because a proxy in between may cut long requests.
const SHORT_REQUESTS_SECONDS: u64 = 60;

/// Feeds with a shorter `max_staleness_seconds` are not shared, because a change of the leader takes about this
/// long.
const LEAST_SHARED_STALENESS: u64 = 10;

/// Longest identity of a feed, in bytes.
const MAX_IDENTITY: usize = 64;

/// The configuration of a feed. If several issuers name the same endpoint, the shortest times and the largest
/// table apply.
#[derive(Debug, Clone)]
pub struct FeedConfig {
    pub endpoint: Endpoint,
    pub issuers: Vec<String>,
    /// Time between two requests, in seconds, if the service does not hold requests.
    pub poll_seconds: u64,
    /// Age from which the feed is stale, in seconds.
    pub max_staleness_seconds: u64,
    /// Most entries that the table holds.
    pub max_entries: usize,
    /// Clock skew, in seconds.
    pub skew: u64,
}

/// The last request that was sent.
#[derive(Debug, Clone, Copy, Default)]
struct Asked {
    since: u64,
    /// Seconds for which the service may hold the request; 0 if the service must answer at once.
    wait: u64,
    at: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Path and query.
    pub path: String,
    /// Time limit, in seconds.
    pub timeout: u64,
}

/// The position in a feed, and when the reader was last at its end.
pub type Progress = (u64, Option<u64>);

/// The reader of one feed. Times are seconds of the steady clock, except the `wall` time of [`Time`].
#[derive(Debug)]
pub struct Feed {
    config: FeedConfig,
    revocations: Revocations,
    schedule: Schedule,
    /// Identity of the store behind the feed; `None` before the first page.
    identity: Option<String>,
    pub(crate) position: u64,
    asked: Asked,
    holds: bool,
    short_until: u64,
    /// True if the reader has reached the end of the feed since it last started from the beginning.
    caught_up: bool,
    completed_at: Option<u64>,
    progressed_at: Option<u64>,
    /// The positions of the feed start again at 0, so the leader must start a new ring.
    is_new: bool,
    stalls: Stalls,
    sharing: Sharing,
    skipped: u64,
    /// What [`Feed::take_counts`] has returned so far.
    counted: [u64; 2],
    /// The last unknown kind that was logged.
    unknown_kind: Option<String>,
    was_folding: bool,
    remarks: Vec<String>,
}

impl Feed {
    /// Creates a reader without entries that shares nothing.
    pub fn new(config: FeedConfig) -> Self {
        let sharing = Sharing::new(prefix(&config));
        Self {
            revocations: Revocations::new(config.max_entries, config.skew),
            schedule: Schedule::new(config.poll_seconds),
            identity: None,
            position: 0,
            asked: Asked::default(),
            holds: false,
            short_until: 0,
            caught_up: false,
            completed_at: None,
            progressed_at: None,
            is_new: false,
            stalls: Stalls::new(config.poll_seconds),
            sharing,
            skipped: 0,
            counted: [0; 2],
            unknown_kind: None,
            was_folding: false,
            remarks: Vec::new(),
            config,
        }
    }

    /// Shares pages with the gateway's other VMs, unless `max_staleness_seconds` is below
    /// `LEAST_SHARED_STALENESS`.
    pub fn share(&mut self) {
        if self.config.max_staleness_seconds >= LEAST_SHARED_STALENESS {
            self.sharing.role = Role::Follower;
        }
    }

    pub const fn revocations(&self) -> &Revocations {
        &self.revocations
    }

    pub const fn endpoint(&self) -> &Endpoint {
        &self.config.endpoint
    }

    /// Last time when the reader was at the end of the feed; `None` if it never was.
    pub const fn completed_at(&self) -> Option<u64> {
        self.completed_at
    }

    /// Numbers of entries that were dropped to make room, and that were skipped because their kind is unknown, since the
    /// last call.
    pub fn take_counts(&mut self) -> [u64; 2] {
        let [folded, skipped] = [self.revocations.folded(), self.skipped];
        let [folded_before, skipped_before] =
            std::mem::replace(&mut self.counted, [folded, skipped]);
        [folded - folded_before, skipped - skipped_before]
    }

    /// True until the reader reaches the end of the feed.
    pub const fn is_catching_up(&self) -> bool {
        !self.caught_up
    }

    /// True until the reader first reaches the end of the feed, unless its last request failed.
    pub const fn is_starting(&self) -> bool {
        self.completed_at.is_none() && !self.schedule.is_failing()
    }

    /// True if another VM polls, so that this VM must read the shared pages.
    pub fn follows(&self) -> bool {
        self.caught_up && self.sharing.role == Role::Follower
    }

    /// How far the reader is.
    pub const fn progress(&self) -> Progress {
        (self.position, self.completed_at)
    }

    /// Returns the remarks for the log since the last call.
    pub fn take_remarks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.remarks)
    }

    pub const fn freshness(&self) -> Freshness {
        Freshness {
            completed_at: self.completed_at,
            progressed_at: self.progressed_at,
        }
    }

    /// Brings the next request forward, because a client's request needs the feed now.
    pub fn hurry(&mut self, now: u64) {
        self.schedule.hurry(now);
    }

    /// Returns the request to send now, if any, and counts it as sent.
    pub fn due(&mut self, now: u64) -> Option<Request> {
        if self.follows() || !self.schedule.is_due(now) {
            return None;
        }
        let may_wait = self.caught_up && self.holds && now >= self.short_until;
        let longest = MAX_WAIT_SECONDS.min(self.config.max_staleness_seconds / 3);
        let wait = if may_wait { longest } else { 0 };
        let timeout = TIMEOUT_SECONDS + wait;
        self.schedule.started(now, timeout);
        self.asked = Asked {
            since: self.position,
            wait,
            at: now,
        };
        let path = &self.config.endpoint.path;
        let separator = if path.contains('?') { '&' } else { '?' };
        let mut path = format!("{path}{separator}version={VERSION}");
        if let Some(identity) = &self.identity {
            path.push_str(&format!("&feed={identity}"));
        }
        path.push_str(&format!("&since={}", self.position));
        if wait > 0 {
            path.push_str(&format!("&wait={wait}"));
        }
        Some(Request { path, timeout })
    }

    pub fn failed(&mut self, now: u64) {
        if self.asked.wait > 0 {
            self.short_until = now + SHORT_REQUESTS_SECONDS;
        }
        self.schedule.failed(now);
    }

    /// Applies the page that the request returned.
    ///
    /// # Errors
    /// What is wrong with the page. The reader then applies nothing of it.
    pub fn answered(
        &mut self,
        body: &[u8],
        data: &dyn SharedData,
        time: Time,
    ) -> Result<(), String> {
        let page = Page::read(body, &self.config.issuers)?;
        let identity = page.feed.as_str();
        let url_safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if identity.is_empty() || identity.len() > MAX_IDENTITY || !identity.bytes().all(url_safe) {
            return Err("its feed is not base64url of up to 64 characters".to_owned());
        }
        let (since, position) = (page.since, page.position);
        if position < since || (page.more && position == since) {
            return Err("its position does not advance from since".to_owned());
        }
        let mut pause = None;
        if self.identity.as_deref() != Some(identity) {
            let is_first = self.identity.is_none() && self.position == 0;
            self.identity = Some(identity.to_owned());
            if !is_first {
                pause = Some(self.start_anew());
            }
            if since > 0 {
                self.schedule.pauses(time.steady, pause.unwrap_or(0));
                return Ok(());
            }
        } else if since == 0 && self.asked.since > 0 {
            pause = Some(self.start_anew());
        } else if since > self.position {
            // This answers a request that was given up.
            return Ok(());
        }
        self.apply(&page, since, position, pause, data, time);
        Ok(())
    }

    /// Applies a page. `pause`: until the next request, if the page is the first after a new start.
    fn apply(
        &mut self,
        page: &Page,
        since: u64,
        position: u64,
        pause: Option<u64>,
        data: &dyn SharedData,
        time: Time,
    ) {
        let now = time.steady;
        self.note_unknown(page);
        let generation = self.revocations.generation();
        self.revocations.add(&page.revoked, time.wall);
        let added = self.revocations.generation() != generation;
        self.note_folding();
        let is_known = position <= self.position;
        self.position = position.max(self.position);
        self.holds = page.holds;
        let was_caught_up = self.caught_up;
        if !page.more {
            self.completed(now);
        } else if !is_known {
            self.progressed_at = Some(now);
        }
        let polls = !self.holds || now < self.short_until || self.config.max_staleness_seconds < 3;
        // A service that holds requests answers without news only when the time is over.
        let came_early = now.saturating_sub(self.asked.at) < self.asked.wait.div_ceil(2);
        match pause {
            Some(pause) if page.more || pause > 0 => self.schedule.pauses(now, pause),
            None if is_known && (page.more || (came_early && !polls)) => {
                self.schedule.pauses(now, self.stalls.added_nothing());
            }
            _ if page.more => match self.stalls.is_barren(added, self.revocations.len()) {
                true => self.schedule.pauses(now, self.stalls.added_nothing()),
                false => self.schedule.continues(now),
            },
            _ => {
                if since == self.asked.since {
                    self.stalls.settled();
                }
                match polls {
                    true => self.schedule.succeeded(now),
                    false => self.schedule.continues(now),
                }
            }
        }
        if self.caught_up {
            let published = NewPage {
                feed: self.identity.as_deref().unwrap_or_default(),
                since,
                position: self.position,
                entries: was_caught_up.then_some(&page.revoked),
                is_complete: !page.more,
                is_new: self.is_new,
                at: now,
            };
            self.sharing.publish(data, &published);
            self.is_new = false;
            self.sharing
                .publish_snapshot(data, &self.revocations, self.position);
        }
    }

    fn completed(&mut self, now: u64) {
        self.completed_at = Some(now);
        if !self.caught_up {
            self.caught_up = true;
            self.revocations.trust();
        }
    }

    /// The feed has another identity, or its positions went back. Entries that were read stay until they
    /// expire. Returns the pause until the next request, in seconds.
    fn start_anew(&mut self) -> u64 {
        self.is_new = true;
        self.start_over();
        self.stalls.started()
    }

    fn start_over(&mut self) {
        self.position = 0;
        self.caught_up = false;
        self.sharing.start_over();
    }

    /// The wall clock stepped. The reader starts over, because it may have dropped entries as expired too
    /// early.
    pub fn doubt(&mut self, now: u64) {
        self.revocations.doubt();
        self.start_over();
        self.schedule.continues(now);
    }

    /// This VM ends. Another VM may poll at once.
    pub fn resign(&mut self, data: &dyn SharedData) {
        self.sharing.resign(data);
    }

    /// Removes expired entries from a part of the table.
    pub fn sweep(&mut self, wall: u64) {
        self.revocations.sweep(wall);
        self.note_folding();
    }

    fn note_unknown(&mut self, page: &Page) {
        let Some((count, kind)) = &page.unknown else {
            return;
        };
        self.skipped += *count as u64;
        if self.unknown_kind.as_ref() != Some(kind) {
            let kind: String = kind.escape_default().take(MAX_IDENTITY).collect();
            self.remarks.push(format!(
                "entries of the kind {kind} are skipped: this filter does not know it. Update the filter"
            ));
        }
        self.unknown_kind = Some(kind.clone());
    }

    fn note_folding(&mut self) {
        let folding = self.revocations.folded_until();
        if folding.is_some() == self.was_folding {
            return;
        }
        self.was_folding = folding.is_some();
        self.remarks.push(match folding {
            Some(until) => format!(
                "more than {} revocations are live: the earliest to end were folded, and tokens that expire by {until} \
                 are refused. Raise max_entries",
                self.config.max_entries
            ),
            None => "all live revocations are held again: no token is refused for its age".to_owned(),
        });
    }
}

#[cfg(test)]
mod tests;
