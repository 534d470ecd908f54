//! Pages of the feed, and the parts of their entries that the table keeps.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::revocation::{MAX_PAGE_BYTES, VERSION};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::table::Key;

/// The kind of a key in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// A `grant_id`.
    Grant = 0,
    /// A `jti`.
    Token = 1,
    /// A client, user, account, issuer or key, whose tokens are revoked up to a time.
    Many = 2,
}

/// The parts of an entry that the table keeps. Times are seconds since 1970; times too large for 32 bits are
/// stored as the largest value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revoked {
    pub(super) names: Names,
    pub(super) key: Key,
    pub(super) at: u32,
    pub(super) exp: u32,
}

impl Revoked {
    /// Length of [`Revoked::to_bytes`].
    pub(crate) const BYTES: usize = 25;

    /// Encodes the kind, and then all words in little endian.
    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let [a, b, c, d] = self.key;
        let words = [a, b, c, d, self.at, self.exp].map(u32::to_le_bytes);
        if let Some((kind, rest)) = bytes.split_first_mut() {
            *kind = self.names as u8;
            rest.copy_from_slice(words.as_flattened());
        }
        bytes
    }

    pub(crate) fn from_bytes([kind, words @ ..]: &[u8; Self::BYTES]) -> Option<Self> {
        let names = match kind {
            0 => Names::Grant,
            1 => Names::Token,
            2 => Names::Many,
            _ => return None,
        };
        let mut words = words
            .as_chunks()
            .0
            .iter()
            .map(|word| u32::from_le_bytes(*word));
        let mut next = || words.next();
        Some(Self {
            names,
            key: [next()?, next()?, next()?, next()?],
            at: next()?,
            exp: next()?,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Identity of the feed.
    pub feed: String,
    /// Position after which the page starts.
    pub since: u64,
    /// Position of the last entry of the page.
    pub position: u64,
    /// True if there are more entries.
    pub more: bool,
    /// True if the service holds a request until an entry arrives.
    pub holds: bool,
    /// Entries that may concern tokens of the reader's issuers.
    pub revoked: Vec<Revoked>,
    /// Number of entries of kinds that this filter does not know, and the name of one such kind.
    pub unknown: Option<(usize, String)>,
}

#[derive(Deserialize)]
struct RawPage<'a> {
    #[serde(borrow)]
    feed: Cow<'a, str>,
    since: u64,
    position: u64,
    more: bool,
    #[serde(default)]
    holds: bool,
    #[serde(borrow)]
    revocations: Vec<RawEntry<'a>>,
}

#[derive(Deserialize)]
struct RawEntry<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    iss: Option<Cow<'a, str>>,
    #[serde(borrow)]
    user_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    user_site: Option<Cow<'a, str>>,
    #[serde(borrow)]
    client_id: Option<Cow<'a, str>>,
    at: Option<u64>,
    exp: Option<u64>,
}

enum Read {
    Kept(Revoked),
    /// The entry concerns another issuer.
    Foreign,
    Unknown,
}

impl Page {
    /// Reads a page. Leaves out entries of issuers that are not in `issuers`.
    ///
    /// # Errors
    /// What is wrong with the page. An entry of an unknown kind is no error, whatever other members it has.
    pub fn read(text: &[u8], issuers: &[String]) -> Result<Self, String> {
        if text.len() > MAX_PAGE_BYTES {
            return Err(format!("larger than {MAX_PAGE_BYTES} bytes"));
        }
        let raw: Option<RawPage<'_>> = str::from_utf8(text)
            .ok()
            .and_then(|text| serde_json::from_str(text).ok());
        let raw = raw.ok_or_else(|| format!("it is no page of version {VERSION} of the feed"))?;
        let mut page = Self {
            feed: raw.feed.into_owned(),
            since: raw.since,
            position: raw.position,
            more: raw.more,
            holds: raw.holds,
            revoked: Vec::with_capacity(raw.revocations.len()),
            unknown: None,
        };
        for entry in &raw.revocations {
            match entry.read(issuers)? {
                Read::Kept(revoked) => page.revoked.push(revoked),
                Read::Foreign => {}
                Read::Unknown => match &mut page.unknown {
                    Some((count, _)) => *count += 1,
                    none => *none = Some((1, entry.kind.clone().into_owned())),
                },
            }
        }
        Ok(page)
    }
}

