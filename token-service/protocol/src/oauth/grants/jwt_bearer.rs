//! JWT bearer: a non-interactive client acts for the user in an assertion, its own or an identity provider's (protocol.md §4.2, RFC
//! 7523).
//!
//! Parameters: `assertion`, `user_id`, `user_site`, `scope`.

use std::sync::Arc;

use super::{answer_without_refresh, ensure_not_too_early, registered_scope};
use crate::Context;
use crate::oauth::account_selection::{NamedAccount, one_place, select};
use crate::oauth::assertion::identity::IdentityAssertion;
use crate::oauth::assertion::provider::ProviderToken;
use crate::oauth::assertion::{AssertionError, Subject, Unverified};
use crate::oauth::client_authentication::PresentedClient;
use crate::oauth::error::{TokenError, required};
use crate::oauth::parameter::Parameter;
use crate::oauth::parameters::Parameters;
use crate::oauth::possession::Possession;
use crate::oauth::token_response::TokenResponse;
use domain::amr;
use domain::{ClientId, IntegrationType, Scope, User};
use store::{OnceId, StoreError, Use};

/// Exchanges a user assertion for an access token.
///
/// Claims the `jti` last, durably, so a request that is refused for another reason does not use up the `jti`.
pub async fn exchange(
    context: &Context<'_>,
    presented: &PresentedClient,
    form: &Parameters<'_>,
    possession: Possession,
) -> Result<TokenResponse, TokenError> {
    let client = presented.client();
    let IntegrationType::NonInteractive {
        certificates,
        organization,
        ..
    } = &client.integration
    else {
        return Err(TokenError::GrantNotPermitted);
    };
    let text = required(form, Parameter::Assertion)?;
    let scope = registered_scope(client, form)?;
    let unverified = Unverified::parse(text)?;
    let (settings, now) = (context.settings, context.now);
    let client_id = &client.client_id;
    let assertion = match unverified.provider(client, settings)? {
        None => unverified
            .of_user(client_id, certificates, settings, now)
            .verify()?,
        Some(provider) => {
            let keys = context.provider_keys;
            let token = ProviderToken::find(&unverified, provider, keys).await?;
            let assertion = IdentityAssertion { token, client };
            assertion.case(settings, now).verify()?
        }
    };
    let body = NamedAccount {
        user_id: form.get(Parameter::UserId),
        user_site: form.get(Parameter::UserSite),
    };
    let named = one_place(assertion.named_account(), body)?;
    let user = user(context, &assertion.subject).await?;
    let user = user
        .filter(|user| is_subject(user, organization.as_deref()))
        .ok_or_else(|| assertion.subject.unavailable())?;
    let account = select(&user.accounts, named)?;
    let scope = match &assertion.scope {
        None => scope,
        Some(allowed) => within(scope, allowed, form.get(Parameter::Scope).is_some())?,
    };
    ensure_not_too_early(context, client, &user, account)?;
    let binding = possession.use_up(context).await?;
    let id = once_id(client_id, &assertion.subject, &assertion.jti);
    match context
        .store
        .use_once(id, assertion.remembered_until, now)
        .await?
    {
        Use::First => {
            let amr = amr::USER_ASSERTION;
            let answer =
                answer_without_refresh(context, client, &user, account, amr, &scope, binding)?;
            // The client cannot know what is left of the scope in the assertion.
            let scope = assertion.scope.is_some().then_some(scope);
            Ok(TokenResponse { scope, ..answer })
        }
        Use::Again => Err(AssertionError::Replayed.into()),
    }
}

/// The scope for an assertion that allows at most `allowed`. What the client `asked` for must be allowed; the scope that it is
/// registered for is reduced.
fn within(scope: Scope, allowed: &Scope, asked: bool) -> Result<Scope, TokenError> {
    if scope.is_subset_of(allowed) {
        return Ok(scope);
    }
    match asked {
        true => Err(AssertionError::ScopeExceeded(scope.without(allowed)).into()),
        false => Ok(scope.intersection(allowed)),
    }
}

/// The id under which the store remembers an assertion.
pub fn once_id(client_id: &ClientId, subject: &Subject, jti: &str) -> OnceId {
    match subject {
        Subject::Username(_) => OnceId::of_user_assertion(client_id, jti),
        Subject::Identity(identity) => OnceId::of_provider_assertion(&identity.issuer, jti),
    }
}

/// The enabled user whom an assertion is about.
pub async fn user(
    context: &Context<'_>,
    subject: &Subject,
) -> Result<Option<Arc<User>>, StoreError> {
    match subject {
        Subject::Username(username) => context.directory.user(username).await,
        Subject::Identity(identity) => context.directory.user_of_identity(identity).await,
    }
}

/// True if assertions of a client with this organization may name `user` (D-19).
pub fn is_subject(user: &User, organization: Option<&str>) -> bool {
    organization.is_none() || user.organization.as_deref() == organization
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::testing::scope;

    #[test]
    fn an_assertion_limits_the_scope() {
        let allowed = scope("a b");
        for (of_client, asked, expected) in [
            ("a b", false, Ok("a b")),
            ("a", false, Ok("a")),
            ("b c", false, Ok("b")),
            ("b", true, Ok("b")),
            (
                "b c",
                true,
                Err(AssertionError::ScopeExceeded(scope("c")).into()),
            ),
        ] {
            let within = within(scope(of_client), &allowed, asked);
            assert_eq!(within, expected.map(scope), "{of_client}");
        }
    }

    /// D-19.
    #[test]
    fn a_client_of_an_organization_names_only_its_users() {
        let user = |organization: Option<&str>| User {
            organization: organization.map(str::to_owned),
            ..domain::testing::user("ada", &[])
        };
        for (of_user, of_client, may_be_named) in [
            (None, None, true),
            (Some("majestic"), None, true),
            (Some("majestic"), Some("majestic"), true),
            (Some("other"), Some("majestic"), false),
            (None, Some("majestic"), false),
        ] {
            assert_eq!(is_subject(&user(of_user), of_client), may_be_named);
        }
    }
}
