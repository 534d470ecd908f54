//! The grants (protocol.md §4.2), one file each. Each takes parameters and returns a token response or an error.

pub mod authorization_code;
pub mod client_credentials;
pub mod jwt_bearer;
pub mod refresh_token;

use std::sync::Arc;
use std::time::Duration;

use strum::{EnumString, IntoStaticStr, VariantArray};

use super::error::TokenError;
use super::parameter::Parameter;
use super::parameters::Parameters;
use super::token_response::{Authorization, Issuance, TokenResponse};
use crate::Context;
use crate::token::{AccessToken, Binding, GrantedTo};
use domain::clock::Timestamp;
use domain::{
    Client, Grant, GrantId, LinkedAccount, Redemption, RefreshRotation, RefreshStep, Rotation,
    Scope, TokenId, User, wait_for_tokens,
};

/// A grant type that this endpoint knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum GrantType {
    /// `authorization_code` (RFC 6749 §4.1.3).
    AuthorizationCode,
    /// `refresh_token` (RFC 6749 §6).
    RefreshToken,
    /// `urn:ietf:params:oauth:grant-type:jwt-bearer` (RFC 7523 §2.1).
    #[strum(serialize = "urn:ietf:params:oauth:grant-type:jwt-bearer")]
    JwtBearer,
    /// `client_credentials` (RFC 6749 §4.4).
    ClientCredentials,
}

