//! The revocations of one feed, in little memory and without long pauses.
//!
//! An entry takes 20 bytes, or 24 if it revokes tokens up to a time. Measured with all overhead, an entry takes
//! 24 bytes. A full table folds: it drops the entries that expire first, and from then on refuses every token
//! that expires no later than the last dropped entry. An entry concerns only tokens that expire by its `exp`,
//! so no revoked token is accepted again. A new token expires later, so no client is locked out.

mod page;
mod table;

use std::collections::BTreeMap;

pub(crate) use page::KINDS;
pub use page::{Page, Revoked};

use self::page::Names;
use self::table::{Row, Table};
use crate::verify::{Refusal, TokenReference};

/// A full table drops one entry in this many.
const FOLDED_PART: usize = 16;

/// Number of calls in which a sweep covers the whole table.
const SWEEP_SLICES: usize = 64;

/// The revocations of one feed. Times are seconds since 1970; times too large for 32 bits are stored as the
/// largest value.
#[derive(Debug)]
pub struct Revocations {
    capacity: usize,
    /// Seconds for which an entry is kept after its `exp`, because tokens are accepted for so long.
    skew: u64,
    grants: Table<()>,
    tokens: Table<()>,
    /// Entries for clients, users, accounts, issuers and keys, with the `iat` up to which tokens are revoked.
    many: Table<u32>,
    /// Number of entries by `exp`.
    ends: BTreeMap<u32, usize>,
    generation: u64,
    /// The generation of the last change of `many`.
    many_changed: u64,
    /// Tokens with an `exp` up to this time are refused, because their entries may have been dropped to make
    /// room; 0 if none.
    folded_until: u32,
    /// The latest `exp` of the entries that were removed as expired. If the clock goes back, tokens with an
    /// `exp` up to this time are valid again, but their revocations are not known.
    forgotten_until: u32,
    /// The value of `forgotten_until` from before the feed was read again from its start.
    forgotten_before: u32,
    folded: u64,
}

fn seconds(time: u64) -> u32 {
    u32::try_from(time).unwrap_or(u32::MAX)
}

impl Revocations {
    /// Creates a table for at most `capacity` entries. An entry is kept until `skew` seconds after its `exp`.
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

    pub const fn len(&self) -> usize {
        self.grants.len() + self.tokens.len() + self.many.len()
    }

    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rises with every change that may revoke a token. It never falls, not even when the feed is read again. A
    /// token that was looked up at this generation need not be looked up again.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Tokens with an `exp` up to this time are refused, because the table was full; `None` if no entry was
    /// folded.
    pub fn folded_until(&self) -> Option<u64> {
        (self.folded_until > 0).then_some(self.folded_until.into())
    }

    /// Number of entries that were dropped to make room.
    pub const fn folded(&self) -> u64 {
        self.folded
    }

    /// Adds entries. Known entries change nothing.
    pub fn add(&mut self, entries: &[Revoked], now: u64) {
        // A page may be larger than a small table.
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

    /// Entries with an `exp` up to this time concern no token that is accepted at `now`.
    fn over(&self, now: u64) -> u32 {
        seconds(now.saturating_sub(self.skew).saturating_sub(1))
    }

    /// Makes room for this many entries: removes expired entries, and folds if that is not enough.
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
        // Enough entries end by `bar`, so the loop ends before the second round through all buckets.
        let buckets = self.grants.buckets() + self.tokens.buckets() + self.many.buckets();
        for _ in 0..=2 * buckets {
            if self.len() + entries <= self.capacity {
                break;
            }
            self.sweep_buckets(1, now);
        }
    }

    /// Removes expired entries from a part of the table. Returns true if folding ended.
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

    /// The clock was wrong, or may have been, so removed entries may still be needed. The feed is read again
    /// from its start. Until then, tokens that expire no later than the last removed entry are refused.
    pub fn doubt(&mut self) {
        self.forgotten_before = self.forgotten_before.max(self.forgotten_until);
        self.forgotten_until = 0;
        self.generation += 1;
    }

    /// All entries, for another VM.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Revoked> {
        let of = |names, key, exp, at| Revoked {
            names,
            key,
            at,
            exp,
        };
        let grants = self.grants.rows();
        let tokens = self.tokens.rows();
        let grants = grants.map(move |row| of(Names::Grant, row.key(), row.exp, 0));
        let tokens = tokens.map(move |row| of(Names::Token, row.key(), row.exp, 0));
        let many = self.many.rows();
        let many = many.map(move |row| of(Names::Many, row.key(), row.exp, row.value));
        grants.chain(tokens).chain(many)
    }

    /// Entries for tokens that expire up to this time may be missing, in seconds since 1970.
    pub(crate) fn missing_until(&self) -> u64 {
        let missing = self.folded_until.max(self.forgotten_until);
        missing.max(self.forgotten_before).into()
    }

    /// Adds the entries of another VM's table. Tokens that expire up to `missing_until` are refused.
    pub(crate) fn inherit(&mut self, entries: &[Revoked], missing_until: u64, now: u64) {
        self.forgotten_until = self.forgotten_until.max(seconds(missing_until));
        self.add(entries, now);
    }

    /// The feed was read from its start to its end.
    pub const fn trust(&mut self) {
        self.forgotten_before = 0;
    }

    /// Returns why a token of the issuer `iss` is refused, if it is. `since` is the generation at which the
    /// token was last looked up and not refused; 0 if it was never looked up.
    pub fn refusal(&self, token: &TokenReference, iss: &str, since: u64) -> Option<Refusal> {
        let grant = token.grant_id.as_deref();
        let is_revoked = grant.is_some_and(|id| self.grants.get(&page::grant(id)).is_some())
            || (token.jti.as_deref()).is_some_and(|id| self.tokens.get(&page::token(id)).is_some())
            || (self.many_changed > since && self.names_among_many(token, iss));
        if is_revoked {
            Some(Refusal::Revoked)
        } else if u64::from(seconds(token.exp)) <= self.missing_until() {
            Some(Refusal::Folded)
        } else {
            None
        }
    }

    /// True if the token's client, user (at all clients or at this client), account, issuer, key or certificate is revoked.
    fn names_among_many(&self, token: &TokenReference, iss: &str) -> bool {
        let iat = seconds(token.iat);
        let issued_before = |key| self.many.get(&key).is_some_and(|row| iat <= row.value);
        let client_id = token.client_id.as_deref();
        client_id.map(page::client).is_some_and(issued_before)
            || issued_before(page::issuer(iss))
            || (token.bound_to.thumbprints())
                .any(|thumbprint| issued_before(page::key(&thumbprint.to_string())))
            || token.sub.as_deref().is_some_and(|sub| {
                issued_before(page::user(iss, sub))
                    || client_id.is_some_and(|id| issued_before(page::user_at_client(iss, sub, id)))
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
