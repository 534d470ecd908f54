//! What clients sent, as error messages repeat it.

/// The longest text of a request that a description repeats, in characters.
const MAX_REPEATED_CHARACTERS: usize = 200;

/// Text of a request as a description may repeat it: at most 200 characters, and those that RFC 6749 §5.2 forbids as `?`.
#[must_use]
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
#[must_use]
pub fn repeated(name: &str) -> String {
    format!("The parameter {} is repeated", printable(name))
}
