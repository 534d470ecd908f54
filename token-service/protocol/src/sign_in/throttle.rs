//! Slowing guesses down by delays that grow and decay (RFC 6749 §10.10).
//!
//! A browser in which a person has signed in before has a pace of its own ([`Devices`](super::device::Devices)), which
//! nobody else can use up. For all others an attempt counts for its address, for the account from that network, and
//! last for the account: many wrong passwords from one network never keep the account's owner waiting elsewhere.
//!
//! The counts are in the store, so that neither a restart nor another replica forgets them. What is counted for is a
//! keyed digest: a store that leaks does not tell who failed, nor what somebody typed into the wrong field.

use std::net::IpAddr;
use std::time::Duration;

use super::device::KnownDevice;
use crate::Context;
use crate::sealing::EncryptionKey;
use domain::digest::Digest;
use domain::{Admission, Pace, PacedKey};
use store::StoreError;

const MINUTE: Duration = Duration::from_secs(60);

/// Passwords of one account from one network, or from one device that is known: a person who waits gets in, a guesser
/// gets some hundred a day.
const PASSWORD: Pace = Pace {
    free: 10,
    longest: MINUTE.saturating_mul(5),
    forget_one_after: MINUTE.saturating_mul(15),
};

/// Passwords of one account, wherever from. One network is held back by [`PASSWORD`] to less than is forgotten here, so
/// that it takes several to make others wait.
const PASSWORD_FROM_ANYWHERE: Pace = Pace {
    free: 100,
    longest: MINUTE.saturating_mul(5),
    forget_one_after: MINUTE.saturating_mul(2),
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

/// Everything that comes from an IPv6 network of 56 bits, as households have.
const NETWORK_56: Pace = Pace {
    free: 400,
    longest: MINUTE,
    forget_one_after: Duration::from_secs(3),
};

/// Everything that comes from an IPv6 network of 48 bits, as sites have and as anybody can rent.
const NETWORK_48: Pace = Pace {
    free: 1600,
    longest: MINUTE,
    forget_one_after: Duration::from_secs(1),
};

/// What is guessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guess<'a> {
    /// The password of this username, which may be unregistered.
    Password(&'a str),
    /// A one-time or recovery code of this user.
    SecondFactor(&'a str),
}

impl Guess<'_> {
    /// The keys of an attempt.
    fn keys(
        self,
        address: Option<IpAddr>,
        device: Option<&KnownDevice>,
        key: &EncryptionKey,
    ) -> Keys {
        let (what, username, pace) = match self {
            Self::Password(username) => ("password", username, PASSWORD),
            Self::SecondFactor(username) => ("second factor", username, SECOND_FACTOR),
        };
        let paced = |scope: &str, name: &[u8], pace| PacedKey {
            key: Digest::from_bytes(key.tag(&[
                what.as_bytes(),
                scope.as_bytes(),
                username.as_bytes(),
                name,
            ])),
            pace,
        };
        if let Some(device) = device {
            return Keys {
                shared: Vec::new(),
                own: paced("device", device.id(), pace),
                last: None,
            };
        }
        let networks = Networks::of(address);
        let shared = networks.paced(key);
        match self {
            Self::Password(_) => Keys {
                shared,
                own: paced("network", &networks.widest, pace),
                last: Some(paced("anywhere", &[], PASSWORD_FROM_ANYWHERE)),
            },
            Self::SecondFactor(_) => Keys {
                shared,
                own: paced("anywhere", &[], pace),
                last: None,
            },
        }
    }
}

/// The keys of an attempt, in their order.
struct Keys {
    /// Those of addresses, which others may share.
    shared: Vec<PacedKey>,
    /// What a right attempt clears.
    own: PacedKey,
    /// What only counts when the others need not wait.
    last: Option<PacedKey>,
}

/// An admitted attempt: it counts as failed unless it is [`forgiven`](Attempt::forgive) or
/// [`taken back`](Attempt::take_back).
#[must_use]
pub(super) struct Attempt<'a> {
    context: &'a Context<'a>,
    own: Digest,
    others: Vec<Digest>,
}

impl<'a> Attempt<'a> {
    /// Admits an attempt of a client at `address`, in a browser that may be a known device of the account; or says how
    /// long it has to wait.
    pub(super) async fn admit(
        context: &'a Context<'a>,
        guess: Guess<'_>,
        address: Option<IpAddr>,
        device: Option<&KnownDevice>,
    ) -> Result<Result<Self, Duration>, StoreError> {
        let now = context.now;
        let Keys { shared, own, last } = guess.keys(address, device, context.encryption_key);
        let others = shared.iter().chain(&last).map(|paced| paced.key).collect();
        let attempt = Self {
            context,
            own: own.key,
            others,
        };
        let keys = shared.into_iter().chain([own]).chain(last).collect();
        Ok(match context.store.admit_attempt(keys, now).await? {
            Admission::Admitted => Ok(attempt),
            Admission::Wait(wait) => Err(wait),
        })
    }

    /// It was right: the failures of this account from this network or device are forgotten. Those of the address are
    /// not, or a guesser with an account of his own could start anew at will; nor those of others with this account.
    pub(super) async fn forgive(self) -> Result<(), StoreError> {
        let Self {
            context,
            own,
            others,
        } = self;
        context.store.forgive_attempt(Some(own), others).await
    }

    /// Nothing was found out, as when the service is overloaded: the attempt does not count.
    pub(super) async fn take_back(self) -> Result<(), StoreError> {
        let Self {
            context,
            own,
            mut others,
        } = self;
        others.push(own);
        context.store.forgive_attempt(None, others).await
    }
}

