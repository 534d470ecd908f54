//! The authorization endpoint (protocol.md §4.1): from a query to a code on the redirect URI.
//!
//! [`UnidentifiedRequest`] reads and validates the query, [`next_step`] decides what the person must do, and
//! [`issue_code`] issues the code. Pages pass on the query, not a stored request: each step validates the whole query
//! again.

mod checks;
mod code_request;
mod destination;
mod error;
mod issue;
mod issue_error;
mod recency;
mod redirect_error;
mod step;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use claims::Thumbprint;
use url::form_urlencoded;

use super::parameters::{Parameters, Repeated};
use super::{pkce, sealed_code};
use crate::Context;
use crate::lifetimes::Lifetimes;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::random;
use domain::{Client, CodeRecord, GrantId, RedirectUri, Scope, SelfContainedCode, Session};
use store::{OnceId, Use};

pub use code_request::{CodeRequest, ExpectedUser};
pub use destination::Destination;
pub use error::{AuthorizeError, UnsafeRequest};
pub use issue::issue_code;
pub use issue_error::IssueError;
use recency::Recency;
pub use redirect_error::RedirectError;
pub use step::{ClientConfirmation, Due, Goal, SignedIn, Step, next_step};

/// `prompt` (OpenID Connect Core §3.1.2.1). `consent` and `select_account` are accepted without effect: signing in is
/// the consent (protocol.md §1), and the account selector appears whenever there is a choice (protocol.md §4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prompt {
    /// Ask only what is necessary.
    WhenNeeded,
    /// Ask for the credentials even if a session is live.
    Login,
    /// Ask nothing: return a code or an error.
    Never,
}

/// A validated authorization request: the client is known and registered the redirect URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizationRequest {
    client: Arc<Client>,
    destination: Destination,
    code_challenge: Option<Digest>,
    dpop_jkt: Option<Thumbprint>,
    scope: Scope,
    prompt: Prompt,
    recency: Recency,
    /// The client asks for a second factor.
    second_factor: bool,
    login_hint: Option<String>,
    query: String,
    once: Option<Once>,
}

/// What a pushed request has beyond its parameters (RFC 9126).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once {
    /// The grant of the only code that the request yields.
    pub grant_id: GrantId,
    /// The `request_uri` of the same request with `prompt=login`.
    pub sign_in_again: String,
    /// The store remembers until this time that the request has yielded its code.
    pub remembered_until: Timestamp,
}

/// An authorization request whose client has not been looked up yet.
#[derive(Debug)]
pub struct UnidentifiedRequest<'a> {
    parameters: Parameters<'a>,
    repeated: Repeated<'a>,
    carried: String,
    is_pushed: bool,
}

impl<'a> UnidentifiedRequest<'a> {
    /// Reads the query of an authorization request (without `?`).
    ///
    /// # Errors
    /// [`UnsafeRequest`] if the query is malformed or too long.
    pub fn read(query: &'a [u8]) -> Result<Self, UnsafeRequest> {
        let (parameters, repeated) =
            Parameters::parse_unrepeated(query).map_err(UnsafeRequest::Unreadable)?;
        Self::of(parameters, repeated, false)
    }

