//! Legacy logon (protocol.md §4.5): from the query of `/Logon` to a code on the redirect URI.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use url::form_urlencoded;

use crate::oauth::authorize::{IssueError, MAX_CARRIED_BYTES, SignedIn};
use crate::oauth::parameters::{ParameterError, Parameters};
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::random::{self, Random};
use domain::redirect_template::RedirectTemplate;
use domain::{
    Client, CodeRecord, IntegrationType, LegacyInstance, LinkedAccount, RedirectUri, Registry,
    Scope, Username,
};
use store::{Begin, Store};

/// Length of a code, in characters: 30 random bytes in base64url.
pub const CODE_LENGTH: usize = 40;

/// How long a code lives, in seconds (protocol.md §2.5).
pub const CODE_LIFETIME: std::time::Duration = std::time::Duration::from_secs(60);

/// A logon of a known client that gets its answer at a redirect URI that matches one of its templates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogonRequest {
    client: Arc<Client>,
    hostname: String,
    redirect_uri: RedirectUri,
    expected_user: Option<ExpectedUser>,
    query: String,
}

/// The person whom the e-mail address of a logon names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedUser {
    /// Who may sign in.
    pub username: Username,
    /// The address as it was sent. Pages show it in the place of the username, which not everybody who knows the
    /// address should learn.
    pub email: String,
}

/// Why a logon is refused with a page (protocol.md §7.2): there is nowhere to redirect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogonRefusal {
    /// The query cannot be read, or a parameter is repeated.
    Unreadable(ParameterError),
    /// Longer than the pages of a sign-in can carry on.
    TooLarge,
    /// `Action` is not `StartOAuth`.
    Action,
    /// `client_id` is missing, unknown, disabled, or of another instance.
    Client,
    /// `redirect_uri` is missing or matches no template of the client.
    RedirectUri,
}

impl LogonRefusal {
    /// The reason, in the words of protocol.md §7.2 where it has some.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Unreadable(_) | Self::TooLarge => "Invalid request",
            Self::Action => "Invalid Action",
            Self::Client => "Unknown or invalid client_id",
            Self::RedirectUri => "Invalid redirect_uri",
        }
    }
}

/// Why the client gets an error at its redirect URI (protocol.md §7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogonError {
    /// OAuth2 authentication is disabled on the host.
    Disabled,
    /// The e-mail address is that of no or of several single-sign-on users.
    NoUniqueUser,
    /// The user has no linked account.
    NoLinkedAccount,
    /// The person pressed cancel.
    Cancelled,
}

impl LogonError {
    /// The value of `error`.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Disabled => "SO_IS_DISABLED",
            Self::NoUniqueUser => "NO_UNIQUE_USER_FOUND",
            Self::NoLinkedAccount | Self::Cancelled => "access_denied",
        }
    }
}

/// What a logon leads to before anybody has signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Logon {
    /// Somebody may sign in.
    Proceed(LogonRequest),
    /// The client is told at this address.
    Redirect(String),
}

impl LogonRequest {
    /// Reads and checks the query of a logon (without `?`).
    ///
    /// # Errors
    /// A [`LogonRefusal`] when the client or its redirect URI is not known.
    pub fn validate(
        query: &[u8],
        instance: &LegacyInstance,
        registry: &Registry,
    ) -> Result<Logon, LogonRefusal> {
        let parameters = Parameters::parse(query).map_err(LogonRefusal::Unreadable)?;
        let client = parameters
            .get("client_id")
            .and_then(|client_id| registry.legacy_client(client_id, &instance.hostname))
            .ok_or(LogonRefusal::Client)?;
        let redirect_uri = parameters
            .get("redirect_uri")
            .and_then(|sent| registered(client, sent))
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
            Some(email) => match registry.single_sign_on_users(email) {
                [only] => Some(ExpectedUser {
                    username: only.clone(),
                    email: email.to_owned(),
                }),
                _ => return redirect(LogonError::NoUniqueUser),
            },
        };
        let carried = ["Action", "client_id", "redirect_uri", "email"];
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
            client: Arc::clone(client),
            hostname: instance.hostname.clone(),
            redirect_uri,
            expected_user,
            query,
        }))
    }

    /// The client that asks.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Where the answer goes.
    #[must_use]
    pub const fn redirect_uri(&self) -> &RedirectUri {
        &self.redirect_uri
    }

    /// The user that the e-mail address named: nobody else may sign in.
    #[must_use]
    pub const fn expected_user(&self) -> Option<&ExpectedUser> {
        self.expected_user.as_ref()
    }

    /// The query that pages carry on.
    #[must_use]
    pub fn continuation(&self) -> &str {
        &self.query
    }

    /// The address that delivers `error`.
    #[must_use]
    pub fn with_error(&self, error: LogonError) -> String {
        with_error(&self.redirect_uri, error)
    }

    /// Issues a code once its record is durable; the answer is the address that delivers it.
    ///
    /// # Errors
    /// An [`IssueError`]; no code is given out then.
    pub async fn issue_code(
        &self,
        signed_in: &SignedIn,
        account: &LinkedAccount,
        store: &dyn Store,
        random: &dyn Random,
        now: Timestamp,
    ) -> Result<String, IssueError> {
        let code = URL_SAFE_NO_PAD.encode(random::bytes::<30>(random)?);
        let session = signed_in.session();
        let record = CodeRecord {
            client_id: self.client.client_id.clone(),
            redirect_uri: self.redirect_uri.as_str().to_owned(),
            code_challenge: None,
            username: session.username.clone(),
            account: account.clone(),
            scope: Scope::default(),
            amr: session.amr.clone(),
            authenticated_at: session.authenticated_at,
            expires_at: now + CODE_LIFETIME,
            credentials_version: session.credentials_version,
        };
        let digest = code_digest(&code, &self.hostname);
        match store.issue_code(digest, record).await? {
            Begin::Begun => {}
            Begin::CredentialsChanged => return Err(IssueError::SignInEnded),
        }
        Ok(self.redirect_uri.with_parameters([("code", code.as_str())]))
    }
}

/// What the store knows a code by: with the instance in it, so that the code is unknown to every other endpoint.
#[must_use]
pub fn code_digest(code: &str, hostname: &str) -> Digest {
    Digest::of(format!("legacy\0{hostname}\0{code}").as_bytes())
}

fn registered(client: &Client, sent: &str) -> Option<RedirectUri> {
    let IntegrationType::Legacy {
        redirect_templates, ..
    } = &client.integration
    else {
        return None;
    };
    redirect_templates
        .iter()
        .filter_map(|template| RedirectTemplate::parse(template).ok())
        .find_map(|template| template.matches(sent))
}

fn with_error(redirect_uri: &RedirectUri, error: LogonError) -> String {
    redirect_uri.with_parameters([("error", error.code())])
}
