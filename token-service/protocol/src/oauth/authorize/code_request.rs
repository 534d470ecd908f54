//! A request for an authorization code, of any flow.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use super::{IssueError, Prompt, RedirectError};
use crate::Context;
use crate::lifetimes::Lifetimes;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{Client, CodeRecord, RedirectUri, Scope, Session, Username};

/// A validated request for a code, as the sign-in pages use it.
#[async_trait(?Send)]
pub trait CodeRequest: fmt::Debug {
    fn client(&self) -> &Client;

    /// The redirect URI for the response, registered by the client.
    fn redirect_uri(&self) -> &RedirectUri;

    /// The query that pages pass on: the same request without `prompt`. Otherwise `prompt=login` would ask for the credentials
    /// again and again. [`Self::accepts`] makes sure that a sign-in from before the request is not enough for what follows.
    fn continuation(&self) -> &str;

    /// True if [`Self::continuation`] contains only a reference to the request (RFC 9126).
    fn is_pushed(&self) -> bool {
        false
    }

    /// The query of the same request with `prompt=login`.
    fn sign_in_again(&self) -> String {
        format!("{}&prompt=login", self.continuation())
    }

    fn prompt(&self) -> Prompt;

    /// True if the client accepts the sign-in of `session`.
    fn accepts(&self, session: &Session, now: Timestamp) -> bool;

    /// The time of the oldest sign-in that the client accepts at `now`; `None` if any is accepted.
    fn oldest_sign_in(&self, _now: Timestamp) -> Option<Timestamp> {
        None
    }

    /// True if the client asks for a second factor (`acr_values`).
    fn asks_for_second_factor(&self) -> bool {
        false
    }

    /// The only user who may sign in, if the request names a user.
    fn expected_user(&self) -> Option<&ExpectedUser> {
        None
    }

    /// Suggestion for the username field.
    fn login_hint(&self) -> Option<&str> {
        None
    }

    /// The PKCE challenge (RFC 7636 §4.2).
    fn code_challenge(&self) -> Option<Digest> {
        None
    }

    /// True if an app on the person's device could receive the code and redeem it without a secret or key, so a live session
    /// is not enough for a code (D-34). A verifier replaces the secret (D-25).
    fn needs_confirmation(&self) -> bool {
        let client = self.client();
        let has_nothing = client.secrets().is_empty() && client.key_authentication.is_empty();
        let by_verifier = self.code_challenge().is_some() && client.may_prove_by_verifier();
        (has_nothing || by_verifier) && self.redirect_uri().is_native()
    }

    fn scope(&self) -> Scope {
        Scope::default()
    }

    fn code_lifetime(&self, lifetimes: &Lifetimes) -> Duration;

    /// Issues a code for `record`, and returns the code as the client receives it.
    ///
    /// # Errors
    /// An [`IssueError`]; then no code is issued.
    async fn issue(&self, context: &Context<'_>, record: CodeRecord) -> Result<String, IssueError>;

    fn with_code(&self, code: &str, issuer: &str) -> String;

    fn with_error(&self, error: &RedirectError, issuer: &str) -> String;
}

/// The user whom a request names by e-mail address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedUser {
    pub username: Username,
    /// The e-mail address as sent. Pages show the address instead of the username, because a person who knows the
    /// address must not learn the username.
    pub email: String,
}
