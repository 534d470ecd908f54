//! Legacy logon (protocol.md §4.5): from the query of `/Logon` to a code on the redirect URI.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use url::form_urlencoded;

use crate::Context;
use crate::Directory;
use crate::lifetimes::Lifetimes;
use crate::oauth::authorize::{
    CodeRequest, ExpectedUser, IssueError, MAX_CARRIED_BYTES, Prompt, RedirectError,
};
use crate::oauth::parameters::{ParameterError, Parameters};
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::random;
use domain::{Client, CodeRecord, LegacyInstance, RedirectUri, Session};
use store::{Begin, StoreError};

/// Lifetime of a code (protocol.md §2.5).
pub const CODE_LIFETIME: Duration = Duration::from_secs(60);

/// A validated logon request: the client is known, and the redirect URI matches one of its templates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogonRequest {
    client: Arc<Client>,
    hostname: String,
    redirect_uri: RedirectUri,
    expected_user: Option<ExpectedUser>,
    prompt: Prompt,
    query: String,
}

/// Reason why a logon ends on an error page (protocol.md §7.2): the request has no valid redirect URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogonRefusal {
    /// The query is malformed, or a parameter is repeated.
    Unreadable(ParameterError),
    /// The query is too long for the sign-in pages to pass on.
    TooLarge,
    /// `Action` is not `StartOAuth`.
    Action,
    /// `client_id` is missing, unknown, disabled, or belongs to another instance.
    Client,
    /// `redirect_uri` is missing or matches no template of the client.
    RedirectUri,
    Store(StoreError),
}

impl From<StoreError> for LogonRefusal {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl LogonRefusal {
    pub const fn message(&self) -> &'static str {
        match self {
            Self::RedirectUri => {
                "Problem accessing the authorization path. Reason: Invalid redirect_uri"
            }
            Self::Client => {
                "Problem accessing the authorization path. Reason: Unknown or invalid client_id"
            }
            Self::Action => {
                "Problem accessing the authorization path. Reason: Invalid Action; it must be StartOAuth"
            }
            Self::TooLarge => {
                "Problem accessing the authorization path. Reason: the request is larger than 12288 bytes"
            }
            Self::Unreadable(_) | Self::Store(_) => {
                "Problem accessing the authorization path. Reason: Invalid request"
            }
        }
    }
}

/// Reason for an error at the client's redirect URI (protocol.md §7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogonError {
    /// OAuth2 authentication is disabled on the host.
    Disabled,
    /// No single-sign-on user, or more than one, has the e-mail address.
    NoUniqueUser,
    /// The user has no linked account or cancelled.
    Denied,
}

impl LogonError {
    pub const fn code(self) -> &'static str {
        match self {
            Self::Disabled => "SO_IS_DISABLED",
            Self::NoUniqueUser => "NO_UNIQUE_USER_FOUND",
            Self::Denied => "access_denied",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Logon {
    Proceed(LogonRequest),
    /// Redirect the browser to this URL, which tells the client the error.
    Redirect(String),
}

impl LogonRequest {
    /// Reads and checks the query of a logon (without `?`).
    ///
    /// # Errors
    /// A [`LogonRefusal`] if the client or its redirect URI is not valid, or the store cannot be read.
    pub async fn validate(
        query: &[u8],
        instance: &LegacyInstance,
        directory: &Directory,
    ) -> Result<Logon, LogonRefusal> {
        let parameters = Parameters::parse(query).map_err(LogonRefusal::Unreadable)?;
        let client_id = parameters.get("client_id").ok_or(LogonRefusal::Client)?;
        let client = directory
            .legacy_client(client_id, &instance.hostname)
            .await?
            .ok_or(LogonRefusal::Client)?;
        let redirect_uri = parameters
            .get("redirect_uri")
            .and_then(|sent| client.registered_redirect_uri(sent))
            .ok_or(LogonRefusal::RedirectUri)?;
        if parameters.get("Action") != Some("StartOAuth") {
            return Err(LogonRefusal::Action);
        }
        let redirect = |error: LogonError| Ok(Logon::Redirect(with_error(&redirect_uri, error)));
        if !instance.enabled {
            return redirect(LogonError::Disabled);
        }
        let expected_user = match parameters.get("email") {
            None => None,
            Some(email) => match directory.single_sign_on_users(email).await?.as_slice() {
                [only] => Some(ExpectedUser {
                    username: only.clone(),
                    email: email.to_owned(),
                }),
                _ => return redirect(LogonError::NoUniqueUser),
            },
        };
        let carried = ["Action", "client_id", "redirect_uri", "email", "ui_locales"];
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(
                carried
                    .into_iter()
                    .filter_map(|name| Some((name, parameters.get(name)?))),
            )
            .finish();
        if query.len() > MAX_CARRIED_BYTES {
            return Err(LogonRefusal::TooLarge);
        }
        Ok(Logon::Proceed(Self {
            client,
            hostname: instance.hostname.clone(),
            redirect_uri,
            expected_user,
            prompt: match parameters.get("prompt") {
                Some("login") => Prompt::Login,
                _ => Prompt::WhenNeeded,
            },
            query,
        }))
    }
}

#[async_trait(?Send)]
impl CodeRequest for LogonRequest {
    fn client(&self) -> &Client {
        &self.client
    }

    fn redirect_uri(&self) -> &RedirectUri {
        &self.redirect_uri
    }

    fn continuation(&self) -> &str {
        &self.query
    }

    fn prompt(&self) -> Prompt {
        self.prompt
    }

    fn accepts(&self, session: &Session, _now: Timestamp) -> bool {
        let expected = self.expected_user.as_ref();
        expected.is_none_or(|expected| expected.username == session.username)
    }

    fn expected_user(&self) -> Option<&ExpectedUser> {
        self.expected_user.as_ref()
    }

    fn code_lifetime(&self, _lifetimes: &Lifetimes) -> Duration {
        CODE_LIFETIME
    }

    /// Returns after the record is durable. The store gets only the digest of the code.
    async fn issue(&self, context: &Context<'_>, record: CodeRecord) -> Result<String, IssueError> {
        // 40 characters (protocol.md §2.5).
        let code = URL_SAFE_NO_PAD.encode(random::bytes::<30>(context.random)?);
        let digest = code_digest(&code, &self.hostname);
        match context.store.issue_legacy_code(digest, record).await? {
            Begin::Begun => Ok(code),
            Begin::CredentialsChanged => Err(IssueError::SignInEnded),
        }
    }

    fn with_code(&self, code: &str, _issuer: &str) -> String {
        self.redirect_uri.with_parameters([("code", code)])
    }

    /// The legacy flow has a single error for all failures after validation (protocol.md §7.2).
    fn with_error(&self, _error: &RedirectError, _issuer: &str) -> String {
        with_error(&self.redirect_uri, LogonError::Denied)
    }
}

/// Key of a code in the store. The key includes the instance, so no other endpoint can find the code.
pub fn code_digest(code: &str, hostname: &str) -> Digest {
    Digest::of(format!("legacy\0{hostname}\0{code}").as_bytes())
}

fn with_error(redirect_uri: &RedirectUri, error: LogonError) -> String {
    redirect_uri.with_parameters([("error", error.code())])
}
