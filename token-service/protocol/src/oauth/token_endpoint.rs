//! The token endpoint's steps, in their order (protocol.md §4.2): each takes what the one before returned.

use super::client_authentication::PresentedClient;
use super::endpoint_request::EndpointRequest;
use super::error::{TokenError, required};
use super::grants::{GrantType, authorization_code, client_credentials, jwt_bearer, refresh_token};
use super::parameter::Parameter;
use super::parameters::Parameters;
use super::token_response::TokenResponse;
use crate::Context;

/// What the log may know of a request: nothing that is secret.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// The client, once one is known.
    pub client_id: Option<String>,
    /// The client that a request without a known client claims to come from.
    pub claimed_client: Option<String>,
    /// The grant, once one is known.
    pub grant_type: Option<GrantType>,
}

/// Answers one token request. `trace` is filled as the request becomes known.
///
/// # Errors
/// A [`TokenError`], the first that a step finds.
pub async fn answer(
    context: &Context<'_>,
    request: &EndpointRequest<'_>,
    trace: &mut Trace,
) -> Result<TokenResponse, TokenError> {
    let opened = request.open(context.registry);
    if opened.is_err() {
        trace.claimed_client = request.claimed_client();
    }
    let (form, client) = opened?;
    client.note_use(context);
    trace.client_id = Some(client.client().client_id.to_string());
    let grant_type = read_grant_type(&form)?;
    trace.grant_type = Some(grant_type);
    issue(context, grant_type, &client, &form).await
}

async fn issue(
    context: &Context<'_>,
    grant_type: GrantType,
    client: &PresentedClient,
    form: &Parameters<'_>,
) -> Result<TokenResponse, TokenError> {
    match grant_type {
        GrantType::AuthorizationCode => authorization_code::exchange(context, client, form).await,
        GrantType::RefreshToken => refresh_token::refresh(context, client, form).await,
        GrantType::JwtBearer => jwt_bearer::exchange(context, client, form).await,
        GrantType::ClientCredentials => client_credentials::issue(context, client, form),
    }
}

/// D-4: an unknown `grant_type` is `invalid_grant`; an absent one is a malformed request.
fn read_grant_type(form: &Parameters<'_>) -> Result<GrantType, TokenError> {
    let name = required(form, Parameter::GrantType)?;
    GrantType::from_name(name).ok_or(TokenError::UnknownGrantType)
}
