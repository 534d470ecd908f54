//! Checks for users and clients.

use std::collections::BTreeMap;

use unicode_normalization::UnicodeNormalization as _;
use url::Url;

use document::{Located, Place, Section};
use domain::ambiguity;

/// Minimum length of client secrets and passwords, in bytes.
const MIN_SECRET_LENGTH: usize = 8;
/// Maximum length of client secrets and passwords, in bytes.
pub(crate) const MAX_SECRET_LENGTH: usize = 1024;
/// Maximum length of a value in a claim and a header, in bytes.
pub(crate) const MAX_CLAIM_LENGTH: usize = 255;

/// Maximum length of the address of a page, in bytes.
const MAX_ADDRESS_LENGTH: usize = 1024;

/// Reports `text` if it was used before. `what` is the name in the message.
pub(crate) fn unique(
    section: &Section<'_>,
    what: &str,
    text: &Located<String>,
    seen: &mut BTreeMap<String, Place>,
) {
    note(section, &format!("{what}: {}", text.value), text, seen);
}

/// Like [`unique`], for a text that begins with what it is.
pub(crate) fn unique_in(
    section: &Section<'_>,
    text: &Located<String>,
    seen: &mut BTreeMap<String, Place>,
) {
    note(section, &text.value, text, seen);
}

fn note(
    section: &Section<'_>,
    shown: &str,
    text: &Located<String>,
    seen: &mut BTreeMap<String, Place>,
) {
    if let Some(first) = seen.get(&text.value) {
        section.report(&text.place, format!("{shown} is already at {first}"));
    } else {
        seen.insert(text.value.clone(), text.place.clone());
    }
}

/// The texts at `key`. At least one is required, and duplicates are reported.
pub(crate) fn required_texts(
    section: &mut Section<'_>,
    key: &'static str,
) -> Option<Vec<Located<String>>> {
    section.required(key);
    let place = section.place().clone();
    let texts = section.texts(key)?;
    if texts.is_empty() {
        section.report(&place, format!("{key}: at least one is needed"));
        return None;
    }
    let mut seen = BTreeMap::new();
    for text in &texts {
        unique(section, key, text, &mut seen);
    }
    Some(texts)
}

pub(crate) fn is_trimmed(text: &str) -> bool {
    text.trim() == text
}

/// A text for people: any script, one line.
pub(crate) fn display_name(text: &str) -> Result<String, &'static str> {
    if text.len() <= MAX_CLAIM_LENGTH && is_trimmed(text) && !text.chars().any(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err("must be one line of at most 255 bytes without white space at its ends")
    }
}

/// The address of a page, to which people are sent.
pub(crate) fn page_address(text: &str) -> Result<String, &'static str> {
    let url = Url::parse(text);
    let is_page =
        url.is_ok_and(|url| matches!(url.scheme(), "https" | "http") && url.host().is_some());
    if is_page && text.len() <= MAX_ADDRESS_LENGTH {
        Ok(text.to_owned())
    } else {
        Err("expected an https or http URL of at most 1024 bytes")
    }
}

/// The issuer of an identity provider, which is compared byte for byte (OpenID Connect Core 1.0 §2).
pub(crate) fn issuer(text: &str) -> Result<String, &'static str> {
    let url = Url::parse(text);
    let is_issuer = url.is_ok_and(|url| {
        let is_bare = url.query().is_none() && url.fragment().is_none();
        matches!(url.scheme(), "https" | "http") && url.host().is_some() && is_bare
    });
    if is_issuer
        && text.len() <= MAX_CLAIM_LENGTH
        && text.bytes().all(|byte| byte.is_ascii_graphic())
    {
        Ok(text.to_owned())
    } else {
        Err(
            "expected an https or http URL of at most 255 characters of printable ASCII, without query and fragment",
        )
    }
}

/// A name that pages show to people who decide by it. A character that changes the direction of text could make the rest of a sentence
/// read backwards.
pub(crate) fn client_name(text: &str) -> Result<String, &'static str> {
    let turns = |character| matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}');
    if text.chars().any(turns) {
        return Err("must not contain characters that change the direction of text");
    }
    display_name(text)
}

/// A text that becomes a claim and, at the gateway, a header (in which the filter percent-encodes everything except
/// printable ASCII). Normalized to Unicode's normal form C (D-33).
pub(crate) fn claim_text(text: &str) -> Result<String, &'static str> {
    display_name(&text.nfc().collect::<String>())
}

/// A [`claim_text`] that requests or rules are compared with.
pub(crate) fn compared_text(text: &str) -> Result<String, String> {
    let text = claim_text(text)?;
    // The debug form escapes invisible characters.
    ambiguity(&text).map_or(Ok(()), |problem| Err(format!("{text:?} {problem}")))?;
    Ok(text)
}

pub(crate) fn check_secret_length(text: &str) -> Result<(), String> {
    if (MIN_SECRET_LENGTH..=MAX_SECRET_LENGTH).contains(&text.len()) {
        Ok(())
    } else {
        Err(format!(
            "must have {MIN_SECRET_LENGTH} to {MAX_SECRET_LENGTH} bytes"
        ))
    }
}
