//! The [contexts](super::SealingKeys::seal) of sealed values.

use domain::Username;

/// For the private part of a signing key.
pub fn signing_key_context(kid: &str) -> String {
    format!("signing-key:{kid}")
}

/// For the raw bytes of a user's TOTP secret.
pub fn totp_context(username: &Username) -> String {
    format!("totp:{username}")
}
