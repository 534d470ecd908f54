//! Pushed authorization requests (protocol.md §4.13, D-47, RFC 9126): the client sends the parameters of its authorization
//! request to the service, and the browser carries only a reference. The reference contains the request, sealed, so
//! pushing writes nothing.

mod error;
mod sealed;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

use super::authorize::{
    AuthorizationRequest, AuthorizeError, IssueError, Once, RedirectError, UnidentifiedRequest,
    UnsafeRequest,
};
use super::client_authentication::Served;
use super::endpoint_request::EndpointRequest;
use super::error::TokenError;
use super::proof::PresentedProof;
use crate::Context;
use crate::paths::PUSHED;
use domain::{Client, GrantId};

pub use error::PushError;
use sealed::PushedRequest;

/// Time from the push to the first visit of the browser (RFC 9126 §2.2 recommends 5 to 600 seconds).
pub const LIFETIME: Duration = Duration::from_secs(60);

/// Time from the push to the code if the browser has come in time, for the person to sign in.
const JOURNEY_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// The response (RFC 9126 §2.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Pushed {
    pub request_uri: String,
    /// Time until a browser must come, in seconds.
    pub expires_in: u64,
}

/// Handles one request to the endpoint. A DPoP proof names the key to which the code is bound, as `dpop_jkt` does (RFC 9449
/// §10.1).
///
/// # Errors
/// A [`PushError`]: the first failed check of client authentication, authorization request, proof.
pub async fn push(context: &Context<'_>, call: &EndpointRequest<'_>) -> Result<Pushed, PushError> {
    let (form, presented) = call.open(context, Served::Current).await?;
    presented.note_use(context);
    let client = presented.fully_authenticated()?;
    if form.contains("request_uri") {
        return Err(PushError::RequestUri);
    }
    let request = UnidentifiedRequest::of_pushed(form)?;
    let mut query = request.first_query();
    let named = request
        .validate(Some(Arc::clone(client)), context.now)?
        .dpop_jkt();
    let proof = PresentedProof::check(context, call, PUSHED, false, named)?;
    if let (None, Some(key)) = (named, proof.key()) {
        query.push_str(&format!("&dpop_jkt={key}"));
    }
    proof.use_up(context, context.pushed_proofs).await?;
    let pushed = PushedRequest {
        id: GrantId::generate(context.random, context.now)?,
        client_id: client.client_id.clone(),
        query,
        pushed_at: context.now,
        is_visited: false,
    };
    let request_uri = pushed.seal::<TokenError>(context)?;
    if request_uri.len() > MAX_URI_BYTES {
        return Err(UnsafeRequest::TooLarge.into());
    }
    Ok(Pushed {
        request_uri,
        expires_in: LIFETIME.as_secs(),
    })
}

/// Longest `request_uri`, in bytes: pages pass it on, with `client_id` and `ui_locales`.
const MAX_URI_BYTES: usize = super::authorize::MAX_CARRIED_BYTES - 1024;

/// A visit of a browser with the `request_uri` that the client `client_id` pushed.
#[derive(Debug)]
pub struct Visit(PushedRequest);

impl Visit {
    /// # Errors
    /// [`UnsafeRequest::RequestUriUnknown`] if this service did not return `request_uri` to this client.
    pub fn of(
        context: &Context<'_>,
        client_id: &str,
        request_uri: &str,
    ) -> Result<Self, UnsafeRequest> {
        PushedRequest::open(context, request_uri)
            .filter(|pushed| pushed.client_id.as_str() == client_id)
            .map(Self)
            .ok_or(UnsafeRequest::RequestUriUnknown)
    }

    /// Checks the request again, because the registration may have changed. `found` is the enabled client of the request.
    ///
    /// # Errors
    /// As [`UnidentifiedRequest::validate`], and [`RedirectError::RequestUriExpired`].
    pub fn validate(
        &self,
        context: &Context<'_>,
        found: Option<Arc<Client>>,
    ) -> Result<AuthorizationRequest, AuthorizeError> {
        let request = UnidentifiedRequest::read_pushed(self.0.query.as_bytes())?;
        let request = request.validate(found, context.now)?;
        let lifetime = match self.0.is_visited {
            false => LIFETIME,
            true => JOURNEY_LIFETIME,
        };
        if context.now >= self.0.pushed_at + lifetime {
            let destination = request.destination().clone();
            return Err(AuthorizeError::Redirect(
                destination,
                RedirectError::RequestUriExpired,
            ));
        }
        Ok(request)
    }

    /// The request with a new reference for the pages, under which the journey may take [`JOURNEY_LIFETIME`]. What takes
    /// effect only once, such as `prompt`, is left out.
    ///
    /// # Errors
    /// An [`IssueError`] if there is no randomness.
    pub fn carry_on(
        self,
        context: &Context<'_>,
        request: AuthorizationRequest,
    ) -> Result<AuthorizationRequest, IssueError> {
        let carried = |query: String| PushedRequest {
            query,
            is_visited: true,
            ..self.0.clone()
        };
        let continuation = carried(request.continuation_query().to_owned());
        let again = carried(format!("{}&prompt=login", request.continuation_query()));
        let once = Once {
            grant_id: self.0.id,
            sign_in_again: again.seal::<IssueError>(context)?,
            // Until every reference has expired, whichever way the clocks of replicas differ.
            remembered_until: self.0.pushed_at
                + JOURNEY_LIFETIME
                + context.settings.lifetimes.clock_skew,
        };
        let request_uri = continuation.seal::<IssueError>(context)?;
        Ok(request.of_pushed(&request_uri, once))
    }
}
