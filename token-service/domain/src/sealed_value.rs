//! The values that the store seals with the encryption key. A list of all of them is needed to seal them with another
//! key.

use crate::Username;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SealedValue {
    /// The root key of the tags.
    Root,
    /// The private part of the signing key with this `kid`.
    SigningKey(String),
    RegisteredTotpSecret(Username),
    /// The TOTP secret that this user set up.
    OwnTotpSecret(Username),
}
