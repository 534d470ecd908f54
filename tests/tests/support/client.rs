//! The demo's clients.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use tests::browsing::FORM;
use tests::load::{self, JWT_BEARER};

use super::http::{Reply, send};
use super::{basic, form_body};

/// A client of the demo registrations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client {
    pub(crate) id: &'static str,
    pub(crate) secret: Option<&'static str>,
    pub(crate) redirect_uri: &'static str,
}

const fn demo(client: load::Client, redirect_uri: &'static str) -> Client {
    Client {
        id: client.id,
        secret: client.secret,
        redirect_uri,
    }
}

pub(crate) const WEB: Client = demo(load::WEB, "https://app.example.com/callback");
pub(crate) const INSTALLED: Client = demo(load::INSTALLED, "http://127.0.0.1:8765/callback");
pub(crate) const NON_INTERACTIVE: Client = demo(load::NON_INTERACTIVE, "");
pub(crate) const USER_BOUND: Client = demo(load::USER_BOUND, "");

/// Fields of the sign-in form.
pub(crate) const ADA: [(&str, &str); 2] = [
    ("username", "ada@example.com"),
    ("password", "demo-password-of-ada"),
];

impl Client {
    /// An authorization request, with these parameters too.
    pub(crate) fn request<'a>(&self, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let request = [
            ("response_type", "code"),
            ("client_id", self.id),
            ("redirect_uri", self.redirect_uri),
        ];
        [&request, more].concat()
    }

    /// The value of its `Authorization` header.
    pub(crate) fn basic(&self) -> String {
        basic(self.id, self.secret.unwrap_or_default())
    }

    /// Posts a form to `path` with this client's authentication: Basic, or `client_id` in the form.
    pub(crate) fn post(&self, lobby: &str, path: &str, fields: &[(&str, &str)]) -> Reply {
        self.post_with(lobby, path, fields, &[])
    }

    /// A token request with these values of `DPoP`.
    pub(crate) fn proven(&self, lobby: &str, fields: &[(&str, &str)], proofs: &[String]) -> Reply {
        let proofs: Vec<_> = proofs.iter().map(|proof| ("dpop", proof.clone())).collect();
        self.post_with(lobby, "/auth/token", fields, &proofs)
    }

    /// Like [`Self::post`], with these headers too.
    pub(crate) fn post_with(
        &self,
        lobby: &str,
        path: &str,
        fields: &[(&str, &str)],
        more: &[(&str, String)],
    ) -> Reply {
        let (mut headers, body) = self.form(fields);
        headers.extend_from_slice(more);
        post(&format!("{lobby}{path}"), &headers, &body)
    }

    /// The headers and the body of a form with this client's authentication.
    pub(crate) fn form<'n>(&self, fields: &[(&str, &str)]) -> (Vec<(&'n str, String)>, String) {
        if self.secret.is_some() {
            return (vec![("authorization", self.basic())], form_body(fields));
        }
        let fields = [fields, &[("client_id", self.id)]].concat();
        (vec![], form_body(&fields))
    }

    /// A token request.
    pub(crate) fn token(&self, lobby: &str, fields: &[(&str, &str)]) -> Reply {
        self.post(lobby, "/auth/token", fields)
    }

    /// Exchanges a code.
    pub(crate) fn exchange(&self, lobby: &str, code: &str, pkce: Option<&Pkce>) -> Reply {
        self.token(lobby, &self.exchange_fields(code, pkce))
    }

    /// The fields that exchange a code.
    pub(crate) fn exchange_fields<'a>(
        &self,
        code: &'a str,
        pkce: Option<&'a Pkce>,
    ) -> Vec<(&'static str, &'a str)> {
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", self.redirect_uri),
        ];
        fields.extend(pkce.map(|pkce| ("code_verifier", pkce.verifier.as_str())));
        fields
    }

    /// Exchanges a user assertion, with these fields too.
    pub(crate) fn assert(&self, lobby: &str, assertion: &str, more: &[(&str, &str)]) -> Reply {
        let fields = [("grant_type", JWT_BEARER), ("assertion", assertion)];
        self.token(lobby, &[&fields, more].concat())
    }

    /// Uses a refresh token.
    pub(crate) fn refresh(&self, lobby: &str, refresh_token: &str) -> Reply {
        self.refresh_with(lobby, refresh_token, &[])
    }

    /// Uses a refresh token, with these values of `DPoP`.
    pub(crate) fn refresh_with(
        &self,
        lobby: &str,
        refresh_token: &str,
        proofs: &[String],
    ) -> Reply {
        self.proven(
            lobby,
            &[
                ("grant_type", "refresh_token"),
                ("refresh_token", refresh_token),
            ],
            proofs,
        )
    }
}

/// Posts a form with these headers.
pub(crate) fn post(url: &str, headers: &[(&str, String)], body: &str) -> Reply {
    let mut all = vec![("content-type", FORM)];
    all.extend(headers.iter().map(|(name, value)| (*name, value.as_str())));
    send("POST", url, &all, body)
}

/// A PKCE pair.
#[derive(Debug, Clone)]
pub(crate) struct Pkce {
    pub(crate) verifier: String,
    pub(crate) challenge: String,
}

impl Pkce {
    /// The pair with this verifier.
    pub(crate) fn of(verifier: &str) -> Self {
        Self {
            verifier: verifier.to_owned(),
            challenge: URL_SAFE_NO_PAD.encode(Sha256::digest(verifier)),
        }
    }
}
