//! What people sign in with, as a file gives it and as the registry keeps it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

use domain::Username;
use domain::digest::Digest;
use protocol::sealing::{EncryptionKey, SealingError};
use protocol::sign_in::password::{self, PasswordError};
use protocol::sign_in::totp;

/// How the secrets of users are kept at rest. Applying a file again must not make them anew, or the users would
/// be signed out: what is stored is compared with what is registered first.
pub trait Protection {
    /// A password as an argon2id PHC string.
    ///
    /// # Errors
    /// When hashing fails.
    fn hash(&self, password: &str) -> Result<String, ProtectionError>;

    /// Whether `hash` is the password's.
    ///
    /// # Errors
    /// When the stored hash cannot be read.
    fn is_hash_of(&self, hash: &str, password: &str) -> Result<bool, ProtectionError>;

    /// A TOTP secret, sealed for this user.
    ///
    /// # Errors
    /// When sealing fails.
    fn seal(&self, username: &Username, totp_secret: &[u8]) -> Result<Vec<u8>, ProtectionError>;

    /// A secret of a file as it is remembered: only who has the service's key can make it, or guess at the secret with
    /// it.
    fn tag(&self, field: &str, username: &Username, secret: &[u8]) -> String;

    /// A sealed TOTP secret of this user.
    ///
    /// # Errors
    /// When it was sealed with another key.
    fn unseal(
        &self,
        username: &Username,
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, ProtectionError>;
}

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

/// A secret of a user as it is registered. It has no `Debug`.
pub enum Hidden {
    /// A password as it is typed.
    Password(Zeroizing<String>),
    /// A password as an argon2id PHC string.
    PasswordHash(String),
    /// A TOTP secret.
    TotpSecret(Zeroizing<Vec<u8>>),
}

/// A secret of a user as the registry keeps it: hashed or sealed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Protected {
    /// A password.
    Hash {
        /// The argon2id PHC string.
        hash: String,
        /// [`domain::User::registered_password_digest`].
        registered: Option<Digest>,
    },
    /// A TOTP secret, sealed.
    Sealed(Vec<u8>),
}

impl Protected {
    /// Identifies the form. A hash that was made stronger at a sign-in is still the registered password.
    pub(crate) fn digest(&self) -> Digest {
        match self {
            Self::Hash { hash, registered } => {
                registered.unwrap_or_else(|| Digest::of(hash.as_bytes()))
            }
            Self::Sealed(sealed) => Digest::of(sealed),
        }
    }
}

impl Hidden {
    /// The secret as it is remembered.
    pub(crate) fn tag(&self, owner: &Username, protection: &dyn Protection) -> String {
        let (field, secret) = match self {
            Self::Password(password) => ("password", password.as_bytes()),
            Self::PasswordHash(hash) => ("password_hash", hash.as_bytes()),
            Self::TotpSecret(secret) => ("totp_secret", secret.as_slice()),
        };
        protection.tag(field, owner, secret)
    }

    /// Whether `protected` is this secret.
    pub(crate) fn is(
        &self,
        protected: &Protected,
        owner: &Username,
        protection: &dyn Protection,
    ) -> Result<bool, ProtectionError> {
        match (self, protected) {
            (Self::Password(password), Protected::Hash { hash, .. }) => {
                protection.is_hash_of(hash, password)
            }
            (Self::PasswordHash(given), Protected::Hash { hash, registered }) => {
                Ok(given == hash || *registered == Some(Digest::of(given.as_bytes())))
            }
            (Self::TotpSecret(secret), Protected::Sealed(sealed)) => {
                let opened = protection.unseal(owner, sealed)?;
                Ok(Digest::of(&opened) == Digest::of(secret))
            }
            _ => Ok(false),
        }
    }

    /// The secret as the registry keeps it from now on.
    pub(crate) fn protect(
        &self,
        owner: &Username,
        protection: &dyn Protection,
    ) -> Result<Protected, ProtectionError> {
        let hash = match self {
            Self::Password(password) => protection.hash(password)?,
            Self::PasswordHash(hash) => hash.clone(),
            Self::TotpSecret(secret) => {
                return Ok(Protected::Sealed(protection.seal(owner, secret)?));
            }
        };
        let registered = None;
        Ok(Protected::Hash { hash, registered })
    }
}