/// The networks of an address that count: of IPv4 the address; of IPv6 that of 64 bits, within which anybody can choose
/// at will, and the wider ones that one party may have whole.
struct Networks {
    paced: Vec<(Vec<u8>, Pace)>,
    /// What counts as one place to guess a password from.
    widest: Vec<u8>,
}

impl Networks {
    fn of(address: Option<IpAddr>) -> Self {
        match address.map(|address| address.to_canonical()) {
            Some(IpAddr::V4(address)) => {
                let address = address.octets().to_vec();
                Self {
                    paced: vec![(address.clone(), ADDRESS)],
                    widest: address,
                }
            }
            Some(IpAddr::V6(address)) => {
                // Their lengths tell them apart: 8, 7 and 6 bytes.
                let network = |bytes| {
                    address
                        .octets()
                        .into_iter()
                        .take(bytes)
                        .collect::<Vec<u8>>()
                };
                Self {
                    paced: vec![
                        (network(8), ADDRESS),
                        (network(7), NETWORK_56),
                        (network(6), NETWORK_48),
                    ],
                    widest: network(6),
                }
            }
            None => Self {
                paced: vec![(Vec::new(), ADDRESS)],
                widest: Vec::new(),
            },
        }
    }

    fn paced(&self, key: &EncryptionKey) -> Vec<PacedKey> {
        let paced = self.paced.iter().map(|(network, pace)| PacedKey {
            key: network_tag(network, key),
            pace: *pace,
        });
        paced.collect()
    }
}

/// The keyed digest of what counts as one address: of IPv6 the network of 64 bits, within which anybody can choose at
/// will.
pub fn network(address: Option<IpAddr>, key: &EncryptionKey) -> Digest {
    let network = match address.map(|address| address.to_canonical()) {
        Some(IpAddr::V4(address)) => address.octets().to_vec(),
        Some(IpAddr::V6(address)) => address.octets().into_iter().take(8).collect(),
        None => Vec::new(),
    };
    network_tag(&network, key)
}

fn network_tag(network: &[u8], key: &EncryptionKey) -> Digest {
    Digest::from_bytes(key.tag(&[b"address", network]))
}

#[cfg(test)]
mod tests {
    use domain::clock::Timestamp;

    use super::*;
    use domain::attempt;

    fn key() -> EncryptionKey {
        EncryptionKey::new(&[1; 32]).unwrap()
    }

    fn networks(text: &str) -> Vec<Digest> {
        let networks = Networks::of(Some(text.parse().unwrap()));
        let paced = networks.paced(&key());
        paced.into_iter().map(|paced| paced.key).collect()
    }

    #[test]
    fn neighbours_in_an_ipv6_network_share_what_they_have_in_common() {
        let common = |one: &str, other: &str| {
            let other = networks(other);
            let one = networks(one);
            one.iter().filter(|key| other.contains(key)).count()
        };
        assert_eq!(common("2001:db8::1", "2001:db8::ffff:1"), 3);
        assert_eq!(common("2001:db8::1", "2001:db8:0:1::1"), 2, "of 56 bits");
        assert_eq!(common("2001:db8::1", "2001:db8:0:100::1"), 1, "of 48 bits");
        assert_eq!(common("2001:db8::1", "2001:db8:1::1"), 0);
        assert_eq!(common("::ffff:192.0.2.1", "192.0.2.1"), 1);
        assert_eq!(common("192.0.2.1", "192.0.2.2"), 0);
    }

    /// A guesser who tries at every moment that one network allows.
    #[test]
    fn one_network_never_makes_others_wait() {
        let mut now = Timestamp::from_seconds(1_800_000_000);
        let (mut own, mut anywhere) = (None, None);
        for _ in 0..5000 {
            let keys = [(PASSWORD, own), (PASSWORD_FROM_ANYWHERE, anywhere)];
            assert_eq!(
                PASSWORD_FROM_ANYWHERE.wait(anywhere, now),
                Duration::ZERO,
                "elsewhere"
            );
            match attempt::admit(&keys, now) {
                (Admission::Wait(wait), _) => now = now + wait,
                (Admission::Admitted, counted) => {
                    own = counted.first().copied();
                    anywhere = counted.get(1).copied();
                }
            }
        }
    }

    #[test]
    fn kinds_of_guesses_accounts_networks_and_devices_are_counted_apart() {
        let own = |guess: Guess<'_>, address: &str, device: Option<&KnownDevice>| {
            let address = Some(address.parse().unwrap());
            guess.keys(address, device, &key()).own.key
        };
        let ada = Guess::Password("ada");
        let here = own(ada, "192.0.2.1", None);
        assert_eq!(here, own(ada, "192.0.2.1", None));
        assert_ne!(here, own(ada, "192.0.2.2", None));
        assert_ne!(here, own(Guess::Password("grace"), "192.0.2.1", None));
        assert_ne!(here, own(Guess::SecondFactor("ada"), "192.0.2.1", None));
        assert_eq!(
            own(ada, "2001:db8::1", None),
            own(ada, "2001:db8:0:ffff::1", None),
            "one party may have it all"
        );
        let devices = [1, 2].map(|number| KnownDevice::with_id([number; 16]));
        let [one, other] = devices
            .each_ref()
            .map(|device| own(ada, "192.0.2.1", Some(device)));
        assert_ne!(one, other);
        assert_ne!(one, here);
        assert_eq!(
            one,
            own(ada, "192.0.2.9", devices.first()),
            "wherever it is"
        );
        let keys = ada.keys(None, devices.first(), &key());
        assert!(keys.shared.is_empty() && keys.last.is_none());
    }
}
