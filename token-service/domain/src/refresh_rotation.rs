//! The rotation of a grant's refresh tokens (protocol.md §3, D-3, RFC 9700 §4.14).

use std::sync::Arc;
use std::time::Duration;

use claims::Confirmation;
use strum::IntoStaticStr;

use crate::clock::Timestamp;
use crate::grant::{Grant, RefreshStep, SpentStep};
use crate::grant_id::GrantId;
use crate::token_id::TokenId;
use crate::{Client, ClientId, Scope, SecondFactorRules, User, Username};

/// Maximum number of spent steps. A client that exceeds it within one grace period is not retrying a lost response.
const MAX_SPENT_STEPS: usize = 8;

/// A request with a refresh token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefreshRotation {
    pub grant_id: GrantId,
    pub refresh_id: TokenId,
    /// The authenticated client of the request.
    pub client_id: ClientId,
    /// The user that the refresh token names, so that a store can read the user together with the grant. Decides nothing.
    pub username: Option<Username>,
    /// What the client proved to possess with the request.
    pub proven: Confirmation,
    /// The requested scope; `None` requests the whole granted scope.
    pub scope: Option<Scope>,
    /// Whose grants need a second factor now.
    pub second_factor: Arc<SecondFactorRules>,
    /// `jti` of the next refresh token, if the current token rotates.
    pub next_refresh_id: TokenId,
    /// `jti` of the next access token, if the current token rotates.
    pub next_access_id: TokenId,
    pub now: Timestamp,
    /// Lifetime of the next refresh token.
    pub lifetime: Duration,
    /// Time after the first use of a refresh token in which the service repeats the response.
    pub grace: Duration,
}

/// The outcome of a request with a refresh token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rotation {
    /// The first use: `grant.current` is the new step.
    Rotated {
        grant: Box<Grant>,
        /// The new step, with the scope that the client may have now.
        step: RefreshStep,
        /// The scope that the client requested.
        asked: Scope,
    },
    /// A repeated use within the grace period: return this step, like the first use.
    Repeated {
        grant: Box<Grant>,
        /// The step in the response to the first use.
        step: RefreshStep,
        /// The scope that the client requested.
        asked: Scope,
    },
    /// A used token after its grace period. The grant is revoked, and the revocation is in the feed.
    Reused(GrantId),
    /// The token was refused. Nothing changed.
    Refused(RotationRefusal),
}

/// Why a refresh token is refused without other consequences.
#[derive(Debug, Clone, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum RotationRefusal {
    #[strum(serialize = "unknown_refresh_token")]
    Unknown,
    #[strum(serialize = "refresh_token_of_another_client")]
    OtherClient,
    /// The refresh token is bound to another key, or the request has no DPoP proof (RFC 9449 §5).
    #[strum(serialize = "refresh_token_of_another_key")]
    OtherKey,
    /// The refresh token is bound to another certificate, or the connection has none (RFC 8705 §4).
    #[strum(serialize = "refresh_token_of_another_certificate")]
    OtherCertificate,
    /// The requested scope exceeds the granted scope by this scope.
    ScopeExceeded(Scope),
    /// The user signed in without a second factor, which is required now (D-56).
    SecondFactorMissing,
    /// A repeated use requests another scope than the first use (D-42).
    ScopeDiffers,
    /// The token expired before its first use.
    #[strum(serialize = "refresh_token_expired")]
    Expired,
    /// The grant is revoked: before, or now, because its client or user was removed or disabled, the user's credentials have
    /// changed since the sign-in, or the account is no longer linked.
    #[strum(serialize = "grant_revoked")]
    Revoked,
}

impl RotationRefusal {
    /// The value for the log and metrics.
    pub const fn reason(&self) -> &'static str {
        self.into_str()
    }
}

/// The decision of [`Grant::rotate`]. For `Rotate` and `Revoke`, the store writes the changed grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RotationDecision {
    /// The grant has a new current step: return `step`, which has the scope that the client may have now. The client
    /// requested the scope `asked`.
    Rotate { step: RefreshStep, asked: Scope },
    /// Return this step again. The client requested the scope `asked`.
    Repeat { step: RefreshStep, asked: Scope },
    /// The grant is revoked now. Return this outcome.
    Revoke(Rotation),
    /// The grant is unchanged.
    Refuse(RotationRefusal),
}

