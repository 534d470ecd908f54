//! The reader of one revocation feed: what it asks the token service, and when; and what it shares with the gateway's other
//! VMs. Several issuers may have the same feed.
//!
//! What a reader makes of a feed that is newer or older than itself: it asks for version 2. A token service that knows only
//! version 1 ignores the parameters of version 2 and answers version 1, which is read as well. A reader of version 1 names
//! no version and gets version 1 from a newer token service: the kinds `grant`, `token`, `client` and `user`, a user in
//! place of one of the user's accounts, and no cut-off of an issuer, which it could not read. An entry whose kind this reader does not know is counted and skipped, and everything else in
//! the page is applied.

mod sharing;
mod wire;

use claims::revocation::{MAX_WAIT_SECONDS, VERSION};
use sha2::{Digest as _, Sha256};

use self::sharing::{News, Published, Role, Sharing};
pub use self::sharing::{NoSharedData, Refused, SharedData, Versioned};
use crate::clock::Time;
use crate::fetch::{Schedule, TIMEOUT_SECONDS};
use crate::revocations::{Page, Revocations};
use crate::source::Endpoint;

/// After a request that the service should have held failed, none is held for so many seconds: something on the way may
/// not bear it.
const SHORT_REQUESTS_SECONDS: u64 = 60;

/// Feeds that may be stale earlier than this, in seconds, are not shared: a change of the leader takes that long.
const LEAST_SHARED_STALENESS: u64 = 10;

/// Where pages come in order, but the end does not, the feed becomes stale after so many times the configured age.
const PROGRESS_FACTOR: u64 = 10;

/// Longest identity of a feed, in bytes.
const MAX_IDENTITY: usize = 64;

/// A feed, as configured. Of issuers that name the same endpoint, the shortest times and the largest table count.
#[derive(Debug, Clone)]
pub struct FeedConfig {
    /// From where.
    pub endpoint: Endpoint,
    /// Names of the issuers.
    pub issuers: Vec<String>,
    /// How often it is asked, in seconds, where requests are not held.
    pub poll_seconds: u64,
    /// Age beyond which it is stale, in seconds.
    pub max_staleness_seconds: u64,
    /// Entries that are held at most.
    pub max_entries: usize,
    /// Clock skew, in seconds.
    pub skew: u64,
}

/// The request that is under way.
#[derive(Debug, Clone, Copy, Default)]
struct Asked {
    since: u64,
    /// Seconds for which the service may hold it; 0 if it answers at once.
    wait: u64,
    at: u64,
}

/// A request to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its path and query.
    pub path: String,
    /// How long it may take, in seconds.
    pub timeout: u64,
}

/// The reader of one feed. Times are those of the steady clock, in seconds, but for the `wall` time of [`Time`].
#[derive(Debug)]
pub struct Feed {
    config: FeedConfig,
    revocations: Revocations,
    schedule: Schedule,
    /// Of the store behind the feed; `None` before the first page, and in version 1.
    identity: Option<String>,
    position: u64,
    asked: Asked,
    holds: bool,
    short_until: u64,
    /// Whether the end was reached since the reading started.
    caught_up: bool,
    completed_at: Option<u64>,
    progressed_at: Option<u64>,
    /// The positions of the feed started anew: the ring must, too.
    is_new: bool,
    /// The answer that is under way belongs to a reading that was given up.
    is_void: bool,
    sharing: Sharing,
    skipped: u64,
    /// The kind of the entry that was skipped last.
    unknown_kind: Option<String>,
    was_folding: bool,
    remarks: Vec<String>,
}

