//! Legacy logon (protocol.md §4.5): from the query of `/Logon` to a code on the redirect URI.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use url::form_urlencoded;

use crate::Context;
use crate::Directory;
use crate::flow::BeginError;
use crate::lifetimes::Lifetimes;
use crate::oauth::authorize::{
    CodeRequest, ExpectedUser, IssueError, MAX_CARRIED_BYTES, Prompt, RedirectError, UnsafeRequest,
};
use crate::oauth::parameters::Parameters;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::random;
use domain::{Client, CodeRecord, LegacyInstance, RedirectUri, Session};
use store::Begin;

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

/// The refusal of a logon that ends on an error page (protocol.md §7.2), because the request has no valid redirect URI.
macro_rules! no_redirect {
    ($reason:literal) => {
        BeginError::Unsafe(UnsafeRequest::OfAnotherFlow(concat!(
            "Problem accessing the authorization path. Reason: ",
            $reason
        )))
    };
}

/// `client_id` is missing, unknown, disabled, or belongs to another instance.
const CLIENT: BeginError = no_redirect!("Unknown or invalid client_id");

/// The errors at the client's redirect URI (protocol.md §7.2): OAuth2 authentication is disabled on the host; no
/// single-sign-on user, or more than one, has the e-mail address; the user has no linked account or cancelled.
const DISABLED: &str = "SO_IS_DISABLED";
const NO_UNIQUE_USER: &str = "NO_UNIQUE_USER_FOUND";
const DENIED: &str = "access_denied";

impl LogonRequest {
    /// Reads and checks the query of a logon (without `?`).
    ///
    /// # Errors
    /// A [`BeginError`]: a page if the client or its redirect URI is not valid, an error at the redirect URI otherwise.
    pub async fn validate(
        query: &[u8],
        instance: &LegacyInstance,
        directory: &Directory,
    ) -> Result<Self, BeginError> {
        let parameters = Parameters::parse(query).map_err(|_| no_redirect!("Invalid request"))?;
        let client_id = parameters.get("client_id").ok_or(CLIENT)?;
        let client = directory
            .legacy_client(client_id, &instance.hostname)
            .await?
            .ok_or(CLIENT)?;
        let redirect_uri = parameters
            .get("redirect_uri")
            .and_then(|sent| client.registered_redirect_uri(sent))
            .ok_or(no_redirect!("Invalid redirect_uri"))?;
        if parameters.get("Action") != Some("StartOAuth") {
            return Err(no_redirect!("Invalid Action; it must be StartOAuth"));
        }
        let redirect = |error| Err(BeginError::Redirect(with_error(&redirect_uri, error)));
        if !instance.enabled {
            return redirect(DISABLED);
        }
        let expected_user = match parameters.get("email") {
            None => None,
            Some(email) => match directory.single_sign_on_users(email).await?.as_slice() {
                [only] => Some(ExpectedUser {
                    username: only.clone(),
                    email: email.to_owned(),
                }),
                _ => return redirect(NO_UNIQUE_USER),
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
            return Err(no_redirect!("the request is larger than 12288 bytes"));
        }
        Ok(Self {
            client,
            hostname: instance.hostname.clone(),
            redirect_uri,
            expected_user,
            prompt: match parameters.get("prompt") {
                Some("login") => Prompt::Login,
                _ => Prompt::WhenNeeded,
            },
            query,
        })
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
        with_error(&self.redirect_uri, DENIED)
    }
}

/// Key of a code in the store. The key includes the instance, so no other endpoint can find the code.
pub fn code_digest(code: &str, hostname: &str) -> Digest {
    Digest::of(format!("legacy\0{hostname}\0{code}").as_bytes())
}

fn with_error(redirect_uri: &RedirectUri, error: &str) -> String {
    redirect_uri.with_parameters([("error", error)])
}
