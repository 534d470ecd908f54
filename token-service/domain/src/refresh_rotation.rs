//! The rotation of a grant's refresh tokens (protocol.md §3, D-3, RFC 9700 §4.14).

use std::time::Duration;

use claims::Thumbprint;
use strum::IntoStaticStr;

use crate::clock::Timestamp;
use crate::grant::{Grant, RefreshStep, SpentStep};
use crate::grant_id::GrantId;
use crate::token_id::TokenId;
use crate::{Client, ClientId, Scope, User};

/// Maximum number of spent steps. A client that exceeds it within one grace period is not retrying a lost response.
const MAX_SPENT_STEPS: usize = 8;

/// A request with a refresh token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefreshRotation {
    pub grant_id: GrantId,
    pub refresh_id: TokenId,
    /// The authenticated client of the request.
    pub client_id: ClientId,
    /// The key of the request's DPoP proof.
    pub key: Option<Thumbprint>,
    /// The requested scope; `None` requests the whole granted scope.
    pub scope: Option<Scope>,
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
    /// The requested scope exceeds the granted scope by this scope.
    ScopeExceeded(Scope),
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
    /// The grant has a new current step. The client requested this scope.
    Rotate { asked: Scope },
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
    /// A bound refresh token needs a proof of its key. The first proof of a public client binds the grant to its key (RFC
    /// 9449 §5). A repetition does not bind: it gets the refresh token of the first use, so its proof must be of the same
    /// key, or there must be none (D-39).
    ///
    /// `client` and `user` are those of the grant, as of now. The grant ends with them, and loses the scopes that the client
    /// no longer has (D-42).
    pub fn rotate(
        &mut self,
        rotation: &RefreshRotation,
        client: Option<&Client>,
        user: Option<&User>,
    ) -> RotationDecision {
        if self.client_id != rotation.client_id {
            return RotationDecision::Refuse(RotationRefusal::OtherClient);
        }
        if self.revoked_at.is_some() {
            return RotationDecision::Refuse(RotationRefusal::Revoked);
        }
        let now = rotation.now;
        let rests_on_user = user.is_some_and(|user| self.rests_on(user));
        let Some(client) = client.filter(|client| client.enabled && rests_on_user) else {
            self.revoke(now);
            return RotationDecision::Revoke(Rotation::Refused(RotationRefusal::Revoked));
        };
        // Before everything that a leaked refresh token alone could cause.
        if self.binding.is_some() && self.binding != rotation.key {
            return RotationDecision::Refuse(RotationRefusal::OtherKey);
        }
        let may_bind = self.binding.is_none() && client.is_public();
        let left = self.scope.intersection(&client.scopes);
        if self.current.refresh_id != rotation.refresh_id {
            let spent = self
                .spent
                .iter()
                .find(|step| step.refresh_id == rotation.refresh_id);
            return match spent {
                Some(step) if now.since(step.first_used_at) <= rotation.grace => {
                    if may_bind && rotation.key.is_some() {
                        return RotationDecision::Refuse(RotationRefusal::OtherKey);
                    }
                    step.repeat(rotation.scope.as_ref(), &left)
                }
                _ => {
                    self.revoke(now);
                    RotationDecision::Revoke(Rotation::Reused(self.grant_id))
                }
            };
        }
        if now >= self.current.refresh_expires_at {
            return RotationDecision::Refuse(RotationRefusal::Expired);
        }
        let (scope, asked) = match &rotation.scope {
            None => (left.clone(), self.scope.clone()),
            Some(scope) if scope.is_subset_of(&left) => (scope.clone(), scope.clone()),
            Some(scope) => {
                let excess = scope.without(&left);
                return RotationDecision::Refuse(RotationRefusal::ScopeExceeded(excess));
            }
        };
        self.scope = left;
        if may_bind {
            self.binding = rotation.key;
        }
        let next = RefreshStep {
            refresh_id: rotation.next_refresh_id,
            access_id: rotation.next_access_id,
            scope,
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
        self.current = next;
        RotationDecision::Rotate { asked }
    }
}

