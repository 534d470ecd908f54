//! Nonces without state (RFC 9449 §8): a nonce is a code of its minute, so everybody with the same key makes and accepts
//! the same nonces.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac_sha256::HMAC;

/// Seconds for which one nonce is given out.
const PERIOD: u64 = 60;

/// Number of nonces that are accepted: the present one and those before.
const ACCEPTED: u64 = 3;

/// Domain separator of the HMAC.
const PURPOSE: &[u8] = b"gatepass dpop nonce 1 ";

/// The key of all nonces of a service, or of all gateways of an API. Somebody who has it can make proofs in advance, but
/// not for another client's key.
#[derive(Clone, PartialEq, Eq)]
pub struct NonceKey([u8; 32]);

impl fmt::Debug for NonceKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

impl NonceKey {
    /// `key` must be random and secret.
    pub const fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// The nonce at `now`, in seconds since 1970: base64url, 43 characters.
    pub fn nonce(&self, now: u64) -> String {
        URL_SAFE_NO_PAD.encode(HMAC::mac(text(now / PERIOD), self.0))
    }

    /// True if `nonce` was given out in this minute or in the two before. `now` is in seconds since 1970.
    pub fn accepts(&self, nonce: &str, now: u64) -> bool {
        let mut code = [0; 32];
        let decoded = URL_SAFE_NO_PAD.decode_slice(nonce, &mut code);
        let present = now / PERIOD;
        decoded == Ok(code.len())
            && (present.saturating_sub(ACCEPTED - 1)..=present)
                .any(|period| HMAC::verify(text(period), self.0, &code))
    }

    /// Time from which no nonce of `now` is accepted, in seconds since 1970.
    pub(super) const fn refused_from(now: u64) -> u64 {
        (now / PERIOD)
            .saturating_add(ACCEPTED)
            .saturating_mul(PERIOD)
    }
}

fn text(period: u64) -> Vec<u8> {
    [PURPOSE, &period.to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc9449_s8_a_nonce_is_accepted_for_three_minutes_at_most() {
        let key = NonceKey::new([7; 32]);
        let minute = 30_000_000;
        let nonce = key.nonce(minute * 60);
        assert_eq!(nonce, key.nonce(minute * 60 + 59));
        for (now, accepted) in [
            (minute * 60 - 1, false),
            (minute * 60, true),
            (minute * 60 + 179, true),
            (minute * 60 + 180, false),
        ] {
            assert_eq!(key.accepts(&nonce, now), accepted, "{now}");
        }
        assert_eq!(NonceKey::refused_from(minute * 60 + 59), minute * 60 + 180);
        assert!(!NonceKey::new([8; 32]).accepts(&nonce, minute * 60));
        for other in [
            "",
            "A",
            &nonce[1..],
            &format!("{nonce}="),
            &format!("{nonce}A"),
        ] {
            assert!(!key.accepts(other, minute * 60), "{other}");
        }
        assert_eq!(format!("{key:?}"), "***");
    }
}
