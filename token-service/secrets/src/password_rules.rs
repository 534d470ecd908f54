//! What a password has to be that a person chooses (NIST SP 800-63B-4 §3.1.1.2). Operators and files may set others.

use domain::{User, Username};
use unicode_normalization::UnicodeNormalization as _;
use zeroize::Zeroizing;

/// Characters that a password must have at least, where the configuration says nothing else.
pub const DEFAULT: Lengths = Lengths {
    alone: 15,
    with_second_factor: 8,
};

/// No configuration takes less.
pub const LEAST: usize = 8;

/// Bytes of a password, at most.
pub const MOST: usize = 1024;

/// Words that many people choose as passwords, with digits and symbols around them: one on each line, as [`plain`] writes it.
const COMMON: &str = include_str!("common_passwords.txt");

/// Letters of the shortest words in [`COMMON`], and of the shortest part of a name that is compared.
const FEWEST_LETTERS: usize = 4;

/// Bytes of the longest word in [`COMMON`]. Nothing longer is searched for, so that a long password costs no more than a short one.
const LONGEST: usize = 20;

/// Neighbouring keys: digits, and the letters of QWERTY, QWERTZ and AZERTY keyboards.
const ROWS: [&str; 9] = [
    "1234567890",
    "qwertyuiop",
    "asdfghjkl",
    "zxcvbnm",
    "qwertzuiop",
    "yxcvbnm",
    "azertyuiop",
    "qsdfghjklm",
    "wxcvbn",
];

/// Characters that each run of a password has on average, if the password consists of runs.
const RUN: usize = 4;

/// Characters that a password has at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// For a user who has no second factor.
    pub alone: usize,
    /// For a user who also has a second factor.
    pub with_second_factor: usize,
}

/// Why a person cannot choose a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Weak {
    #[error("too short")]
    TooShort {
        /// Characters that it needs.
        least: usize,
    },
    #[error("too long")]
    TooLong,
    /// It is the username, or what stands before its `@`.
    #[error("the username")]
    Username,
    #[error("the present password")]
    Unchanged,
    /// Attackers try it early: it is a word that many people choose, a name of the user or of the service, or a simple pattern.
    #[error("too easy to guess")]
    Common,
}

/// Checks a password that `user` chooses at the service of this name. Its characters are counted in normal form (NFKC), in which it is
/// hashed.
///
/// # Errors
/// The first rule that the password breaks.
pub fn check(password: &str, user: &User, service: &str, least: usize) -> Result<(), Weak> {
    if password.len() > MOST {
        return Err(Weak::TooLong);
    }
    let normal = Zeroizing::new(password.nfkc().collect::<String>());
    if normal.chars().count() < least {
        return Err(Weak::TooShort { least });
    }
    if is_name(password, &user.username) {
        return Err(Weak::Username);
    }
    let email = user.email.as_deref().unwrap_or_default();
    let names = [user.username.as_str(), email, service];
    match is_common(&folded(&normal), least, &names.map(folded)) {
        true => Err(Weak::Common),
        false => Ok(()),
    }
}

/// True if a password repeats something that is shorter than `least`, consists of runs, or is a common word or one of `names`: alone or
/// repeated, with digits and symbols before and after, and with digits and symbols in place of letters. All texts are [`folded`].
fn is_common(password: &str, least: usize, names: &[Zeroizing<String>]) -> bool {
    let once = without_repetition(password);
    if once.chars().count() < least {
        return true;
    }
    let begin = once.trim_end_matches(|end: char| !end.is_alphabetic());
    let middle = begin.trim_start_matches(|start: char| !start.is_alphabetic());
    let is_known = |word: &str| {
        !word.is_empty() && (is_listed(word) || names.iter().any(|name| is_of_name(word, name)))
    };
    [once, begin, middle].into_iter().any(|part| {
        let word = plain(part);
        is_runs(part) || is_known(&word) || is_known(without_repetition(&word))
    })
}

/// The text that `text` repeats, or else `text`. The last repetition may be cut off: at least half of it is there.
fn without_repetition(text: &str) -> &str {
    let bytes = text.as_bytes();
    let repeats = |length: &usize| bytes[*length..] == bytes[..bytes.len() - *length];
    let length = (1..=bytes.len() * 2 / 3).find(repeats);
    length.and_then(|length| text.get(..length)).unwrap_or(text)
}