impl SpentStep {
    /// Decides on a repeated use within the grace period. `left` is the scope that the grant still has.
    fn repeat(&self, requested: Option<&Scope>, left: &Scope) -> RotationDecision {
        let first = &self.successor.scope;
        // Without a requested scope, the first use got all that the grant had then.
        if requested.map_or(!left.is_subset_of(first), |scope| scope != first) {
            return RotationDecision::Refuse(RotationRefusal::ScopeDiffers);
        }
        RotationDecision::Repeat {
            step: RefreshStep {
                scope: first.intersection(left),
                ..self.successor.clone()
            },
            asked: first.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CredentialsVersion, testing};

    const GRACE: Duration = Duration::from_secs(10);
    const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

    fn id(number: u8) -> TokenId {
        TokenId::from_bytes([number; 16])
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_seconds(1_000_000 + seconds)
    }

    fn grant() -> Grant {
        testing::grant("a b", at(0), at(0) + WEEK)
    }

    fn client() -> Client {
        testing::web_server("web", &[], &[]).with_scopes("a b")
    }

    fn user() -> User {
        testing::user("ada", &["1"])
    }

    /// Uses a token of a client and user that have not changed since the sign-in.
    fn rotate(grant: &mut Grant, rotation: &RefreshRotation) -> RotationDecision {
        grant.rotate(rotation, Some(&client()), Some(&user()))
    }

    fn rotates(scope: &str) -> RotationDecision {
        let asked = Scope::parse(scope).unwrap();
        RotationDecision::Rotate { asked }
    }

    fn repeats(step: &RefreshStep) -> RotationDecision {
        RotationDecision::Repeat {
            step: step.clone(),
            asked: step.scope.clone(),
        }
    }

    fn reused() -> RotationDecision {
        RotationDecision::Revoke(Rotation::Reused(grant().grant_id))
    }

    fn use_of(token: u8, next: u8, now: Timestamp) -> RefreshRotation {
        RefreshRotation {
            grant_id: GrantId::from_bytes([7; 16]),
            refresh_id: id(token),
            client_id: ClientId::parse("web").unwrap(),
            key: None,
            scope: None,
            next_refresh_id: id(next),
            next_access_id: id(100 + next),
            now,
            lifetime: WEEK,
            grace: GRACE,
        }
    }

    #[test]
    fn a_lost_answer_is_repeated_within_the_grace_which_never_restarts() {
        let mut grant = grant();
        assert_eq!(rotate(&mut grant, &use_of(1, 2, at(5))), rotates("a b"));
        let answered = grant.current.clone();
        assert_eq!(
            rotate(&mut grant, &use_of(1, 3, at(10))),
            repeats(&answered)
        );
        assert_eq!(
            rotate(&mut grant, &use_of(1, 3, at(15))),
            repeats(&answered)
        );
        assert_eq!(grant.current, answered);
        assert_eq!(rotate(&mut grant, &use_of(1, 3, at(16))), reused());
        assert_eq!(
            rotate(&mut grant, &use_of(2, 3, at(16))),
            RotationDecision::Refuse(RotationRefusal::Revoked)
        );
    }

    #[test]
    fn a_retry_that_arrives_after_its_successor_was_used_is_still_only_a_retry() {
        let mut grant = grant();
        rotate(&mut grant, &use_of(1, 2, at(0)));
        let first_answer = grant.current.clone();
        rotate(&mut grant, &use_of(2, 3, at(1)));
        assert_eq!(
            rotate(&mut grant, &use_of(1, 4, at(2))),
            repeats(&first_answer)
        );
        assert_eq!(grant.current.refresh_id, id(3));
    }

    #[test]
    fn a_token_that_is_long_gone_ends_the_grant() {
        let mut grant = grant();
        rotate(&mut grant, &use_of(1, 2, at(0)));
        rotate(&mut grant, &use_of(2, 3, at(100)));
        assert_eq!(
            grant.spent.len(),
            1,
            "spent steps beyond their grace are dropped"
        );
        assert_eq!(rotate(&mut grant, &use_of(1, 4, at(101))), reused());
        assert_eq!(grant.revoked_at, Some(at(101)));
    }

    #[test]
    fn another_client_changes_nothing() {
        let mut grant = grant();
        let mut stolen = use_of(1, 2, at(0));
        stolen.client_id = ClientId::parse("other").unwrap();
        assert_eq!(
            rotate(&mut grant, &stolen),
            RotationDecision::Refuse(RotationRefusal::OtherClient)
        );
        stolen.refresh_id = id(99);
        assert_eq!(
            rotate(&mut grant, &stolen),
            RotationDecision::Refuse(RotationRefusal::OtherClient)
        );
        assert_eq!(grant.revoked_at, None);
    }

    #[test]
    fn expiry_is_refused_at_its_second() {
        let end = at(0) + WEEK;
        let last = Timestamp::from_seconds(end.seconds() - 1);
        assert_eq!(rotate(&mut grant(), &use_of(1, 2, last)), rotates("a b"));
        assert_eq!(
            rotate(&mut grant(), &use_of(1, 2, end)),
            RotationDecision::Refuse(RotationRefusal::Expired)
        );
    }

    #[test]
    fn scope_shrinks_for_one_answer_and_never_grows() {
        let mut grant = grant();
        let mut narrow = use_of(1, 2, at(0));
        narrow.scope = Scope::parse("a");
        rotate(&mut grant, &narrow);
        assert_eq!(grant.current.scope, Scope::parse("a").unwrap());
        let mut wide = use_of(2, 3, at(20));
        wide.scope = Scope::parse("a b c");
        assert_eq!(
            rotate(&mut grant, &wide),
            RotationDecision::Refuse(RotationRefusal::ScopeExceeded(Scope::parse("c").unwrap()))
        );
        wide.scope = None;
        assert_eq!(rotate(&mut grant, &wide), rotates("a b"));
        assert_eq!(grant.current.scope, Scope::parse("a b").unwrap());
    }

    /// D-42.
    #[test]
    fn a_scope_that_was_taken_from_the_client_leaves_the_grant() {
        let mut grant = grant();
        let without_b = client().with_scopes("a c");
        let mut rotate = |rotation| grant.rotate(&rotation, Some(&without_b), Some(&user()));
        let mut both = use_of(1, 2, at(0));
        both.scope = Scope::parse("a b");
        let excess = Scope::parse("b").unwrap();
        let exceeded = RotationDecision::Refuse(RotationRefusal::ScopeExceeded(excess));
        assert_eq!(rotate(both), exceeded);
        assert_eq!(rotate(use_of(1, 2, at(0))), rotates("a b"));
        let only_a = Scope::parse("a").unwrap();
        assert_eq!(grant.current.scope, only_a);
        // Not even with the scope back at the client.
        let decision = super::tests::rotate(&mut grant, &use_of(2, 3, at(1)));
        assert_eq!((decision, &grant.scope), (rotates("a"), &only_a));
    }

    /// D-42.
    #[test]
    fn a_repeat_asks_for_the_scope_of_the_first_use() {
        let asking = |scope| RefreshRotation {
            scope: Scope::parse(scope),
            ..use_of(1, 2, at(0))
        };
        for (first, again, is_repeated) in [
            ("a", "a", true),
            ("a", "a b", false),
            ("a", "", false),
            ("", "", true),
            ("", "a b", true),
            ("", "a", false),
        ] {
            let mut grant = grant();
            rotate(&mut grant, &asking(first));
            let step = grant.current.clone();
            let expected = if is_repeated {
                repeats(&step)
            } else {
                RotationDecision::Refuse(RotationRefusal::ScopeDiffers)
            };
            assert_eq!(
                rotate(&mut grant, &asking(again)),
                expected,
                "{first}, {again}"
            );
            assert_eq!(grant.current, step);
        }
        let mut grant = grant();
        rotate(&mut grant, &asking(""));
        let without_b = client().with_scopes("a");
        let repeated = grant.rotate(&asking(""), Some(&without_b), Some(&user()));
        let step = RefreshStep {
            scope: Scope::parse("a").unwrap(),
            ..grant.current.clone()
        };
        let asked = Scope::parse("a b").unwrap();
        assert_eq!(repeated, RotationDecision::Repeat { step, asked });
    }

    #[test]
    fn a_grant_ends_with_what_it_rests_on() {
        let disabled = client().disabled();
        let unlinked = user().with_accounts(&[]);
        let other_password = User {
            credentials_version: CredentialsVersion::new(1),
            ..user()
        };
        for (client, user) in [
            (None, Some(user())),
            (Some(disabled), Some(user())),
            (Some(client()), None),
            (Some(client()), Some(unlinked)),
            (Some(client()), Some(other_password)),
        ] {
            let mut grant = grant();
            let decision = grant.rotate(&use_of(1, 2, at(5)), client.as_ref(), user.as_ref());
            let revoked = Rotation::Refused(RotationRefusal::Revoked);
            assert_eq!(decision, RotationDecision::Revoke(revoked));
            assert_eq!(grant.revoked_at, Some(at(5)));
        }
    }

    fn public() -> Client {
        testing::installed("web", &[]).with_scopes("a b")
    }

    /// Uses a token with a proof of this key.
    fn with(
        grant: &mut Grant,
        client: &Client,
        key: Option<&[u8]>,
        (token, next): (u8, u8),
    ) -> RotationDecision {
        let rotation = RefreshRotation {
            key: key.map(Thumbprint::of),
            ..use_of(token, next, at(5))
        };
        grant.rotate(&rotation, Some(client), Some(&user()))
    }

    const OTHER_KEY: RotationDecision = RotationDecision::Refuse(RotationRefusal::OtherKey);

    #[test]
    fn rfc9449_s5_the_first_proof_of_a_public_client_binds_its_refresh_tokens() {
        let (mut grant, app) = (grant(), public());
        assert_eq!(with(&mut grant, &app, None, (1, 2)), rotates("a b"));
        assert_eq!(grant.binding, None);
        assert_eq!(with(&mut grant, &app, Some(b"key"), (2, 3)), rotates("a b"));
        assert_eq!(grant.binding, Some(Thumbprint::of(b"key")));
        let before = grant.clone();
        for wrong in [None, Some(b"other".as_slice())] {
            for token in [1, 2, 3, 9] {
                let refused = with(&mut grant, &app, wrong, (token, 4));
                assert_eq!(refused, OTHER_KEY, "{token} {wrong:?}");
            }
        }
        assert_eq!(grant, before, "a leaked token alone changes nothing");
        assert_eq!(with(&mut grant, &app, Some(b"key"), (3, 4)), rotates("a b"));
    }

    #[test]
    fn rfc9449_s5_refresh_tokens_of_confidential_clients_are_not_bound() {
        let (mut grant, web) = (grant(), client());
        for (key, step) in [
            (Some(b"key".as_slice()), (1, 2)),
            (Some(b"other"), (2, 3)),
            (None, (3, 4)),
        ] {
            assert_eq!(with(&mut grant, &web, key, step), rotates("a b"));
            assert_eq!(grant.binding, None);
        }
    }

    /// D-39.
    #[test]
    fn rfc9449_s5_a_repetition_does_not_bind() {
        let (mut grant, app) = (grant(), public());
        assert_eq!(with(&mut grant, &app, None, (1, 2)), rotates("a b"));
        let answered = grant.current.clone();
        let refused = with(&mut grant, &app, Some(b"key"), (1, 3));
        assert_eq!(refused, OTHER_KEY);
        assert_eq!(with(&mut grant, &app, None, (1, 3)), repeats(&answered));
        let repeated = with(&mut grant, &client(), Some(b"key"), (1, 3));
        assert_eq!(repeated, repeats(&answered), "a confidential client");
        assert_eq!(grant.binding, None);
    }
}
