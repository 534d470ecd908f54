//! Slowing guesses at client secrets down, for each client and client address (RFC 6749 §10.10).
//!
//! The failures are counted in the store, so that neither a restart nor another replica forgets them. A client with the
//! right secret does not pay for that: this process remembers for which clients and addresses a secret was wrong, and
//! only for these does a request ask the store first.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Secrets of one client from one address. A client that is set up wrong fails at once and goes on failing: it has to wait
/// a moment after its secret was mended, and nobody else has to.
const PACE: Pace = Pace {
    free: 20,
    longest: MINUTE.saturating_mul(5),
    forget_one_after: MINUTE,
};

/// How long a process remembers that a secret was wrong; longer than the longest wait.
const SUSPECTED_FOR: Duration = MINUTE.saturating_mul(30);

/// Pairs of client and address that a process remembers at most.
const MOST_SUSPECTS: usize = 10_000;

/// Pairs of client and address of which a secret was wrong lately.
#[derive(Debug, Default)]
pub struct Suspects {
    any: AtomicBool,
    until: Mutex<HashMap<Digest, Timestamp>>,
}

impl Suspects {
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
            // Whichever comes first in a map of random order. It becomes a suspect again at its next wrong secret.
            let first = until.keys().next().copied();
            first.map(|first| until.remove(&first));
        }
        until.insert(key, now + SUSPECTED_FOR);
        self.any.store(true, Ordering::Relaxed);
    }

    fn until(&self) -> MutexGuard<'_, HashMap<Digest, Timestamp>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request in which a client may prove its secret.
#[must_use]
#[derive(Debug)]
pub struct Guess<'a> {
    context: Context<'a>,
    suspects: &'a Suspects,
    /// `None` if the request presents no secret.
    key: Option<Digest>,
    /// Whether the store counts it as a failure until it is forgiven.
    counted: bool,
}

impl<'a> Guess<'a> {
    /// Admits a request with these `Authorization` headers from `address`.
    ///
    /// # Errors
    /// [`TokenError::TooManyGuesses`], or the store's.
    pub async fn begin(
        context: &Context<'a>,
        suspects: &'a Suspects,
        authorization: &[&[u8]],
        address: Option<IpAddr>,
    ) -> Result<Self, TokenError> {
        let client_id = match authorization {
            [] => None,
            _ => client_authentication::claimed(authorization, &[]),
        };
        let key = client_id.map(|client_id| {
            let network = network(address, context.encryption_key);
            let parts = [b"client secret", client_id.as_bytes(), network.as_bytes()];
            Digest::from_bytes(context.encryption_key.tag(&parts))
        });
        let mut guess = Self {
            context: *context,
            suspects,
            key,
            counted: false,
        };
        let now = context.now;
        if suspects.any.load(Ordering::Relaxed)
            && guess.key.is_some_and(|key| suspects.contain(&key, now))
        {
            match guess.count(now).await? {
                Admission::Admitted => guess.counted = true,
                Admission::Wait(wait) => return Err(TokenError::TooManyGuesses(wait)),
            }
        }
        Ok(guess)
    }

    /// Counts the guess if it was wrong, and forgives it if it was right. `refusal` is the error of the answer, if it is one.
    pub async fn end(self, refusal: Option<&TokenError>) {
        let Some(key) = self.key else {
            return;
        };
        let now = self.context.now;
        let kept = match refusal {
            Some(TokenError::WrongSecret) => {
                self.suspects.add(key, now);
                if self.counted {
                    return;
                }
                self.count(now).await.map(drop)
            }
            // Of those with a wrong secret before, nothing else is forgiven: an attacker behind the same address is not
            // freed by somebody else's success.
            refusal if self.counted && refusal.is_none_or(is_behind_the_secret) => {
                self.context.store.forgive_attempt(None, vec![key]).await
            }
            _ => Ok(()),
        };
        if let Err(error) = kept {
            tracing::warn!(%error, "a guess at a client secret is not counted right");
        }
    }

    async fn count(&self, now: Timestamp) -> Result<Admission, StoreError> {
        let Some(key) = self.key else {
            return Ok(Admission::Admitted);
        };
        let paced = PacedKey { key, pace: PACE };
        self.context.store.admit_attempt(vec![paced], now).await
    }
}

/// Whether the client had proved its secret before this refusal.
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
        for number in 0..MOST_SUSPECTS + 10 {
            suspects.add(key(number), now);
        }
        assert_eq!(suspects.until().len(), MOST_SUSPECTS);
        assert!(suspects.contain(&key(MOST_SUSPECTS + 9), now));
        assert!(!suspects.contain(&key(MOST_SUSPECTS + 9), now + SUSPECTED_FOR));
        suspects.add(key(MOST_SUSPECTS + 10), now + SUSPECTED_FOR);
        assert_eq!(suspects.until().len(), 1);
    }
}
