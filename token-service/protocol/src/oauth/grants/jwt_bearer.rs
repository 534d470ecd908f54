//! JWT bearer: a non-interactive client acts for the user in its assertion (protocol.md §4.2, RFC 7523).
//!
//! Parameters: `assertion`, `user_id`, `user_site`, `scope`.

use super::{answer_without_refresh, ensure_not_too_early, registered_scope};
use crate::Context;
use crate::oauth::account_selection::{NamedAccount, one_place, select};
use crate::oauth::assertion::{AssertionError, Unverified};
use crate::oauth::client_authentication::PresentedClient;
use crate::oauth::error::{TokenError, required};
use crate::oauth::parameter::Parameter;
use crate::oauth::parameters::Parameters;
use crate::oauth::possession::Possession;
use crate::oauth::token_response::TokenResponse;
use domain::amr;
use domain::{IntegrationType, User};
use store::{OnceId, Use};

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
    let assertion = Unverified::parse(text)?
        .of_user(
            &client.client_id,
            certificates,
            context.settings,
            context.now,
        )
        .verify()?;
    let body = NamedAccount {
        user_id: form.get(Parameter::UserId),
        user_site: form.get(Parameter::UserSite),
    };
    let named = one_place(assertion.named_account(), body)?;
    let user = context.directory.user(&assertion.subject).await?;
    let user = user
        .filter(|user| is_subject(user, organization.as_deref()))
        .ok_or(AssertionError::Subject)?;
    let account = select(&user.accounts, named)?;
    ensure_not_too_early(context, client, &user)?;
    let binding = possession.use_up(context).await?;
    let id = OnceId::of_user_assertion(&client.client_id, &assertion.jti);
    let until = assertion.remembered_until;
    match context.store.use_once(id, until, context.now).await? {
        Use::First => {
            let amr = amr::USER_ASSERTION;
            answer_without_refresh(context, client, &user, account, amr, &scope, binding)
        }
        Use::Again => Err(AssertionError::Replayed.into()),
    }
}

/// True if assertions of a client with this organization may name `user` (D-19).
pub fn is_subject(user: &User, organization: Option<&str>) -> bool {
    organization.is_none() || user.organization.as_deref() == organization
}

#[cfg(test)]
mod tests {
    use super::*;

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
