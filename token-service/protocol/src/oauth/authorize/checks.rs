//! The checks of an authorization request, one function each.

use std::sync::Arc;

use claims::Thumbprint;

use super::Prompt;
use super::error::UnsafeRequest;
use super::redirect_error::RedirectError;
use crate::oauth::parameters::{Parameters, Repeated};
use domain::{Client, IntegrationType, RedirectUri, Scope, amr};

/// `client_id` is required and not repeated.
pub(super) fn client_id<'a>(
    parameters: &'a Parameters<'_>,
    repeated: &Repeated<'_>,
) -> Result<&'a str, UnsafeRequest> {
    if repeated.contains("client_id") {
        return Err(UnsafeRequest::ClientIdRepeated);
    }
    parameters
        .get("client_id")
        .ok_or(UnsafeRequest::ClientIdMissing)
}

/// `client_id` names an enabled client whose integration type has a browser step (protocol.md §1).
pub(super) fn client(found: Option<Arc<Client>>) -> Result<Arc<Client>, UnsafeRequest> {
    let client = found.ok_or(UnsafeRequest::ClientUnknown)?;
    match client.integration {
        IntegrationType::WebServer { .. } | IntegrationType::Installed { .. } => Ok(client),
        IntegrationType::NonInteractive { .. }
        | IntegrationType::UserBound { .. }
        | IntegrationType::Legacy { .. } => Err(UnsafeRequest::ClientUnauthorized),
    }
}

/// `redirect_uri` is required (protocol.md §4.1) and equals, as text, a redirect URI of the client (RFC 9700 §2.1).
pub(super) fn redirect_uri(
    parameters: &Parameters<'_>,
    repeated: &Repeated<'_>,
    client: &Client,
) -> Result<RedirectUri, UnsafeRequest> {
    if repeated.contains("redirect_uri") {
        return Err(UnsafeRequest::RedirectUriRepeated);
    }
    let sent = parameters
        .get("redirect_uri")
        .ok_or(UnsafeRequest::RedirectUriMissing)?;
    client
        .registered_redirect_uri(sent)
        .ok_or(UnsafeRequest::RedirectUriUnregistered)
}

/// RFC 9126 §6: the client may be registered for pushed requests only.
pub(super) fn pushed(is_pushed: bool, client: &Client) -> Result<(), RedirectError> {
    let may_come = is_pushed || !client.require_pushed_authorization_requests;
    may_come.then_some(()).ok_or(RedirectError::NotPushed)
}

/// RFC 6749 §3.1: "Request and response parameters MUST NOT be included more than once."
pub(super) fn repeated(repeated: &Repeated<'_>) -> Result<(), RedirectError> {
    let name = repeated.first().map(ToString::to_string);
    name.map_or(Ok(()), |name| Err(RedirectError::ParameterRepeated(name)))
}

/// `response_type` is `code` (protocol.md §4.1); the implicit grant does not exist (RFC 9700 §2.1.2).
pub(super) fn response_type(parameters: &Parameters<'_>) -> Result<(), RedirectError> {
    match parameters.get("response_type") {
        Some("code") => Ok(()),
        Some(_) => Err(RedirectError::ResponseTypeUnsupported),
        None => Err(RedirectError::ResponseTypeMissing),
    }
}

/// `dpop_jkt` is the thumbprint of the key of the token request's proof (RFC 9449 §10).
pub(super) fn dpop_jkt(parameters: &Parameters<'_>) -> Result<Option<Thumbprint>, RedirectError> {
    let sent = parameters.get("dpop_jkt");
    let parsed = sent.map(|sent| Thumbprint::parse(sent).ok_or(RedirectError::DpopKeyMalformed));
    parsed.transpose()
}

/// `scope` is a subset of the client's registered scopes; if absent, all of them (D-9).
pub(super) fn scope(parameters: &Parameters<'_>, client: &Client) -> Result<Scope, RedirectError> {
    let Some(sent) = parameters.get("scope") else {
        return Ok(client.scopes.clone());
    };
    let scope = Scope::parse(sent).ok_or(RedirectError::ScopeMalformed)?;
    let excess = scope.without(&client.scopes);
    match excess.is_empty() {
        true => Ok(scope),
        false => Err(RedirectError::ScopeNotPermitted(excess)),
    }
}

/// `prompt` is a list of known values; `none` allows no other value (OpenID Connect Core §3.1.2.1).
pub(super) fn prompt(parameters: &Parameters<'_>) -> Result<Prompt, RedirectError> {
    let Some(sent) = parameters.get("prompt") else {
        return Ok(Prompt::WhenNeeded);
    };
    if sent == "none" {
        return Ok(Prompt::Never);
    }
    sent.split(' ')
        .try_fold(Prompt::WhenNeeded, |prompt, value| match value {
            "login" => Some(Prompt::Login),
            "consent" | "select_account" => Some(prompt),
            _ => None,
        })
        .ok_or(RedirectError::PromptUnsupported)
}

/// True if `acr_values` asks for a second factor. Other values are ignored if this one is among them (OpenID Connect Core §3.1.2.1),
/// and cannot be met otherwise (RFC 9470 §5).
pub(super) fn acr_values(parameters: &Parameters<'_>) -> Result<bool, RedirectError> {
    let Some(sent) = parameters.get("acr_values") else {
        return Ok(false);
    };
    match sent.split(' ').any(|value| value == amr::MULTI_FACTOR) {
        true => Ok(true),
        false => Err(RedirectError::AcrValuesUnmet),
    }
}

/// `max_age` is a number of seconds (OpenID Connect Core §3.1.2.1).
pub(super) fn max_age(parameters: &Parameters<'_>) -> Result<Option<u64>, RedirectError> {
    let Some(sent) = parameters.get("max_age") else {
        return Ok(None);
    };
    Some(sent)
        .filter(|sent| sent.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|sent| sent.parse().ok())
        .map(Some)
        .ok_or(RedirectError::MaxAgeMalformed)
}
