//! The pages' data. The texts are in `templates/`.

use askama::Template;
use url::Url;

use super::super::paths;
use super::journey::Journey;
use super::stylesheet;
use crate::registry::{LinkedAccount, RedirectUri};

/// What the pages of one request have in common.
pub(super) struct Flow<'a> {
    /// The client's name.
    pub client: &'a str,
    /// Where the person will be sent, in words.
    pub destination: String,
    /// The request's path and query, for the hidden field.
    pub request: String,
    /// The CSRF token, for the hidden field.
    pub csrf: String,
    /// The address that tells the client that the person cancelled.
    pub cancel: String,
    /// The address where somebody else may sign in.
    pub other_user: Option<String>,
    /// The username, where the request names the person.
    pub expected_user: Option<&'a str>,
}

impl<'a> Flow<'a> {
    pub(super) fn new(journey: &'a Journey, csrf: String, issuer: &str) -> Self {
        Self {
            client: &journey.client().name,
            destination: in_words(journey.redirect_uri()),
            request: journey.continuation(),
            csrf,
            cancel: journey.cancel(issuer),
            other_user: journey.other_user(),
            expected_user: journey.expected_user(),
        }
    }
}

/// A redirect URI as people understand it: the host of a web address, else where the app is.
fn in_words(redirect_uri: &RedirectUri) -> String {
    let Ok(url) = Url::parse(redirect_uri.as_str()) else {
        return redirect_uri.to_string();
    };
    match (url.scheme(), url.host_str()) {
        ("https", Some(host)) => match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        },
        ("http", Some(_)) => "an app on this device".to_owned(),
        (scheme, _) => format!("the app on this device that opens {scheme}: links"),
    }
}

/// Username and password.
#[derive(Template)]
#[template(path = "sign_in.html")]
pub(super) struct SignInPage<'a> {
    pub flow: Flow<'a>,
    pub username: &'a str,
    pub refused: bool,
}

/// The one-time code.
#[derive(Template)]
#[template(path = "second_factor.html")]
pub(super) struct SecondFactorPage<'a> {
    pub flow: Flow<'a>,
    pub error: Option<&'static str>,
}

/// The choice among several linked accounts.
#[derive(Template)]
#[template(path = "select_account.html")]
pub(super) struct SelectAccountPage<'a> {
    pub flow: Flow<'a>,
    pub username: &'a str,
    pub accounts: &'a [LinkedAccount],
}

/// Who is signed in with this browser.
#[derive(Template)]
#[template(path = "home.html")]
pub(super) struct HomePage<'a> {
    pub username: Option<&'a str>,
    pub csrf: String,
}

/// What went wrong.
#[derive(Template)]
#[template(path = "error.html")]
pub(super) struct ErrorPage {
    pub problem: &'static str,
    pub advice: &'static str,
    pub details: Option<&'static str>,
}
