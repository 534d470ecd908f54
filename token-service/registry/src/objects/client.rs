//! Clients (protocol.md §1).

use std::collections::BTreeMap;

use super::certificate::{CertificateRegistration, CertificateView};
use super::client_key::ClientKeyView;
use super::client_secret::SecretView;
use super::{certificate, client_key, client_secret, redirect_uris, tls_client_certificate};
use crate::describe::Rule::{List, Secret, Single, State};
use crate::describe::checks::{client_name, compared_text, issuer, page_address, unique};
use crate::describe::fields::Flag::{Files, Optional, Switch, Text, Values};
use crate::describe::fields::{Field, Part, described};
use crate::describe::reading::{Entry, Registration, required};
use crate::describe::{Effects, Registered, present, texts};
use document::Located;
use domain::client::IntegrationType::{Installed, Legacy, NonInteractive, UserBound, WebServer};
use domain::client::{ClientSecret, ClientVersion, IntegrationKind as Kind};
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::object::ObjectKind;
use domain::redirect_uri::RedirectUriUse;
use domain::{
    Client, ClientId, Excerpt, KeyAuthentication, Managed, Observed, RegistryChange, Scope,
    SecondFactorRule, Username,
};

const CLIENT_SECRET: &str = "client_secret";
const CERTIFICATES: &str = "certificates";
const PUSHED_ONLY: &str = "require_pushed_authorization_requests";
const SECOND_FACTOR: &str = "second_factor";
const IDENTITY_PROVIDERS: &str = "identity_providers";
const DPOP_BOUND: &str = "dpop_bound_access_tokens";
const CERTIFICATE_BOUND: &str = "tls_client_certificate_bound_access_tokens";

