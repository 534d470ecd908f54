//! The legacy flow of an instance, and the demo's legacy clients.

use tests::Pair;

use super::http::Reply;
use super::{ADA, Browser, Client, answer, form_body, post};

/// The client without a secret.
pub(crate) const LEGACY: Client = Client {
    id: "legacy-demo",
    secret: None,
    redirect_uri: "http://localhost:8765/callback",
};

/// The client with a secret, known to one instance.
pub(crate) const LEGACY_SECRET: Client = Client {
    id: "legacy-secret-demo",
    secret: Some("demo-secret-of-legacy-secret-demo-not-for-real-use"),
    redirect_uri: "https://app.example.com/legacy",
};

/// An instance with its authorization server.
pub(crate) struct Instance {
    address: String,
    pub(crate) host: String,
    pub(crate) server: String,
}

impl Instance {
    /// The demo's instance.
    pub(crate) fn of(pair: &Pair) -> Self {
        Self::at(pair, "us1.legacy.example", "sso-us1.legacy.example")
    }

    pub(crate) fn at(pair: &Pair, host: &str, server: &str) -> Self {
        Self {
            address: pair.legacy_url(),
            host: host.to_owned(),
            server: server.to_owned(),
        }
    }

    /// A browser of a person who uses the instance.
    pub(crate) fn browser(&self) -> Browser {
        Browser::on_host(&self.address, &self.host)
    }

    pub(crate) fn get(&self, host: &str, path: &str) -> Reply {
        super::get(&format!("{}{path}", self.address), &[("host", host)])
    }

    /// Signs in as Ada, and returns the code.
    pub(crate) fn code(&self, client: &Client) -> String {
        let [(_, username), (_, password)] = ADA;
        self.code_of(username, password, client)
    }

    pub(crate) fn code_of(&self, username: &str, password: &str, client: &Client) -> String {
        let browser = self.browser();
        let page = browser.open(&logon(client, &[]));
        assert_eq!(page.status, 200, "{}", page.body);
        let done = browser.sign_in(&page, username, password);
        let [(name, code)] = <[_; 1]>::try_from(answer(&done, client.redirect_uri)).unwrap();
        assert_eq!((name.as_str(), code.len()), ("code", 40));
        code
    }

    /// A request to the authorization server, with the client's authentication.
    pub(crate) fn token(&self, client: &Client, query: &str, fields: &[(&str, &str)]) -> Reply {
        let url = format!("{}/as/token.oauth2{query}", self.address);
        let mut headers = vec![("host", self.server.clone())];
        if client.secret.is_some() {
            headers.push(("authorization", client.basic()));
        }
        post(&url, &headers, &form_body(fields))
    }

    pub(crate) fn exchange(&self, client: &Client, code: &str) -> Reply {
        self.token(client, "", &exchange(client, code))
    }

    pub(crate) fn refresh(&self, client: &Client, refresh_token: &str) -> Reply {
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh_token),
        ];
        self.token(client, "", &fields)
    }
}

/// The path that starts a sign-in, with these parameters too.
pub(crate) fn logon(client: &Client, more: &[(&str, &str)]) -> String {
    let parameters = [
        ("Action", "StartOAuth"),
        ("client_id", client.id),
        ("redirect_uri", client.redirect_uri),
    ];
    format!("/Logon?{}", form_body(&[&parameters, more].concat()))
}

/// The fields that exchange a code.
pub(crate) fn exchange<'a>(client: &Client, code: &'a str) -> Vec<(&'a str, &'a str)> {
    let mut fields = vec![
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", client.redirect_uri),
    ];
    if client.secret.is_none() {
        fields.push(("client_id", client.id));
    }
    fields
}
