//! Clients, users and grants for tests. A test changes what it is about.

#![expect(
    clippy::unwrap_used,
    reason = "a test that meets the unexpected has failed"
)]

use claims::Confirmation;

use crate::client::ClientSecret;
use crate::clock::Timestamp;
use crate::redirect_uri::RedirectUriUse;
use crate::{
    Client, ClientId, CredentialsVersion, Grant, GrantId, Identity, IntegrationType, LinkedAccount,
    ProviderSignIn, RedirectUriPattern, RefreshStep, Scope, TokenId, User, Username,
};

#[must_use]
pub fn client_id(text: &str) -> ClientId {
    ClientId::parse(text).unwrap()
}

#[must_use]
pub fn username(text: &str) -> Username {
    Username::parse(text).unwrap()
}

#[must_use]
pub fn scope(text: &str) -> Scope {
    Scope::parse(text).unwrap()
}

#[must_use]
pub fn account(user_id: &str) -> LinkedAccount {
    LinkedAccount {
        user_id: user_id.to_owned(),
        username: format!("hat-{user_id}"),
        site: "https://us1.example.com".to_owned(),
    }
}

/// The person with this `sub` at `https://sso.example.com`.
#[must_use]
pub fn identity(subject: &str) -> Identity {
    Identity {
        issuer: "https://sso.example.com".to_owned(),
        subject: subject.to_owned(),
    }
}

/// A sign-in that began at `at`, by either clock.
#[must_use]
pub fn provider_sign_in(subject: &str, sid: Option<&str>, at: Timestamp) -> ProviderSignIn {
    ProviderSignIn {
        identity: identity(subject),
        sid: sid.map(str::to_owned),
        began_at: at,
        proven_since: at,
    }
}

/// A user with accounts of these User IDs.
#[must_use]
pub fn user(name: &str, accounts: &[&str]) -> User {
    User::new(username(name)).with_accounts(accounts)
}

#[must_use]
pub fn client(id: &str, integration: IntegrationType) -> Client {
    Client {
        integration: integration.clone(),
        ..Client::new(client_id(id), integration.kind())
    }
}

/// An installed application with these redirect URIs.
#[must_use]
pub fn installed(id: &str, uris: &[&str]) -> Client {
    let redirect_uris = patterns(uris, RedirectUriUse::Installed);
    client(id, IntegrationType::Installed { redirect_uris })
}

/// A web server application with these secrets and redirect URIs.
#[must_use]
pub fn web_server(id: &str, secrets: &[&str], uris: &[&str]) -> Client {
    let integration = IntegrationType::WebServer {
        secrets: secrets.iter().map(|text| ClientSecret::of(text)).collect(),
        redirect_uris: patterns(uris, RedirectUriUse::WebServer),
    };
    client(id, integration)
}

/// A client that acts as this user.
#[must_use]
pub fn user_bound(id: &str, secrets: &[&str], bound_user: &str) -> Client {
    let integration = IntegrationType::UserBound {
        secrets: secrets.iter().map(|text| ClientSecret::of(text)).collect(),
        bound_user: username(bound_user),
    };
    client(id, integration)
}

/// A client of the legacy flow, for one instance or all.
#[must_use]
pub fn legacy(id: &str, redirect_templates: &[&str], hostname: Option<&str>) -> Client {
    let integration = IntegrationType::Legacy {
        secrets: Vec::new(),
        redirect_templates: redirect_templates.iter().map(|&text| text.into()).collect(),
        hostname: hostname.map(str::to_owned),
    };
    client(id, integration)
}

fn patterns(uris: &[&str], usage: RedirectUriUse) -> Vec<RedirectUriPattern> {
    let uris = uris.iter();
    uris.map(|uri| RedirectUriPattern::parse(uri, usage).unwrap())
        .collect()
}

impl Client {
    #[must_use]
    pub fn disabled(self) -> Self {
        Self {
            enabled: false,
            ..self
        }
    }

    #[must_use]
    pub fn with_scopes(self, text: &str) -> Self {
        Self {
            scopes: scope(text),
            ..self
        }
    }
}

impl User {
    #[must_use]
    pub fn disabled(self) -> Self {
        Self {
            enabled: false,
            ..self
        }
    }

    #[must_use]
    pub fn with_accounts(self, user_ids: &[&str]) -> Self {
        Self {
            accounts: user_ids.iter().map(|id| account(id)).collect(),
            ..self
        }
    }
}

/// A grant of client `web` and user `ada` for account 1, issued at this time.
#[must_use]
pub fn grant(scopes: &str, now: Timestamp, refresh_expires_at: Timestamp) -> Grant {
    Grant {
        grant_id: GrantId::from_bytes([7; 16]),
        client_id: client_id("web"),
        username: username("ada"),
        account: account("1"),
        scope: scope(scopes),
        amr: Vec::new(),
        authenticated_at: now,
        current: RefreshStep {
            refresh_id: TokenId::from_bytes([1; 16]),
            access_id: TokenId::from_bytes([101; 16]),
            scope: scope(scopes),
            issued_at: now,
            refresh_expires_at,
        },
        spent: Vec::new(),
        revoked_at: None,
        credentials_version: CredentialsVersion::default(),
        code_expires_at: Timestamp::default(),
        bound: Confirmation::default(),
        provider: None,
    }
}
