//! Ids of grants.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::clock::Timestamp;
use crate::random::{self, Random, RandomError};

/// The id of a grant: a UUIDv7, so that ids are ordered by time and new rows are written next to each other. Written as
/// 22 characters of base64url, because every token contains it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GrantId(Uuid);

impl GrantId {
    pub fn generate(random: &dyn Random, now: Timestamp) -> Result<Self, RandomError> {
        let bytes = random::bytes::<10>(random)?;
        let milliseconds = now.seconds().saturating_mul(1000);
        Ok(Self(
            uuid::Builder::from_unix_timestamp_millis(milliseconds, &bytes).into_uuid(),
        ))
    }

    /// Parses an id; `None` if the text is not an id.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        bytes.try_into().ok().map(Self::from_bytes)
    }

    /// When the grant was created; `None` for bytes that are not a UUIDv7 (RFC 9562 §5.7).
    pub fn made_at(&self) -> Option<Timestamp> {
        if self.0.get_version() != Some(uuid::Version::SortRand) {
            return None;
        }
        let (seconds, _) = self.0.get_timestamp()?.to_unix();
        Some(Timestamp::from_seconds(seconds))
    }

    /// The 16 bytes, big endian, so that byte order is time order.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }
}

impl fmt::Display for GrantId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&URL_SAFE_NO_PAD.encode(self.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Zeros;

    impl Random for Zeros {
        fn fill(&self, buffer: &mut [u8]) -> Result<(), RandomError> {
            buffer.fill(0);
            Ok(())
        }
    }

    #[test]
    fn ids_are_read_only_in_their_own_form() {
        let id = GrantId::from_bytes([0xab; 16]);
        assert_eq!(GrantId::parse(&id.to_string()), Some(id));
        assert_eq!(id.to_string().len(), 22);
        assert_eq!(GrantId::parse(&format!("{id}A")), None);
        assert_eq!(GrantId::parse(&format!("{id}==")), None);
    }

    #[test]
    fn a_grant_id_tells_its_time() {
        let now = Timestamp::from_seconds(1_000_005);
        let id = GrantId::generate(&Zeros, now).unwrap();
        assert_eq!(id.made_at(), Some(now));
        assert_eq!(GrantId::from_bytes([0xab; 16]).made_at(), None);
    }
}
