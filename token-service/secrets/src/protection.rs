//! Secrets of users: their form in a file and their stored form.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

use crate::password::{self, PasswordError};
use crate::sealing::{EncryptionKey, SealingError, totp_context};
use domain::digest::Digest;
use domain::{User, Username};

/// Protection of stored user secrets. Applying a file again must not create new stored forms, because that would sign
/// the users out. Therefore callers first compare the stored secret with the registered secret.
pub trait Protection {
    /// Hashes a password of `owner` to an argon2id PHC string.
    fn hash(&self, owner: &Username, password: &str) -> Result<String, ProtectionError>;

    /// True if `hash` is a hash of `password`.
    ///
    /// # Errors
    /// If the stored hash cannot be parsed.
    fn is_hash_of(&self, hash: &str, password: &str) -> Result<bool, ProtectionError>;

    /// Seals a TOTP secret for this user.
    fn seal(&self, username: &Username, totp_secret: &[u8]) -> Result<Vec<u8>, ProtectionError>;

    /// The tag by which an object remembers a secret of its file (D-27). Computing tags, and guessing secrets from tags,
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
    /// [`Passwords::compute`] what the plan needs, and plan again.
    #[error("passwords are not hashed yet")]
    Unhashed,
}

impl Protection for AtRest<'_> {
    fn hash(&self, _: &Username, password: &str) -> Result<String, ProtectionError> {
        Ok(password::hash(password)?)
    }

    fn is_hash_of(&self, hash: &str, password: &str) -> Result<bool, ProtectionError> {
        Ok(password::verify(password, hash)?)
    }

    fn seal(&self, username: &Username, totp_secret: &[u8]) -> Result<Vec<u8>, ProtectionError> {
        self.0
            .seal(&totp_context(username), totp_secret)
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
        self.0
            .open(&totp_context(username), sealed)
            .map_err(|error| ProtectionError::TotpSecret(username.clone(), error))
    }
}

/// Hashes and comparisons of passwords that were computed before a plan needs them, because a hash takes long and waits for
/// memory. The type has no `Debug`, because it contains secrets.
#[derive(Default)]
pub struct Passwords(Mutex<Computed>);

#[derive(Default)]
struct Computed {
    hashes: HashMap<[u8; 32], String>,
    matches: HashMap<[u8; 32], bool>,
    wanted: Vec<Wanted>,
}

/// What a plan needs and nobody has computed.
struct Wanted {
    key: [u8; 32],
    password: Zeroizing<String>,
    /// The hash to compare the password with; `None` if the plan needs a hash.
    hash: Option<String>,
}

impl Passwords {
    /// Plans without hashing a password.
    ///
    /// # Errors
    /// [`ProtectionError::Unhashed`] if passwords must be hashed first.
    pub fn plan<T>(
        &self,
        key: &EncryptionKey,
        plan: impl FnOnce(&dyn Protection) -> Result<T, ProtectionError>,
    ) -> Result<T, ProtectionError> {
        let planned = plan(&Ahead(AtRest(key), self))?;
        match self.are_wanted() {
            false => Ok(planned),
            true => Err(ProtectionError::Unhashed),
        }
    }

    /// True if the last plan needed what nobody has computed.
    pub fn are_wanted(&self) -> bool {
        !self.computed().wanted.is_empty()
    }

    /// Computes what the last plan needed. Takes tens of milliseconds for each password.
    ///
    /// # Errors
    /// A [`PasswordError`].
    pub fn compute(&self) -> Result<(), ProtectionError> {
        let wanted = std::mem::take(&mut self.computed().wanted);
        for Wanted {
            key,
            password,
            hash,
        } in wanted
        {
            match hash {
                Some(hash) => {
                    let matches = password::verify(&password, &hash)?;
                    self.computed().matches.insert(key, matches);
                }
                None => {
                    let hash = password::hash(&password)?;
                    self.computed().hashes.insert(key, hash);
                }
            }
        }
        Ok(())
    }

