//! What one issuer has revoked, as its feed tells (design section 3.3).

use std::collections::HashMap;

use claims::json;
use claims::revocation::{Feed, MAX_PAGE, Revocation, RevocationKind};
use serde_json::Value;

use crate::verify::TokenReference;

/// A page is at most this large, in bytes.
pub const MAX_FEED_BYTES: usize = 1024 * 1024;

/// Entries that are remembered at most. Entries live no longer than the tokens that they concern; an issuer that
/// revokes more than this within a token's life is treated as one whose feed is lost.
pub const MAX_ENTRIES: usize = 200_000;

#[derive(Debug, Clone, Copy)]
struct Entry {
    at: u64,
    exp: u64,
}

/// The revocations of one issuer.
#[derive(Debug, Default)]
pub struct Revocations {
    entries: HashMap<(RevocationKind, String), Entry>,
    position: u64,
    synchronized_at: Option<u64>,
}

/// What follows from a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// Everything is known as of now.
    Complete,
    /// More is waiting: ask again at once.
    More,
}

impl Revocations {
    /// The sequence of the last entry that was read.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// When everything was known, in seconds; `None` before the first time.
    #[must_use]
    pub const fn synchronized_at(&self) -> Option<u64> {
        self.synchronized_at
    }

    /// Entries that are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is revoked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Applies a page that was asked for with the current position.
    ///
    /// # Errors
    /// What is wrong with it; nothing of it is applied then.
    pub fn apply(&mut self, page: &[u8], now: u64) -> Result<Applied, String> {
        if page.len() > MAX_FEED_BYTES {
            return Err(format!("larger than {MAX_FEED_BYTES} bytes"));
        }
        let feed = read(page)?;
        if feed.last < self.position {
            // Another store: what was read of the old one stays revoked until it expires by itself.
            self.position = 0;
            return Ok(Applied::More);
        }
        let mut position = self.position;
        for entry in &feed.revocations {
            if entry.sequence <= position {
                return Err("its entries are out of order".to_owned());
            }
            position = entry.sequence;
        }
        self.entries.retain(|_, entry| entry.exp >= now);
        if self.entries.len() + feed.revocations.len() > MAX_ENTRIES {
            return Err(format!("more than {MAX_ENTRIES} entries"));
        }
        let is_full = feed.revocations.len() >= MAX_PAGE;
        for revocation in feed.revocations {
            let entry = Entry {
                at: revocation.at,
                exp: revocation.exp,
            };
            self.entries
                .entry((revocation.kind, revocation.id))
                .and_modify(|known| {
                    known.at = known.at.max(entry.at);
                    known.exp = known.exp.max(entry.exp);
                })
                .or_insert(entry);
        }
        self.position = position;
        if is_full {
            return Ok(Applied::More);
        }
        self.synchronized_at = Some(now);
        Ok(Applied::Complete)
    }

    /// Whether the token, its grant, its client or its user is revoked.
    #[must_use]
    pub fn names(&self, token: &TokenReference) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        let entry = |kind, id: &String| self.entries.get(&(kind, id.clone()));
        let issued_before =
            |entry: Option<&Entry>| entry.is_some_and(|entry| token.iat <= entry.at);
        let grant = token
            .grant_id
            .as_ref()
            .is_some_and(|id| entry(RevocationKind::Grant, id).is_some());
        grant
            || entry(RevocationKind::Token, &token.jti).is_some()
            || issued_before(entry(RevocationKind::Client, &token.client_id))
            || issued_before(entry(RevocationKind::User, &token.sub))
    }
}

/// Reads a page by hand, like keys: see `keys::signature_key`.
fn read(page: &[u8]) -> Result<Feed, String> {
    let object = json::parse_object(page).map_err(|error| error.to_string())?;
    let list = object.get("revocations").and_then(Value::as_array);
    let last = object.get("last").and_then(Value::as_u64);
    let (Some(list), Some(last)) = (list, last) else {
        return Err("it has no revocations and last".to_owned());
    };
    let revocations: Option<Vec<Revocation>> = list.iter().map(read_entry).collect();
    Ok(Feed {
        revocations: revocations.ok_or("an entry is not one")?,
        last,
    })
}

