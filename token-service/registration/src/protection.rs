//! Secrets of users: their form in a file and their stored form.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

use domain::digest::Digest;
use domain::{User, Username};
use protocol::sealing::{EncryptionKey, SealingError};
use protocol::sign_in::password::{self, PasswordError};
use protocol::sign_in::totp;

/// Protection of stored user secrets. Applying a file again must not create new stored forms, because that would sign
/// the users out. Therefore callers first compare the stored secret with the registered secret.
pub trait Protection {
    /// Hashes a password to an argon2id PHC string.
    fn hash(&self, password: &str) -> Result<String, ProtectionError>;

    /// True if `hash` is a hash of `password`.
    ///
    /// # Errors
    /// If the stored hash cannot be parsed.
    fn is_hash_of(&self, hash: &str, password: &str) -> Result<bool, ProtectionError>;

    /// Seals a TOTP secret for this user.
    fn seal(&self, username: &Username, totp_secret: &[u8]) -> Result<Vec<u8>, ProtectionError>;

    /// The tag by which the store remembers a secret of a file. Computing tags, and guessing secrets from tags,
    /// requires the service's key.
    fn tag(&self, field: &str, username: &Username, secret: &[u8]) -> String;

    /// Unseals a TOTP secret of this user.
    ///
    /// # Errors
    /// If the secret was sealed with another key.
    fn unseal(
        &self,
        username: &Username,
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, ProtectionError>;
}

/// Hashes passwords with argon2id and seals TOTP secrets with the encryption key.
#[derive(Debug, Clone, Copy)]
pub struct AtRest<'a>(pub &'a EncryptionKey);

/// Why a password or TOTP secret cannot be protected or compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtectionError {
    #[error(transparent)]
    Password(#[from] PasswordError),
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

/// A registered secret of a user. The type has no `Debug`, because it contains secrets.
pub enum Hidden {
    Password(Zeroizing<String>),
    /// A password as a hash, in its [stored spelling](domain::password_hash::normal).
    PasswordHash(String),
    TotpSecret(Zeroizing<Vec<u8>>),
}

/// The stored form of a user's secret: hashed or sealed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Protected {
    Hash {
        /// The hash in its stored spelling.
        hash: String,
        /// [`domain::User::registered_password_digest`].
        registered: Option<Digest>,
    },
    Sealed(Vec<u8>),
}

impl Protected {
    /// The stored form of the secret in a field of `user`.
    pub(crate) fn of(user: &User, field: &str) -> Option<Self> {
        if field == "totp_secret" {
            return user.totp_secret_sealed.clone().map(Self::Sealed);
        }
        let hash = user.password_hash.clone()?;
        let registered = user.registered_password_digest;
        Some(Self::Hash { hash, registered })
    }

    pub(crate) fn store_in(self, user: &mut User) {
        match self {
            Self::Hash { hash, registered } => {
                user.password_hash = Some(hash);
                user.registered_password_digest = registered;
            }
            Self::Sealed(sealed) => user.totp_secret_sealed = Some(sealed),
        }
    }

    /// Identifies the stored form. A hash that became stronger at a sign-in keeps the digest of the registered hash.
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
    /// The tag by which the store remembers the secret.
    pub(crate) fn tag(&self, owner: &Username, protection: &dyn Protection) -> String {
        let (field, secret) = match self {
            Self::Password(password) => ("password", password.as_bytes()),
            Self::PasswordHash(hash) => ("password_hash", hash.as_bytes()),
            Self::TotpSecret(secret) => ("totp_secret", secret.as_slice()),
        };
        protection.tag(field, owner, secret)
    }

    /// True if `protected` is the stored form of this secret.
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

    /// Creates the stored form of the secret.
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