described! {
    ClientRegistration: "A client's registration: an entry of `clients` of a registrations file. Which keys it has depends on its type.",
    ClientView: "A client.",
    /// The Client ID.
    needed client_id: String
        /// 1 to 128 printable ASCII characters without space.
        => { label: "Client ID", };
    /// The integration type: `web_server`, `installed`, `non_interactive`, `user_bound` or `legacy`.
    needed r#type: String => { rule: Single, label: "Type", };
    /// The name that people see.
    preset name: String
        /// It has no characters that change the direction of text. The Client ID if absent.
        => { rule: Single, label: "Name", flag: Text("name", "NAME"), };
    /// Address of the application's start page (https or http). Error pages lead there if no redirect URI can be trusted.
    optional home_url: String => { rule: Single, label: "Home page", flag: Optional("home-url", "URL"), };
    /// Whether the client may be used.
    preset enabled: bool
        /// `true` if absent.
        => { rule: State, label: "Enabled", flag: Switch(
            ["disable", "The client may not be used, and everything issued to it is revoked"],
            false,
            ["enable", "The client may be used"],
        ), };
    /// Whether the client gets only access tokens that are bound to a key (RFC 9449 §5.2).
    preset dpop_bound_access_tokens: bool
        /// `false` if absent. Not for `legacy`.
        => { rule: Single, label: "Only bound tokens", flag: Switch(
            ["dpop-bound", "The client gets only access tokens that are bound to a key (DPoP)"],
            true,
            ["dpop-optional", "The client also gets bearer tokens"],
        ), };
    /// Whether the client gets only access tokens that are bound to the certificate of its connection (RFC 8705 §3.4).
    preset tls_client_certificate_bound_access_tokens: bool
        /// `false` if absent. Not for `legacy`.
        => { rule: Single, label: "Bound to certificates", flag: Switch(
            ["certificate-bound", "The client gets only access tokens that are bound to the certificate of its connection"],
            true,
            ["certificate-optional", "Access tokens are not bound to certificates"],
        ), };
    /// Scopes that the client may ask for.
    preset scopes: Vec<String>
        => { rule: List, label: "Scopes", flag: Values(["scope", "add-scope", "remove-scope"], "SCOPE"), };
    /// Redirect URIs; templates for legacy clients.
    optional redirect_uris: Vec<String>
        /// For `web_server`, `installed`, `legacy`.
        => { rule: List, label: "Redirect URIs", flag: Values(
            ["redirect-uri", "add-redirect-uri", "remove-redirect-uri"],
            "URI",
        ), };
    /// Whether the client must push its authorization requests (RFC 9126).
    optional require_pushed_authorization_requests: bool
        /// `false` if absent. For `web_server`, `installed`.
        => { rule: Single, label: "Pushed requests only", flag: Switch(
            ["require-pushed-requests", "The client must push its authorization requests"],
            true,
            ["allow-unpushed-requests", "Authorization requests may come from the browser"],
        ), };
    /// Whether people need a second factor for codes and refreshed tokens of the client: `optional` or `required`.
    optional second_factor: String
        /// `optional` if absent. For `web_server`, `installed`, `legacy`.
        => { rule: Single, label: "Second factor", flag: Text("second-factor", "RULE"), };
    /// Issuers of identity providers. A `non_interactive` client may bring their assertions. For other clients, the sign-in page
    /// offers these providers (default: all with a `client_id`); with exactly one, the browser goes there without a page.
    optional identity_providers: Vec<String>
        /// For `web_server`, `installed`, `non_interactive`, `legacy`.
        => { rule: List, label: "Identity providers", flag: Values(
            ["identity-provider", "add-identity-provider", "remove-identity-provider"],
            "ISSUER",
        ), };
    /// The client secret. 32 to 1024 bytes. The administration generates an absent one, but not for `legacy`.
    given client_secret: String
        /// For `web_server`, `non_interactive`, `user_bound`, `legacy`.
        => { rule: Secret, };
    /// In place of the client secret: its SHA-256 digest, hexadecimal or base64url.
    given client_secret_sha256: String
        /// For `web_server`, `non_interactive`, `user_bound`, `legacy`.
        => {};
    /// Live client secrets: two during a rotation.
    shown secrets: usize => {};
    /// With what the client can authenticate: live client secrets, keys and TLS certificates.
    shown credentials: usize => {};
    /// The times of the live client secrets, the oldest first.
    noted secret_times: Vec<SecretView> => { label: "Live secrets", };
    /// The public keys of client assertions, with which the client authenticates (`private_key_jwt`).
    optional keys: Vec<ClientKeyView>
        /// A client with keys needs no client secret. For `web_server`, `non_interactive`, `user_bound`.
        => { rule: List, label: "Keys", flag: Files(
            ["key", "add-key", "remove-key"],
            "KID=FILE",
            ["kid", "public_key"],
        ), };
    /// The only `aud` of client assertions: `issuer` or `token_endpoint`.
    optional client_assertion_audience: String
        /// `issuer` if absent; `token_endpoint` for libraries that cannot send the issuer. For `web_server`, `non_interactive`,
        /// `user_bound`.
        => { rule: Single, label: "Assertion audience", flag: Optional("client-assertion-audience", "AUDIENCE"), };
    /// The SHA-256 thumbprints of the certificates with which the client authenticates its connection
    /// (`self_signed_tls_client_auth`).
    optional tls_client_certificates: Vec<String>
        /// 64 hexadecimal digits or base64url. A client with certificates needs no client secret. For `web_server`,
        /// `non_interactive`, `user_bound`.
        => { rule: List, label: "TLS certificates", flag: Values(
            ["tls-certificate", "add-tls-certificate", "remove-tls-certificate"],
            "SHA256",
        ), };
    /// The certificates of the client's assertions.
    given certificates: Vec<CertificateRegistration>
        /// For `non_interactive`.
        => { rule: List, };
    /// The certificates of the client's assertions.
    noted certificates: Vec<CertificateView> => { label: "Certificates", };
    /// The organization to whose users the client is restricted.
    optional organization: String
        /// For `non_interactive`.
        => { rule: Single, label: "Organization", flag: Optional("organization", "ORGANIZATION"), };
    /// The user as whom the client acts.
    optional bound_user: String
        /// For `user_bound`.
        => { rule: Single, label: "Bound user", flag: Text("bound-user", "USERNAME"), };
    /// The one legacy instance that knows the client.
    optional hostname: String
        /// For `legacy`.
        => { rule: Single, label: "Hostname", flag: Optional("hostname", "HOSTNAME"), };
    /// In the answer to a change: live grants whose next refresh lacks a scope that the client loses, at most 10,000.
    noted losing_grants: usize => {};
}

impl Registered for Client {
    const KIND: ObjectKind = ObjectKind::Client;
    const LIST: &'static str = "clients";
    const NAME_KEY: &'static str = "client_id";
    const FIELDS: &'static [Field] = FIELDS;

    type Keys = ClientRegistration;
    type View = ClientView;

    fn name(&self) -> &str {
        self.client_id.as_str()
    }

