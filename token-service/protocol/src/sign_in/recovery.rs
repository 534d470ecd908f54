//! Recovery codes for users who have lost their authenticator app. Each code works once.
//!
//! A code has 80 random bits, in four groups of BASE32 letters such as `mfrg-gzdf-mztw-q2lk`. The store has only keyed
//! digests.

use data_encoding::BASE32_NOPAD;

use crate::Context;
use crate::sealing::EncryptionKey;
use domain::Username;
use domain::digest::Digest;
use domain::random::{self, Random, RandomError};
use store::StoreError;

/// Number of codes in a set.
pub(super) const COUNT: usize = 10;

const BYTES: usize = 10;
const LETTERS_IN_A_GROUP: usize = 4;

/// Generates a code, as shown to the person.
pub(super) fn generate(random: &dyn Random) -> Result<String, RandomError> {
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

/// Digests of a user's code in the store; none if the text is not a recovery code. Ignores case, spaces and hyphens.
/// Codes from before D-33 are stored under the username as typed, so there may be two digests.
pub(super) fn digests(key: &EncryptionKey, username: &Username, text: &str) -> Vec<Digest> {
    let Some(bytes) = decode(text) else {
        return Vec::new();
    };
    let names = [Some(username.as_str().to_owned()), username.decomposed()];
    let tags = names
        .iter()
        .flatten()
        .map(|name| key.tag(&[b"recovery code", name.as_bytes(), &bytes]));
    tags.map(Digest::from_bytes).collect()
}

/// Digest of a new code for the store.
pub(super) fn digest(key: &EncryptionKey, username: &Username, text: &str) -> Option<Digest> {
    digests(key, username, text).into_iter().next()
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let letters: String = text
        .chars()
        .filter(|character| !character.is_whitespace() && *character != '-')
        .map(|character| character.to_ascii_uppercase())
        .collect();
    let bytes = BASE32_NOPAD.decode(letters.as_bytes()).ok()?;
    (bytes.len() == BYTES).then_some(bytes)
}

/// Number of unused recovery codes of `username`. `None` if the user has no authenticator app.
///
/// # Errors
/// [`StoreError`] if the store fails.
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
    use domain::random::OsRandom;

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

    /// D-33: codes that were generated for a username as typed.
    #[test]
    fn codes_of_a_decomposed_name_go_on_to_work() {
        let key = EncryptionKey::new(&[1; 32]).unwrap();
        let code = generate(&OsRandom).unwrap();
        let bytes = decode(&code).unwrap();
        let before = key.tag(&[b"recovery code", "zoe\u{308}".as_bytes(), &bytes]);
        let zoe = Username::parse("zoe\u{308}").unwrap();
        let [now, earlier] = digests(&key, &zoe, &code)[..] else {
            panic!("two names");
        };
        assert_eq!(earlier, Digest::from_bytes(before));
        assert_eq!(Some(now), digest(&key, &zoe, &code));
        assert_ne!(now, earlier);
        let ada = Username::parse("ada").unwrap();
        assert_eq!(digests(&key, &ada, &code).len(), 1);
    }
}
