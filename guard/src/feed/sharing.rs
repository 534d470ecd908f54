//! One poll for all VMs of a gateway, through the host's shared data.
//!
//! One VM, the leader, holds the lease and polls. It writes what it reads into a ring of recent pages. The
//! other VMs, the followers, read the ring's head twenty times a second and apply new pages. A page applies
//! only if the follower's own position lies within the page. A follower that finds a gap reads from the token
//! service until it reaches the end of the feed. So two VMs that both act as the leader for a moment
//! do no harm.

use std::fmt::{self, Debug};
use std::hash::{BuildHasher as _, RandomState};

use super::FeedConfig;
use super::wire::{self, Head, Slot, Snapshot};
use crate::revocations::{KINDS, Revocations, Revoked};
use crate::shared_data::{SharedData, SharedDataError};
use crate::shared_key;

/// A leader that did not renew the lease for this many seconds has lost it.
const LEASE_SECONDS: u64 = 3;

/// The lease that no VM holds.
const VACANT: &[u8] = b"";

/// Pages in the ring.
const SLOTS: u64 = 16;

/// Number of new pages after which the leader writes another snapshot: half of the ring, so that the ring continues from
/// every snapshot.
const SNAPSHOT_EVERY: u64 = SLOTS / 2;

/// Most entries of a snapshot. A larger table is not handed over, because the leader needs this memory twice.
const SNAPSHOT_ENTRIES: usize = 250_000;

/// Most entries of a page to which the leader still adds entries, because it writes the whole page again each
/// time.
const SLOT_ENTRIES: usize = 1000;

/// Who polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// This VM polls for itself, because nothing can be shared.
    Alone,
    /// This VM polls for all VMs.
    Leader,
    /// Another VM polls, or no VM polls yet.
    Follower,
}

/// What a follower found in the ring.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    None,
    /// New pages, in order. `is_fresh`: since the last look the leader received a complete answer, and the
    /// pages contain all of it.
    Pages {
        pages: Vec<Slot>,
        is_fresh: bool,
    },
    /// The ring does not contain the follower's position, so the follower must read on from the token service.
    Gap,
    /// The feed has another identity, or was read again from its start. The follower must do the same.
    Anew,
}

/// The part of one VM in the sharing of one feed.
pub(super) struct Sharing {
    /// Prefix of all keys in the shared data.
    prefix: String,
    me: u64,
    pub(super) role: Role,
    /// The lease that this VM last saw, and since when it has not changed, in seconds of the steady clock.
    seen: Option<(Vec<u8>, u64)>,
    looked_at: Option<u64>,
    has_created: bool,
    renewals: u64,
    led_since: u64,
    /// Number of the reading of the feed that the ring holds; `None` while this VM reads from the token
    /// service.
    reading: Option<u64>,
    answers: u64,
    /// Number of the newest page of the ring that this VM has read or written.
    slot: u64,
    tail: Option<Slot>,
    /// Reading and page at which this VM wrote the last snapshot, if it is the leader.
    snapshot: Option<(u64, u64)>,
}

impl Debug for Sharing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("Sharing");
        debug.field("role", &self.role).finish_non_exhaustive()
    }
}

fn random() -> u64 {
    RandomState::new().hash_one(0_u64)
}

impl Sharing {
    /// `prefix` is the same in all VMs that may share the feed.
    pub(super) fn new(prefix: String) -> Self {
        Self {
            prefix,
            me: random(),
            role: Role::Alone,
            seen: None,
            looked_at: None,
            has_created: false,
            renewals: 0,
            led_since: 0,
            reading: None,
            answers: 0,
            slot: 0,
            tail: None,
            snapshot: None,
        }
    }

    fn lease_key(&self) -> String {
        format!("{}.lease", self.prefix)
    }

    fn head_key(&self) -> String {
        format!("{}.head", self.prefix)
    }

    fn snapshot_key(&self) -> String {
        format!("{}.snapshot", self.prefix)
    }

    fn slot_key(&self, slot: u64) -> String {
        format!("{}.page.{}", self.prefix, slot % SLOTS)
    }

    /// Renews this VM's lease, or takes a lease that another VM has lost. `is_ready`: this VM has reached the
    /// end of the feed. `heard_at` is the time of the last complete answer of the token service. A leader
    /// without such an answer for `patience` seconds gives up the lease.
    pub(super) fn elect(
        &mut self,
        data: &dyn SharedData,
        is_ready: bool,
        heard_at: Option<u64>,
        patience: u64,
        now: u64,
    ) {
        if self.role == Role::Alone || self.looked_at == Some(now) {
            return;
        }
        self.looked_at = Some(now);
        let elected = self.try_elect(data, is_ready, heard_at, patience, now);
        if elected.is_err() {
            self.role = Role::Alone;
        }
    }