impl GrantType {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// The value of `grant_type`.
    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

/// Reads the `scope` parameter (D-9).
fn requested_scope(form: &Parameters<'_>) -> Result<Option<Scope>, TokenError> {
    form.get(Parameter::Scope)
        .map(|text| Scope::parse(text).ok_or(TokenError::MalformedScope))
        .transpose()
}

/// The scope for a grant without an authorization by the user: the requested scope, if registered (D-9).
fn registered_scope(client: &Client, form: &Parameters<'_>) -> Result<Scope, TokenError> {
    match requested_scope(form)? {
        None => Ok(client.scopes.clone()),
        Some(scope) if scope.is_subset_of(&client.scopes) => Ok(scope),
        Some(scope) => Err(TokenError::ScopeNotPermitted(scope.without(&client.scopes))),
    }
}

/// A step of a grant for which the service issues tokens.
#[derive(Debug)]
pub(crate) struct IssuedStep {
    pub(crate) grant: Grant,
    pub(crate) step: RefreshStep,
    pub(crate) issuance: Issuance,
    /// The scope that the client requested.
    pub(crate) asked: Scope,
}

impl IssuedStep {
    /// Time until the access token expires, which the response contains (RFC 6749 §5.1). The tokens of a repeated response are
    /// older than the response. `lifetime`: from the issue of the access token.
    pub(crate) fn expires_in(&self, lifetime: Duration, now: Timestamp) -> Duration {
        lifetime.saturating_sub(now.since(self.step.issued_at))
    }
}

/// The first step of the grant that redeeming a code created.
pub(crate) fn redeemed(redemption: Redemption) -> Result<IssuedStep, TokenError> {
    match redemption {
        Redemption::Redeemed { grant, step } => Ok(IssuedStep {
            asked: grant.current.scope.clone(),
            grant: *grant,
            step,
            issuance: Issuance::First,
        }),
        Redemption::Replayed(grant_id) => Err(TokenError::CodeReplayed(grant_id)),
        Redemption::Mismatch(mismatch) => Err(TokenError::Code(mismatch)),
        Redemption::TooEarly(wait) => Err(TokenError::TooEarly(wait)),
        Redemption::Unknown => Err(TokenError::UnknownCode),
    }
}

/// Uses a refresh token (RFC 6749 §6, D-3). `lifetime`: of the access token.
pub(crate) async fn rotate(
    context: &Context<'_>,
    rotation: RefreshRotation,
    lifetime: Duration,
) -> Result<IssuedStep, TokenError> {
    let access_id = rotation.next_access_id;
    match context.store.rotate_refresh(rotation).await? {
        Rotation::Rotated { grant, step, asked } => Ok(IssuedStep {
            grant: *grant,
            step,
            issuance: Issuance::Refreshed,
            asked,
        }),
        Rotation::Repeated { grant, step, asked } => Ok(IssuedStep {
            grant: *grant,
            step: match context.now < step.issued_at + lifetime {
                true => step,
                // The grace is longer than the life of the access token.
                false => RefreshStep {
                    access_id,
                    issued_at: context.now,
                    ..step
                },
            },
            issuance: Issuance::Repeated,
            asked,
        }),
        Rotation::Reused(grant_id) => Err(TokenError::RefreshReused(grant_id)),
        Rotation::Refused(refusal) => Err(TokenError::Refresh(refusal)),
    }
}

/// The response with access and refresh token for one step of a grant.
fn answer_step(
    context: &Context<'_>,
    issued: &IssuedStep,
    binding: Binding,
) -> Result<TokenResponse, TokenError> {
    let IssuedStep {
        grant,
        step,
        issuance,
        asked,
    } = issued;
    let mint = context.mint();
    Ok(TokenResponse::new(
        mint.access_token(GrantedTo::from(grant), AccessToken::of(step, binding))?,
        issued.expires_in(context.settings.lifetimes.access_token, context.now),
        Some(mint.refresh_token(grant, step)?),
        (step.scope != *asked).then(|| step.scope.clone()),
        Authorization::of(grant, *issuance, binding),
    ))
}

/// Refuses tokens that would be revoked already.
fn ensure_not_too_early(
    context: &Context<'_>,
    client: &Client,
    user: &User,
    account: &LinkedAccount,
) -> Result<(), TokenError> {
    wait_for_tokens(client, user, account, context.now)
        .map_or(Ok(()), |wait| Err(TokenError::TooEarly(wait)))
}

/// The response with only an access token, which has its own grant id (protocol.md §4.2 rule 3).
fn answer_without_refresh(
    context: &Context<'_>,
    client: &Arc<Client>,
    user: &Arc<User>,
    account: &LinkedAccount,
    amr: &str,
    scope: &Scope,
    binding: Binding,
) -> Result<TokenResponse, TokenError> {
    let grant_id = GrantId::generate(context.random, context.now)?;
    let subject = GrantedTo {
        client_id: &client.client_id,
        username: &user.username,
        account,
        amr: &[amr.to_owned()],
        authenticated_at: None,
        grant_id,
    };
    let token = AccessToken {
        id: TokenId::generate(context.random)?,
        scope,
        issued_at: context.now,
        binding,
    };
    let identity = context.identity_tokens.token(
        context.settings,
        context.keys.signing(),
        client,
        user,
        token.id,
        context.now,
    )?;
    Ok(TokenResponse::new(
        context
            .mint()
            .access_token_around(subject, token, &identity)?,
        context.settings.lifetimes.access_token,
        None,
        None,
        Authorization {
            client_id: client.client_id.clone(),
            username: user.username.clone(),
            grant_id,
            issuance: Issuance::First,
            binding,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::testing::{self, installed, scope};

    #[test]
    fn a_repeated_response_expires_as_the_first_one() {
        let at = Timestamp::from_seconds(1_800_000_000);
        let hour = Duration::from_secs(3600);
        let grant = testing::grant("a", at, at + hour);
        let step = IssuedStep {
            step: grant.current.clone(),
            issuance: Issuance::Repeated,
            asked: scope("a"),
            grant,
        };
        for (later, left) in [(0, 3600), (20, 3580), (3601, 0)] {
            let now = at + Duration::from_secs(later);
            assert_eq!(step.expires_in(hour, now), Duration::from_secs(left));
        }
    }

    /// D-9.
    #[test]
    fn a_client_gets_the_scopes_that_it_is_registered_for() {
        let client = installed("app", &[]).with_scopes("a b");
        let exceeded = TokenError::ScopeNotPermitted(scope("c"));
        for (form, expected) in [
            ("", Ok(scope("a b"))),
            ("scope=a", Ok(scope("a"))),
            ("scope=c+a", Err(exceeded)),
            ("scope=%22", Err(TokenError::MalformedScope)),
        ] {
            let form = Parameters::parse(form.as_bytes()).unwrap();
            assert_eq!(registered_scope(&client, &form), expected, "{form:?}");
        }
    }
}
