//! Names that people read and programs compare.

/// Why people could take the name for another one that comparisons tell apart, so that a rule for one name misses the other.
/// `None` if the name has no invisible character, and no white space but single spaces between words. Refuse other names where
/// they are registered.
pub fn ambiguity(name: &str) -> Option<&'static str> {
    if !name.is_ascii() && name.chars().any(is_invisible) {
        return Some("has an invisible character: remove it");
    }
    let is_word = |word: &str| !word.is_empty() && !word.contains(char::is_whitespace);
    let is_single = name.is_empty() || name.split(' ').all(is_word);
    (!is_single).then_some("has other white space than single spaces between words: correct it")
}

/// True for Unicode's `Default_Ignorable_Code_Point`, whose ranges include code points for later versions, and for what it lacks: the
/// empty pattern of Braille, and the marks of annotations.
const fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `DerivedCoreProperties.txt` counts 4174; four more are ours.
    #[test]
    fn as_many_characters_are_invisible_as_unicode_counts() {
        let invisible = (char::MIN..=char::MAX).filter(|c| is_invisible(*c));
        assert_eq!(invisible.count(), 4174 + 4);
    }

    #[test]
    fn a_name_is_what_people_see() {
        for c in [
            "\u{200b}", "\u{200d}", "\u{2060}", "\u{ad}", "\u{202e}", "\u{fe0f}", "\u{3164}",
            "\u{2800}", "\u{fffa}", "\u{feff}",
        ] {
            let found = ambiguity(&format!("a{c}b"));
            assert_eq!(
                found,
                Some("has an invisible character: remove it"),
                "{c:?}"
            );
        }
        for name in [
            "a  b",
            " ab",
            "ab ",
            "a\u{a0}b",
            "a\u{3000}b",
            "a\tb",
            "a\u{2028}b",
        ] {
            let found = ambiguity(name);
            assert!(
                found.is_some_and(|found| found.contains("white space")),
                "{name:?}"
            );
        }
        for name in [
            "",
            "ada lovelace",
            "zo\u{eb}@example.com",
            "\u{5c71}\u{7530}",
        ] {
            assert_eq!(ambiguity(name), None, "{name:?}");
        }
    }
}
