//! What a password has to be that a person chooses (NIST SP 800-63B-4 §3.1.1.2). Operators and files may set others.

use domain::{User, Username};
use unicode_normalization::UnicodeNormalization as _;

/// Characters of a password that is the only factor, at least.
const ALONE: usize = 15;

/// Characters of a password beside a second factor, at least.
const WITH_SECOND_FACTOR: usize = 8;

/// Bytes of a password, at most.
const MOST: usize = 1024;

/// Why a password is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weak {
    TooShort {
        /// Characters that it needs.
        least: usize,
    },
    TooLong,
    /// It is the username, or what stands before its `@`.
    Username,
    /// It repeats few characters, such as `abababab`.
    Repeats,
}

/// Checks a password that `user` chooses. Its characters are counted in normal form (NFKC), in which it is hashed.
///
/// # Errors
/// The first rule that the password breaks.
pub fn check(password: &str, user: &User, has_second_factor: bool) -> Result<(), Weak> {
    let least = match has_second_factor {
        true => WITH_SECOND_FACTOR,
        false => ALONE,
    };
    let mut normal: Vec<char> = password.nfkc().collect();
    if normal.len() < least {
        return Err(Weak::TooShort { least });
    }
    if password.len() > MOST {
        return Err(Weak::TooLong);
    }
    if is_name(password, &user.username) {
        return Err(Weak::Username);
    }
    normal.sort_unstable();
    normal.dedup();
    match normal.len() {
        0..=3 => Err(Weak::Repeats),
        _ => Ok(()),
    }
}

fn is_name(password: &str, username: &Username) -> bool {
    let folded = |name: &str| Some(Username::parse(name)?.folded().into_owned());
    let password = folded(password);
    let local = username.as_str().split('@').next().and_then(folded);
    password
        .is_some_and(|password| password == *username.folded() || Some(&password) == local.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chosen_password_is_long_and_not_the_name() {
        let name = "zo\u{eb}.of.amsterdam@example.com";
        let user = User::new(Username::parse(name).unwrap());
        let short = |least| Err(Weak::TooShort { least });
        for (password, with_second_factor, expected) in [
            ("fifteen letters", false, Ok(())),
            ("fourteen chars", false, short(15)),
            ("fourteen chars", true, Ok(())),
            ("seven 7", true, short(8)),
            // 15 letters, 30 bytes; and 14 letters in a form with 15 characters.
            (&"\u{eb}\u{f6}\u{fc}".repeat(5), false, Err(Weak::Repeats)),
            ("zo\u{65}\u{308} in a house", false, short(15)),
            (
                "ZO\u{cb}.of.Amsterdam@EXAMPLE.com",
                false,
                Err(Weak::Username),
            ),
            ("zo\u{eb}.of.AMSTERDAM", false, Err(Weak::Username)),
            ("aaaaaaaaaaaaaaaaaaaa", false, Err(Weak::Repeats)),
            ("abababab", true, Err(Weak::Repeats)),
            (&"abcd".repeat(257), false, Err(Weak::TooLong)),
        ] {
            let found = check(password, &user, with_second_factor);
            assert_eq!(found, expected, "{password}");
        }
    }
}
