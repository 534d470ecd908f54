//! Known devices: browsers in which a person has signed in before.
//!
//! A cookie identifies a known device. The cookie names no user and signs nobody in. It only gives the sign-ins of this
//! account in this browser a pace and hashing places of their own, so that attackers who guess the account's password
//! cannot lock its owner out (OWASP, "Slow Down Online Guessing Attacks with Device Cookies").

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use subtle::ConstantTimeEq as _;

use domain::clock::Timestamp;
use domain::random::{self, Random, RandomError};
use domain::{CredentialsVersion, Username};
use secrets::sealing::EncryptionKey;

/// Time for which a device stays known after a sign-in.
pub const KNOWN_FOR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Maximum number of accounts per browser. A further account replaces the account with the oldest sign-in.
const MOST: usize = 4;

const ID_BYTES: usize = 16;
/// The random part of an id. The rest is a tag of it, by which the id is known without its account.
const RANDOM_BYTES: usize = 8;
const TIME_BYTES: usize = 8;
const TAG_BYTES: usize = 32;
const ENTRY_BYTES: usize = ID_BYTES + TIME_BYTES + TAG_BYTES;

/// Separates the entries of a cookie.
const SEPARATOR: char = '.';

/// A device that is known for an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownDevice {
    id: [u8; ID_BYTES],
}

impl KnownDevice {
    /// Identifier for counting attempts.
    pub(super) const fn id(&self) -> &[u8] {
        &self.id
    }

    #[cfg(test)]
    pub(super) const fn with_id(id: [u8; ID_BYTES]) -> Self {
        Self { id }
    }
}

/// The entries of a browser's cookie, one per account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Devices {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    id: [u8; ID_BYTES],
    since: Timestamp,
    tag: [u8; TAG_BYTES],
}

impl Devices {
    /// Reads the value of a cookie and skips malformed entries.
    pub fn parse(text: &str) -> Self {
        let entries = text.split(SEPARATOR).filter_map(Entry::parse).take(MOST);
        Self {
            entries: entries.collect(),
        }
    }

    /// The entry for this user and the user's current credentials.
    pub(super) fn known(
        &self,
        key: &EncryptionKey,
        username: &Username,
        credentials: CredentialsVersion,
        now: Timestamp,
    ) -> Option<KnownDevice> {
        let known = |entry: &&Entry| {
            let expected = Entry::tag(key, username, credentials, &entry.id, entry.since);
            bool::from(expected.ct_eq(&entry.tag)) && now < entry.since + KNOWN_FOR
        };
        let entry = self.entries.iter().find(known)?;
        Some(KnownDevice { id: entry.id })
    }

    /// The newest entry of a browser in which any user has signed in.
    pub(crate) fn of_anybody(&self, key: &EncryptionKey, now: Timestamp) -> Option<KnownDevice> {
        let made = |entry: &&Entry| {
            let (random, _) = entry.id.split_at(RANDOM_BYTES);
            let expected = Entry::id(key, random, entry.since);
            bool::from(expected.ct_eq(&entry.id)) && now < entry.since + KNOWN_FOR
        };
        let entry = self.entries.iter().find(made)?;
        Some(KnownDevice { id: entry.id })
    }

    /// The value of the cookie after this user signs in at `now`; `None` if the device is already known.
    pub(super) fn after_sign_in(
        &self,
        key: &EncryptionKey,
        random: &dyn Random,
        username: &Username,
        credentials: CredentialsVersion,
        now: Timestamp,
    ) -> Result<Option<DeviceCookie>, RandomError> {
        if self.known(key, username, credentials, now).is_some() {
            return Ok(None);
        }
        let id = Entry::id(key, &random::bytes::<RANDOM_BYTES>(random)?, now);
        let new = Entry {
            tag: Entry::tag(key, username, credentials, &id, now),
            id,
            since: now,
        };
        let entries = [&new].into_iter().chain(&self.entries).take(MOST);
        let texts: Vec<String> = entries.map(Entry::text).collect();
        Ok(Some(DeviceCookie(texts.join(&SEPARATOR.to_string()))))
    }
}

/// A new value for the cookie, a secret without `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct DeviceCookie(String);