    /// Reads the parameters of a pushed request (RFC 9126), which the service has kept.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(super) fn read_pushed(query: &'a [u8]) -> Result<Self, UnsafeRequest> {
        let parameters = Parameters::parse(query).map_err(UnsafeRequest::Unreadable)?;
        Self::of_pushed(parameters)
    }

    /// The request with the parameters that an authenticated client pushes.
    ///
    /// # Errors
    /// [`UnsafeRequest::TooLarge`].
    pub(super) fn of_pushed(parameters: Parameters<'a>) -> Result<Self, UnsafeRequest> {
        Self::of(parameters, Repeated::new(), true)
    }

    fn of(
        parameters: Parameters<'a>,
        repeated: Repeated<'a>,
        is_pushed: bool,
    ) -> Result<Self, UnsafeRequest> {
        let carried = canonical_query(&parameters, Carried::Further);
        if carried.len() > MAX_CARRIED_BYTES {
            return Err(UnsafeRequest::TooLarge);
        }
        Ok(Self {
            parameters,
            repeated,
            carried,
            is_pushed,
        })
    }

    /// The query of the whole request, as the service keeps it for the first visit.
    pub(super) fn first_query(&self) -> String {
        canonical_query(&self.parameters, Carried::First)
    }

    /// The reference to a pushed request (RFC 9126 §4).
    pub fn request_uri(&self) -> Option<&str> {
        self.parameters.get("request_uri")
    }

    /// The Client ID to look up.
    ///
    /// # Errors
    /// [`UnsafeRequest`] if `client_id` is missing or repeated.
    pub fn client_id(&self) -> Result<&str, UnsafeRequest> {
        checks::client_id(&self.parameters, &self.repeated)
    }

    /// Checks the request, which arrived at `now`. `found` is the enabled client of the current flows with
    /// [`Self::client_id`].
    ///
    /// # Errors
    /// [`AuthorizeError::Unsafe`] if the client is unknown or did not register the redirect URI,
    /// [`AuthorizeError::Redirect`] otherwise (RFC 6749 §4.1.2.1).
    pub fn validate(
        self,
        found: Option<Arc<Client>>,
        now: Timestamp,
    ) -> Result<AuthorizationRequest, AuthorizeError> {
        let Self {
            parameters,
            repeated,
            carried,
            is_pushed,
        } = self;
        let client = checks::client(found)?;
        let redirect_uri = checks::redirect_uri(&parameters, &repeated, &client)?;
        let destination = Destination::new(redirect_uri, parameters.get("state"));
        let refuse = |error| AuthorizeError::Redirect(destination.clone(), error);

        checks::pushed(is_pushed, &client).map_err(refuse)?;
        checks::repeated(&repeated).map_err(refuse)?;
        checks::response_type(&parameters).map_err(refuse)?;
        let code_challenge = pkce::challenge(&parameters, &client)
            .map_err(|error| refuse(RedirectError::Challenge(error)))?;
        let dpop_jkt = checks::dpop_jkt(&parameters).map_err(refuse)?;
        let scope = checks::scope(&parameters, &client).map_err(refuse)?;
        let prompt = checks::prompt(&parameters).map_err(refuse)?;
        let max_age = checks::max_age(&parameters).map_err(refuse)?;
        let second_factor = checks::acr_values(&parameters).map_err(refuse)?;
        let recency = Recency::of(&parameters, max_age);
        Ok(AuthorizationRequest {
            query: recency.carry_on(carried, prompt, now),
            client,
            destination,
            code_challenge,
            dpop_jkt,
            scope,
            prompt,
            recency,
            second_factor,
            login_hint: parameters.get("login_hint").map(ToOwned::to_owned),
            once: None,
        })
    }
}

impl AuthorizationRequest {
    pub(super) const fn destination(&self) -> &Destination {
        &self.destination
    }

    /// The key to which the code is bound (RFC 9449 §10).
    pub(super) const fn dpop_jkt(&self) -> Option<Thumbprint> {
        self.dpop_jkt
    }

    /// The parameters that a pushed request keeps for the steps after the first visit.
    pub(super) fn continuation_query(&self) -> &str {
        &self.query
    }

    /// The same request, which pages pass on as `request_uri`. The language of the pages stays in the query.
    pub(super) fn of_pushed(mut self, request_uri: &str, once: Once) -> Self {
        let ui_locales = form_urlencoded::parse(self.query.as_bytes())
            .find(|(name, _)| name == "ui_locales")
            .map(|(_, value)| value.into_owned());
        self.query = form_urlencoded::Serializer::new(String::new())
            .append_pair("client_id", self.client.client_id.as_str())
            .append_pair("request_uri", request_uri)
            .extend_pairs(ui_locales.map(|value| ("ui_locales", value)))
            .finish();
        self.once = Some(once);
        self
    }
}

#[async_trait(?Send)]
impl CodeRequest for AuthorizationRequest {
    fn client(&self) -> &Client {
        &self.client
    }

