//! Grants: what a user authorized (protocol.md §3).

use std::sync::Arc;
use std::time::Duration;

use claims::Confirmation;
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::grant_id::GrantId;
use crate::token_id::TokenId;
use crate::{
    ClientId, CredentialsVersion, LinkedAccount, ProviderSignIn, Scope, SecondFactorRules, User,
    Username,
};

/// The longest lifetime that the code of a grant may have (RFC 6749 §4.1.2).
pub const MAX_CODE_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// How long a grant stays after its code has expired, at least, because the clocks of the replicas that issue, redeem and
/// sweep may differ.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(30);

/// One step of a grant: the token pair of one token response. Only ids and times are kept. To repeat a response, the
/// service signs the tokens again from them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefreshStep {
    /// `jti` of the refresh token.
    pub refresh_id: TokenId,
    /// `jti` of the access token.
    pub access_id: TokenId,
    /// The scope that the client requested: the scope of the grant or a subset (RFC 6749 §6). The access token has the
    /// part of it that the client had when the token was issued (D-42).
    pub scope: Scope,
    /// When both tokens were issued.
    pub issued_at: Timestamp,
    /// The refresh token is refused from this second on.
    pub refresh_expires_at: Timestamp,
}

impl RefreshStep {
    /// The step without the requested scopes that are not in `left`.
    pub(crate) fn with_scope_of(self, left: &Scope) -> Self {
        let scope = self.scope.intersection(left);
        Self { scope, ..self }
    }
}

/// The first step of a grant, as the client of a code requests it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstStep {
    pub refresh_id: TokenId,
    pub access_id: TokenId,
    /// `None` requests all that the user authorized.
    pub scope: Option<Scope>,
    pub issued_at: Timestamp,
    pub refresh_expires_at: Timestamp,
    /// The rules of the configuration about a second factor.
    pub second_factor: Arc<SecondFactorRules>,
}

/// A used refresh token whose response may still be repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpentStep {
    /// `jti` of the used refresh token.
    pub refresh_id: TokenId,
    /// Time of the first use. The grace period starts here and never restarts.
    pub first_used_at: Timestamp,
    /// The step in the response to the first use.
    pub successor: RefreshStep,
}

/// An authorization by a user for a client, and the state of its refresh tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The claim `grant_id`.
    pub grant_id: GrantId,
    pub client_id: ClientId,
    pub username: Username,
    pub account: LinkedAccount,
    /// Authorized scopes, also those that the client does not have at present (D-42). A refresh may request fewer scopes, never
    /// more.
    pub scope: Scope,
    /// The authentication methods of the sign-in (D-11).
    pub amr: Vec<String>,
    pub authenticated_at: Timestamp,
    /// The step with the live refresh token.
    pub current: RefreshStep,
    /// Earlier steps within their grace period.
    pub spent: Vec<SpentStep>,
    pub revoked_at: Option<Timestamp>,
    /// The user's credentials at the sign-in.
    pub credentials_version: CredentialsVersion,
    /// The code of the grant is refused from this second on.
    pub code_expires_at: Timestamp,
    /// The key and the certificate to which the exchange of the code bound the refresh tokens: see
    /// [`Client::binds`](crate::Client::binds).
    #[serde(with = "bound")]
    pub bound: Confirmation,
    /// The sign-in at an identity provider on which the grant rests.
    pub provider: Option<ProviderSignIn>,
}

/// The row has both members of a [`Confirmation`]. The claim `cnf` leaves out those that are absent.
mod bound {
    use claims::Confirmation;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(super) fn serialize<S: Serializer>(bound: &Confirmation, to: S) -> Result<S::Ok, S::Error> {
        (bound.jkt, bound.certificate).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Confirmation, D::Error> {
        let (jkt, certificate) = <_>::deserialize(from)?;
        Ok(Confirmation { jkt, certificate })
    }
}

impl Grant {
    /// True if the user is enabled, has the credentials and the identity of the sign-in, and is still linked to the account.
    pub fn rests_on(&self, user: &User) -> bool {
        user.still_signs_in(self.credentials_version, self.provider.as_ref())
            && user.accounts.contains(&self.account)
    }

    /// Revokes the grant; `false` if it was revoked before.
    pub fn revoke(&mut self, now: Timestamp) -> bool {
        if self.revoked_at.is_some() {
            return false;
        }
        self.revoked_at = Some(now);
        self.spent.clear();
        true
    }

    /// True if no token of this grant can still be valid, and its code has expired, so that the grant may be removed: its
    /// refresh token has expired or was revoked, and the time of [`Self::access_over_at`] has passed.
    pub fn is_over(&self, now: Timestamp, access_token_lifetime: Duration) -> bool {
        let refresh_is_over = self.revoked_at.is_some() || self.current.refresh_expires_at < now;
        refresh_is_over && self.access_over_at(access_token_lifetime) < now
    }

    /// Until when an access token or the code of this grant may be valid. Without the grant, the code would count as
    /// unused.
    pub fn access_over_at(&self, access_token_lifetime: Duration) -> Timestamp {
        let code_is_over = self.code_expires_at + CLOCK_DIFFERENCE;
        code_is_over.max(self.current.issued_at + access_token_lifetime)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GrantFilter {
    pub client_id: Option<ClientId>,
    pub username: Option<Username>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MINUTE: Duration = Duration::from_secs(60);

    fn revoked_grant(issued_at: Timestamp) -> Grant {
        Grant {
            revoked_at: Some(issued_at),
            code_expires_at: issued_at + MINUTE,
            ..crate::testing::grant("a", issued_at, issued_at + SECOND)
        }
    }

    #[test]
    fn a_grant_outlives_its_code_however_short_the_tokens_live() {
        let now = Timestamp::from_seconds(1_800_000_000);
        let grant = revoked_grant(now);
        let last = now + MINUTE + CLOCK_DIFFERENCE;
        assert!(!grant.is_over(last, SECOND));
        assert!(grant.is_over(last + SECOND, SECOND));
        assert!(!grant.is_over(last + SECOND, 2 * MINUTE));
    }
}
