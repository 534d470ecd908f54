//! Verification of Ed25519 signatures (RFC 8032 §5.1.7) with tables for each key, which pay off because a key
//! is used for weeks. It accepts exactly the signatures that `ed25519-dalek`'s `verify_strict` accepts.
//!
//! `verify_strict` computes `[S]B - [k]A` without tables: 80 to 85 us for a message of 1,000 bytes in V8. With
//! the library's tables of B and of -A it takes 54 us (with `VartimeEdwardsPrecomputation` 68 to 75 us, with
//! tables of radix 32 to 256 more than 54 us). The group, the scalars, the tables and the hash come from the
//! libraries. This module only compares.

use std::sync::{LazyLock, OnceLock};

use curve25519_dalek::constants::ED25519_BASEPOINT_POINT;
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsBasepointTable, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::BasepointTable as _;
use sha2::{Digest as _, Sha512};

/// Multiples of B. The library has the same table as a constant, but that constant would make up a twentieth of
/// the module, in each worker, in addition to this table.
static BASE: LazyLock<Box<EdwardsBasepointTable>> =
    LazyLock::new(|| Box::new(EdwardsBasepointTable::create(&ED25519_BASEPOINT_POINT)));

/// A public key A.
pub struct VerifyingKey {
    encoded: [u8; 32],
    minus_a: EdwardsPoint,
    /// Multiples of -A, 30 KiB. Computing them takes 1.3 ms, so only keys that are used get them.
    table: OnceLock<Box<EdwardsBasepointTable>>,
}

impl VerifyingKey {
    /// Reads a key of 32 bytes (RFC 8032 §5.1.5). `None` if the bytes are not a point, not its only valid
    /// encoding, or a point of small order, for which anyone can make valid signatures.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let encoded: [u8; 32] = bytes.try_into().ok()?;
        let a = CompressedEdwardsY(encoded).decompress()?;
        if a.is_small_order() || a.compress().to_bytes() != encoded {
            return None;
        }
        Some(Self {
            encoded,
            minus_a: -a,
            table: OnceLock::new(),
        })
    }

    /// True if `signature`, 64 bytes R and S, is this key's signature over `message`: `R = [S]B - [k]A`, with S
    /// below the group's order and R not of small order.
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        self.matches(message, signature, |s, k| {
            let table = self
                .table
                .get_or_init(|| Box::new(EdwardsBasepointTable::create(&self.minus_a)));
            BASE.mul_base(s) + table.mul_base(k)
        })
    }

    /// The same without a table of the key, for a key that may never come again.
    pub fn verify_once(&self, message: &[u8], signature: &[u8]) -> bool {
        self.matches(message, signature, |s, k| {
            BASE.mul_base(s) + self.minus_a * k
        })
    }

    /// `expected` computes `[S]B - [k]A` from S and k.
    fn matches(
        &self,
        message: &[u8],
        signature: &[u8],
        expected: impl FnOnce(&Scalar, &Scalar) -> EdwardsPoint,
    ) -> bool {
        let Some((r, s)) = signature.split_first_chunk::<32>() else {
            return false;
        };
        let Ok(s) = <[u8; 32]>::try_from(s) else {
            return false;
        };
        let Some(s) = Option::<Scalar>::from(Scalar::from_canonical_bytes(s)) else {
            return false;
        };
        let hash = Sha512::new()
            .chain_update(r)
            .chain_update(self.encoded)
            .chain_update(message)
            .finalize();
        let k = Scalar::from_bytes_mod_order_wide(&hash.into());
        let expected = expected(&s, &k);
        expected.compress().to_bytes() == *r && !expected.is_small_order()
    }
}

#[cfg(test)]
mod tests {
    use curve25519_dalek::constants::EIGHT_TORSION;
    use ed25519_dalek::{Signer as _, SigningKey};
    use proptest::prelude::*;

    use super::*;