/// The kinds of entries that this filter knows. What an earlier version skipped is not taken over from it: these names are part
/// of the names under which VMs share a feed.
pub(crate) const KINDS: [&str; 7] = [
    "grant", "token", "client", "key", "user", "account", "issuer",
];

impl RawEntry<'_> {
    fn read(&self, issuers: &[String]) -> Result<Read, String> {
        if !KINDS.contains(&&*self.kind) {
            return Ok(Read::Unknown);
        }
        let (Some(id), Some(at), Some(exp)) = (&self.id, self.at, self.exp) else {
            return Err("an entry lacks id, at or exp".to_owned());
        };
        let iss = || {
            let iss = self.iss.as_deref();
            iss.ok_or("an entry for a user, an account or an issuer lacks iss")
        };
        let (names, key) = match &*self.kind {
            "grant" => (Names::Grant, grant(id)),
            "token" => (Names::Token, token(id)),
            "client" => (Names::Many, client(id)),
            "key" => (Names::Many, key(id)),
            "user" => match &self.client_id {
                Some(client_id) => (Names::Many, user_at_client(iss()?, id, client_id)),
                None => (Names::Many, user(iss()?, id)),
            },
            "account" => {
                let (Some(user_id), Some(user_site)) = (&self.user_id, &self.user_site) else {
                    return Err("an entry for an account lacks user_id or user_site".to_owned());
                };
                (Names::Many, account(iss()?, id, user_id, user_site))
            }
            _ => (Names::Many, issuer(iss()?)),
        };
        if let Some(iss) = &self.iss
            && !issuers.iter().any(|ours| ours == iss)
        {
            return Ok(Read::Foreign);
        }
        let seconds = |time: u64| u32::try_from(time).unwrap_or(u32::MAX);
        Ok(Read::Kept(Revoked {
            names,
            key,
            at: seconds(at),
            exp: seconds(exp),
        }))
    }
}

/// The key of a random id. The ids of the token service are 16 bytes in base64url, and these bytes are the key.
/// For any other text, the key is a hash.
fn id(kind: u8, id: &str) -> Key {
    let mut bytes = [0; 24];
    match URL_SAFE_NO_PAD.decode_slice(id, &mut bytes) {
        Ok(16) => words(&bytes),
        _ => hashed(kind, &[id]),
    }
}

pub(super) fn grant(grant_id: &str) -> Key {
    id(b'g', grant_id)
}

pub(super) fn token(jti: &str) -> Key {
    id(b't', jti)
}

pub(super) fn client(client_id: &str) -> Key {
    hashed(b'c', &[client_id])
}

pub(super) fn key(thumbprint: &str) -> Key {
    hashed(b'k', &[thumbprint])
}

pub(super) fn user(iss: &str, sub: &str) -> Key {
    hashed(b'u', &[iss, sub])
}

pub(super) fn user_at_client(iss: &str, sub: &str, client_id: &str) -> Key {
    hashed(b'b', &[iss, sub, client_id])
}

pub(super) fn account(iss: &str, sub: &str, user_id: &str, user_site: &str) -> Key {
    hashed(b'a', &[iss, sub, user_id, user_site])
}

pub(super) fn issuer(iss: &str) -> Key {
    hashed(b'i', &[iss])
}

/// 128 bits of SHA-256, so that nobody can choose two names with the same key.
fn hashed(kind: u8, texts: &[&str]) -> Key {
    let mut hash = Sha256::new();
    hash.update([kind]);
    for text in texts {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    words(&hash.finalize())
}

/// The first 16 bytes, as words.
fn words(bytes: &[u8]) -> Key {
    let mut key = Key::default();
    for (word, bytes) in key.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    key
}
