//! Tests of sealing and of the tags.

use aws_lc_rs::aead::NONCE_LEN;
use zeroize::Zeroizing;

use super::derivation::LENGTH;
use super::*;

#[test]
fn tags_depend_on_the_key_and_on_every_part() {
    let key = EncryptionKey::new(&[1; 32]).unwrap();
    let tag = key.tag(&[b"ab", b"c"]);
    assert_eq!(
        tag,
        EncryptionKey::new(&[1; 32]).unwrap().tag(&[b"ab", b"c"])
    );
    assert_ne!(
        tag,
        EncryptionKey::new(&[2; 32]).unwrap().tag(&[b"ab", b"c"])
    );
    assert_ne!(tag, key.tag(&[b"a", b"bc"]));
    assert_ne!(tag, key.tag(&[b"abc"]));
}

/// Replicas accept each other's nonces, also while they have different encryption keys.
#[test]
fn rfc9449_s8_nonces_depend_on_the_root_alone() {
    let nonce = |key: u8, root: u8| {
        let sealing = SealingKeys::new(&[key; LENGTH], []).unwrap();
        let key = EncryptionKey::with_root(sealing, &Zeroizing::new([root; LENGTH])).unwrap();
        key.nonce_key().nonce(1_800_000_000)
    };
    assert_eq!(nonce(1, 1), nonce(2, 1));
    assert_ne!(nonce(1, 1), nonce(1, 2));
}

#[test]
fn opens_only_with_the_same_key_and_context() {
    let key = EncryptionKey::new(&[1; 32]).unwrap();
    let sealed = key.seal("totp:ada", b"secret").unwrap();
    assert_eq!(sealed.len(), b"secret".len() + 37);
    assert_eq!(key.open("totp:ada", &sealed).unwrap().as_slice(), b"secret");
    assert_eq!(key.open("totp:bob", &sealed), Err(SealingError::Refused));
    let other = EncryptionKey::new(&[2; 32]).unwrap();
    assert_eq!(other.open("totp:ada", &sealed), Err(SealingError::Refused));
    for position in 0..sealed.len() {
        let mut damaged = sealed.clone();
        damaged[position] ^= 1;
        assert_eq!(key.open("totp:ada", &damaged), Err(SealingError::Refused));
        assert_eq!(
            key.open("totp:ada", &sealed[..position]),
            Err(SealingError::Refused)
        );
    }
    assert_ne!(
        sealed,
        key.seal("totp:ada", b"secret").unwrap(),
        "nonces are random"
    );
}

#[test]
fn issued_values_open_for_their_purpose_alone() {
    let key = EncryptionKey::new(&[7; 32]).unwrap();
    let sealed = key.seal_issued("code", [5; NONCE_LEN], b"content").unwrap();
    assert_eq!(sealed.len(), b"content".len() + 28);
    let opened = key.open_issued("code", &sealed).unwrap();
    assert_eq!(opened.as_slice(), b"content");
    let refused = Err(SealingError::Refused);
    assert_eq!(key.open_issued("other", &sealed), refused);
    for position in 0..sealed.len() {
        let mut damaged = sealed.clone();
        damaged[position] ^= 1;
        assert_eq!(key.open_issued("code", &damaged), refused);
        assert_eq!(key.open_issued("code", &sealed[..position]), refused);
    }
}

#[test]
fn issued_values_need_their_encryption_key_and_the_root() {
    let with = |current: u8, earlier: &[u8], root: u8| {
        let earlier: Vec<[u8; LENGTH]> = earlier.iter().map(|byte| [*byte; LENGTH]).collect();
        let sealing = SealingKeys::new(&[current; LENGTH], &earlier).unwrap();
        EncryptionKey::with_root(sealing, &Zeroizing::new([root; LENGTH])).unwrap()
    };
    let sealed = with(1, &[], 9).seal_issued("code", [5; NONCE_LEN], b"content");
    let opens = |key: EncryptionKey| key.open_issued("code", sealed.as_ref().unwrap()).is_ok();
    assert!(opens(with(1, &[], 9)));
    assert!(opens(with(2, &[3, 1], 9)), "an earlier key opens");
    assert!(!opens(with(2, &[], 9)), "the encryption key is gone");
    assert!(!opens(with(1, &[], 8)), "another store has another root");
}

#[test]
fn earlier_keys_open_and_the_current_one_seals() {
    let old = SealingKeys::new(&[1; 32], []).unwrap();
    let both = SealingKeys::new(&[2; 32], [&[1; 32]]).unwrap();
    let new = SealingKeys::new(&[2; 32], []).unwrap();
    let [old_id, new_id] = [&old, &new].map(|keys| keys.ids().next().unwrap());
    assert_ne!(old_id, new_id);
    let before = old.seal("c", b"secret").unwrap();
    assert_eq!(both.open("c", &before).unwrap().as_slice(), b"secret");
    assert_eq!(both.opener("c", &before), Some(old_id));
    assert!(!both.is_up_to_date(&before));
    assert_eq!(new.open("c", &before), Err(SealingError::Refused));
    assert_eq!(
        (new.missing(&before), both.missing(&before)),
        (Some(old_id), None)
    );
    let after = both.seal("c", b"secret").unwrap();
    assert!(new.is_up_to_date(&after));
    assert_eq!(new.open("c", &after).unwrap().as_slice(), b"secret");
    assert_eq!(old.open("c", &after), Err(SealingError::Refused));
}