    /// The order of the group, little endian (RFC 8032 §5.1).
    const ORDER: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde,
        0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];

    fn strict(key: &[u8; 32], message: &[u8], signature: &[u8; 64]) -> bool {
        let signature = ed25519_dalek::Signature::from_bytes(signature);
        ed25519_dalek::VerifyingKey::from_bytes(key)
            .is_ok_and(|key| key.verify_strict(message, &signature).is_ok())
    }

    fn ours(key: &[u8; 32], message: &[u8], signature: &[u8]) -> bool {
        VerifyingKey::from_bytes(key).is_some_and(|key| {
            let verdict = key.verify(message, signature);
            assert_eq!(key.verify_once(message, signature), verdict);
            verdict
        })
    }

    fn challenge(r: &[u8; 32], a: &[u8; 32], message: &[u8]) -> Scalar {
        let hash = Sha512::new()
            .chain_update(r)
            .chain_update(a)
            .chain_update(message)
            .finalize();
        Scalar::from_bytes_mod_order_wide(&hash.into())
    }

    /// Makes a signature with any R, and with a torsion component in key and R, as no signer does: [S]B = R +
    /// [k]A up to that component.
    fn crafted(
        a: Scalar,
        torsion_of_a: usize,
        r: Scalar,
        torsion_of_r: usize,
    ) -> ([u8; 32], [u8; 64]) {
        let point = |scalar: Scalar, torsion: usize| {
            let point: EdwardsPoint = ED25519_BASEPOINT_POINT * scalar + EIGHT_TORSION[torsion];
            point.compress().to_bytes()
        };
        let (key, encoded_r) = (point(a, torsion_of_a), point(r, torsion_of_r));
        let s = r + challenge(&encoded_r, &key, b"message") * a;
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&encoded_r);
        signature[32..].copy_from_slice(s.as_bytes());
        (key, signature)
    }

    #[test]
    fn points_of_small_order_are_no_keys() {
        for torsion in EIGHT_TORSION {
            assert!(VerifyingKey::from_bytes(&torsion.compress().to_bytes()).is_none());
        }
        // y = p + 1 is another encoding of the neutral element.
        let mut other = [0xff; 32];
        (other[0], other[31]) = (0xee, 0x7f);
        assert!(VerifyingKey::from_bytes(&other).is_none());
        assert!(VerifyingKey::from_bytes(&[1; 31]).is_none());
    }

    #[test]
    fn torsion_is_judged_as_by_the_library() {
        let (mut right, mut wrong) = (0, 0);
        for number in 1..40_u64 {
            for (torsion_of_a, torsion_of_r) in [(0, 0), (0, 1), (1, 0), (1, 1), (4, 4), (2, 6)] {
                // R has small order if the scalar is zero.
                let r = Scalar::from(if number % 4 == 0 { 0 } else { number * 77 });
                let (key, signature) = crafted(Scalar::from(number), torsion_of_a, r, torsion_of_r);
                let verdict = ours(&key, b"message", &signature);
                assert_eq!(verdict, strict(&key, b"message", &signature), "{number}");
                if verdict {
                    right += 1;
                } else {
                    wrong += 1;
                }
            }
        }
        assert!(right > 20 && wrong > 20, "{right} right, {wrong} wrong");
    }

    #[test]
    fn the_table_is_made_at_the_first_check() {
        let signer = SigningKey::from_bytes(&[7; 32]);
        let key = VerifyingKey::from_bytes(&signer.verifying_key().to_bytes()).unwrap();
        assert!(key.table.get().is_none());
        for message in [b"one", b"two"] {
            assert!(key.verify(message, &signer.sign(message).to_bytes()));
            assert!(key.table.get().is_some());
        }
    }

    #[test]
    fn a_signature_has_64_bytes() {
        let signer = SigningKey::from_bytes(&[7; 32]);
        let key = signer.verifying_key().to_bytes();
        let signature = signer.sign(b"message").to_bytes();
        assert!(ours(&key, b"message", &signature));
        assert!(!ours(&key, b"message", &signature[..63]));
        assert!(!ours(
            &key,
            b"message",
            &[signature.as_slice(), &[0]].concat()
        ));
        assert!(!ours(&key, b"message", b""));
    }

    proptest! {
        #[test]
        fn agrees_with_the_library(
            seed in any::<[u8; 32]>(),
            message in any::<Vec<u8>>(),
            bit in 0..512_usize,
        ) {
            let signer = SigningKey::from_bytes(&seed);
            let key = signer.verifying_key().to_bytes();
            let signature = signer.sign(&message).to_bytes();
            prop_assert!(ours(&key, &message, &signature));
            let mut flipped = signature;
            flipped[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!ours(&key, &message, &flipped));
            prop_assert!(!strict(&key, &message, &flipped));

            // S + L is the same scalar in another encoding.
            let mut malleable = signature;
            let mut carry = 0;
            for (byte, order) in malleable[32..].iter_mut().zip(ORDER) {
                let sum = u16::from(*byte) + u16::from(order) + carry;
                *byte = (sum & 0xff) as u8;
                carry = sum >> 8;
            }
            prop_assert!(!ours(&key, &message, &malleable));

            let mut other_key = key;
            other_key[bit / 16] ^= 1 << (bit % 8);
            prop_assert_eq!(
                ours(&other_key, &message, &signature),
                strict(&other_key, &message, &signature)
            );
        }
    }
}
