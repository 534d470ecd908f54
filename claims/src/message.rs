//! Text from requests in messages for clients.

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
