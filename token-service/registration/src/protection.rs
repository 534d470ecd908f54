//! How what people sign in with is kept at rest.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

use crate::apply::Protection;
use domain::Username;
use protocol::sealing::{EncryptionKey, SealingError};
use protocol::sign_in::password::{self, PasswordError};
use protocol::sign_in::totp;

/// Passwords hashed with argon2id, TOTP secrets sealed with the encryption key.
#[derive(Debug, Clone, Copy)]
pub struct AtRest<'a>(pub &'a EncryptionKey);

/// Why a password or TOTP secret cannot be protected or compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtectionError {
    /// See [`PasswordError`].
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// See [`SealingError`].
    #[error("the TOTP secret of {0}: {1}")]
    TotpSecret(Username, SealingError),
}

impl Protection for AtRest<'_> {
    type Error = ProtectionError;

    fn hash(&self, password: &str) -> Result<String, ProtectionError> {
        Ok(password::hash(password)?)
    }

    fn is_hash_of(&self, hash: &str, password: &str) -> Result<bool, ProtectionError> {
        Ok(password::verify(password, hash)?)
    }

    fn seal(&self, username: &Username, totp_secret: &[u8]) -> Result<Vec<u8>, ProtectionError> {
        self.0
            .seal(&totp::sealing_context(username), totp_secret)
            .map_err(|error| ProtectionError::TotpSecret(username.clone(), error))
    }

    fn tag(&self, field: &str, username: &Username, secret: &[u8]) -> String {
        let parts = [
            b"registrations file",
            field.as_bytes(),
            username.as_str().as_bytes(),
            secret,
        ];
        URL_SAFE_NO_PAD.encode(self.0.tag(&parts))
    }

    fn unseal(
        &self,
        username: &Username,
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, ProtectionError> {
        totp::open_secret(self.0, username, sealed)
            .map_err(|error| ProtectionError::TotpSecret(username.clone(), error))
    }
}
