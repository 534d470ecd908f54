//! Credentials of users.

use crate::digest::Digest;
use crate::{CredentialsVersion, User, Username};

/// The credentials of a user at one moment. The type has no `Debug`, because it contains secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The registered spelling of the name.
    pub username: Username,
    pub version: CredentialsVersion,
    /// The hash of the password, as a PHC string; `None` if the user cannot sign in with a password.
    pub password_hash: Option<String>,
    /// The TOTP secret, sealed with the encryption key: the secret that the user set up, or else the registered secret.
    /// `None` without a second factor.
    pub totp_secret_sealed: Option<Vec<u8>>,
}

impl Credentials {
    /// The credentials of `user` with the second factor `own`. A disabled user has none: neither a password nor a second
    /// factor works.
    pub fn of(user: User, own: Option<SecondFactor>) -> Self {
        let registered = user.totp_secret_sealed;
        let totp_secret_sealed = own.map(|own| own.totp_secret_sealed).or(registered);
        Self {
            username: user.username,
            version: user.credentials_version,
            password_hash: user.password_hash.filter(|_| user.enabled),
            totp_secret_sealed: totp_secret_sealed.filter(|_| user.enabled),
        }
    }
}

/// A second factor that a user set up. It replaces the registered second factor.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SecondFactor {
    /// The TOTP secret, sealed with the encryption key.
    pub totp_secret_sealed: Vec<u8>,
    /// Keyed digests of the unused recovery codes.
    pub recovery_codes: Vec<Digest>,
}

impl SecondFactor {
    /// Removes a recovery code. Returns whether the code was unused.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::user;

    #[test]
    fn a_disabled_user_keeps_only_the_name() {
        let ada = User {
            password_hash: Some("hash".into()),
            totp_secret_sealed: Some(b"registered".to_vec()),
            ..user("Ada", &[])
        };
        let own = SecondFactor {
            totp_secret_sealed: b"own".to_vec(),
            recovery_codes: Vec::new(),
        };
        let credentials = Credentials::of(ada.clone(), Some(own.clone()));
        assert_eq!(credentials.password_hash.as_deref(), Some("hash"));
        assert_eq!(credentials.totp_secret_sealed.unwrap(), b"own");
        for own in [None, Some(own)] {
            let credentials = Credentials::of(ada.clone().disabled(), own);
            assert_eq!(credentials.username.as_str(), "Ada");
            assert_eq!(credentials.password_hash, None);
            assert_eq!(credentials.totp_secret_sealed, None);
        }
    }
}