    fn read(entry: &mut Entry<'_, '_>) -> Option<Registration<Self>> {
        let read = read(entry);
        // What was read is no longer there.
        for Field { key, .. } in FIELDS.iter().filter(|field| field.part != Part::View) {
            match entry.integration {
                Some(kind) => {
                    let why = format!("not for a client of type {}", kind.name());
                    entry.section.refuse(key, &why);
                }
                // The type is wrong, so its fields are unknown.
                None => entry.section.skip(key),
            }
        }
        read.map(Registration::of)
    }

    fn view(&self, now: Timestamp, observed: &Observed, effects: Effects) -> ClientView {
        let KeyAuthentication {
            keys,
            client_assertion_audience,
            tls_client_certificates,
        } = &self.key_authentication;
        let (organization, hostname) = match &self.integration {
            NonInteractive { organization, .. } => (organization.clone(), None),
            Legacy { hostname, .. } => (None, hostname.clone()),
            WebServer { .. } | Installed { .. } | UserBound { .. } => (None, None),
        };
        let redirect_uris = match &self.integration {
            Legacy {
                redirect_templates, ..
            } => redirect_templates.clone(),
            _ => self
                .redirect_uris()
                .iter()
                .map(ToString::to_string)
                .collect(),
        };
        let (secrets, certificates) = (self.secrets(), self.certificates().iter());
        let thumbprints = tls_client_certificates.iter();
        let secret_times = secrets
            .iter()
            .map(|secret| SecretView::of(self, secret, &observed.secret_times));
        ClientView {
            client_id: self.client_id.to_string(),
            r#type: self.integration.name().to_owned(),
            name: self.name.clone(),
            home_url: self.home_url.clone(),
            enabled: self.enabled,
            dpop_bound_access_tokens: self.dpop_bound_access_tokens,
            tls_client_certificate_bound_access_tokens: self
                .tls_client_certificate_bound_access_tokens,
            scopes: self.scopes.tokens().map(str::to_owned).collect(),
            redirect_uris: present(redirect_uris),
            require_pushed_authorization_requests: self
                .require_pushed_authorization_requests
                .then_some(true),
            second_factor: (self.requires_second_factor)
                .then(|| SecondFactorRule::Required.name().to_owned()),
            identity_providers: present(self.identity_providers.clone()),
            secrets: secrets.len(),
            credentials: secrets.len() + keys.len() + tls_client_certificates.len(),
            secret_times: present(secret_times),
            keys: present(keys.iter().map(ClientKeyView::from)),
            client_assertion_audience: client_assertion_audience.map(|one| one.name().to_owned()),
            tls_client_certificates: present(thumbprints.map(ToString::to_string)),
            certificates: present(certificates.map(|one| CertificateView::of(one, now))),
            organization,
            bound_user: self.bound_user().map(ToString::to_string),
            hostname,
            managed_by: self.managed.as_ref().map(ToString::to_string),
            changes: present(effects.changes),
            warnings: present(effects.warnings),
            losing_grants: Some(effects.losing_grants).filter(|losing| *losing > 0),
        }
    }

    fn compared(&self, key: &str) -> Option<Vec<String>> {
        match key {
            CLIENT_SECRET => {
                let digests = self.secrets().iter().map(ClientSecret::digest);
                Some(texts(digests.map(Digest::to_base64url)))
            }
            client_key::KEY => {
                let keys = self.key_authentication.keys.iter();
                Some(texts(keys.map(client_key::text)))
            }
            CERTIFICATES => Some(texts(self.certificates().iter().map(certificate::text))),
            _ => None,
        }
    }

    fn complete(&mut self, before: &Self) {
        if let Some(secrets) = self.secrets_mut().filter(|secrets| secrets.is_empty()) {
            secrets.extend_from_slice(before.secrets());
        }
        if let Some(certificates) = self.certificates_mut().filter(|list| list.is_empty()) {
            certificates.extend_from_slice(before.certificates());
        }
    }

