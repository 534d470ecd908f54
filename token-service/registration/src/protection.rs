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

/// Identifies the stored form of the secret in a field of `user`. A hash that became stronger at a sign-in keeps the digest
/// of the registered hash.
pub(crate) fn stored_digest(user: &User, field: &str) -> Option<Digest> {
    let of_hash = |hash: &String| match user.registered_password_digest {
        Some(registered) => registered,
        None => Digest::of(hash.as_bytes()),
    };
    match field {
        "password" => user.password_hash.as_ref().map(of_hash),
        "totp_secret" => user.totp_secret_sealed.as_deref().map(Digest::of),
        _ => None,
    }
}

impl Hidden {
    /// The key of the field.
    pub(crate) const fn field(&self) -> &'static str {
        match self {
            Self::Password(_) | Self::PasswordHash(_) => "password",
            Self::TotpSecret(_) => "totp_secret",
        }
    }

    /// The tag by which the store remembers the secret.
    pub(crate) fn tag(&self, owner: &Username, protection: &dyn Protection) -> String {
        let (field, secret) = match self {
            Self::Password(password) => ("password", password.as_bytes()),
            Self::PasswordHash(hash) => ("password_hash", hash.as_bytes()),
            Self::TotpSecret(secret) => ("totp_secret", secret.as_slice()),
        };
        protection.tag(field, owner, secret)
    }

    /// True if `user` has this secret.
    pub(crate) fn is_of(
        &self,
        user: &User,
        protection: &dyn Protection,
    ) -> Result<bool, ProtectionError> {
        let (hash, sealed) = (&user.password_hash, &user.totp_secret_sealed);
        match (self, hash, sealed) {
            (Self::Password(password), Some(hash), _) => protection.is_hash_of(hash, password),
            (Self::PasswordHash(given), Some(hash), _) => {
                let registered = user.registered_password_digest;
                Ok(given == hash || registered == Some(Digest::of(given.as_bytes())))
            }
            (Self::TotpSecret(secret), _, Some(sealed)) => {
                let opened = protection.unseal(&user.username, sealed)?;
                Ok(Digest::of(&opened) == Digest::of(secret))
            }
            _ => Ok(false),
        }
    }

    /// Stores the secret in its protected form.
    pub(crate) fn store_in(
        &self,
        user: &mut User,
        protection: &dyn Protection,
    ) -> Result<(), ProtectionError> {
        let hash = match self {
            Self::Password(password) => protection.hash(password)?,
            Self::PasswordHash(hash) => hash.clone(),
            Self::TotpSecret(secret) => {
                user.totp_secret_sealed = Some(protection.seal(&user.username, secret)?);
                return Ok(());
            }
        };
        user.password_hash = Some(hash);
        user.registered_password_digest = None;
        Ok(())
    }
}
