//! Links that the service sends by mail to people who forgot their passwords. A link contains, sealed, for whom it is: asking
//! for a link changes nothing in the store, so that it neither costs a write nor ends an earlier link.

use serde::{Deserialize, Serialize};

use crate::Context;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::random::{self, RandomError};
use domain::{CredentialsVersion, User, Username};
use secrets::sealing::{SealingError, open_text, seal_text};
use store::row::{self, Row};

const PURPOSE: &str = "mailed link";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailedLink {
    pub username: Username,
    /// The link works only with these credentials: it ends with its use, and with any other change of the password or second
    /// factor.
    rests_on: CredentialsVersion,
    /// The address that got the link: another address of the user ends it.
    email: Digest,
    expires_at: Timestamp,
}

/// Not a row, but the content of a link, which has the same form: replicas of two versions take each other's links.
impl Row for MailedLink {
    const VERSION: u8 = 1;
}

/// As for codes: a service with a copy of the store and another issuer has the same keys. No issuer contains a space.
fn purpose(context: &Context<'_>) -> String {
    format!("{PURPOSE} {}", context.settings.issuer)
}

impl MailedLink {
    /// A link for `user`, to be sent to `email`.
    pub fn new(user: &User, email: &str, expires_at: Timestamp) -> Self {
        Self {
            username: user.username.clone(),
            rests_on: user.credentials_version,
            email: Digest::of(email.as_bytes()),
            expires_at,
        }
    }

    /// The text in the link, in base64url.
    ///
    /// # Errors
    /// If the system returns no randomness, or sealing fails.
    pub fn seal<E>(&self, context: &Context<'_>) -> Result<String, E>
    where
        E: From<RandomError> + From<SealingError>,
    {
        let nonce = random::bytes(context.random)?;
        let content = row::encode(self).map_err(|_| SealingError::Failed)?;
        Ok(seal_text(
            &purpose(context),
            nonce,
            &content,
            context.encryption_key,
        )?)
    }

    /// `None` if this service did not seal the text.
    pub fn open(context: &Context<'_>, text: &str) -> Option<Self> {
        let content = open_text(&purpose(context), text, context.encryption_key)?;
        row::decode(&content).ok()
    }

    /// By which attempts with this link are counted.
    pub fn digest(&self) -> Digest {
        Digest::of(&row::encode(self).unwrap_or_default())
    }

    /// True if the link may set the password of `user`.
    pub fn is_for(&self, user: &User, now: Timestamp) -> bool {
        let email = user
            .email
            .as_deref()
            .map(|email| Digest::of(email.as_bytes()));
        now < self.expires_at && user.still_has(self.rests_on) && email == Some(self.email)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::testing::{user, username};

    #[test]
    fn a_link_is_for_one_state_of_one_user() {
        let at = Timestamp::from_seconds;
        let email = |email: &str| Some(email.to_owned());
        let ada = User {
            email: email("ada@example.com"),
            credentials_version: CredentialsVersion::new(7),
            ..user("ada", &[])
        };
        let link = MailedLink::new(&ada, "ada@example.com", at(10));
        assert!(link.is_for(&ada, at(9)));
        assert!(!link.is_for(&ada, at(10)), "late");
        let changed = |change: fn(&mut User)| {
            let mut changed = ada.clone();
            change(&mut changed);
            link.is_for(&changed, at(9))
        };
        assert!(changed(
            |ada| ada.password_hash = Some("stronger".to_owned())
        ));
        assert!(!changed(|ada| ada.enabled = false));
        assert!(!changed(|ada| ada.email = None));
        assert!(!changed(
            |ada| ada.email = Some("eve@example.com".to_owned())
        ));
        assert!(!changed(
            |ada| ada.credentials_version = CredentialsVersion::new(8)
        ));
    }

    /// If this fails, the layout has changed: see [`domain::Layout`].
    #[test]
    fn the_layout_is_known() {
        let link = MailedLink {
            username: username("ada"),
            rests_on: CredentialsVersion::new(7),
            email: Digest::from_bytes([5; 32]),
            expires_at: Timestamp::from_seconds(1_800_000_000),
        };
        let content = row::encode(&link).unwrap();
        let known = [
            &[1][..],
            b"\x03ada\x07",
            &[5; 32],
            &[0x80, 0xa4, 0xa7, 0xda, 6],
        ];
        assert_eq!(content, known.concat());
        assert_eq!(row::decode(&content), Ok(link));
    }
}