    fn computed(&self) -> MutexGuard<'_, Computed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers with what is computed. Otherwise the answers have no meaning, and the plan is made again.
struct Ahead<'a>(AtRest<'a>, &'a Passwords);

impl Protection for Ahead<'_> {
    fn hash(&self, owner: &Username, password: &str) -> Result<String, ProtectionError> {
        let parts = [b"hash", owner.as_str().as_bytes(), password.as_bytes()];
        let key = self.0.0.tag(&parts);
        let computed = &mut *self.1.computed();
        let known = computed.hashes.get(&key).cloned();
        Ok(known.unwrap_or_else(|| {
            computed.want(key, password, None);
            String::new()
        }))
    }

    fn is_hash_of(&self, hash: &str, password: &str) -> Result<bool, ProtectionError> {
        let parts = [b"match", hash.as_bytes(), password.as_bytes()];
        let key = self.0.0.tag(&parts);
        let computed = &mut *self.1.computed();
        let known = computed.matches.get(&key).copied();
        Ok(known.unwrap_or_else(|| {
            computed.want(key, password, Some(hash.to_owned()));
            true
        }))
    }

    fn seal(&self, username: &Username, totp_secret: &[u8]) -> Result<Vec<u8>, ProtectionError> {
        self.0.seal(username, totp_secret)
    }

    fn tag(&self, field: &str, username: &Username, secret: &[u8]) -> String {
        self.0.tag(field, username, secret)
    }

    fn unseal(
        &self,
        username: &Username,
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, ProtectionError> {
        self.0.unseal(username, sealed)
    }
}

impl Computed {
    fn want(&mut self, key: [u8; 32], password: &str, hash: Option<String>) {
        let password = Zeroizing::new(password.to_owned());
        self.wanted.push(Wanted {
            key,
            password,
            hash,
        });
    }
}

/// What a registration gives once, and the user then changes: a secret, or the duty to set another password. The type has no `Debug`,
/// because it contains secrets.
pub enum Hidden {
    Password(Zeroizing<String>),
    /// A password as a hash, in its [stored spelling](crate::password_hash::normal).
    PasswordHash(String),
    TotpSecret(Zeroizing<Vec<u8>>),
    /// Comes after the password, which ends an earlier duty.
    MustChangePassword(bool),
}

impl Hidden {
    /// The key of the field.
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Password(_) | Self::PasswordHash(_) => "password",
            Self::TotpSecret(_) => "totp_secret",
            Self::MustChangePassword(_) => "must_change_password",
        }
    }

    /// See [`Protection::tag`].
    pub fn tag(&self, owner: &Username, protection: &dyn Protection) -> String {
        let (field, secret) = match self {
            Self::Password(password) => ("password", password.as_bytes()),
            Self::PasswordHash(hash) => ("password_hash", hash.as_bytes()),
            Self::TotpSecret(secret) => ("totp_secret", secret.as_slice()),
            Self::MustChangePassword(true) => (self.field(), b"true".as_slice()),
            Self::MustChangePassword(false) => (self.field(), b"false".as_slice()),
        };
        protection.tag(field, owner, secret)
    }

    /// True if `user` has this secret.
    pub fn is_of(&self, user: &User, protection: &dyn Protection) -> Result<bool, ProtectionError> {
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
            (Self::MustChangePassword(must), ..) => Ok(user.must_change_password == *must),
            _ => Ok(false),
        }
    }

    /// Stores a value that differs from every protected form.
    pub fn mark_in(&self, user: &mut User) {
        match self {
            Self::Password(_) | Self::PasswordHash(_) => user.password_hash = Some(String::new()),
            Self::TotpSecret(_) => user.totp_secret_sealed = Some(Vec::new()),
            Self::MustChangePassword(must) => user.must_change_password = *must,
        }
    }

    /// Stores the secret in its protected form.
    pub fn store_in(
        &self,
        user: &mut User,
        protection: &dyn Protection,
    ) -> Result<(), ProtectionError> {
        let hash = match self {
            Self::Password(password) => protection.hash(&user.username, password)?,
            Self::PasswordHash(hash) => hash.clone(),
            Self::TotpSecret(secret) => {
                user.totp_secret_sealed = Some(protection.seal(&user.username, secret)?);
                return Ok(());
            }
            Self::MustChangePassword(must) => {
                user.must_change_password = *must;
                return Ok(());
            }
        };
        user.password_hash = Some(hash);
        user.must_change_password = false;
        user.registered_password_digest = None;
        Ok(())
    }
}
