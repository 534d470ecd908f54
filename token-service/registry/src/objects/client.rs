//! Clients (protocol.md §1).

use std::collections::BTreeMap;

use super::certificate::CertificateView;
use super::client_json::{ClientRegistration, ClientView};
use super::client_key::ClientKeyView;
use super::client_secret::SecretView;
use super::{certificate, client_key, client_secret, redirect_uris, tls_client_certificate};
use crate::describe::checks::{client_name, compared_text, issuer, page_address, unique};
use crate::describe::reading::{Entry, Registration, required};
use crate::describe::{Effects, Registered, Values, list, present, secret, single, state};
use document::Located;
use domain::client::IntegrationType::{Installed, Legacy, NonInteractive, UserBound, WebServer};
use domain::client::{ClientSecret, ClientVersion, IntegrationKind as Kind};
use domain::clock::Timestamp;
use domain::object::ObjectKind;
use domain::redirect_uri::RedirectUriUse;
use domain::{
    Client, ClientId, Excerpt, KeyAuthentication, Managed, Observed, RegistryChange, Scope,
    SecondFactorRule, Username,
};

const PUSHED_ONLY: &str = "require_pushed_authorization_requests";
const SECOND_FACTOR: &str = "second_factor";
const IDENTITY_PROVIDERS: &str = "identity_providers";
const DPOP_BOUND: &str = "dpop_bound_access_tokens";
const CERTIFICATE_BOUND: &str = "tls_client_certificate_bound_access_tokens";

/// The keys that only some integration types have.
const OF_SOME_TYPES: [&str; 13] = [
    "redirect_uris",
    PUSHED_ONLY,
    SECOND_FACTOR,
    IDENTITY_PROVIDERS,
    "client_secret",
    client_secret::DIGEST,
    client_key::KEY,
    client_key::AUDIENCE,
    tls_client_certificate::KEY,
    "certificates",
    "organization",
    "bound_user",
    "hostname",
];

impl Registered for Client {
    const KIND: ObjectKind = ObjectKind::Client;
    const LIST: &'static str = "clients";
    const NAME_KEY: &'static str = "client_id";
    const ONLY_VIEWED: &'static [&'static str] = &[
        "secrets",
        "credentials",
        "secret_times",
        "certificates",
        "managed_by",
    ];
    const ONLY_REGISTERED: &'static [&'static str] =
        &["client_secret", client_secret::DIGEST, "certificates"];
    const EDITABLE: &'static [(&'static str, Option<&'static str>)] = &[
        ("scopes", None),
        ("redirect_uris", None),
        (IDENTITY_PROVIDERS, None),
        (client_key::KEY, Some("kid")),
        (tls_client_certificate::KEY, None),
    ];

    type Keys = ClientRegistration;
    type View = ClientView;

    fn name(&self) -> &str {
        self.client_id.as_str()
    }

    fn read(entry: &mut Entry<'_, '_>) -> Option<Registration<Self>> {
        let read = read(entry);
        for key in OF_SOME_TYPES {
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

    fn values(&self) -> Vec<Values> {
        // Reads the view, because both have the same texts.
        let view = self.view(
            Timestamp::default(),
            &Observed::default(),
            Effects::default(),
        );
        let (keys, digests) = (&self.key_authentication, self.secrets().iter());
        let is_bound = view.tls_client_certificate_bound_access_tokens;
        vec![
            single("type", [view.r#type]),
            single("name", [view.name]),
            single("home_url", view.home_url),
            state("enabled", view.enabled),
            single(DPOP_BOUND, [view.dpop_bound_access_tokens]),
            single(CERTIFICATE_BOUND, [is_bound]),
            list("scopes", view.scopes),
            list("redirect_uris", view.redirect_uris.unwrap_or_default()),
            single(PUSHED_ONLY, view.require_pushed_authorization_requests),
            single(SECOND_FACTOR, view.second_factor),
            list(IDENTITY_PROVIDERS, &self.identity_providers),
            secret(
                "client_secret",
                digests.map(|one| one.digest().to_base64url()),
            ),
            list(client_key::KEY, keys.keys.iter().map(client_key::text)),
            single(client_key::AUDIENCE, view.client_assertion_audience),
            list(tls_client_certificate::KEY, &keys.tls_client_certificates),
            list(
                "certificates",
                self.certificates().iter().map(certificate::text),
            ),
            single("organization", view.organization),
            single("bound_user", view.bound_user),
            single("hostname", view.hostname),
        ]
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
