//! Encryption of secrets at rest with AES-256-GCM. The encryption key never enters the store. Values that the service
//! issues and must recognise later carry tags (HMAC-SHA-256), or are sealed with AES-256-GCM-SIV if clients must not read
//! them.
//!
//! The key file holds the current key and earlier keys. The current key seals, every key opens, so an operator can
//! replace the key. Tags do not use these keys but a root, which the store keeps sealed: tags stay the same when the
//! encryption key changes. Issued values are sealed with keys derived from both: forging them takes an encryption key of the
//! file and the root.

mod at_rest;
mod context;
mod derivation;
mod encryption_key;
mod error;
mod issued;
#[cfg(test)]
mod tests;
mod text;

pub use at_rest::KeyId;
pub(crate) use at_rest::SealingKeys;
pub use context::{signing_key_context, totp_context};
pub(crate) use derivation::Root;
pub use encryption_key::EncryptionKey;
pub use error::SealingError;
pub use text::{open_text, seal_text};
