//! Authorization code (protocol.md §4.2, RFC 6749 §4.1.3, RFC 7636 §4.5).
//!
//! Parameters: `code`, `redirect_uri`, `code_verifier`, `scope`.

use std::sync::Arc;

use super::{answer_step, redeemed, requested_scope};
use crate::Context;
use crate::oauth::client_authentication::PresentedClient;
use crate::oauth::error::{TokenError, required};
use crate::oauth::parameter::Parameter;
use crate::oauth::parameters::Parameters;
use crate::oauth::pkce;
use crate::oauth::possession::Possession;
use crate::oauth::sealed_code;
use crate::oauth::token_response::TokenResponse;
use domain::{FirstStep, IntegrationType, PresentedCode, TokenId};

/// Exchanges a code for tokens.
///
/// # Errors
/// A [`TokenError`]; a code that does not match the request stays valid for its client (D-2).
pub async fn exchange(
    context: &Context<'_>,
    presented: &PresentedClient,
    form: &Parameters<'_>,
    possession: Possession,
) -> Result<TokenResponse, TokenError> {
    let client = presented.client();
    let verifier = form.get(Parameter::CodeVerifier);
    match client.integration {
        IntegrationType::Installed { .. } | IntegrationType::WebServer { .. } => {}
        IntegrationType::NonInteractive { .. }
        | IntegrationType::UserBound { .. }
        | IntegrationType::Legacy { .. } => return Err(TokenError::GrantNotPermitted),
    }
    let code = required(form, Parameter::Code)?;
    let redirect_uri = required(form, Parameter::RedirectUri)?;
    let challenge_of = |verifier| pkce::challenge_of(verifier).ok_or(TokenError::MalformedVerifier);
    let verifier_digest = verifier.map(challenge_of).transpose()?;
    let code_presented = PresentedCode {
        client_id: client.client_id.clone(),
        redirect_uri: redirect_uri.to_owned(),
        verifier_digest,
        client_authenticated: presented.is_authenticated(),
        proven: possession.proven(),
    };
    let (issuer, key) = (&context.settings.issuer, context.encryption_key);
    let code = sealed_code::open(code, issuer, key).ok_or(TokenError::UnknownCode)?;
    // Before the proof is used up, and again with the code.
    code.concerns(&code_presented, context.now)
        .map_err(TokenError::Code)?;
    let first = FirstStep {
        refresh_id: TokenId::generate(context.random)?,
        access_id: TokenId::generate(context.random)?,
        scope: requested_scope(form)?,
        issued_at: context.now,
        refresh_expires_at: context.now + context.settings.lifetimes.refresh_token,
        second_factor: Arc::clone(&context.settings.second_factor),
    };
    let binding = possession.use_up(context).await?;
    let store = context.store;
    let redemption = store.redeem_code(code, code_presented, first, context.now);
    let issued = redeemed(redemption.await?)?;
    answer_step(context, &issued, binding)
}
