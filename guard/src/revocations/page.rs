//! Pages of the feed, versions 1 and 2, and the parts of their entries that the table keeps.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::revocation::{MAX_PAGE, MAX_PAGE_BYTES};
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
    /// A client, user, account or issuer, whose tokens are revoked up to a time.
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
    /// Identity of the feed; `None` in version 1.
    pub feed: Option<String>,
    /// Position after which the page starts; `None` in version 1, where it is the `since` of the request.
    pub since: Option<u64>,
    /// Position of the last entry of the page; `None` in version 1 if the page has no entry.
    pub position: Option<u64>,
    /// The highest position of the feed; version 1 only.
    pub last: Option<u64>,
    /// The lowest position of an entry; version 1 only.
    pub first: Option<u64>,
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
    feed: Option<Cow<'a, str>>,
    since: Option<u64>,
    position: Option<u64>,
    more: Option<bool>,
    holds: Option<bool>,
    last: Option<u64>,
    #[serde(borrow)]
    revocations: Vec<RawEntry<'a>>,
}

#[derive(Deserialize)]
struct RawEntry<'a> {
    sequence: Option<u64>,
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
        let raw = raw.ok_or("it is no page of a feed")?;
        let mut page = match (&raw.feed, raw.since, raw.position, raw.last) {
            (Some(feed), Some(since), Some(position), _) => Self {
                feed: Some(feed.clone().into_owned()),
                since: Some(since),
                position: Some(position),
                last: None,
                first: None,
                more: raw.more.ok_or("it does not say whether there is more")?,
                holds: raw.holds.unwrap_or(false),
                revoked: Vec::with_capacity(raw.revocations.len()),
                unknown: None,
            },
            (None, _, _, Some(last)) => {
                let positions = sequence(&raw.revocations)?;
                Self {
                    feed: None,
                    since: None,
                    position: positions.map(|(_, newest)| newest),
                    last: Some(last),
                    first: positions.map(|(oldest, _)| oldest),
                    more: raw.revocations.len() >= MAX_PAGE,
                    holds: false,
                    revoked: Vec::with_capacity(raw.revocations.len()),
                    unknown: None,
                }
            }
            _ => return Err("it has neither feed, since and position, nor last".to_owned()),
        };
        let is_first_version = page.feed.is_none();
        for entry in &raw.revocations {
            match entry.read(issuers, is_first_version)? {
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

/// Returns the first and last position of entries of version 1. The positions must rise.
fn sequence(entries: &[RawEntry<'_>]) -> Result<Option<(u64, u64)>, String> {
    let mut range = None;
    for entry in entries {
        let sequence = entry.sequence.ok_or("an entry has no sequence")?;
        range = match range {
            Some((_, newest)) if sequence <= newest => {
                return Err("its entries are out of order".to_owned());
            }
            Some((oldest, _)) => Some((oldest, sequence)),
            None => Some((sequence, sequence)),
        };
    }
    Ok(range)
}

impl RawEntry<'_> {
    fn read(&self, issuers: &[String], is_first_version: bool) -> Result<Read, String> {
        let is_known = match &*self.kind {
            "grant" | "token" | "client" | "user" => true,
            "account" | "issuer" => !is_first_version,
            _ => false,
        };
        if !is_known {
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
            "user" if is_first_version => (Names::Many, user(None, id)),
            "user" => match &self.client_id {
                Some(client_id) => (Names::Many, user_at_client(iss()?, id, client_id)),
                None => (Names::Many, user(Some(iss()?), id)),
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

/// Without an issuer, the key stands for the user of this name at every issuer, as in version 1.
pub(super) fn user(iss: Option<&str>, sub: &str) -> Key {
    match iss {
        Some(iss) => hashed(b'u', &[iss, sub]),
        None => hashed(b'1', &[sub]),
    }
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
