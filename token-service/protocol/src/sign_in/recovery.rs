//! Recovery codes for users who have lost their authenticator app. Each code works once.
//!
//! A code has 80 random bits, in four groups of BASE32 letters such as `mfrg-gzdf-mztw-q2lk`. The store has only keyed
//! digests.

use data_encoding::BASE32_NOPAD;
use unicode_normalization::UnicodeNormalization as _;

use crate::Context;
use domain::Username;
use domain::digest::Digest;
use domain::random::{self, Random, RandomError};
use secrets::sealing::EncryptionKey;
use store::StoreError;

/// Number of codes in a set.
const COUNT: usize = 10;

const BYTES: usize = 10;
const LETTERS_IN_A_GROUP: usize = 4;

/// Generates a code, as shown to the person.
fn generate(random: &dyn Random) -> Result<String, RandomError> {
    let bytes = random::bytes::<BYTES>(random)?;
    Ok(in_groups(&BASE32_NOPAD.encode(&bytes)))
}

/// `letters` in lower case, in groups that are easy to copy.
fn in_groups(letters: &str) -> String {
    let mut grouped = String::with_capacity(letters.len() + letters.len() / LETTERS_IN_A_GROUP);
    for (position, letter) in letters.chars().enumerate() {
        if position > 0 && position % LETTERS_IN_A_GROUP == 0 {
            grouped.push('-');
        }
        grouped.push(letter.to_ascii_lowercase());
    }
    grouped
}

/// Digest of a user's code in the store; `None` if the text is not a recovery code. Ignores case, spaces and hyphens.
pub(super) fn digest(key: &EncryptionKey, username: &Username, text: &str) -> Option<Digest> {
    let bytes = decode(text)?;
    let tag = key.tag(&[b"recovery code", username.as_str().as_bytes(), &bytes]);
    Some(Digest::from_bytes(tag))
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let letters: String = text
        .nfkc()
        .filter(|character| !character.is_whitespace() && *character != '-')
        .map(|character| character.to_ascii_uppercase())
        .collect();
    let bytes = BASE32_NOPAD.decode(letters.as_bytes()).ok()?;
    (bytes.len() == BYTES).then_some(bytes)
}

/// A set of new codes, with their digests.
pub(super) fn generate_all(
    context: &Context<'_>,
    username: &Username,
) -> Result<(Vec<String>, Vec<Digest>), RandomError> {
    let codes = (0..COUNT).map(|_| generate(context.random));
    let codes = codes.collect::<Result<Vec<_>, _>>()?;
    let digest = |code: &String| digest(context.encryption_key, username, code);
    let digests = codes.iter().filter_map(digest).collect();
    Ok((codes, digests))
}

/// Number of unused recovery codes of `username`. `None` if the user has no authenticator app.
pub async fn recovery_codes_left(
    context: &Context<'_>,
    username: &Username,
) -> Result<Option<usize>, StoreError> {
    let second_factor = context.store.second_factor(username.clone()).await?;
    Ok(second_factor.map(|second_factor| second_factor.recovery_codes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use system::OsRandom;

    #[test]
    fn a_code_is_known_however_it_is_typed() {
        let key = EncryptionKey::new(&[1; 32]).unwrap();
        let ada = Username::parse("ada").unwrap();
        let grace = Username::parse("grace").unwrap();
        let code = generate(&OsRandom).unwrap();
        assert_eq!(code.len(), 19, "{code}");
        let known = digest(&key, &ada, &code).unwrap();
        for typed in [
            code.to_uppercase(),
            code.replace('-', " "),
            code.replace('-', ""),
        ] {
            assert_eq!(digest(&key, &ada, &typed), Some(known), "{typed}");
        }
        assert_ne!(digest(&key, &grace, &code), Some(known));
        let other = generate(&OsRandom).unwrap();
        assert_ne!(digest(&key, &ada, &other), Some(known));
        for nonsense in ["", "123456", "abcd-abcd-abcd", "abcd-abcd-abcd-abc1"] {
            assert_eq!(digest(&key, &ada, nonsense), None, "{nonsense}");
        }
    }
}