impl Grant {
    /// Decides on one use of a refresh token (D-3) and changes the grant accordingly.
    ///
    /// The current token rotates. A spent token within its grace period gets the response of its first use. Any other
    /// signed token of this grant was used before and may be stolen, so the grant is revoked. The current token is
    /// already expired at `refresh_expires_at`. The grace period includes its last second.
    ///
    /// A bound refresh token needs a proof of its key, or a connection with its certificate. The exchange of the code binds
    /// ([`Client::binds`]), and no refresh does (D-50): a thief of an unbound refresh token could bind the grant to his own key,
    /// and no use by the owner would be a reuse any more.
    ///
    /// If a second factor is required since the sign-in, the grant is refused as long as the rule is in force: neither does a
    /// refresh go on with one factor, nor does a rule that was a mistake end grants (D-56).
    ///
    /// `client` and `user` are the client and user of the grant, as registered now. The grant ends with them. Its
    /// tokens lack the scopes that the client does not have now; the grant keeps them, because they may return to the
    /// client (D-42).
    pub fn rotate(
        &mut self,
        rotation: &RefreshRotation,
        client: Option<&Client>,
        user: Option<&User>,
    ) -> RotationDecision {
        if let Err(refusal) = self.lives_for(&rotation.client_id) {
            return RotationDecision::Refuse(refusal);
        }
        let now = rotation.now;
        let client = client.filter(|client| client.enabled);
        let user = user.filter(|user| self.rests_on(user));
        let (Some(client), Some(user)) = (client, user) else {
            self.revoke(now);
            return RotationDecision::Revoke(Rotation::Refused(RotationRefusal::Revoked));
        };
        // Before everything that a leaked refresh token could cause without its key.
        if let Err(refusal) = self.is_bound_to(rotation.proven) {
            return RotationDecision::Refuse(refusal);
        }
        let left = self.scope.intersection(&client.scopes);
        let repeated = self.spent.iter().find(|step| {
            step.refresh_id == rotation.refresh_id
                && now.since(step.first_used_at) <= rotation.grace
        });
        if self.current.refresh_id != rotation.refresh_id && repeated.is_none() {
            self.revoke(now);
            return RotationDecision::Revoke(Rotation::Reused(self.grant_id));
        }
        if !rotation.second_factor.accept(&self.amr, user, client) {
            return RotationDecision::Refuse(RotationRefusal::SecondFactorMissing);
        }
        if let Some(step) = repeated {
            return step.repeat(rotation.scope.as_ref(), &self.scope, &left);
        }
        if now >= self.current.refresh_expires_at {
            return RotationDecision::Refuse(RotationRefusal::Expired);
        }
        let asked = match &rotation.scope {
            None => self.scope.clone(),
            Some(scope) if scope.is_subset_of(&left) => scope.clone(),
            Some(scope) => {
                let excess = scope.without(&left);
                return RotationDecision::Refuse(RotationRefusal::ScopeExceeded(excess));
            }
        };
        let next = RefreshStep {
            refresh_id: rotation.next_refresh_id,
            access_id: rotation.next_access_id,
            scope: asked.clone(),
            issued_at: now,
            refresh_expires_at: now + rotation.lifetime,
        };
        self.spent
            .retain(|step| now.since(step.first_used_at) <= rotation.grace);
        if self.spent.len() >= MAX_SPENT_STEPS {
            self.spent.remove(0);
        }
        self.spent.push(SpentStep {
            refresh_id: self.current.refresh_id,
            first_used_at: now,
            successor: next.clone(),
        });
        self.current = next.clone();
        let step = next.with_scope_of(&left);
        RotationDecision::Rotate { step, asked }
    }

    /// Checks that the grant is one of the client's, and not revoked.
    ///
    /// # Errors
    /// [`RotationRefusal::OtherClient`] or [`RotationRefusal::Revoked`].
    pub fn lives_for(&self, client_id: &ClientId) -> Result<(), RotationRefusal> {
        if self.client_id != *client_id {
            return Err(RotationRefusal::OtherClient);
        }
        match self.revoked_at {
            Some(_) => Err(RotationRefusal::Revoked),
            None => Ok(()),
        }
    }

    /// Checks that the client proved to possess what its refresh tokens are bound to.
    ///
    /// # Errors
    /// [`RotationRefusal::OtherKey`] or [`RotationRefusal::OtherCertificate`].
    pub fn is_bound_to(&self, proven: Confirmation) -> Result<(), RotationRefusal> {
        let bound = self.bound;
        if bound.jkt.is_some() && bound.jkt != proven.jkt {
            return Err(RotationRefusal::OtherKey);
        }
        if bound.certificate.is_some() && bound.certificate != proven.certificate {
            return Err(RotationRefusal::OtherCertificate);
        }
        Ok(())
    }
}

impl SpentStep {
    /// Decides on a repeated use within the grace period. `granted` is the scope of the grant, `left` what the client may have
    /// of it now.
    fn repeat(&self, requested: Option<&Scope>, granted: &Scope, left: &Scope) -> RotationDecision {
        let first = &self.successor.scope;
        // Without a requested scope, the first use requested the whole scope of the grant.
        if requested.map_or(!granted.is_subset_of(first), |scope| scope != first) {
            return RotationDecision::Refuse(RotationRefusal::ScopeDiffers);
        }
        RotationDecision::Repeat {
            step: self.successor.clone().with_scope_of(left),
            asked: first.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