    fn warnings(&self, before: Option<&Self>, revokes: bool) -> Vec<String> {
        let id = &self.client_id;
        let mut warnings = Vec::new();
        let is_everywhere = |client: &Self| match &client.integration {
            Legacy { hostname, .. } => hostname.is_none(),
            _ => false,
        };
        if is_everywhere(self) && !before.is_some_and(is_everywhere) {
            let message = "without a hostname, every legacy instance knows the client";
            warnings.push(format!("{id}: {message}"));
        }
        let Some(before) = before.filter(|_| !revokes) else {
            return warnings;
        };
        let (keys, old) = (&self.key_authentication, &before.key_authentication);
        let removed = [
            ("client secret", lost(before.secrets(), self.secrets())),
            ("key", lost(&old.keys, &keys.keys)),
            (
                "TLS certificate",
                lost(&old.tls_client_certificates, &keys.tls_client_certificates),
            ),
            (
                "identity provider",
                lost(&before.identity_providers, &self.identity_providers),
            ),
            (
                "certificate",
                lost(before.certificates(), self.certificates()),
            ),
        ];
        for (what, _) in removed.into_iter().filter(|(_, is_removed)| *is_removed) {
            warnings.push(format!(
                "{id}: tokens and grants that the client got with the removed {what} stay valid. `grant revoke --client \
                 {id}` revokes them, and so does `--revoke` together with the removal (`revoke=true` in the query)"
            ));
        }
        warnings
    }

    fn client_secrets(&self) -> &[ClientSecret] {
        self.secrets()
    }

    fn client_secrets_mut(&mut self) -> Option<&mut Vec<ClientSecret>> {
        self.secrets_mut()
    }

    fn owner(&self) -> (Option<&Managed>, bool) {
        (self.managed.as_ref(), self.enabled)
    }

    fn owner_mut(&mut self) -> (&mut Option<Managed>, &mut bool) {
        (&mut self.managed, &mut self.enabled)
    }

    fn keep_versions(&mut self, before: &Self) {
        (self.version, self.tokens_from) = (before.version, before.tokens_from);
    }

    fn find<'a>(stored: &'a Excerpt, name: &str) -> Option<&'a Self> {
        Some(stored.client(&ClientId::parse(name)?)?)
    }

    fn spell_names(&mut self, stored: &Excerpt) {
        self.spell_bound_user(|name| Some(stored.user(name)?.username.clone()));
    }

    fn put(change: &mut RegistryChange) -> &mut Vec<Self> {
        &mut change.put_clients
    }

    fn remove(&self, change: &mut RegistryChange) {
        change.remove_clients.push(self.client_id.clone());
    }
}

/// Reads what the integration type has.
fn read(entry: &mut Entry<'_, '_>) -> Option<Client> {
    let client_id = client_id(entry);
    entry.integration = required(&mut entry.section, "type", |text| {
        let expected = |_| format!("expected one of {}", Kind::NAMES.join(", "));
        text.parse().map_err(expected)
    });
    let name = entry.text("name", client_name);
    let home_url = entry.text("home_url", page_address);
    let enabled = entry.enabled();
    let dpop_bound_access_tokens = bound(entry, DPOP_BOUND);
    let tls_client_certificate_bound_access_tokens = bound(entry, CERTIFICATE_BOUND);
    let scopes = scopes(entry);
    let pushed_only = match entry.integration {
        Some(Kind::WebServer | Kind::Installed) => entry.section.flag(PUSHED_ONLY),
        _ => None,
    };
    let second_factor = match entry.integration {
        Some(Kind::WebServer | Kind::Installed | Kind::Legacy) => {
            entry.text(SECOND_FACTOR, SecondFactorRule::parse)
        }
        _ => None,
    };
    let identity_providers = match entry.integration {
        Some(Kind::WebServer | Kind::Installed | Kind::NonInteractive | Kind::Legacy) => {
            identity_providers(entry)
        }
        _ => Vec::new(),
    };
    let has_keys = [client_key::KEY, tls_client_certificate::KEY]
        .iter()
        .any(|key| entry.section.has_some(key));
    let key_authentication = match entry.integration {
        Some(kind) if client_key::TYPES.contains(&kind) => KeyAuthentication {
            keys: client_key::read(entry),
            client_assertion_audience: client_key::audience(entry),
            tls_client_certificates: tls_client_certificate::read(entry),
        },
        _ => KeyAuthentication::default(),
    };
    let integration = match entry.integration? {
        Kind::WebServer => WebServer {
            secrets: client_secret::read(entry, has_keys),
            redirect_uris: redirect_uris::read(entry, RedirectUriUse::WebServer),
        },
        Kind::Installed => Installed {
            redirect_uris: redirect_uris::read(entry, RedirectUriUse::Installed),
        },
        Kind::NonInteractive => NonInteractive {
            secrets: client_secret::read(entry, has_keys),
            certificates: certificate::read(entry, !identity_providers.is_empty()),
            organization: organization(entry),
        },
        Kind::UserBound => UserBound {
            secrets: client_secret::read(entry, has_keys),
            bound_user: bound_user(entry)?,
        },
        Kind::Legacy => Legacy {
            secrets: client_secret::read(entry, has_keys),
            redirect_templates: redirect_uris::read_templates(entry),
            hostname: entry.section.text("hostname").map(|text| text.value),
        },
    };
    let client_id = client_id?;
    Some(Client {
        name: name.unwrap_or_else(|| client_id.to_string()),
        home_url,
        client_id,
        integration,
        key_authentication,
        require_pushed_authorization_requests: pushed_only.is_some_and(|flag| flag.value),
        requires_second_factor: second_factor == Some(SecondFactorRule::Required),
        identity_providers,
        scopes,
        enabled,
        dpop_bound_access_tokens,
        tls_client_certificate_bound_access_tokens,
        managed: None,
        version: ClientVersion::default(),
        tokens_from: Timestamp::default(),
    })
}

