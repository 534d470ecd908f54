//! Client credentials: a user-bound client acts as its bound user (protocol.md §4.2, §5.7, RFC 6749 §4.4).
//!
//! Parameters: `user_id`, `user_site`, `scope`.

use super::{answer_without_refresh, ensure_not_too_early, registered_scope};
use crate::Context;
use crate::oauth::account_selection::{NamedAccount, select};
use crate::oauth::client_authentication::PresentedClient;
use crate::oauth::error::TokenError;
use crate::oauth::parameter::Parameter;
use crate::oauth::parameters::Parameters;
use crate::oauth::possession::Possession;
use crate::oauth::token_response::TokenResponse;
use domain::amr;

/// Issues an access token for the bound user. Nothing is stored.
pub async fn issue(
    context: &Context<'_>,
    presented: &PresentedClient,
    form: &Parameters<'_>,
    possession: Possession,
) -> Result<TokenResponse, TokenError> {
    let client = presented.client();
    let bound_user = client.bound_user().ok_or(TokenError::GrantNotPermitted)?;
    let scope = registered_scope(client, form)?;
    let user = context
        .directory
        .user(bound_user.as_str())
        .await?
        .ok_or(TokenError::BoundUserGone)?;
    let named = NamedAccount {
        user_id: form.get(Parameter::UserId),
        user_site: form.get(Parameter::UserSite),
    };
    let account = select(&user.accounts, named)?;
    ensure_not_too_early(context, client, &user, account)?;
    let binding = possession.use_up(context).await?;
    answer_without_refresh(
        context,
        client,
        &user,
        account,
        amr::CLIENT_CREDENTIALS,
        &scope,
        binding,
    )
}
