//! Makes untrusted text visible and bounded, for terminals and logs.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Maximum length of a path or name in a log line, in characters.
const LONGEST: usize = 200;

/// Escapes control characters and invisible characters that change the order or look of others as `\u{...}`: escape
/// sequences control terminals, and bidirectional controls show one text as another (Unicode TR 36 §2.5).
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    escaped(
        text,
        |_| false,
        |text, character| write!(text, "\\u{{{:x}}}", u32::from(character)),
    )
}

/// Like [`visible`], but keeps line ends, for text with several lines.
pub(crate) fn visible_lines(text: &str) -> Cow<'_, str> {
    escaped(
        text,
        |character| character == '\n',
        |text, character| write!(text, "\\u{{{:x}}}", u32::from(character)),
    )
}

/// Equivalent JSON in which the characters that [`visible`] escapes have JSON escapes (RFC 8259 §7).
pub(crate) fn visible_json(json: &str) -> Cow<'_, str> {
    // JSON writers escape these two within strings; elsewhere they are white space.
    let kept = |character| matches!(character, '\n' | '\t');
    escaped(json, kept, |text, character| {
        let mut units = [0; 2];
        for unit in character.encode_utf16(&mut units) {
            write!(text, "\\u{unit:04x}")?;
        }
        Ok(())
    })
}

/// The start of `text` for a log line, made visible, with `...` in place of the rest.
pub(crate) fn bounded(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(LONGEST) {
        None => visible(text),
        Some((end, _)) => {
            let (start, _) = text.split_at(end);
            Cow::Owned(format!("{}...", visible(start)))
        }
    }
}

fn escaped<'a>(
    text: &'a str,
    kept: impl Fn(char) -> bool,
    escape: impl Fn(&mut String, char) -> std::fmt::Result,
) -> Cow<'a, str> {
    let hidden = |character: char| is_hidden(character) && !kept(character);
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if !hidden(character) {
            shown.push(character);
        } else if escape(&mut shown, character).is_err() {
            // Writing to a string cannot fail.
            shown.push(char::REPLACEMENT_CHARACTER);
        }
    }
    Cow::Owned(shown)
}

fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            // Bidirectional marks, embeddings, overrides and isolates (Unicode TR 9).
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Line and paragraph separators; soft hyphen, spaces without width, invisible operators.
            | '\u{2028}' | '\u{2029}' | '\u{ad}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}'
            // Interlinear annotation, tags.
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_a_terminal() {
        assert_eq!(visible("\u{1b}[2Jgone\r\n"), "\\u{1b}[2Jgone\\u{d}\\u{a}");
        assert_eq!(visible("\u{9b}31m\u{7f}"), "\\u{9b}31m\\u{7f}");
        assert_eq!(visible("ad\u{202e}nimda"), "ad\\u{202e}nimda");
        assert_eq!(
            visible("a\u{2066}b\u{2029}c\u{e0041}"),
            "a\\u{2066}b\\u{2029}c\\u{e0041}"
        );
        assert_eq!(visible_lines("a\u{1b}\nb\u{7}"), "a\\u{1b}\nb\\u{7}");
        for text in [
            "",
            "Zoë Çelik",
            "工地",
            "a\\b \"c\"",
            "👷\u{200d}♀\u{fe0f}",
            "علي",
        ] {
            assert!(matches!(visible(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn escaped_json_means_the_same() {
        let value = serde_json::json!({"a\u{1b}\u{9b}": "\u{202e}\u{e0041}\n\t\u{7f}", "b": ["x"]});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let shown = visible_json(&text);
        assert!(
            !shown
                .chars()
                .any(|character| is_hidden(character) && character != '\n'),
            "{shown}"
        );
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            value
        );
    }

    #[test]
    fn long_text_is_cut() {
        let long = "ä\u{1b}".repeat(30_000);
        let cut = bounded(&long);
        assert!(cut.len() < 2000 && cut.ends_with("..."), "{cut}");
        assert_eq!(bounded("/auth/token"), "/auth/token");
        assert_eq!(bounded(&"x".repeat(LONGEST)), "x".repeat(LONGEST));
    }
}