impl DeviceCookie {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Entry {
    fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let bytes: [u8; ENTRY_BYTES] = bytes.try_into().ok()?;
        let (id, rest) = bytes.split_first_chunk::<ID_BYTES>()?;
        let (since, tag) = rest.split_first_chunk::<TIME_BYTES>()?;
        Some(Self {
            id: *id,
            since: Timestamp::from_seconds(u64::from_be_bytes(*since)),
            tag: tag.try_into().ok()?,
        })
    }

    fn text(&self) -> String {
        let since = self.since.seconds().to_be_bytes();
        URL_SAFE_NO_PAD.encode([self.id.as_slice(), &since, &self.tag].concat())
    }

    fn id(key: &EncryptionKey, random: &[u8], since: Timestamp) -> [u8; ID_BYTES] {
        let tag = key.tag(&[b"device", random, &since.seconds().to_be_bytes()]);
        let mut id = [0; ID_BYTES];
        let bytes = random.iter().take(RANDOM_BYTES).chain(&tag);
        id.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        id
    }

    /// The tag covers the version of the credentials, so a change of credentials makes the device unknown.
    fn tag(
        key: &EncryptionKey,
        username: &Username,
        credentials: CredentialsVersion,
        id: &[u8; ID_BYTES],
        since: Timestamp,
    ) -> [u8; TAG_BYTES] {
        key.tag(&[
            b"known device",
            username.as_str().as_bytes(),
            &credentials.number().to_be_bytes(),
            id,
            &since.seconds().to_be_bytes(),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use system::OsRandom;

    const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

    fn sign_in(devices: &Devices, key: &EncryptionKey, name: &str) -> Option<Devices> {
        let username = Username::parse(name).unwrap();
        let version = CredentialsVersion::new(1);
        let cookie = devices.after_sign_in(key, &OsRandom, &username, version, NOW);
        cookie
            .unwrap()
            .map(|cookie| Devices::parse(cookie.as_str()))
    }

    #[test]
    fn a_device_is_known_for_its_account_and_credentials_for_a_year() {
        let key = EncryptionKey::new(&[1; 32]).unwrap();
        let devices = sign_in(&Devices::default(), &key, "ada").unwrap();
        let known = |key: &EncryptionKey, name: &str, version: u64, now: Timestamp| {
            let name = Username::parse(name).unwrap();
            let version = CredentialsVersion::new(version);
            devices.known(key, &name, version, now).is_some()
        };
        assert!(known(&key, "ada", 1, NOW));
        assert!(!known(&key, "ada", 2, NOW), "after another password");
        assert!(!known(&key, "grace", 1, NOW));
        assert!(!known(
            &EncryptionKey::new(&[2; 32]).unwrap(),
            "ada",
            1,
            NOW
        ));
        assert!(!known(&key, "ada", 1, NOW + KNOWN_FOR));
        assert!(sign_in(&devices, &key, "ada").is_none(), "known already");
        let mut forged = devices.clone();
        forged.entries[0].since = NOW + KNOWN_FOR;
        let ada = Username::parse("ada").unwrap();
        let version = CredentialsVersion::new(1);
        assert_eq!(forged.known(&key, &ada, version, NOW), None);
        assert_eq!(forged.of_anybody(&key, NOW), None);
        let known = devices.known(&key, &ada, version, NOW);
        assert_eq!(devices.of_anybody(&key, NOW), known);
        assert_eq!(devices.of_anybody(&key, NOW + KNOWN_FOR), None);
        forged.entries[0] = Entry {
            id: [1; ID_BYTES],
            since: NOW,
            ..devices.entries[0].clone()
        };
        assert_eq!(forged.of_anybody(&key, NOW), None, "invented");
    }

    #[test]
    fn a_browser_knows_several_accounts_and_forgets_the_oldest() {
        let key = EncryptionKey::new(&[1; 32]).unwrap();
        let names = ["a", "b", "c", "d", "e"];
        let devices = names.iter().fold(Devices::default(), |devices, name| {
            sign_in(&devices, &key, name).unwrap()
        });
        let known = names.map(|name| sign_in(&devices, &key, name).is_none());
        assert_eq!(known, [false, true, true, true, true]);
        for malformed in ["", ".", "x", "AAAA.BBBB", "\u{fc}"] {
            assert_eq!(Devices::parse(malformed), Devices::default());
        }
    }
}