    fn try_elect(
        &mut self,
        data: &dyn SharedData,
        is_ready: bool,
        heard_at: Option<u64>,
        patience: u64,
        now: u64,
    ) -> Result<(), SharedDataError> {
        let key = self.lease_key();
        let Some((lease, version)) = data.get(&key)? else {
            if self.has_created {
                // The host does not keep what was set.
                return Err(SharedDataError);
            }
            if is_ready {
                self.has_created = true;
                data.set(&key, &self.lease(), None)?;
                // Two VMs may have created the lease: the next look shows who holds it.
                self.looked_at = None;
            }
            return Ok(());
        };
        let is_mine = lease.first_chunk() == Some(&self.me.to_le_bytes());
        if std::mem::take(&mut self.has_created) && is_mine {
            self.lead(now);
        }
        if is_mine && self.role == Role::Leader {
            let heard_at = heard_at.unwrap_or(0).max(self.led_since);
            if now > heard_at.saturating_add(patience) {
                self.step_down();
                return Ok(());
            }
            self.renewals += 1;
            if !data.set(&key, &self.lease(), Some(version))? {
                self.step_down();
            }
            return Ok(());
        }
        if self.role == Role::Leader {
            self.step_down();
        }
        let is_lost = match &self.seen {
            _ if lease == VACANT => true,
            Some((seen, since)) if *seen == lease => now > since + LEASE_SECONDS,
            _ => {
                self.seen = Some((lease, now));
                false
            }
        };
        if is_lost && is_ready && data.set(&key, &self.lease(), Some(version))? {
            self.lead(now);
        }
        Ok(())
    }

    /// This VM ends. If it is the leader, another VM may lead at once.
    pub(super) fn resign(&mut self, data: &dyn SharedData) {
        if self.role != Role::Leader {
            return;
        }
        self.step_down();
        let key = self.lease_key();
        if let Ok(Some((lease, version))) = data.get(&key)
            && lease.first_chunk() == Some(&self.me.to_le_bytes())
        {
            // If the host refuses, the lease is lost as if this VM had crashed.
            let _ = data.set(&key, VACANT, Some(version));
        }
    }

    fn lease(&self) -> Vec<u8> {
        [self.me.to_le_bytes(), self.renewals.to_le_bytes()].concat()
    }

    fn lead(&mut self, now: u64) {
        self.role = Role::Leader;
        self.led_since = now;
        self.tail = None;
        self.snapshot = None;
        self.seen = None;
    }

    fn step_down(&mut self) {
        self.role = Role::Follower;
        self.tail = None;
        // This VM then waits until its own lease expires, like all other VMs.
        self.seen = None;
    }

    /// This VM reads the feed from its start, and the ring continues from the end of that reading.
    pub(super) const fn start_over(&mut self) {
        self.reading = None;
    }

    /// Returns the news since the last look, for a follower at `position` of `feed`.
    pub(super) fn look(&mut self, data: &dyn SharedData, feed: &str, position: u64) -> News {
        let looked = self.try_look(data, feed, position);
        looked.unwrap_or_else(|SharedDataError| {
            self.role = Role::Alone;
            News::None
        })
    }

    fn try_look(
        &mut self,
        data: &dyn SharedData,
        feed: &str,
        position: u64,
    ) -> Result<News, SharedDataError> {
        let Some((head, _)) = data.get(&self.head_key())? else {
            return Ok(News::None);
        };
        let Some(head) = Head::decode(&head) else {
            return Ok(News::None);
        };
        match self.reading {
            Some(reading) if reading == head.reading => {}
            None if head.feed == feed => {
                self.reading = Some(head.reading);
                self.slot = head.slot.saturating_sub(SLOTS - 1);
                self.answers = head.answers;
            }
            _ => return Ok(News::Anew),
        }
        let mut at = position;
        let mut pages = Vec::new();
        if at < head.position {
            for slot in self.slot.max(head.slot.saturating_sub(SLOTS - 1))..=head.slot {
                let Some((page, _)) = data.get(&self.slot_key(slot))? else {
                    continue;
                };
                let page = Slot::decode(&page)
                    .filter(|page| page.reading == head.reading && page.number == slot);
                if let Some(page) = page
                    && page.since <= at
                    && page.position > at
                {
                    at = page.position;
                    pages.push(page);
                }
            }
            if at < head.position {
                return Ok(News::Gap);
            }
        }
        self.slot = head.slot;
        let is_fresh = head.answers != self.answers;
        self.answers = head.answers;
        if pages.is_empty() && !is_fresh {
            return Ok(News::None);
        }
        Ok(News::Pages { pages, is_fresh })
    }

    /// The leader publishes `entries` after `since` up to `position`. `is_complete`: the feed has no more
    /// entries. `is_new`: the feed has another identity than the ring, or its positions started again.
    pub(super) fn publish(&mut self, data: &dyn SharedData, page: &NewPage<'_>) {
        if self.role != Role::Leader {
            return;
        }
        match self.try_publish(data, page) {
            Ok(true) => {}
            // Another leader was faster.
            Ok(false) => self.step_down(),
            Err(SharedDataError) => self.role = Role::Alone,
        }
    }

