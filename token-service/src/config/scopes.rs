//! `[scopes]`: what clients with a scope may do, in words.

use std::collections::BTreeMap;

use document::Section;
use domain::Scope;
use serde_json::Value;

/// The languages of the pages (RFC 5646).
pub const LANGUAGES: [&str; 2] = ["en", "de"];

/// Maximum length of a text, in characters.
const LONGEST: usize = 120;

/// The text of each scope, in each of [`LANGUAGES`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScopeTexts(BTreeMap<String, BTreeMap<&'static str, String>>);

impl ScopeTexts {
    /// The scopes in words; one without a text is shown as its name.
    pub fn in_words<'a>(&'a self, scope: &'a Scope, language: &str) -> Vec<&'a str> {
        let in_words = |token: &'a str| {
            let texts = self.0.get(token);
            let text = texts.and_then(|texts| texts.get(language));
            text.map_or(token, String::as_str)
        };
        scope.tokens().map(in_words).collect()
    }
}

/// Reads for each scope one text, or a table with a text for each language.
pub(super) fn read(mut section: Section<'_>) -> ScopeTexts {
    let mut read = BTreeMap::new();
    while let Some((scope, value)) = section.take_any() {
        match texts(&scope, &value) {
            Ok(texts) => drop(read.insert(scope, texts)),
            Err(problem) => section.problem(&scope, problem),
        }
    }
    ScopeTexts(read)
}

fn texts(scope: &str, value: &Value) -> Result<BTreeMap<&'static str, String>, &'static str> {
    if scope.contains(' ') || Scope::parse(scope).is_none() {
        return Err("is no scope");
    }
    let is_complete = |texts: &serde_json::Map<String, Value>| {
        texts.len() == LANGUAGES.len()
            && LANGUAGES
                .iter()
                .all(|language| texts.contains_key(*language))
    };
    let of_language = |language: &'static str| match value {
        Value::String(text) => Ok((language, line(text)?)),
        Value::Object(texts) if is_complete(texts) => match texts.get(language) {
            Some(Value::String(text)) => Ok((language, line(text)?)),
            _ => Err("expected a string for each language"),
        },
        _ => Err("expected a string, or a table with a string for each language"),
    };
    LANGUAGES.into_iter().map(of_language).collect()
}

fn line(text: &str) -> Result<String, &'static str> {
    let is_line = (1..=LONGEST).contains(&text.chars().count())
        && !text.trim().is_empty()
        && !text.chars().any(char::is_control);
    is_line
        .then(|| text.to_owned())
        .ok_or("must be one line of 1 to 120 characters")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::load;

    #[test]
    fn a_scope_has_one_text_or_one_for_each_language() {
        let table = |rest: &str| load(&format!("[scopes]\n{rest}"), &[]);
        let config = table("a = \"Read\"\nb = { en = \"Write\", de = \"Schreiben\" }").unwrap();
        let scope = Scope::parse("a b c").unwrap();
        for (language, expected) in [
            ("en", ["Read", "Write", "c"]),
            ("de", ["Read", "Schreiben", "c"]),
        ] {
            assert_eq!(config.scopes.in_words(&scope, language), expected);
        }
        let long = format!("a = \"{}\"", "x".repeat(LONGEST + 1));
        for (line, problem) in [
            ("a = \" \"", "a: must be one line of 1 to 120 characters"),
            (&long, "a: must be one line of 1 to 120 characters"),
            (
                "a = 1",
                "a: expected a string, or a table with a string for each language",
            ),
            (
                "a = { en = \"A\" }",
                "a: expected a string, or a table with a string for each language",
            ),
            (
                "a = { en = \"A\", de = \"A\", fr = \"A\" }",
                "a: expected a string, or a table with a string for each language",
            ),
            (
                "a = { en = \"A\", de = 1 }",
                "a: expected a string for each language",
            ),
            ("\"a b\" = \"A\"", "a b: is no scope"),
        ] {
            let problems = table(line).unwrap_err();
            assert_eq!(problems, [format!("config.toml:2: {problem}")], "{line}");
        }
    }
}