fn read_entry(entry: &Value) -> Option<Revocation> {
    let number = |name: &str| entry.get(name).and_then(Value::as_u64);
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    Some(Revocation {
        sequence: number("sequence")?,
        kind: match text("kind")? {
            "grant" => RevocationKind::Grant,
            "token" => RevocationKind::Token,
            "client" => RevocationKind::Client,
            "user" => RevocationKind::User,
            _ => return None,
        },
        id: text("id")?.to_owned(),
        at: number("at")?,
        exp: number("exp")?,
    })
}

#[cfg(test)]
mod tests {
    use claims::revocation::Revocation;

    use super::*;

    fn token() -> TokenReference {
        TokenReference {
            jti: "t".into(),
            grant_id: Some("g".into()),
            client_id: "c".into(),
            sub: "u".into(),
            iat: 100,
        }
    }

    fn entry(sequence: u64, kind: RevocationKind, id: &str, at: u64) -> Revocation {
        Revocation {
            sequence,
            kind,
            id: id.into(),
            at,
            exp: at + 3600,
        }
    }

    fn page(last: u64, revocations: Vec<Revocation>) -> Vec<u8> {
        serde_json::to_vec(&Feed { revocations, last }).unwrap()
    }

    #[test]
    fn each_kind_names_its_tokens() {
        for (kind, id, at, expected) in [
            (RevocationKind::Grant, "g", 50, true),
            (RevocationKind::Grant, "t", 100, false),
            (RevocationKind::Token, "t", 50, true),
            (RevocationKind::Client, "c", 100, true),
            (RevocationKind::Client, "c", 99, false),
            (RevocationKind::User, "u", 100, true),
            (RevocationKind::User, "u", 99, false),
            (RevocationKind::User, "c", 100, false),
        ] {
            let mut revocations = Revocations::default();
            let applied = revocations.apply(&page(1, vec![entry(1, kind, id, at)]), 200);
            assert_eq!(applied, Ok(Applied::Complete));
            assert_eq!(revocations.names(&token()), expected, "{kind:?} {id} {at}");
        }
    }

    #[test]
    fn a_later_entry_for_the_same_user_counts() {
        let mut revocations = Revocations::default();
        let user = |sequence, at| entry(sequence, RevocationKind::User, "u", at);
        revocations
            .apply(&page(2, vec![user(1, 50), user(2, 150)]), 200)
            .unwrap();
        assert!(revocations.names(&token()));
    }

    #[test]
    fn entries_are_forgotten_with_their_tokens() {
        let mut revocations = Revocations::default();
        revocations
            .apply(
                &page(1, vec![entry(1, RevocationKind::Grant, "g", 100)]),
                200,
            )
            .unwrap();
        revocations.apply(&page(1, vec![]), 3700).unwrap();
        assert!(revocations.names(&token()));
        revocations.apply(&page(1, vec![]), 3701).unwrap();
        assert!(!revocations.names(&token()));
        assert!(revocations.is_empty());
    }

    #[test]
    fn a_bad_page_changes_nothing() {
        let mut revocations = Revocations::default();
        let good = page(5, vec![entry(5, RevocationKind::Grant, "x", 100)]);
        revocations.apply(&good, 200).unwrap();
        let grant = |sequence| entry(sequence, RevocationKind::Grant, "g", 100);
        for bad in [
            page(6, vec![grant(5)]),
            page(8, vec![grant(7), grant(6)]),
            b"{}".to_vec(),
            b"<html>".to_vec(),
            vec![b' '; MAX_FEED_BYTES + 1],
        ] {
            assert!(revocations.apply(&bad, 300).is_err());
            assert_eq!(
                (revocations.position(), revocations.synchronized_at()),
                (5, Some(200))
            );
            assert!(!revocations.names(&token()));
        }
    }

    #[test]
    fn another_store_is_read_from_its_start() {
        let mut revocations = Revocations::default();
        revocations
            .apply(
                &page(5, vec![entry(5, RevocationKind::Grant, "g", 100)]),
                200,
            )
            .unwrap();
        assert_eq!(revocations.apply(&page(2, vec![]), 201), Ok(Applied::More));
        assert_eq!(revocations.position(), 0);
        assert!(revocations.names(&token()), "what is revoked stays revoked");
    }

    #[test]
    fn a_full_page_is_followed_by_more() {
        let full = (1..=MAX_PAGE as u64)
            .map(|number| entry(number, RevocationKind::Token, &number.to_string(), 1));
        let mut revocations = Revocations::default();
        let applied = revocations.apply(&page(2000, full.collect()), 200);
        assert_eq!(
            (applied, revocations.synchronized_at()),
            (Ok(Applied::More), None)
        );
    }
}
