//! The pages of the demo application, which has the redirect URI of the demo's clients. It stands in for the integrator's
//! application.

use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, ContentType, HOST, REFERRER_POLICY,
};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, rt, web};
use anyhow::{Context as _, Result};
use askama::Template;
use harness::Pair;
use serde::Deserialize;

/// The parameters of an authorization response (RFC 6749 §4.1.2, RFC 9207), or of the legacy flow's.
#[derive(Debug, Deserialize)]
struct Answer {
    code: Option<String>,
    error: Option<String>,
    state: Option<String>,
    iss: Option<String>,
}

/// `state` of the addresses that `make up` prints.
const STATE: &str = "abc";

/// The errors that the authorization servers send, the last two in the legacy flow. The page shows nothing else that a link may
/// contain.
const ERRORS: [&str; 10] = [
    "access_denied",
    "account_selection_required",
    "interaction_required",
    "invalid_request",
    "invalid_request_uri",
    "invalid_scope",
    "login_required",
    "unsupported_response_type",
    "NO_UNIQUE_USER_FOUND",
    "SO_IS_DISABLED",
];

/// What the page says.
enum Content {
    Code {
        code: String,
        /// The demo's clients that may have started the flow.
        clients: Vec<Client>,
        is_legacy: bool,
        api: String,
    },
    /// The answer names no authorization server of this demo (RFC 9207 §2.4).
    AnotherIssuer,
    /// Somebody else began the flow (RFC 6749 §10.12).
    AnotherState,
    Error(&'static str),
    /// No authorization response, or one that this service cannot have sent.
    Nothing,
}

/// The command with which a client exchanges the code.
struct Client {
    name: &'static str,
    exchange: String,
}

#[derive(Template)]
#[template(path = "callback.html")]
struct Page {
    content: Content,
}

/// Addresses that the page names, each without a trailing slash.
#[derive(Debug, Clone)]
struct Places {
    api: String,
    /// The authorization server and the early-access authorization server.
    lobbies: [String; 2],
    legacy: String,
    /// Port of the page.
    port: u16,
}

impl Places {
    /// What the page at this host says about the answer. Only clients of the legacy flow have redirect URIs on `localhost` (D-24).
    fn content(&self, host: &str, answer: Answer) -> Content {
        if answer.code.is_none() && answer.error.is_none() {
            return Content::Nothing;
        }
        // Before anything else is believed. The legacy flow has neither `iss` nor `state`.
        let is_legacy = host.starts_with("localhost:");
        let is_ours = match &answer.iss {
            Some(iss) => !is_legacy && self.lobbies.contains(iss),
            None => is_legacy,
        };
        if !is_ours {
            return Content::AnotherIssuer;
        }
        if !is_legacy && answer.state.as_deref() != Some(STATE) {
            return Content::AnotherState;
        }
        if let Some(error) = answer.error {
            let known = ERRORS.into_iter().find(|known| *known == error);
            return known.map_or(Content::Nothing, Content::Error);
        }
        // The page shows the code in a shell command, so it accepts only characters of issued codes.
        let is_issued = |code: &String| {
            let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            !code.is_empty() && code.bytes().all(legal)
        };
        let Some(code) = answer.code.filter(is_issued) else {
            return Content::Nothing;
        };
        let clients = match answer.iss {
            Some(lobby) => self.current(&lobby, &code),
            None => vec![self.legacy(&code)],
        };
        Content::Code {
            code,
            clients,
            is_legacy,
            api: self.api.clone(),
        }
    }

    fn current(&self, lobby: &str, code: &str) -> Vec<Client> {
        let endpoint = format!("{lobby}/auth/token");
        let redirect_uri = format!("http://127.0.0.1:{}/callback", self.port);
        let web = "-u web-demo:demo-secret-of-web-demo-not-for-real-use";
        let installed = "-d client_id=installed-demo -d code_verifier=dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        vec![
            Client {
                name: "Web Server Application (web-demo), with its secret",
                exchange: exchange(&endpoint, &redirect_uri, code, web),
            },
            Client {
                name: "Installed Application (installed-demo), with the verifier of the printed address",
                exchange: exchange(&endpoint, &redirect_uri, code, installed),
            },
        ]
    }

    fn legacy(&self, code: &str) -> Client {
        let client = "-H 'Host: sso-us1.legacy.example' -d client_id=legacy-demo";
        let endpoint = format!("{}/as/token.oauth2", self.legacy);
        let redirect_uri = format!("http://localhost:{}/callback", self.port);
        Client {
            name: "Client of the legacy flow (legacy-demo)",
            exchange: exchange(&endpoint, &redirect_uri, code, client),
        }
    }
}

fn exchange(endpoint: &str, redirect_uri: &str, code: &str, client: &str) -> String {
    format!(
        "TOKEN=$(curl -s {client} \\\n  -d grant_type=authorization_code -d redirect_uri={redirect_uri} \\\n  \
         -d code={code} \\\n  {endpoint} | python3 -c 'import json, sys; print(json.load(sys.stdin)[\"access_token\"])')"
    )
}

/// Serves the page at `/callback` of `CALLBACK_PORT` until the process ends.
///
/// # Errors
/// If the port is taken.
pub(crate) fn serve(pair: &Pair) -> Result<()> {
    let port = pair.ports().callback;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .with_context(|| format!("cannot listen at 127.0.0.1:{port} (CALLBACK_PORT)"))?;
    let places = web::Data::new(Places {
        api: pair.api_url(),
        lobbies: [pair.lobby_url(), pair.lobby_ea_url()],
        legacy: pair.legacy_url(),
        port,
    });
    let app = move || {
        App::new()
            .app_data(places.clone())
            .route("/", web::get().to(page))
            .route("/callback", web::get().to(page))
            .route("/copy.js", web::get().to(copy_script))
    };
    thread::spawn(move || {
        let server = HttpServer::new(app).workers(1).disable_signals();
        rt::System::new().block_on(server.listen(listener)?.run())
    });
    Ok(())
}

async fn copy_script() -> HttpResponse {
    HttpResponse::Ok()
        .content_type("text/javascript")
        .body(include_str!("../../../templates/copy.js"))
}

async fn page(
    request: HttpRequest,
    answer: web::Query<Answer>,
    places: web::Data<Places>,
) -> HttpResponse {
    let host = request.headers().get(HOST);
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    let content = places.content(host, answer.into_inner());
    let page = Page { content };
    match page.render() {
        Ok(page) => HttpResponse::Ok()
            .content_type(ContentType::html())
            .insert_header((CACHE_CONTROL, "no-store"))
            .insert_header((REFERRER_POLICY, "no-referrer"))
            .insert_header((
                CONTENT_SECURITY_POLICY,
                "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'none'",
            ))
            .body(page),
        Err(error) => HttpResponse::InternalServerError().body(error.to_string()),
    }
}