    fn try_publish(
        &mut self,
        data: &dyn SharedData,
        page: &NewPage<'_>,
    ) -> Result<bool, SharedDataError> {
        let key = self.head_key();
        let old = data.get(&key)?;
        let version = old.as_ref().map(|(_, version)| *version);
        let old = old.and_then(|(head, _)| Head::decode(&head));
        let fits =
            |head: &Head| head.feed == page.feed && head.position <= page.position && !page.is_new;
        let mut head = match old {
            Some(head) if fits(&head) => head,
            old => {
                self.tail = None;
                Head {
                    reading: random(),
                    slot: old.map_or(0, |head| head.slot),
                    answers: 0,
                    answered_at: 0,
                    position: page.since,
                    feed: page.feed.to_owned(),
                }
            }
        };
        if let Some(entries) = page.entries
            && head.position == page.since
            && page.position > page.since
        {
            let slot = self.tail_for(&mut head, page, entries);
            data.set(&self.slot_key(slot.number), &slot.encode(), None)?;
            self.tail = Some(slot);
        }
        head.position = head.position.max(page.position);
        if page.is_complete {
            head.answers += 1;
            head.answered_at = page.at;
        }
        self.reading = Some(head.reading);
        self.slot = head.slot;
        self.answers = head.answers;
        data.set(&key, &head.encode(), version)
    }

    /// The leader writes all entries up to `position` for VMs that start later, if the ring will soon no longer continue
    /// from the last such snapshot.
    pub(super) fn publish_snapshot(
        &mut self,
        data: &dyn SharedData,
        revocations: &Revocations,
        position: u64,
    ) {
        let (Role::Leader, Some(reading)) = (self.role, self.reading) else {
            return;
        };
        let is_recent = self
            .snapshot
            .is_some_and(|(of, slot)| of == reading && self.slot < slot + SNAPSHOT_EVERY);
        if is_recent || revocations.len() > SNAPSHOT_ENTRIES {
            return;
        }
        self.snapshot = Some((reading, self.slot));
        let snapshot = Snapshot {
            reading,
            position,
            missing_until: revocations.missing_until(),
            entries: revocations.entries().collect(),
        };
        // If the host refuses, later VMs read the feed themselves.
        let _ = data.set(&self.snapshot_key(), &snapshot.encode(), None);
    }

    /// Returns what an earlier VM left in the shared data, for a VM that knows nothing yet: identity of the feed, time of
    /// its last complete answer, and the snapshot. The next [`Sharing::look`] continues from there.
    pub(super) fn inherit(&mut self, data: &dyn SharedData) -> Option<(Head, Snapshot)> {
        let value = |key: &str| Some(data.get(key).ok()??.0);
        let head = Head::decode(&value(&self.head_key())?)?;
        let snapshot = Snapshot::decode(&value(&self.snapshot_key())?)?;
        if snapshot.reading != head.reading || head.feed.is_empty() {
            return None;
        }
        self.reading = Some(head.reading);
        self.slot = head.slot.saturating_sub(SLOTS - 1);
        self.answers = head.answers;
        Some((head, snapshot))
    }

    /// Returns the newest page of the ring with the entries added, or a new page.
    fn tail_for(&mut self, head: &mut Head, page: &NewPage<'_>, entries: &[Revoked]) -> Slot {
        let tail = self.tail.take().filter(|tail| {
            let is_newest = tail.reading == head.reading && tail.number == head.slot;
            is_newest && tail.position == page.since && tail.entries.len() < SLOT_ENTRIES
        });
        match tail {
            Some(mut tail) => {
                tail.position = page.position;
                tail.entries.extend_from_slice(entries);
                tail
            }
            None => {
                head.slot += 1;
                Slot {
                    reading: head.reading,
                    number: head.slot,
                    since: page.since,
                    position: page.position,
                    entries: entries.to_vec(),
                }
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct NewPage<'a> {
    pub(super) feed: &'a str,
    pub(super) since: u64,
    pub(super) position: u64,
    /// `None` if the leader read the entries only to catch up. Empty if none of them concerns these issuers: the followers
    /// must learn that they need nothing from there.
    pub(super) entries: Option<&'a [Revoked]>,
    pub(super) is_complete: bool,
    pub(super) is_new: bool,
    /// Seconds of the steady clock.
    pub(super) at: u64,
}

/// Prefix of the feed's keys in the shared data.
pub(super) fn prefix(config: &FeedConfig) -> String {
    let endpoint = config.endpoint.texts().into_iter();
    let issuers = config.issuers.iter().map(String::as_str);
    let texts = endpoint.chain(issuers).chain(KINDS);
    shared_key::prefix("revocations", wire::VERSION, texts)
}
