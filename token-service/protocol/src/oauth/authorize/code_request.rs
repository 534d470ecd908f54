//! What a person signs in for, whichever flow asks.

use std::fmt;
use std::time::Duration;

use super::{Prompt, RedirectError};
use crate::lifetimes::Lifetimes;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::random::{Random, RandomError};
use domain::{Client, RedirectUri, Scope, Session, Username};

/// A validated request for a code: all that the pages of a sign-in know of it.
pub trait CodeRequest: fmt::Debug {
    /// The client that asks.
    fn client(&self) -> &Client;

    /// Where the answer goes: a redirect URI that the client registered.
    fn redirect_uri(&self) -> &RedirectUri;

    /// The query that pages carry on: the same request without `prompt`, which has had its effect once a page
    /// shows. Otherwise `prompt=login`, or `max_age=0`, which means the same, would ask again for ever.
    fn continuation(&self) -> &str;

    /// The query of the same request that asks for the credentials again.
    fn sign_in_again(&self) -> String {
        format!("{}&prompt=login", self.continuation())
    }

    /// What the client wants the person to be asked.
    fn prompt(&self) -> Prompt;

    /// Whether the sign-in of `session` is one that the client takes.
    fn accepts(&self, session: &Session, now: Timestamp) -> bool;

    /// The person, if the request names one: nobody else may sign in.
    fn expected_user(&self) -> Option<&ExpectedUser> {
        None
    }

    /// The username that the person may mean to sign in with.
    fn login_hint(&self) -> Option<&str> {
        None
    }

    /// The PKCE challenge (RFC 7636 §4.2).
    fn code_challenge(&self) -> Option<Digest> {
        None
    }

    /// The scope that the code stands for.
    fn scope(&self) -> Scope {
        Scope::default()
    }

    /// Lifetime of the code.
    fn code_lifetime(&self, lifetimes: &Lifetimes) -> Duration;

    /// A new code.
    ///
    /// # Errors
    /// No randomness.
    fn draw_code(&self, random: &dyn Random) -> Result<Code, RandomError>;

    /// The address that delivers `code`.
    fn with_code(&self, code: &str, issuer: &str) -> String;

    /// The address that delivers `error`.
    fn with_error(&self, error: &RedirectError, issuer: &str) -> String;
}

/// An authorization code.
pub struct Code {
    /// The code as the client receives it.
    pub text: String,
    /// What the store knows the code by.
    pub digest: Digest,
}

/// Codes stay out of logs.
impl fmt::Debug for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Code").finish_non_exhaustive()
    }
}

/// The person whom a request names by an e-mail address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedUser {
    /// Who may sign in.
    pub username: Username,
    /// The address as it was sent. Pages show it in the place of the username, which not everybody who knows the
    /// address should learn.
    pub email: String,
}