impl Feed {
    /// A reader that knows nothing yet, and shares nothing.
    #[must_use]
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
            is_void: false,
            sharing,
            skipped: 0,
            unknown_kind: None,
            was_folding: false,
            remarks: Vec::new(),
            config,
        }
    }

    /// Lets it share what it reads with the gateway's other VMs, if they can wait for one another.
    pub fn share(&mut self) {
        if self.config.max_staleness_seconds >= LEAST_SHARED_STALENESS {
            self.sharing.role = Role::Follower;
        }
    }

    /// The entries.
    #[must_use]
    pub const fn revocations(&self) -> &Revocations {
        &self.revocations
    }

    /// Where it comes from.
    #[must_use]
    pub const fn endpoint(&self) -> &Endpoint {
        &self.config.endpoint
    }

    /// When everything was known; `None` before the first time.
    #[must_use]
    pub const fn completed_at(&self) -> Option<u64> {
        self.completed_at
    }

    /// Entries of unknown kinds that were skipped so far.
    #[must_use]
    pub const fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Whether this VM is between a page and the next one, on the way to the end of the feed.
    #[must_use]
    pub const fn is_catching_up(&self) -> bool {
        !self.caught_up
    }

    /// Whether another VM polls, so that this one must look at what they share.
    #[must_use]
    pub fn follows(&self) -> bool {
        self.caught_up && self.sharing.role == Role::Follower
    }

    /// What the log should say, since the last call.
    pub fn take_remarks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.remarks)
    }

    /// Whether the entries are good for decisions: the whole feed was known within `max_staleness` seconds. A reader that
    /// gets page after page and does not reach the end, because so much is revoked, is behind by no more than it takes
    /// to read them; but after a multiple of that age the end must have been reached.
    #[must_use]
    pub fn is_fresh(&self, max_staleness: u64, now: u64) -> bool {
        let within =
            |time: Option<u64>, age| time.is_some_and(|time| now <= time.saturating_add(age));
        within(self.completed_at, max_staleness)
            || (within(self.progressed_at, max_staleness)
                && within(
                    self.completed_at,
                    max_staleness.saturating_mul(PROGRESS_FACTOR),
                ))
    }

    /// A request needs the feed now.
    pub fn hurry(&mut self, now: u64) {
        self.schedule.hurry(now);
    }

    /// The request that is due, which counts as sent.
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

    /// The request failed.
    pub fn failed(&mut self, now: u64) {
        self.is_void = false;
        if self.asked.wait > 0 {
            self.short_until = now + SHORT_REQUESTS_SECONDS;
        }
        self.schedule.failed(now);
    }

    /// The request brought a page.
    ///
    /// # Errors
    /// What is wrong with the page; nothing of it is applied then.
    pub fn answered(
        &mut self,
        body: &[u8],
        data: &dyn SharedData,
        time: Time,
    ) -> Result<(), String> {
        let page = Page::read(body, &self.config.issuers)?;
        if std::mem::take(&mut self.is_void) {
            self.schedule.continues(time.steady);
            return Ok(());
        }
        match page.feed.clone() {
            Some(identity) => self.read_page(&identity, page, data, time),
            None => self.read_first_version(page, data, time),
        }
    }

    fn read_page(
        &mut self,
        identity: &str,
        page: Page,
        data: &dyn SharedData,
        time: Time,
    ) -> Result<(), String> {
        let url_safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if identity.is_empty() || identity.len() > MAX_IDENTITY || !identity.bytes().all(url_safe) {
            return Err("its feed is not base64url of up to 64 characters".to_owned());
        }
        let (since, position) = (page.since.unwrap_or(0), page.position.unwrap_or(0));
        if position < since || (page.more && position == since) {
            return Err("its position does not go on from since".to_owned());
        }
        if self.identity.as_deref() != Some(identity) {
            let is_first = self.identity.is_none() && self.position == 0;
            self.identity = Some(identity.to_owned());
            if !is_first {
                self.start_anew();
            }
            if since > 0 {
                self.schedule.continues(time.steady);
                return Ok(());
            }
        } else if since == 0 && self.asked.since > 0 {
            self.start_anew();
        } else if since > self.position {
            // The answer to a request that was given up.
            return Ok(());
        }
        self.apply(&page, since, position, data, time);
        Ok(())
    }

    fn read_first_version(
        &mut self,
        page: Page,
        data: &dyn SharedData,
        time: Time,
    ) -> Result<(), String> {
        let since = self.asked.since;
        if self.identity.take().is_some() || page.last < Some(since) {
            self.start_anew();
            self.schedule.continues(time.steady);
            return Ok(());
        }
        if page.first.is_some_and(|first| first <= since) {
            return Err("its entries are out of order".to_owned());
        }
        let position = page.position.unwrap_or(since);
        self.apply(&page, since, position, data, time);
        Ok(())
    }

    fn apply(&mut self, page: &Page, since: u64, position: u64, data: &dyn SharedData, time: Time) {
        let now = time.steady;
        self.note_unknown(page);
        self.revocations.add(&page.revoked, time.wall);
        self.note_folding();
        self.position = position.max(self.position);
        self.holds = page.holds;
        let was_caught_up = self.caught_up;
        let waited = now.saturating_sub(self.asked.at);
        let came_early = position == since && waited < self.asked.wait.div_ceil(2);
        if page.more {
            self.progressed_at = Some(now);
            self.schedule.continues(now);
        } else {
            self.completed(now);
            if !self.holds || now < self.short_until || self.config.max_staleness_seconds < 3 {
                self.schedule.succeeded(now);
            } else if came_early {
                // A service that does not hold after all must not be asked without end.
                self.schedule.pauses(now, 1);
            } else {
                self.schedule.continues(now);
            }
        }
        if self.caught_up {
            let entries: &[_] = if was_caught_up { &page.revoked } else { &[] };
            let published = Published {
                feed: self.identity.as_deref().unwrap_or_default(),
                since,
                position: self.position,
                entries,
                is_complete: !page.more,
                is_new: self.is_new,
            };
            self.sharing.publish(data, &published);
            self.is_new = false;
        }
    }

    fn completed(&mut self, now: u64) {
        self.completed_at = Some(now);
        if !self.caught_up {
            self.caught_up = true;
            self.revocations.trust();
        }
    }

    /// The feed is another one, or its positions went back. What was read stays revoked until it ends by itself.
    fn start_anew(&mut self) {
        self.is_new = true;
        self.start_over();
    }

    fn start_over(&mut self) {
        self.position = 0;
        self.caught_up = false;
        self.sharing.start_over();
    }

    /// The wall clock stepped: entries that were forgotten under the wrong time are needed again.
    pub fn doubt(&mut self, now: u64) {
        self.revocations.doubt();
        self.start_over();
        if self.schedule.is_running(now) && self.asked.wait == 0 {
            // It is here soon, and version 1 does not say what it answers.
            self.is_void = true;
        } else {
            self.schedule.continues(now);
        }
    }

    /// Keeps in step with the other VMs: twenty times a second for those that follow. Returns whether something is known
    /// now that was not before.
    pub fn keep_in_step(&mut self, data: &dyn SharedData, time: Time) -> bool {
        let now = time.steady;
        let patience = self.asked.wait + 3 * TIMEOUT_SECONDS;
        let role = self.sharing.role;
        self.sharing
            .elect(data, self.caught_up, self.completed_at, patience, now);
        if self.sharing.role != Role::Follower && role == Role::Follower {
            self.schedule.continues(now);
        }
        if !self.follows() {
            return false;
        }
        let feed = self.identity.as_deref().unwrap_or_default();
        match self.sharing.look(data, feed, self.position) {
            News::None => false,
            News::Pages { pages, is_fresh } => {
                for page in &pages {
                    self.revocations.add(&page.entries, time.wall);
                    self.position = page.position;
                }
                self.note_folding();
                if is_fresh {
                    self.completed(now);
                } else {
                    self.progressed_at = Some(now);
                }
                true
            }
            News::Gap => {
                self.caught_up = false;
                self.schedule.continues(now);
                false
            }
            News::Anew => {
                // One that has just read the feed need not read it again at once: the leader may come to know later.
                self.start_over();
                self.schedule.succeeded(self.completed_at.unwrap_or(0));
                false
            }
        }
    }

    /// Forgets what is over, a part of it at each call.
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

/// What the keys of the shared data start with. It names everything that makes a page mean the same to two VMs.
fn prefix(config: &FeedConfig) -> String {
    let endpoint = &config.endpoint;
    let mut hash = Sha256::new();
    let texts = [&endpoint.cluster, &endpoint.authority, &endpoint.path];
    for text in texts.into_iter().chain(&config.issuers) {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    let mut prefix = format!("gatepass.revocations.{}.", wire::VERSION);
    for byte in hash.finalize().iter().take(16) {
        prefix.push_str(&format!("{byte:02x}"));
    }
    prefix
}

#[cfg(test)]
mod tests;