fn identity_providers(entry: &mut Entry<'_, '_>) -> Vec<String> {
    let mut seen = BTreeMap::new();
    let mut issuers = Vec::new();
    for text in entry.section.texts(IDENTITY_PROVIDERS).unwrap_or_default() {
        unique(&entry.section, IDENTITY_PROVIDERS, &text, &mut seen);
        match issuer(&text.value) {
            Ok(issuer) => issuers.push(issuer),
            Err(error) => {
                let message = format!("{IDENTITY_PROVIDERS}: {} {error}", text.value);
                entry.section.report(&text.place, message);
            }
        }
    }
    issuers
}

/// Why a non-interactive client should have an organization (D-19).
pub const NAMES_ANYBODY: &str =
    "without an organization, assertions of the client may name every user";

/// True if assertions of the client may name every user.
pub fn names_anybody(client: &Client) -> bool {
    match &client.integration {
        NonInteractive { organization, .. } => organization.is_none(),
        _ => false,
    }
}

/// True if `before` has a value that `after` lacks.
fn lost<T: PartialEq>(before: &[T], after: &[T]) -> bool {
    before.iter().any(|one| !after.contains(one))
}

fn client_id(entry: &mut Entry<'_, '_>) -> Option<ClientId> {
    let text = entry.section.required_text("client_id")?;
    entry.name(ObjectKind::Client, "client_id", &text);
    let client_id = ClientId::parse(&text.value);
    if client_id.is_none() {
        let message = "client_id: must have 1 to 128 printable ASCII characters and no space";
        entry.section.report(&text.place, message);
    }
    if text.value.contains(':') {
        let message =
            "client_id: must not have a colon, at which Basic splits client_id and client_secret";
        entry.section.report(&text.place, message);
    }
    client_id
}

/// Reads a flag for bound tokens. Tokens of the legacy flow have no room for the claim `cnf`.
fn bound(entry: &mut Entry<'_, '_>, key: &'static str) -> bool {
    let Some(flag) = entry.section.flag(key) else {
        return false;
    };
    if flag.value && entry.integration == Some(Kind::Legacy) {
        let message = format!("{key}: legacy access tokens cannot be bound");
        entry.section.report(&flag.place, message);
    }
    flag.value
}

fn scopes(entry: &mut Entry<'_, '_>) -> Scope {
    let tokens = entry.section.texts("scopes").unwrap_or_default();
    for Located { value, place } in &tokens {
        if value.contains(' ') || Scope::parse(value).is_none() {
            let message = format!("scopes: {value:?} is not a scope token (RFC 6749 §3.3)");
            entry.section.report(place, message);
        }
    }
    let tokens: Vec<String> = tokens.into_iter().map(|token| token.value).collect();
    Scope::try_from(tokens.join(" ")).unwrap_or_default()
}

fn organization(entry: &mut Entry<'_, '_>) -> Option<String> {
    if !entry.section.has_some("organization") {
        let message = format!("organization: is absent: {NAMES_ANYBODY}");
        // Only the document decides, so a start need not read the entry again.
        let warnings = &entry.reading.warnings;
        warnings.report(entry.section.place(), message);
    }
    entry.text("organization", compared_text)
}

/// Does not check whether the user exists: the check runs when all users of the document are known.
fn bound_user(entry: &mut Entry<'_, '_>) -> Option<Username> {
    let mut bound_user = entry.section.required_text("bound_user")?;
    let username = Username::parse(&bound_user.value);
    if let Some(username) = &username {
        bound_user.value = username.to_string();
    }
    entry.reading.bound_users.push(bound_user);
    username
}