/// True for runs such as `aaaa`, `1234`, `fedc` and `qwer`.
fn is_runs(text: &str) -> bool {
    let ends = text.chars().zip(text.chars().skip(1));
    let ends = ends.filter(|(one, next)| !are_neighbours(*one, *next));
    (ends.count() + 1) * RUN <= text.chars().count()
}

fn are_neighbours(one: char, next: char) -> bool {
    let in_row = |row: &&str| Some(row.find(one)?.abs_diff(row.find(next)?) == 1);
    u32::from(one).abs_diff(u32::from(next)) <= 1
        || one.is_ascii() && ROWS.iter().any(|row| in_row(row) == Some(true))
}

fn is_listed(word: &str) -> bool {
    word.len() <= LONGEST && COMMON.contains(&*Zeroizing::new(format!("\n{word}\n")))
}

/// True if `word` is the name, what stands before its `@`, or one of its parts.
fn is_of_name(word: &str, name: &str) -> bool {
    let parts = name.split(|character: char| !character.is_alphanumeric());
    let parts = parts.filter(|part| part.chars().count() >= FEWEST_LETTERS);
    let local = name.split('@').next();
    let mut names = [name].into_iter().chain(local).chain(parts);
    names.any(|name| *plain(name) == *word)
}

/// The form in which case and the spelling of letters do not matter.
fn folded(text: &str) -> Zeroizing<String> {
    Zeroizing::new(text.nfkc().flat_map(char::to_lowercase).collect())
}

/// The letters and digits of a [`folded`] text. Digits and symbols that people write in place of letters become these letters.
fn plain(text: &str) -> Zeroizing<String> {
    let letters = text.chars().map(|character| match character {
        '0' => 'o',
        '1' | '!' | 'l' => 'i',
        '3' => 'e',
        '4' | '@' => 'a',
        '5' | '$' => 's',
        '7' => 't',
        other => other,
    });
    Zeroizing::new(letters.filter(|letter| letter.is_alphanumeric()).collect())
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
    use proptest::prelude::proptest;

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
            ("apples falapples f", 15, Err(Weak::Common)),
            ("hippopotamus-hip", 15, Ok(())),
        ] {
            let found = check(password, &user, "Gatepass", least);
            assert_eq!(found, expected, "{password}");
        }
    }

    #[test]
    fn a_password_that_many_choose_is_refused_in_simple_disguises_too() {
        let user = User {
            email: Some("ada@analytical-engines.example".to_owned()),
            ..User::new(Username::parse("ada.lovelace@example.com").unwrap())
        };
        let check = |password: &str| check(password, &user, "Gatepass", LEAST);
        for common in [
            "password",
            "P@ssw0rd123",
            "passwordpassword",
            "passwordpasswor",
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
            "P@$$w0rd!!",
            "$t4rwars: 1977",
            "2026 sunshine SUNSHINE!",
            "Ada Lovelace 1815",
            "analytical1843",
            "qwertzuiop1234",
            "1qaz2wsx",
            "dddd3333!!!!",
        ] {
            assert_eq!(check(common), Err(Weak::Common), "{common}");
        }
        for chosen in [
            "apples fall down",
            "tr4k9wq1",
            "sunshine on Gatepass",
            "ada, 36 engines",
            "qwertz or qwerty",
            "4@8({[<369&#!1/|",
            "\u{5c71}\u{7530}\u{306f}\u{5ddd}\u{3067}\u{6ce3}\u{3044}\u{305f}",
        ] {
            assert_eq!(check(chosen), Ok(()), "{chosen}");
        }
    }

    #[test]
    fn the_list_is_in_the_form_that_is_compared() {
        let words = COMMON.lines().skip_while(|line| line.starts_with('#'));
        let words: Vec<&str> = words.collect();
        assert!(words.is_sorted());
        for word in words {
            assert_eq!(*plain(&folded(word)), *word);
            let lengths = FEWEST_LETTERS..=LONGEST;
            assert!(lengths.contains(&word.len()), "{word}");
        }
    }

    proptest! {
        /// People type what they like.
        #[test]
        fn every_password_gets_an_answer(password in "\\PC{8,40}", name in "\\PC{1,20}") {
            if let Some(name) = Username::parse(&name) {
                let _ = check(&password, &User::new(name), "Gatepass", LEAST);
            }
        }
    }
}
