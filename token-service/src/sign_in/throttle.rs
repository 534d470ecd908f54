//! Slowing guesses down: for each account and each client address, by delays that grow and decay (RFC 6749 §10.10).
//!
//! The counts are in the store, so that neither a restart nor another replica forgets them. What is counted for is a
//! keyed digest: a store that leaks does not tell who failed, nor what somebody typed into the wrong field.

use std::net::IpAddr;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::sealing::EncryptionKey;
use crate::service::Service;
use crate::store::{Admission, Pace, PacedKey, StoreError};

const MINUTE: Duration = Duration::from_secs(60);

/// Passwords of one account: a person who waits gets in, a guesser gets some hundred a day.
const PASSWORD: Pace = Pace {
    free: 10,
    longest: MINUTE.saturating_mul(5),
    forget_one_after: MINUTE.saturating_mul(15),
};

/// One-time and recovery codes of one account. Who gets here knows the password, so that nobody else can keep the
/// account's owner waiting; and there are only a million codes, three of which are right.
const SECOND_FACTOR: Pace = Pace {
    free: 5,
    longest: MINUTE.saturating_mul(60),
    forget_one_after: MINUTE.saturating_mul(60),
};

/// Everything that comes from one address, which a whole office may share.
const ADDRESS: Pace = Pace {
    free: 100,
    longest: MINUTE,
    forget_one_after: Duration::from_secs(10),
};

/// What is guessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guess<'a> {
    /// The password of whoever has this username, registered or not.
    Password(&'a str),
    /// A one-time or recovery code of this user.
    SecondFactor(&'a str),
}

impl Guess<'_> {
    fn of_account(self, key: &EncryptionKey) -> PacedKey {
        let (what, username, pace) = match self {
            Self::Password(username) => ("password", username, PASSWORD),
            Self::SecondFactor(username) => ("second factor", username, SECOND_FACTOR),
        };
        let tag = key.tag(&[what.as_bytes(), username.as_bytes()]);
        PacedKey {
            key: Digest::from_bytes(tag),
            pace,
        }
    }
}

/// An admitted attempt: it counts as failed unless it is [`forgiven`](Attempt::forgive).
#[must_use]
pub(super) struct Attempt<'a> {
    service: &'a Service,
    account: Digest,
    address: Digest,
}

impl<'a> Attempt<'a> {
    /// Admits an attempt of a client at `address`, or says how long it has to wait.
    pub(super) async fn admit(
        service: &'a Service,
        guess: Guess<'_>,
        address: Option<IpAddr>,
        now: Timestamp,
    ) -> Result<Result<Self, Duration>, StoreError> {
        let account = guess.of_account(&service.encryption_key);
        let address = PacedKey {
            key: network(address, &service.encryption_key),
            pace: ADDRESS,
        };
        let attempt = Self {
            service,
            account: account.key,
            address: address.key,
        };
        let keys = vec![account, address];
        Ok(match service.store.admit_attempt(keys, now).await? {
            Admission::Admitted => Ok(attempt),
            Admission::Wait(wait) => Err(wait),
        })
    }

    /// It was right: the account's failures are forgotten. Those of the address are not, or a guesser with an account
    /// of his own could start anew at will.
    pub(super) async fn forgive(self) -> Result<(), StoreError> {
        self.service
            .store
            .forgive_attempt(self.account, self.address)
            .await
    }
}

/// The keyed digest of what counts as one address: of IPv6 the network of 64 bits, within which anybody can choose at will.
pub fn network(address: Option<IpAddr>, key: &EncryptionKey) -> Digest {
    let network = match address.map(|address| address.to_canonical()) {
        Some(IpAddr::V4(address)) => address.octets().to_vec(),
        Some(IpAddr::V6(address)) => address.octets().into_iter().take(8).collect(),
        None => Vec::new(),
    };
    Digest::from_bytes(key.tag(&[b"address", &network]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_in_an_ipv6_network_are_one_address() {
        let key = EncryptionKey::new(&[1; 32]).unwrap();
        let digest = |text: &str| network(Some(text.parse().unwrap()), &key);
        assert_eq!(digest("2001:db8::1"), digest("2001:db8::ffff:1"));
        assert_ne!(digest("2001:db8::1"), digest("2001:db8:0:1::1"));
        assert_eq!(digest("::ffff:192.0.2.1"), digest("192.0.2.1"));
        assert_ne!(digest("192.0.2.1"), digest("192.0.2.2"));
    }

    #[test]
    fn kinds_of_guesses_and_accounts_are_counted_apart() {
        let key = EncryptionKey::new(&[1; 32]).unwrap();
        let digest = |guess: Guess<'_>| guess.of_account(&key).key;
        let password = digest(Guess::Password("ada"));
        assert_eq!(password, digest(Guess::Password("ada")));
        assert_ne!(password, digest(Guess::Password("grace")));
        assert_ne!(password, digest(Guess::SecondFactor("ada")));
    }
}
