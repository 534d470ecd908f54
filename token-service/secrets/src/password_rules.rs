//! What a password has to be that a person chooses (NIST SP 800-63B-4 §3.1.1.2). Operators and files may set others.

use domain::{User, Username};
use unicode_normalization::UnicodeNormalization as _;
use zeroize::Zeroizing;
use zxcvbn::zxcvbn;

/// Characters that a password must have at least, where the configuration says nothing else.
pub const DEFAULT: Lengths = Lengths {
    alone: 15,
    with_second_factor: 8,
};

/// No configuration takes less.
pub const LEAST: usize = 8;

/// Bytes of a password, at most.
pub const MOST: usize = 1024;

/// Guesses after which an attacker who begins with the most likely passwords has found a common one.
const COMMON: f64 = 1e6;

/// Characters at the begin of a password whose guesses are estimated: the time grows with the substitutions in them.
const READ: usize = 32;

/// Characters that a password has at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// Of a password that is the only factor.
    pub alone: usize,
    /// Of a password beside a second factor.
    pub with_second_factor: usize,
}

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
    /// Attackers try it early: many people choose it, or it is a simple pattern of such words, the username or the name of the
    /// service.
    Common,
}

/// Checks a password that `user` chooses at the service of this name. Its characters are counted in normal form (NFKC), in which it is
/// hashed.
///
/// # Errors
/// The first rule that the password breaks.
pub fn check(password: &str, user: &User, service: &str, least: usize) -> Result<(), Weak> {
    let normal = Zeroizing::new(password.nfkc().collect::<String>());
    if normal.chars().count() < least {
        return Err(Weak::TooShort { least });
    }
    if password.len() > MOST {
        return Err(Weak::TooLong);
    }
    if is_name(password, &user.username) {
        return Err(Weak::Username);
    }
    let username = user.username.as_str();
    let local = username.split('@').next().unwrap_or_default();
    let begin: Zeroizing<String> = Zeroizing::new(normal.chars().take(READ).collect());
    let guesses = zxcvbn(&begin, &[username, local, service]).guesses_log10();
    match guesses < COMMON.log10() {
        true => Err(Weak::Common),
        false => Ok(()),
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
    use proptest::prelude::{ProptestConfig, proptest};

    use super::*;

    #[test]
    fn a_chosen_password_is_long_and_not_the_name() {
        let name = "zo\u{eb}.of.amsterdam@example.com";
        let user = User::new(Username::parse(name).unwrap());
        let short = |least| Err(Weak::TooShort { least });
        for (password, least, expected) in [
            ("fifteen letters", 15, Ok(())),
            ("fourteen chars", 15, short(15)),
            ("fourteen chars", 8, Ok(())),
            ("seven 7", 8, short(8)),
            // 15 characters in a form that has 14 in normal form.
            ("zo\u{65}\u{308} in a house", 15, short(15)),
            ("zo\u{65}\u{308} in her house", 15, Ok(())),
            ("ZO\u{cb}.of.Amsterdam@EXAMPLE.com", 15, Err(Weak::Username)),
            ("zo\u{eb}.of.AMSTERDAM", 15, Err(Weak::Username)),
            (&"abcd".repeat(257), 15, Err(Weak::TooLong)),
        ] {
            let found = check(password, &user, "Gatepass", least);
            assert_eq!(found, expected, "{password}");
        }
    }

    #[test]
    fn a_password_that_many_choose_is_refused_in_simple_disguises_too() {
        let user = User::new(Username::parse("ada.lovelace@example.com").unwrap());
        let check = |password: &str| check(password, &user, "Gatepass", LEAST);
        for common in [
            "password",
            "P@ssw0rd123",
            "passwordpassword",
            "qwertyuiopasdfgh",
            "123456789012345",
            "aaaaaaaaaaaaaaaa",
            "abababababababab",
            "iloveyou12",
            // In normal form, in which it is hashed.
            "\u{ff50}\u{ff41}ssword",
            "ada.lovelace2026",
            "gatepass2026",
            "summer2026summer2026",
        ] {
            assert_eq!(check(common), Err(Weak::Common), "{common}");
        }
        for chosen in [
            "apples fall down",
            "tr4k9wq1",
            "\u{5c71}\u{7530}\u{306f}\u{5ddd}\u{3067}\u{6ce3}\u{3044}\u{305f}",
        ] {
            assert_eq!(check(chosen), Ok(()), "{chosen}");
        }
    }

    proptest! {
        // Without optimization, each takes up to 0.1 seconds.
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// The estimate comes from a library, and people type what they like.
        #[test]
        fn every_password_gets_an_answer(password in "\\PC{8,40}", name in "\\PC{1,20}") {
            if let Some(name) = Username::parse(&name) {
                let _ = check(&password, &User::new(name), "Gatepass", LEAST);
            }
        }
    }
}
