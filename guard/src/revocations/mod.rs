//! What the issuers of one feed have revoked, in little memory and without stalls.
//!
//! An entry takes 20 bytes, or 24 if it revokes up to a time; measured with all around it, 24 bytes. When the table is full, it folds: it drops
//! the entries that end soonest, and from then on refuses every token that expires no later than the last entry it
//! dropped. An entry concerns only tokens that expire by its `exp`, so no revoked token comes back. A token that is got
//! anew expires later, so nobody is locked out.

mod page;
mod table;

use std::collections::BTreeMap;

pub use page::{MAX_PAGE_BYTES, Page, Revoked};

use self::page::Names;
use self::table::{Row, Table};
use crate::verify::{Refusal, TokenReference};

/// One part in so many of the table is dropped when it is full.
const FOLDED_PART: usize = 16;

/// A sweep goes over the whole table in so many slices.
const SWEEP_SLICES: usize = 64;

/// The revocations of one feed. Times are seconds since 1970; the last that fits stands for all later ones.
#[derive(Debug)]
pub struct Revocations {
    capacity: usize,
    /// How much longer than until its `exp` an entry is kept, in seconds: as long as tokens are accepted.
    skew: u64,
    grants: Table<()>,
    tokens: Table<()>,
    /// With the time up to which tokens are revoked.
    many: Table<u32>,
    /// How many entries end at each second.
    ends: BTreeMap<u32, usize>,
    generation: u64,
    /// The generation of the last change of `many`.
    many_changed: u64,
    /// Tokens that expire by then are refused, because entries for them were dropped to make room; 0 without.
    folded_until: u32,
    /// The latest `exp` of the entries that were forgotten because it was over. If the clock goes back, tokens that
    /// expire by then are good again, and their revocations are not known.
    forgotten_until: u32,
    /// The same from before the feed was read again from its start.
    forgotten_before: u32,
    folded: u64,
}

/// Seconds since 1970, as rows have them.
fn seconds(time: u64) -> u32 {
    u32::try_from(time).unwrap_or(u32::MAX)
}

impl Revocations {
    /// An empty table for at most `capacity` entries, which are kept until their `exp` and `skew` seconds more.
    #[must_use]
    pub fn new(capacity: usize, skew: u64) -> Self {
        Self {
            capacity: capacity.max(1),
            skew,
            grants: Table::default(),
            tokens: Table::default(),
            many: Table::default(),
            ends: BTreeMap::new(),
            generation: 0,
            many_changed: 0,
            folded_until: 0,
            forgotten_until: 0,
            forgotten_before: 0,
            folded: 0,
        }
    }

