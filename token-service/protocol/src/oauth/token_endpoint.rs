//! The steps of the token endpoint, in order (protocol.md §4.2). Each step takes the result of the previous step.

use super::client_authentication::{PresentedClient, Served};
use super::endpoint_request::EndpointRequest;
use super::error::{TokenError, required};
use super::grants::{GrantType, authorization_code, client_credentials, jwt_bearer, refresh_token};
use super::parameter::Parameter;
use super::parameters::Parameters;
use super::possession::Possession;
use super::token_response::TokenResponse;
use crate::Context;

/// The parts of a request for the log, without secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    pub client_id: Option<String>,
    pub grant_type: Option<GrantType>,
}

/// Handles one token request. Fills `trace` as parts of the request become known.
///
/// # Errors
/// The [`TokenError`] of the first failed step.
pub async fn answer(
    context: &Context<'_>,
    request: &EndpointRequest<'_>,
    trace: &mut Trace,
) -> Result<TokenResponse, TokenError> {
    let (form, client) = request.open(context, Served::Current).await?;
    client.note_use(context);
    trace.client_id = Some(client.client().client_id.to_string());
    let grant_type = read_grant_type(&form)?;
    trace.grant_type = Some(grant_type);
    // Before the grant: a client that has not authenticated learns nothing of its registration.
    ensure_authenticated(grant_type, &client, &form)?;
    let possession = Possession::check(context, request, client.client())?;
    issue(context, grant_type, &client, &form, possession).await
}

/// Every grant needs an authenticated client, or a public one. A code verifier may replace the secret (D-25).
fn ensure_authenticated(
    grant_type: GrantType,
    client: &PresentedClient,
    form: &Parameters<'_>,
) -> Result<(), TokenError> {
    let has_verifier = grant_type == GrantType::AuthorizationCode
        && client.client().may_prove_by_verifier()
        && form.get(Parameter::CodeVerifier).is_some();
    match has_verifier {
        true => Ok(()),
        false => client.fully_authenticated().map(drop),
    }
}

async fn issue(
    context: &Context<'_>,
    grant_type: GrantType,
    client: &PresentedClient,
    form: &Parameters<'_>,
    possession: Possession,
) -> Result<TokenResponse, TokenError> {
    match grant_type {
        GrantType::AuthorizationCode => {
            authorization_code::exchange(context, client, form, possession).await
        }
        GrantType::RefreshToken => refresh_token::refresh(context, client, form, possession).await,
        GrantType::JwtBearer => jwt_bearer::exchange(context, client, form, possession).await,
        GrantType::ClientCredentials => {
            client_credentials::issue(context, client, form, possession).await
        }
    }
}

/// D-4: an unknown `grant_type` is `invalid_grant`; a missing `grant_type` is a malformed request.
fn read_grant_type(form: &Parameters<'_>) -> Result<GrantType, TokenError> {
    let name = required(form, Parameter::GrantType)?;
    name.parse().map_err(|_| TokenError::UnknownGrantType)
}
