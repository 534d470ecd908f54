//! What the store holds sealed with the encryption key, so that all of it can be sealed anew under another one.

use crate::Username;

/// A sealed value of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SealedValue {
    /// The root of the tags that the protocol makes.
    Root,
    /// The private part of the signing key with this `kid`.
    SigningKey(String),
    /// The TOTP secret that is registered for this user.
    RegisteredTotpSecret(Username),
    /// The TOTP secret that this user has set up.
    OwnTotpSecret(Username),
}