    fn redirect_uri(&self) -> &RedirectUri {
        self.destination.redirect_uri()
    }

    fn continuation(&self) -> &str {
        &self.query
    }

    fn sign_in_again(&self) -> String {
        match &self.once {
            None => format!("{}&prompt=login", self.query),
            Some(once) => form_urlencoded::Serializer::new(String::new())
                .append_pair("client_id", self.client.client_id.as_str())
                .append_pair("request_uri", &once.sign_in_again)
                .finish(),
        }
    }

    fn is_pushed(&self) -> bool {
        self.once.is_some()
    }

    fn prompt(&self) -> Prompt {
        self.prompt
    }

    fn accepts(&self, session: &Session, now: Timestamp) -> bool {
        self.recency.accepts(session, now)
    }

    fn oldest_sign_in(&self, now: Timestamp) -> Option<Timestamp> {
        self.recency.oldest(now)
    }

    fn asks_for_second_factor(&self) -> bool {
        self.second_factor
    }

    /// `login_hint` (OpenID Connect Core §3.1.2.1).
    fn login_hint(&self) -> Option<&str> {
        self.login_hint.as_deref()
    }

    fn code_challenge(&self) -> Option<Digest> {
        self.code_challenge
    }

    fn scope(&self) -> Scope {
        self.scope.clone()
    }

    fn code_lifetime(&self, lifetimes: &Lifetimes) -> Duration {
        lifetimes.authorization_code
    }

    /// Writes nothing, because the code contains its record. Of a pushed request, the store remembers that the request has
    /// yielded its code.
    async fn issue(&self, context: &Context<'_>, record: CodeRecord) -> Result<String, IssueError> {
        let grant_id = match &self.once {
            None => GrantId::generate(context.random, context.now)?,
            Some(once) => {
                let id = OnceId::of_pushed_request(once.grant_id);
                let until = once.remembered_until;
                match context.store.use_once(id, until, context.now).await? {
                    Use::First => once.grant_id,
                    Use::Again => return Err(IssueError::RequestUsed),
                }
            }
        };
        let code = SelfContainedCode {
            grant_id,
            record,
            dpop_jkt: self.dpop_jkt,
        };
        let nonce = random::bytes(context.random)?;
        let (issuer, key) = (&context.settings.issuer, context.encryption_key);
        Ok(sealed_code::seal(&code, issuer, nonce, key)?)
    }

    fn with_code(&self, code: &str, issuer: &str) -> String {
        self.destination.with_code(code, issuer)
    }

    fn with_error(&self, error: &RedirectError, issuer: &str) -> String {
        self.destination.with_error(error, issuer)
    }
}

/// Maximum length of the query that pages pass on, in bytes, without the few bytes of [`recency`]. Forms encode the query
/// again, and every gateway accepts that length in a form (D-18) and in a request line. The service refuses a longer
/// request before the person types a password.
pub const MAX_CARRIED_BYTES: usize = 12 * 1024;

/// For which step a query is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carried {
    /// The first: everything takes effect.
    First,
    /// A later one: `prompt` took effect already, and [`Recency::carry_on`] adds what remains of `max_age`.
    Further,
}

/// Encodes the parameters of the request: no others, and only ASCII.
fn canonical_query(parameters: &Parameters<'_>, step: Carried) -> String {
    let carried = [
        "response_type",
        "client_id",
        "redirect_uri",
        "scope",
        "state",
        "code_challenge",
        "code_challenge_method",
        "dpop_jkt",
        "max_age",
        "acr_values",
        "login_hint",
        "ui_locales",
        "prompt",
    ];
    let is_over = |name: &str| step == Carried::Further && matches!(name, "prompt" | "max_age");
    form_urlencoded::Serializer::new(String::new())
        .extend_pairs(
            carried
                .into_iter()
                .filter(|name| !is_over(name))
                .filter_map(|name| Some((name, parameters.get(name)?))),
        )
        .finish()
}

#[cfg(test)]
mod tests;
