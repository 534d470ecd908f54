//! Delays that slow down guesses. The delays grow with failures and decay with time (RFC 6749 §10.10).
//!
//! A browser in which the person has signed in before ([`Devices`](super::device::Devices)) has its own pace,
//! which nobody else can use up. For all other browsers an attempt counts for the address, for the account from that
//! network, and last for the account: many wrong passwords from one network never make the account's owner wait
//! elsewhere.
//!
//! A right password counts like a wrong one until the second factor follows, if the account has one. Otherwise somebody
//! who knows only the password could sign in halfway as often as he likes.
//!
//! The store keeps the counts, so they survive restarts and apply to all replicas. The store knows only keyed digests:
//! a leaked store does not reveal who failed, or what a person typed into the wrong field.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use super::device::KnownDevice;
use crate::Context;
use domain::digest::Digest;
use domain::{Admission, Counted, Pace, PacedKey, Session};
use secrets::password::Account;
use secrets::sealing::EncryptionKey;
use store::StoreError;

/// Passwords of one account from one network or one known device. A person who waits can sign in; an attacker gets a
/// few hundred guesses per day.
const PASSWORD: Pace = Pace {
    free: 10,
    longest: Duration::from_mins(5),
    forget_one_after: Duration::from_mins(15),
};

/// Passwords of one account from all networks. [`PASSWORD`] holds one network below the rate at which failures are
/// forgotten here, so only several networks together can make others wait.
const PASSWORD_FROM_ANYWHERE: Pace = Pace {
    free: 100,
    longest: Duration::from_mins(5),
    forget_one_after: Duration::from_mins(2),
};

/// Requests of one network for a link by mail for one account.
const LINK: Pace = Pace {
    free: 3,
    longest: Duration::from_hours(1),
    forget_one_after: Duration::from_mins(20),
};

/// Requests of all networks for a link by mail for one account. Each may be a message in the mailbox of somebody who did not ask for it.
/// [`LINK`] holds one network below the rate at which requests are forgotten here.
const LINK_FROM_ANYWHERE: Pace = Pace {
    free: 30,
    longest: Duration::from_mins(5),
    forget_one_after: Duration::from_mins(5),
};

/// Links for one mailbox. A link works for an hour unless the configuration says otherwise, so the person needs no more of them.
const MAILBOX: Pace = Pace {
    free: 5,
    longest: Duration::from_hours(1),
    forget_one_after: Duration::from_mins(20),
};

/// Answers of one identity provider, from one network, that the provider does not confirm. A company may share one address.
const PROVIDER_ANSWER: Pace = Pace {
    free: 50,
    longest: Duration::from_mins(5),
    forget_one_after: Duration::from_mins(1),
};

/// One-time and recovery codes of one account. Only a person who knows the password, or whom a provider signs in, gets
/// here, so nobody else can make the owner wait. The pace is slow because there are only a million codes, and three are
/// valid at a time.
const SECOND_FACTOR: Pace = Pace {
    free: 5,
    longest: Duration::from_mins(60),
    forget_one_after: Duration::from_mins(60),
};

/// All attempts from one address, which a whole office may share. Requests for links by mail have counts of their own, in the same
/// pace.
const ADDRESS: Pace = Pace {
    free: 100,
    longest: Duration::from_mins(1),
    forget_one_after: Duration::from_secs(10),
};

/// All attempts from one IPv6 /56 network, the usual size for a household.
const NETWORK_56: Pace = Pace {
    free: 400,
    longest: Duration::from_mins(1),
    forget_one_after: Duration::from_secs(3),
};

