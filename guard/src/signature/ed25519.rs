//! Ed25519 (RFC 8032 §5.1.7) by a key that is used for weeks: tables of multiples, made once, take the doublings out of
//! every check. It accepts what `ed25519-dalek`'s `verify_strict` accepts, and nothing else.
//!
//! Everything here is public: keys, messages and signatures. The group and the hash are the libraries'. Their own tables are
//! for secrets and read every entry to hide which one is meant, a quarter of the time of a check.

use std::sync::LazyLock;

use curve25519_dalek::constants::ED25519_BASEPOINT_POINT;
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::Identity as _;
use sha2::{Digest as _, Sha512};

/// Multiples of the base point B, for all keys: 640 KiB.
static MULTIPLES_OF_B: LazyLock<Multiples> =
    LazyLock::new(|| Multiples::new::<8>(ED25519_BASEPOINT_POINT));

/// Multiples of a point P, so that any multiple is a sum of few: a scalar is read as digits of some bits each, and each digit
/// finds its multiple in a row of its own.
struct Multiples {
    /// Bits of a digit.
    width: usize,
    /// Row i holds 1, 2, 3 ... times 2^(i * width) P, to half of what a digit can be: digits are signed.
    rows: Vec<Vec<EdwardsPoint>>,
}

impl Multiples {
    /// More bits make fewer additions and larger tables. At most 8.
    fn new<const WIDTH: usize>(point: EdwardsPoint) -> Self {
        const { assert!(1 < WIDTH && WIDTH <= 8) };
        // Scalars have 253 bits, and the last digit may leave a carry.
        let rows = usize::div_ceil(254, WIDTH);
        let mut first = point;
        let rows = std::iter::repeat_with(|| {
            let mut multiple = EdwardsPoint::identity();
            let row: Vec<EdwardsPoint> = std::iter::repeat_with(|| {
                multiple += first;
                multiple
            })
            .take(1 << (WIDTH - 1))
            .collect();
            first = multiple + multiple;
            row
        })
        .take(rows)
        .collect();
        Self { width: WIDTH, rows }
    }

    /// `scalar` times the point. How long it takes tells of the scalar, which must be public.
    fn times(&self, scalar: &Scalar) -> EdwardsPoint {
        let bytes = scalar.as_bytes();
        let byte = |place: usize| i32::from(bytes.get(place).copied().unwrap_or(0));
        let range = 1 << self.width;
        let mut sum = EdwardsPoint::identity();
        let mut carry = 0;
        for (number, row) in self.rows.iter().enumerate() {
            let bit = number * self.width;
            let two_bytes = byte(bit / 8) | byte(bit / 8 + 1) << 8;
            let mut digit = (two_bytes >> (bit % 8) & (range - 1)) + carry;
            carry = i32::from(digit > range / 2);
            digit -= carry * range;
            let multiple = usize::try_from(digit.abs() - 1)
                .ok()
                .and_then(|place| row.get(place));
            match multiple {
                Some(multiple) if digit > 0 => sum += multiple,
                Some(multiple) => sum -= multiple,
                None => {}
            }
        }
        sum
    }
}

/// A public key A, with multiples of -A: 130 KiB.
pub struct VerifyingKey {
    encoded: [u8; 32],
    multiples_of_minus_a: Multiples,
}

impl VerifyingKey {
    /// The key with these 32 bytes (RFC 8032 §5.1.5); `None` for what is no point, or another encoding of one, or a point
    /// of small order, which signs anything.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let encoded: [u8; 32] = bytes.try_into().ok()?;
        let a = CompressedEdwardsY(encoded).decompress()?;
        if a.is_small_order() || a.compress().to_bytes() != encoded {
            return None;
        }
        Some(Self {
            encoded,
            multiples_of_minus_a: Multiples::new::<5>(-a),
        })
    }

    /// Whether `signature`, 64 bytes R and S, is this key's over `message`: R = [S]B - [k]A, with S below the group's order
    /// and R not of small order.
    #[must_use]
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
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
        let expected = MULTIPLES_OF_B.times(&s) + self.multiples_of_minus_a.times(&k);
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
        VerifyingKey::from_bytes(key).is_some_and(|key| key.verify(message, signature))
    }

    fn challenge(r: &[u8; 32], a: &[u8; 32], message: &[u8]) -> Scalar {
        let hash = Sha512::new()
            .chain_update(r)
            .chain_update(a)
            .chain_update(message)
            .finalize();
        Scalar::from_bytes_mod_order_wide(&hash.into())
    }

    /// A signature with any R and with a torsion component in key and R, which signers never make: [S]B = R + [k]A up to
    /// that component.
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

    fn assert_multiples(scalar: Scalar) {
        let product = ED25519_BASEPOINT_POINT * scalar;
        assert_eq!(MULTIPLES_OF_B.times(&scalar), product, "{scalar:?}");
        let narrow = Multiples::new::<5>(ED25519_BASEPOINT_POINT);
        assert_eq!(narrow.times(&scalar), product, "{scalar:?}");
    }

    #[test]
    fn multiples_at_the_edges_are_right() {
        let mut edges = vec![Scalar::ZERO, Scalar::ONE, -Scalar::ONE];
        for bit in 0..252_u32 {
            let power = (0..bit).fold(Scalar::ONE, |power, _| power + power);
            edges.extend([power, power - Scalar::ONE, -power]);
        }
        edges.into_iter().for_each(assert_multiples);
    }

    #[test]
    fn points_of_small_order_are_no_keys() {
        for torsion in EIGHT_TORSION {
            assert!(VerifyingKey::from_bytes(&torsion.compress().to_bytes()).is_none());
        }
        // y = p + 1 is another encoding of the neutral element's.
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
                // R of small order where the scalar is zero.
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
        fn multiples_are_right(bytes in any::<[u8; 32]>()) {
            assert_multiples(Scalar::from_bytes_mod_order(bytes));
        }

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

            // S + L is the same number to the group, and another text.
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