    /// Entries that are held.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.grants.len() + self.tokens.len() + self.many.len()
    }

    /// Whether no entry is held.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rises with every change after which a token may be refused that was not before. It never falls, whatever becomes
    /// of the feed: a token that was looked up at this generation need not be looked up again.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Tokens that expire by then are refused because the table was full; `None` while all entries are held.
    #[must_use]
    pub fn folded_until(&self) -> Option<u64> {
        (self.folded_until > 0).then_some(self.folded_until.into())
    }

    /// Entries that were dropped so far to make room.
    #[must_use]
    pub const fn folded(&self) -> u64 {
        self.folded
    }

    /// Adds entries at this time. What is known already changes nothing.
    pub fn add(&mut self, entries: &[Revoked], now: u64) {
        // A page may be larger than a small table: room is made bit by bit.
        for entries in entries.chunks((self.capacity / FOLDED_PART).max(1)) {
            self.make_room(entries.len(), now);
            let over = self.over(now);
            let next = self.generation + 1;
            for entry in entries {
                if entry.exp <= over {
                    self.forgotten_until = self.forgotten_until.max(entry.exp);
                } else if entry.exp > self.folded_until {
                    self.add_one(entry, next);
                }
            }
        }
    }

    fn add_one(&mut self, entry: &Revoked, generation: u64) {
        let known = match entry.names {
            Names::Grant => self.grants.get_mut(&entry.key).map(|row| &mut row.exp),
            Names::Token => self.tokens.get_mut(&entry.key).map(|row| &mut row.exp),
            Names::Many => self.many.get_mut(&entry.key).map(|row| {
                if entry.at > row.value {
                    row.value = entry.at;
                    self.generation = generation;
                    self.many_changed = generation;
                }
                &mut row.exp
            }),
        };
        if let Some(exp) = known {
            if entry.exp > *exp {
                uncount(&mut self.ends, *exp);
                *exp = entry.exp;
                *self.ends.entry(entry.exp).or_default() += 1;
            }
            return;
        }
        match entry.names {
            Names::Grant => self.grants.add(entry.key, entry.exp, ()),
            Names::Token => self.tokens.add(entry.key, entry.exp, ()),
            Names::Many => {
                self.many.add(entry.key, entry.exp, entry.at);
                self.many_changed = generation;
            }
        }
        *self.ends.entry(entry.exp).or_default() += 1;
        self.generation = generation;
    }

    /// Entries that end by then concern no token that is accepted at this time.
    fn over(&self, now: u64) -> u32 {
        seconds(now.saturating_sub(self.skew).saturating_sub(1))
    }

    /// Makes room for so many entries: by sweeping out those that are over, and those that are folded.
    fn make_room(&mut self, entries: usize, now: u64) {
        let surplus = (self.len() + entries).saturating_sub(self.capacity);
        if surplus == 0 {
            return;
        }
        let bar = self.over(now).max(self.folded_until);
        let ended: usize = self.ends.range(..=bar).map(|(_, count)| count).sum();
        if ended < surplus {
            let mut left = surplus + self.capacity / FOLDED_PART;
            for (end, count) in &self.ends {
                self.folded_until = *end;
                left = left.saturating_sub(*count);
                if left == 0 {
                    break;
                }
            }
            self.generation += 1;
        }
        // What the bar names is there, so the end comes before the second round through all buckets.
        let buckets = self.grants.buckets() + self.tokens.buckets() + self.many.buckets();
        for _ in 0..=2 * buckets {
            if self.len() + entries <= self.capacity {
                break;
            }
            self.sweep_buckets(1, now);
        }
    }

    /// Forgets what is over in a part of the table, and returns whether folding ended.
    pub fn sweep(&mut self, now: u64) -> bool {
        let tables = [
            self.grants.buckets(),
            self.tokens.buckets(),
            self.many.buckets(),
        ];
        let largest = tables.into_iter().fold(0, usize::max);
        self.sweep_buckets(largest / SWEEP_SLICES + 1, now);
        let has_ended = self.folded_until > 0 && self.folded_until <= self.over(now);
        if has_ended {
            self.forgotten_until = self.forgotten_until.max(self.folded_until);
            self.folded_until = 0;
        }
        has_ended
    }

    fn sweep_buckets(&mut self, buckets: usize, now: u64) {
        let (over, folded_until) = (self.over(now), self.folded_until);
        let (ends, folded, forgotten) =
            (&mut self.ends, &mut self.folded, &mut self.forgotten_until);
        let mut is_over = |exp: u32| {
            if exp <= over {
                *forgotten = exp.max(*forgotten);
            } else if exp <= folded_until {
                *folded += 1;
            } else {
                return false;
            }
            uncount(ends, exp);
            true
        };
        self.grants.sweep(buckets, |row: &Row<()>| is_over(row.exp));
        self.tokens.sweep(buckets, |row: &Row<()>| is_over(row.exp));
        self.many.sweep(buckets, |row: &Row<u32>| is_over(row.exp));
    }

    /// The clock was wrong, or may have been: what was forgotten may be needed, and comes with the feed, which is now read
    /// again from its start. Until it is read, tokens are refused that expire no later than what was forgotten.
    pub fn doubt(&mut self) {
        self.forgotten_before = self.forgotten_before.max(self.forgotten_until);
        self.forgotten_until = 0;
        self.generation += 1;
    }

    /// The feed was read from its start to its end.
    pub const fn trust(&mut self) {
        self.forgotten_before = 0;
    }

    /// Why a token of the issuer `iss` is refused, if it is. `since` is the generation at which it was last looked up
    /// and not refused; 0 if it never was.
    #[must_use]
    pub fn refusal(&self, token: &TokenReference, iss: &str, since: u64) -> Option<Refusal> {
        let grant = token.grant_id.as_deref();
        let is_revoked = grant.is_some_and(|id| self.grants.get(&page::grant(id)).is_some())
            || (token.jti.as_deref()).is_some_and(|id| self.tokens.get(&page::token(id)).is_some())
            || (self.many_changed > since && self.names_among_many(token, iss));
        let missing = self
            .folded_until
            .max(self.forgotten_until)
            .max(self.forgotten_before);
        if is_revoked {
            Some(Refusal::Revoked)
        } else if seconds(token.exp) <= missing {
            Some(Refusal::Folded)
        } else {
            None
        }
    }

    /// Whether the token's client, user, account or issuer is revoked.
    fn names_among_many(&self, token: &TokenReference, iss: &str) -> bool {
        let iat = seconds(token.iat);
        let issued_before = |key| self.many.get(&key).is_some_and(|row| iat <= row.value);
        let client = token.client_id.as_deref().map(page::client);
        client.is_some_and(issued_before)
            || issued_before(page::issuer(iss))
            || token.sub.as_deref().is_some_and(|sub| {
                issued_before(page::user(Some(iss), sub))
                    || issued_before(page::user(None, sub))
                    || match (&token.user_id, &token.user_site) {
                        (Some(id), Some(site)) => issued_before(page::account(iss, sub, id, site)),
                        _ => false,
                    }
            })
    }
}

fn uncount(ends: &mut BTreeMap<u32, usize>, exp: u32) {
    if let Some(count) = ends.get_mut(&exp) {
        *count -= 1;
        if *count == 0 {
            ends.remove(&exp);
        }
    }
}

#[cfg(test)]
mod tests;
