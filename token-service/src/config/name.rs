//! `name`.

/// Reads the name of the service. The name must not contain a colon, because authenticator apps separate issuer and
/// account by a colon.
pub(super) fn parse(text: &str) -> Result<String, &'static str> {
    let legal = (1..=64).contains(&text.chars().count())
        && text.trim() == text
        && !text
            .chars()
            .any(|character| character.is_control() || character == ':');
    if legal {
        Ok(text.to_owned())
    } else {
        Err(
            "must be one line of 1 to 64 characters without a colon and without white space at its ends",
        )
    }
}
