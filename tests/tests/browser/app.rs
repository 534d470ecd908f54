//! An application on this machine: a small web server to which the service redirects people.

use tests::{Arrived, response};
use url::form_urlencoded;

use super::{Chromium, lobby};
use crate::support::{Client, INSTALLED, Pkce, Reply};

/// In place of a content type: the content is the address of a redirect.
const REDIRECT: &str = "redirect";

/// A page or file of an application, by its path.
type File = (&'static str, &'static str, String);

/// A running application. It serves until the tests are over.
pub(super) struct App {
    /// Its origin, such as `http://127.0.0.1:40123`.
    pub(super) origin: String,
    port: u16,
}

impl App {
    /// The Installed Application of the demo. Its page only says that the person has returned.
    pub(super) fn start() -> Self {
        Self::serving("127.0.0.1", vec![])
    }

    /// An application at `host` with these files, each a path, a content type and a content.
    pub(super) fn serving(host: &str, mut files: Vec<File>) -> Self {
        files.push((
            "/callback",
            "text/html",
            "<!doctype html><title>App</title><h1>Back in the app</h1>".to_owned(),
        ));
        let address = host.trim_matches(['[', ']']);
        let port = tests::serve(address, 0, move |request| answer(request, &files)).unwrap();
        Self {
            origin: format!("http://{host}:{port}"),
            port,
        }
    }

    /// An application whose redirect URI redirects to `target`, as relays of editors and of companies do.
    pub(super) fn leading_to(target: &str) -> Self {
        Self::serving(
            "127.0.0.1",
            vec![("/callback", REDIRECT, target.to_owned())],
        )
    }

    /// The same application under another name of this machine. Browsers treat that name as another site.
    pub(super) fn other_site(&self) -> String {
        format!("http://localhost:{}", self.port)
    }

    /// Its redirect URI.
    pub(super) fn callback(&self) -> String {
        format!("{}/callback", self.origin)
    }

    /// The address that starts a sign-in for this application.
    pub(super) fn authorize(&self) -> String {
        self.authorize_with(&[])
    }

    /// Likewise, with further parameters.
    pub(super) fn authorize_with(&self, parameters: &[(&str, &str)]) -> String {
        authorize("installed-demo", &self.callback(), parameters)
    }

    /// The tokens for the code with which `window` has come back from the service at `lobby`.
    pub(super) fn tokens(&self, lobby: &str, window: &Chromium) -> Reply {
        let address = window.address();
        let mut answer = address.query_pairs();
        let (_, code) = answer.find(|(key, _)| key == "code").unwrap();
        let client = Client {
            redirect_uri: self.callback().leak(),
            ..INSTALLED
        };
        let pkce = Pkce::of(VERIFIER);
        client.exchange(lobby, &code, Some(&pkce)).done()
    }
}

/// The code verifier of each request.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

/// The address that starts a sign-in for this public client.
pub(super) fn authorize(client: &str, redirect_uri: &str, parameters: &[(&str, &str)]) -> String {
    let pkce = Pkce::of(VERIFIER);
    let query = form_urlencoded::Serializer::new(String::new())
        .extend_pairs([
            ("response_type", "code"),
            ("client_id", client),
            ("redirect_uri", redirect_uri),
            ("code_challenge", &pkce.challenge),
            ("code_challenge_method", "S256"),
        ])
        .extend_pairs(parameters)
        .finish();
    format!("{}/auth/authorize?{query}", lobby())
}

fn answer(request: &Arrived, files: &[File]) -> String {
    let path = request.target.split('?').next().unwrap_or_default();
    let file = files.iter().find(|(name, ..)| *name == path);
    let Some((_, kind, content)) = file else {
        return response("404 Not Found", "", "");
    };
    match *kind {
        REDIRECT => response("302 Found", &format!("location: {content}\r\n"), ""),
        kind => {
            let kind = format!("content-type: {kind}; charset=utf-8\r\n");
            response("200 OK", &kind, content)
        }
    }
}
