//! Text from requests for error messages.

use domain::Scope;

/// Maximum length of text from a request in a description, in characters.
const MAX_REPEATED_CHARACTERS: usize = 200;

/// Text from a request for a description: at most 200 characters; characters that RFC 6749 §5.2 forbids become `?`.
pub fn printable(text: &str) -> String {
    let legal =
        |character: char| matches!(character, ' '..='~') && !matches!(character, '"' | '\\');
    let mut printable: String = text
        .chars()
        .take(MAX_REPEATED_CHARACTERS)
        .map(|character| if legal(character) { character } else { '?' })
        .collect();
    if text.chars().nth(MAX_REPEATED_CHARACTERS).is_some() {
        printable.push_str("...");
    }
    printable
}

/// The description of a parameter that occurs more than once.
pub fn repeated(name: &str) -> String {
    format!("The parameter {} is repeated", printable(name))
}

/// The description of a requested scope that exceeds the registration of the client by `excess` (D-9).
pub fn unregistered_scope(excess: &Scope) -> String {
    let excess = printable(excess.as_str());
    format!("scope exceeds what the client is registered for: {excess}")
}