/// All attempts from one IPv6 /48 network, the usual size for a site. Anybody can rent a /48.
const NETWORK_48: Pace = Pace {
    free: 1600,
    longest: Duration::from_mins(1),
    forget_one_after: Duration::from_secs(1),
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guess<'a> {
    /// A password for this account.
    Password(&'a Account),
    /// No guess, but a password that the owner of this account chooses with the link of this digest, or else with the present
    /// password. Each refused one costs work.
    Choice(&'a Account, Option<Digest>),
    /// No guess, but a request for a link by mail for this account.
    Link(&'a Account),
    /// No guess, but a link for this mailbox.
    Mailbox(&'a str),
    /// A one-time or recovery code for this user.
    SecondFactor(&'a str),
    /// No guess of a secret, but the answer that a browser brings from the identity provider with this id. Invented codes make the
    /// service ask the provider, so a network that brings many has to wait.
    ProviderAnswer(&'a str),
}

impl Guess<'_> {
    fn keys(
        self,
        address: Option<IpAddr>,
        device: Option<&KnownDevice>,
        key: &EncryptionKey,
    ) -> Keys {
        let (what, name, pace, from_anywhere) = match self {
            Self::Password(account) => {
                let last = Some(PASSWORD_FROM_ANYWHERE);
                ("password", account.as_str(), PASSWORD, last)
            }
            Self::Choice(account, _) => {
                let last = Some(PASSWORD_FROM_ANYWHERE);
                ("choice", account.as_str(), PASSWORD, last)
            }
            Self::Link(account) => ("link", account.as_str(), LINK, Some(LINK_FROM_ANYWHERE)),
            Self::Mailbox(email) => ("mailbox", email, MAILBOX, None),
            Self::SecondFactor(username) => ("second factor", username, SECOND_FACTOR, None),
            Self::ProviderAnswer(provider) => ("provider answer", provider, PROVIDER_ANSWER, None),
        };
        let paced = |scope: &str, place: &[u8], pace| PacedKey {
            key: Digest::from_bytes(key.tag(&[
                what.as_bytes(),
                scope.as_bytes(),
                name.as_bytes(),
                place,
            ])),
            pace,
        };
        let own = match (self, device) {
            (Self::Choice(_, Some(link)), _) => paced("link", link.as_bytes(), pace),
            (_, Some(device)) => {
                let pace = match self {
                    // One person makes any number of devices known.
                    Self::ProviderAnswer(_) => PASSWORD,
                    _ => pace,
                };
                return Keys {
                    shared: Vec::new(),
                    own: paced("device", device.id(), pace),
                    last: None,
                };
            }
            // Counted for each network, so no other network makes a person wait.
            (
                Self::Password(_) | Self::Choice(..) | Self::Link(_) | Self::ProviderAnswer(_),
                None,
            ) => paced("network", &widest_network(address), pace),
            (Self::Mailbox(_) | Self::SecondFactor(_), None) => paced("anywhere", &[], pace),
        };
        // What somebody does at an address delays only who does the same there.
        let shared = match self {
            Self::Password(_) | Self::SecondFactor(_) => self::paced("address", address, key),
            Self::Link(_) => self::paced("address of links", address, key),
            Self::Mailbox(_) | Self::Choice(..) | Self::ProviderAnswer(_) => Vec::new(),
        };
        Keys {
            shared,
            own,
            last: from_anywhere.map(|pace| paced("anywhere", &[], pace)),
        }
    }
}

/// The keys of an attempt, in the order of the checks.
struct Keys {
    /// Keys of addresses and networks, which several people may share.
    shared: Vec<PacedKey>,
    /// The key that a right attempt clears.
    own: PacedKey,
    /// The key that counts only if no other key requires a wait.
    last: Option<PacedKey>,
}

/// An admitted attempt: it counts as failed unless it is [`forgiven`](Attempt::forgive) or
/// [`taken back`](Attempt::take_back).
#[must_use]
pub struct Attempt<'a> {
    context: &'a Context<'a>,
    own: Digest,
    counted: Vec<Counted>,
}

impl<'a> Attempt<'a> {
    /// Admits an attempt from `address`, in a browser that may be a known device of the account. Otherwise returns the
    /// time to wait.
    pub(crate) async fn admit(
        context: &'a Context<'a>,
        guess: Guess<'_>,
        address: Option<IpAddr>,
        device: Option<&KnownDevice>,
    ) -> Result<Result<Self, Duration>, StoreError> {
        let now = context.now;
        let Keys { shared, own, last } = guess.keys(address, device, context.encryption_key);
        let keys = shared.into_iter().chain([own]).chain(last).collect();
        Ok(match context.store.admit_attempt(keys, now).await? {
            Admission::Admitted(counted) => Ok(Self {
                context,
                own: own.key,
                counted,
            }),
            Admission::Wait(wait) => Err(wait),
        })
    }

    /// Clears the failures of this account from this network or device, after a right attempt. The failures of the
    /// address stay, or an attacker could clear them by signing in to an account of his own. So do the failures of
    /// others for this account.
    ///
    /// # Errors
    /// [`StoreError`] if the attempt may still count.
    pub async fn forgive(self) -> Result<(), StoreError> {
        let Self {
            context,
            own,
            mut counted,
        } = self;
        counted.retain(|counted| counted.paced.key != own);
        context.store.forgive_attempt(Some(own), counted).await
    }

    /// After a right password that a second factor has to follow: the attempt stays counted for the account until
    /// [`forgive_password`]. Returns the key of the account from this network or device.
    pub(super) async fn owe_second_factor(self) -> Result<Digest, StoreError> {
        let Self {
            context,
            own,
            counted,
        } = self;
        let shared = counted.into_iter();
        let shared = shared.take_while(|counted| counted.paced.key != own);
        let shared = shared.collect();
        context.store.forgive_attempt(None, shared).await?;
        Ok(own)
    }

    /// Removes the attempt from the counts because it had no result, for example when the service is overloaded.
    ///
    /// # Errors
    /// [`StoreError`] if the attempt still counts.
    pub async fn take_back(self) -> Result<(), StoreError> {
        let store = self.context.store;
        store.forgive_attempt(None, self.counted).await
    }
}

/// Clears the failures of `session`'s account from its origin, like [`Attempt::forgive`], when the second factor has
/// followed the password, in a browser that may be a known device.
pub(super) async fn forgive_password(
    context: &Context<'_>,
    session: &Session,
    device: Option<&KnownDevice>,
) -> Result<(), StoreError> {
    let Some(origin) = session.origin else {
        return Ok(());
    };
    let account = Account::of(session.username.as_str());
    let guess = Guess::Password(&account);
    let last = guess.keys(None, device, context.encryption_key).last;
    let last = last.map(|paced| Counted::at(paced, session.authenticated_at));
    let store = context.store;
    store
        .forgive_attempt(Some(origin), last.into_iter().collect())
        .await
}

/// The key of this guess that nobody else's guesses have.
pub(super) fn own_key(
    guess: Guess<'_>,
    address: Option<IpAddr>,
    device: Option<&KnownDevice>,
    context: &Context<'_>,
) -> Digest {
    guess.keys(address, device, context.encryption_key).own.key
}

/// The networks of an address that count, the narrowest first. For IPv4: the address. For IPv6: the /64 network, because a
/// client can choose any address within it, and the wider networks, because one party may own all of a /56 or /48.
fn networks(address: Option<IpAddr>) -> Vec<(Vec<u8>, Pace)> {
    match address.map(|address| address.to_canonical()) {
        Some(IpAddr::V4(address)) => vec![(address.octets().to_vec(), ADDRESS)],
        Some(IpAddr::V6(address)) => {
            // Their lengths distinguish them: 8, 7 and 6 bytes.
            let network = |bytes| address.octets().into_iter().take(bytes).collect();
            vec![
                (network(8), ADDRESS),
                (network(7), NETWORK_56),
                (network(6), NETWORK_48),
            ]
        }
        None => vec![(Vec::new(), ADDRESS)],
    }
}

fn paced(what: &str, address: Option<IpAddr>, key: &EncryptionKey) -> Vec<PacedKey> {
    let paced = networks(address)
        .into_iter()
        .map(|(network, pace)| PacedKey {
            key: Digest::from_bytes(key.tag(&[what.as_bytes(), &network])),
            pace,
        });
    paced.collect()
}

/// The widest network that one party may own and that counts as one origin. For IPv4: the address.
pub fn widest_network(address: Option<IpAddr>) -> Vec<u8> {
    let widest = networks(address).pop();
    widest.map(|(network, _)| network).unwrap_or_default()
}

/// Keyed digest of the narrowest network of an address that counts.
pub fn network(address: Option<IpAddr>, key: &EncryptionKey) -> Digest {
    let narrowest = networks(address).into_iter().next();
    let (network, _) = narrowest.unwrap_or((Vec::new(), ADDRESS));
    Digest::from_bytes(key.tag(&[b"address", &network]))
}

/// The network of an address in words, as [`SessionPlace`](domain::SessionPlace) has it.
pub(super) fn network_in_words(address: Option<IpAddr>) -> String {
    match address.map(|address| address.to_canonical()) {
        Some(IpAddr::V4(address)) => address.to_string(),
        Some(IpAddr::V6(address)) => {
            let host = u128::from(u64::MAX);
            let network = Ipv6Addr::from_bits(address.to_bits() & !host);
            format!("{network}/64")
        }
        None => String::new(),
    }
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
        let paced = paced("address", Some(text.parse().unwrap()), &key());
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

    /// An attacker who tries as often as the pace of one network allows.
    #[test]
    fn one_network_never_makes_others_wait() {
        for (pace, pace_from_anywhere) in [
            (PASSWORD, PASSWORD_FROM_ANYWHERE),
            (LINK, LINK_FROM_ANYWHERE),
        ] {
            let mut now = Timestamp::from_seconds(1_800_000_000);
            let (mut own, mut anywhere) = (None, None);
            for _ in 0..5000 {
                let key = |pace| PacedKey {
                    key: Digest::of(b"one account"),
                    pace,
                };
                let keys = [(key(pace), own), (key(pace_from_anywhere), anywhere)];
                let elsewhere = pace_from_anywhere.wait(anywhere, now);
                assert_eq!(elsewhere, Duration::ZERO, "elsewhere");
                match attempt::admit(&keys, now) {
                    (Admission::Wait(wait), _) => now = now + wait,
                    (Admission::Admitted(_), counted) => {
                        own = counted.first().copied();
                        anywhere = counted.get(1).copied();
                    }
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
        let [ada, grace] = ["ada", "grace"].map(Account::of);
        let ada = Guess::Password(&ada);
        let here = own(ada, "192.0.2.1", None);
        assert_eq!(here, own(ada, "192.0.2.1", None));
        assert_ne!(here, own(ada, "192.0.2.2", None));
        assert_ne!(here, own(Guess::Password(&grace), "192.0.2.1", None));
        assert_ne!(here, own(Guess::SecondFactor("ada"), "192.0.2.1", None));
        assert_ne!(
            here,
            own(Guess::Link(&Account::of("ada")), "192.0.2.1", None)
        );
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
        // Others do not delay whom a link lets set a password, in a known browser too.
        let ada = Account::of("ada");
        let choice = |link: &[u8]| Guess::Choice(&ada, Some(Digest::of(link)));
        let by_link = own(choice(b"one"), "192.0.2.1", None);
        assert_eq!(by_link, own(choice(b"one"), "192.0.2.2", devices.first()));
        assert_ne!(by_link, own(choice(b"other"), "192.0.2.1", None));
    }

    /// What people do in an office delays only those who do the same there, and mail to one person delays nobody else's.
    #[test]
    fn one_kind_of_attempts_at_an_address_delays_no_other_kind() {
        let ada = Account::of("ada");
        let address = Some("192.0.2.1".parse().unwrap());
        let shared = |guess: Guess<'_>| {
            let keys = guess.keys(address, None, &key());
            let keys = keys.shared.into_iter().map(|paced| paced.key);
            keys.collect::<Vec<_>>()
        };
        let passwords = shared(Guess::Password(&ada));
        assert_eq!(passwords, shared(Guess::SecondFactor("ada")), "guesses");
        let links = shared(Guess::Link(&ada));
        assert!(links.len() == 1 && links != passwords);
        for alone in [
            Guess::ProviderAnswer("sso"),
            Guess::Mailbox("ada@example.com"),
            Guess::Choice(&ada, None),
        ] {
            assert_eq!(shared(alone), [], "{alone:?}");
        }
    }

    /// The second factor takes back what the password counted, under the registered spelling of the name.
    #[test]
    fn all_spellings_of_a_name_share_the_counts_of_its_passwords() {
        let counted = |username: &str| {
            let keys = Guess::Password(&Account::of(username)).keys(None, None, &key());
            (keys.own.key, keys.last.map(|last| last.key))
        };
        let registered = counted("Zo\u{cb}@Example.com");
        assert_eq!(counted("zo\u{eb}@example.com"), registered);
        assert_eq!(counted(" ZOE\u{308}@EXAMPLE.COM "), registered);
        assert_ne!(counted("zoe@example.com"), registered);
        assert_ne!(counted("no\nname"), counted("another\nname"));
    }
}
