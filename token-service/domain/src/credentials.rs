//! What people sign in with.

use crate::digest::Digest;
use crate::{CredentialsVersion, User};

/// What a user signs in with, all of it as it was at one moment. It has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The version of all this.
    pub version: CredentialsVersion,
    /// The password as an argon2id PHC string; `None` when the user cannot sign in with one.
    pub password_hash: Option<String>,
    /// The TOTP secret, sealed with the encryption key: what the person set up, or else what is registered. `None` without
    /// a second factor.
    pub totp_secret_sealed: Option<Vec<u8>>,
}

impl Credentials {
    /// Those of `user`, who has set up `own`; `None` for a disabled user.
    #[must_use]
    pub fn of(user: User, own: Option<SecondFactor>) -> Option<Self> {
        user.enabled.then(|| Self {
            version: user.credentials_version,
            password_hash: user.password_hash,
            totp_secret_sealed: own
                .map(|own| own.totp_secret_sealed)
                .or(user.totp_secret_sealed),
        })
    }
}

/// A second factor that a person set up. It counts in the place of the registered one.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SecondFactor {
    /// The TOTP secret, sealed with the encryption key.
    pub totp_secret_sealed: Vec<u8>,
    /// Keyed digests of the recovery codes that are left.
    pub recovery_codes: Vec<Digest>,
}

impl SecondFactor {
    /// Takes a recovery code away; says whether it was left.
    pub fn use_up(&mut self, code: &Digest) -> bool {
        let before = self.recovery_codes.len();
        self.recovery_codes.retain(|left| left != code);
        self.recovery_codes.len() < before
    }
}

impl std::fmt::Debug for SecondFactor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SecondFactor")
            .finish_non_exhaustive()
    }
}
