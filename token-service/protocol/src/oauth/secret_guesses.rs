//! Delays that slow down guesses of client secrets, per client and client address (RFC 6749 §10.10).
//!
//! The store counts the failures, so the counts survive restarts and apply to all replicas. A client with the right
//! secret does not pay for that: this process remembers the clients and addresses that sent a wrong secret, and asks
//! the store first only for these.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::client_authentication;
use super::error::{ErrorCode, TokenError};
use crate::Context;
use crate::sign_in::network;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{Admission, Pace, PacedKey};
use store::StoreError;

const MINUTE: Duration = Duration::from_secs(60);

/// Secrets of one client from one address. A client with a wrong configuration fails at once and continues to fail.
/// After the secret is corrected, only this client has to wait a moment.
const PACE: Pace = Pace {
    free: 20,
    longest: MINUTE.saturating_mul(5),
    forget_one_after: MINUTE,
};

/// Time for which a process remembers a wrong secret; longer than the longest wait.
const SUSPECTED_FOR: Duration = MINUTE.saturating_mul(30);

/// Maximum number of pairs of client and address that a process remembers.
const MOST_SUSPECTS: usize = 10_000;

/// Pairs of client and address that recently sent a wrong secret.
#[derive(Debug, Default)]
pub struct Suspects {
    /// Until when there are suspects, in seconds since 1970.
    any_until: AtomicU64,
    until: Mutex<HashMap<Digest, Timestamp>>,
}

impl Suspects {
    /// False if there is no suspect. Then a request needs no key, which takes as long as the rest of the check.
    fn are_any(&self, now: Timestamp) -> bool {
        now.seconds() < self.any_until.load(Ordering::Relaxed)
    }

    fn contain(&self, key: &Digest, now: Timestamp) -> bool {
        let until = self.until();
        until.get(key).is_some_and(|until| now < *until)
    }

    fn add(&self, key: Digest, now: Timestamp) {
        let mut until = self.until();
        if until.len() >= MOST_SUSPECTS && !until.contains_key(&key) {
            until.retain(|_, until| now < *until);
        }
        if until.len() >= MOST_SUSPECTS {
            // Any entry, because the map has random order. The pair becomes a suspect again at its next wrong secret.
            let first = until.keys().next().copied();
            first.map(|first| until.remove(&first));
        }
        let last = now + SUSPECTED_FOR;
        until.insert(key, last);
        self.any_until.fetch_max(last.seconds(), Ordering::Relaxed);
    }

    fn until(&self) -> MutexGuard<'_, HashMap<Digest, Timestamp>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that may contain a client secret. It has no `Debug`, because the headers contain the secret.
#[must_use]
pub struct Guess<'a> {
    context: Context<'a>,
    suspects: &'a Suspects,
    authorization: &'a [&'a [u8]],
    address: Option<IpAddr>,
    /// The key under which the store counts the guess as a failure until it is forgiven.
    counted: Option<Digest>,
}

impl<'a> Guess<'a> {
    /// Admits a request with these `Authorization` headers from `address`.
    ///
    /// # Errors
    /// [`TokenError::TooManyGuesses`], or [`TokenError::Store`] if the store fails.
    pub async fn begin(
        context: &Context<'a>,
        suspects: &'a Suspects,
        authorization: &'a [&'a [u8]],
        address: Option<IpAddr>,
    ) -> Result<Self, TokenError> {
        let mut guess = Self {
            context: *context,
            suspects,
            authorization,
            address,
            counted: None,
        };
        let now = context.now;
        if suspects.are_any(now)
            && let Some(key) = guess.key()
            && suspects.contain(&key, now)
        {
            match guess.count(key).await? {
                Admission::Admitted => guess.counted = Some(key),
                Admission::Wait(wait) => return Err(TokenError::TooManyGuesses(wait)),
            }
        }
        Ok(guess)
    }

    /// The key of client and address; `None` if the request presents no secret.
    fn key(&self) -> Option<Digest> {
        if self.authorization.is_empty() {
            return None;
        }
        let client_id = client_authentication::claimed(self.authorization, &[])?;
        let key = self.context.encryption_key;
        let network = network(self.address, key);
        let parts = [b"client secret", client_id.as_bytes(), network.as_bytes()];
        Some(Digest::from_bytes(key.tag(&parts)))
    }

    /// Counts the guess if the secret was wrong, and forgives the guess if the secret was right. `refusal` is the error
    /// of the response, if any.
    pub async fn end(self, refusal: Option<&TokenError>) {
        let kept = match (refusal, self.counted) {
            (Some(TokenError::WrongSecret), counted) => {
                let Some(key) = counted.or_else(|| self.key()) else {
                    return;
                };
                self.suspects.add(key, self.context.now);
                if counted.is_some() {
                    return;
                }
                self.count(key).await.map(drop)
            }
            // A success clears only its own guess, not earlier failures: an attacker behind the same address must not
            // profit from the success of somebody else.
            (refusal, Some(key)) if refusal.is_none_or(is_behind_the_secret) => {
                self.context.store.forgive_attempt(None, vec![key]).await
            }
            _ => Ok(()),
        };
        if let Err(error) = kept {
            tracing::warn!(%error, "a guess at a client secret is not counted right");
        }
    }

    async fn count(&self, key: Digest) -> Result<Admission, StoreError> {
        let paced = PacedKey { key, pace: PACE };
        let now = self.context.now;
        self.context.store.admit_attempt(vec![paced], now).await
    }
}

/// True if the client had authenticated before this refusal.
fn is_behind_the_secret(error: &TokenError) -> bool {
    error.code() != ErrorCode::InvalidClient
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Digest {
        Digest::of(&number.to_be_bytes())
    }

    #[test]
    fn suspects_are_bounded_and_forgotten() {
        let suspects = Suspects::default();
        let now = Timestamp::from_seconds(1000);
        assert!(!suspects.are_any(now));
        for number in 0..MOST_SUSPECTS + 10 {
            suspects.add(key(number), now);
        }
        assert_eq!(suspects.until().len(), MOST_SUSPECTS);
        assert!(suspects.contain(&key(MOST_SUSPECTS + 9), now));
        assert!(suspects.are_any(now));
        assert!(!suspects.contain(&key(MOST_SUSPECTS + 9), now + SUSPECTED_FOR));
        assert!(!suspects.are_any(now + SUSPECTED_FOR));
        suspects.add(key(MOST_SUSPECTS + 10), now + SUSPECTED_FOR);
        assert_eq!(suspects.until().len(), 1);
    }
}
