//! Clients (protocol.md §1, §5).

use serde_json::{Value, json};

use super::{
    certificate, changes, client_key, client_secret, redirect_uris, tls_client_certificate,
};
use crate::describe::checks::{claim_text, display_name};
use crate::describe::reading::{Entry, Registration, required};
use crate::describe::values::parsed;
use crate::describe::{Description, Field, Flag, In, Registered, Rule, Shape};
use document::Located;
use domain::client::IntegrationKind::{
    self, Installed, Legacy, NonInteractive, UserBound, WebServer,
};
use domain::client::{ClientSecret, ClientVersion, IntegrationType};
use domain::clock::Timestamp;
use domain::object::ObjectKind;
use domain::redirect_uri::RedirectUriUse;
use domain::{
    Client, ClientId, Excerpt, KeyAuthentication, Managed, RedirectUriPattern, RegistryChange,
    Scope, SecretTimes, Username,
};

const PUSHED_ONLY: &str = "require_pushed_authorization_requests";
const DPOP_BOUND: &str = "dpop_bound_access_tokens";
const CERTIFICATE_BOUND: &str = "tls_client_certificate_bound_access_tokens";

const DESCRIPTION: Description = Description {
    kind: ObjectKind::Client,
    list: "clients",
    name_key: "client_id",
    name_value: "CLIENT_ID",
    name_flag: Some("id"),
    registration: (
        "ClientRegistration",
        "A client's registration: an entry of `clients` of a registrations file. Which keys it has depends on \
                   its type.",
    ),
    view: ("ClientView", "A client."),
    fields: &[
        Field {
            given: "1 to 128 printable ASCII characters without space.",
            required: true,
            column: true,
            rule: Rule::None,
            ..Field::new("client_id", "Client ID", "The Client ID.")
        },
        Field {
            required: true,
            flag: Some(Flag::Value("type", "TYPE")),
            column: true,
            rule: Rule::Type,
            ..Field::new(
                "type",
                "Type",
                "The integration type: `web_server`, `installed`, `non_interactive`, `user_bound` or `legacy`.",
            )
        },
        Field {
            given: "The Client ID if absent.",
            flag: Some(Flag::Value("name", "NAME")),
            column: true,
            ..Field::new("name", "Name", "The name that people see.")
        },
        Field {
            given: "`true` if absent.",
            flag: Some(Flag::Switch {
                on: ("enable", "The client may be used."),
                off: (
                    "disable",
                    "The client may not be used, and everything issued to it is revoked.",
                ),
                default: true,
            }),
            column: true,
            shape: Shape::Flag,
            rule: Rule::Enabled,
            ..Field::new("enabled", "Enabled", "Whether the client may be used.")
        },
        Field {
            given: "`false` if absent. Not for `legacy`.",
            flag: Some(Flag::Switch {
                on: (
                    "dpop-bound",
                    "The client gets only access tokens that are bound to a key (DPoP).",
                ),
                off: ("dpop-optional", "The client also gets bearer tokens."),
                default: false,
            }),
            shape: Shape::Flag,
            ..Field::new(
                DPOP_BOUND,
                "Only bound tokens",
                "Whether the client gets only access tokens that are bound to a key (RFC 9449 §5.2).",
            )
        },
        Field {
            given: "`false` if absent. Not for `legacy`.",
            flag: Some(Flag::Switch {
                on: (
                    "certificate-bound",
                    "The client gets only access tokens that are bound to the certificate of its connection.",
                ),
                off: (
                    "certificate-optional",
                    "Access tokens are not bound to certificates.",
                ),
                default: false,
            }),
            shape: Shape::Flag,
            ..Field::new(
                CERTIFICATE_BOUND,
                "Bound to certificates",
                "Whether the client gets only access tokens that are bound to the certificate of its connection (RFC 8705 \
                 §3.4).",
            )
        },
        Field {
            flag: Some(Flag::Value("scope", "SCOPE")),
            edits: Some(["add-scope", "remove-scope"]),
            shape: Shape::Texts,
            rule: Rule::List,
            ..Field::new("scopes", "Scopes", "Scopes that the client may ask for.")
        },
        Field {
            flag: Some(Flag::Value("redirect-uri", "URI")),
            edits: Some(["add-redirect-uri", "remove-redirect-uri"]),
            types: &[WebServer, Installed, Legacy],
            shape: Shape::Texts,
            rule: Rule::List,
            members: &["redirect_uris", "redirect_templates"],
            text: |value| parsed(value, |uri: RedirectUriPattern| uri.to_string()),
            ..Field::new(
                "redirect_uris",
                "Redirect URIs",
                "Redirect URIs; templates for legacy clients.",
            )
        },
        Field {
            given: "`false` if absent.",
            flag: Some(Flag::Switch {
                on: (
                    "require-pushed-requests",
                    "The client must push its authorization requests.",
                ),
                off: (
                    "allow-unpushed-requests",
                    "Authorization requests may come from the browser.",
                ),
                default: false,
            }),
            types: &[WebServer, Installed],
            shape: Shape::Flag,
            ..Field::new(
                PUSHED_ONLY,
                "Pushed requests only",
                "Whether the client must push its authorization requests (RFC 9126).",
            )
        },
        Field {
            given: "32 to 1024 bytes. The administration generates an absent one, but not for `legacy`.",
            types: client_secret::TYPES,
            place: In::Registrations,
            rule: Rule::ClientSecrets,
            members: &["secrets"],
            text: |value| parsed(value, |secret: ClientSecret| secret.digest().to_base64url()),
            ..Field::new("client_secret", "", "The client secret.")
        },
        Field {
            types: client_secret::TYPES,
            place: In::Registrations,
            rule: Rule::None,
            ..Field::new(
                client_secret::DIGEST,
                "",
                "In place of the client secret: its SHA-256 digest, hexadecimal or base64url.",
            )
        },
        Field {
            required: true,
            card: false,
            shape: Shape::Count,
            ..Field::shown(
                "secrets",
                "Secrets",
                "Live client secrets: two during a rotation.",
            )
        },
        Field {
            required: true,
            card: false,
            column: true,
            shape: Shape::Count,
            ..Field::shown(
                "credentials",
                "Credentials",
                "With what the client can authenticate: live client secrets, keys and TLS certificates.",
            )
        },
        Field {
            shape: Shape::Records(&client_secret::TIMES),
            ..Field::shown(
                "secret_times",
                "Live secrets",
                "The times of the live client secrets, the oldest first.",
            )
        },
        Field {
            given: "A client with keys needs no client secret.",
            flag: Some(Flag::NamedFile("key", "KID=FILE")),
            edits: Some(["add-key", "remove-key"]),
            types: client_key::TYPES,
            shape: Shape::Records(&client_key::RECORD),
            rule: Rule::List,
            text: client_key::text,
            ..Field::new(
                client_key::KEY,
                "Keys",
                "The public keys of client assertions, with which the client authenticates (`private_key_jwt`).",
            )
        },
        Field {
            given: "`issuer` if absent; `token_endpoint` for libraries that cannot send the issuer.",
            flag: Some(Flag::Value("client-assertion-audience", "AUDIENCE")),
            types: client_key::TYPES,
            rule: Rule::Optional,
            ..Field::new(
                client_key::AUDIENCE,
                "Assertion audience",
                "The only `aud` of client assertions: `issuer` or `token_endpoint`.",
            )
        },
        Field {
            given: "64 hexadecimal digits or base64url. A client with certificates needs no client secret.",
            flag: Some(Flag::Value("tls-certificate", "SHA256")),
            edits: Some(["add-tls-certificate", "remove-tls-certificate"]),
            types: client_key::TYPES,
            shape: Shape::Texts,
            rule: Rule::List,
            ..Field::new(
                tls_client_certificate::KEY,
                "TLS certificates",
                "The SHA-256 thumbprints of the certificates with which the client authenticates its connection \
                 (`self_signed_tls_client_auth`).",
            )
        },
        Field {
            flag: Some(Flag::NamedFile("certificate", "ALIAS=FILE")),
            types: &[NonInteractive],
            shape: Shape::Records(&certificate::REGISTRATION),
            place: In::Registrations,
            rule: Rule::List,
            text: certificate::text,
            ..Field::new(
                "certificates",
                "Certificates",
                "The certificates of the client's assertions.",
            )
        },
        Field {
            column: true,
            shape: Shape::Records(&certificate::VIEW),
            ..Field::shown(
                "certificates",
                "Certificates",
                "The certificates of the client's assertions.",
            )
        },
        Field {
            flag: Some(Flag::Value("organization", "ORGANIZATION")),
            types: &[NonInteractive],
            rule: Rule::Optional,
            ..Field::new(
                "organization",
                "Organization",
                "The organization to whose users the client is restricted.",
            )
        },
        Field {
            flag: Some(Flag::Value("bound-user", "USERNAME")),
            types: &[UserBound],
            ..Field::new(
                "bound_user",
                "Bound user",
                "The user as whom the client acts.",
            )
        },
        Field {
            flag: Some(Flag::Value("hostname", "HOSTNAME")),
            types: &[Legacy],
            rule: Rule::Optional,
            ..Field::new(
                "hostname",
                "Hostname",
                "The one legacy instance that knows the client.",
            )
        },
        changes::MANAGED,
        changes::CHANGES,
        changes::WARNINGS,
        Field {
            card: false,
            shape: Shape::Count,
            ..Field::shown(
                changes::LOSING_GRANTS,
                "Losing grants",
                "In the answer to a change: live grants whose next refresh lacks a scope that the client loses, at most 10,000.",
            )
        },
    ],
};

impl Registered for Client {
    const DESCRIPTION: &'static Description = &DESCRIPTION;

    fn name(&self) -> &str {
        self.client_id.as_str()
    }

    fn read(entry: &mut Entry<'_, '_>) -> Option<Registration<Self>> {
        let client_id = client_id(entry);
        entry.integration = required(&mut entry.section, "type", |text| {
            let expected = |_| format!("expected one of {}", IntegrationKind::NAMES.join(", "));
            text.parse().map_err(expected)
        });
        let name = entry.text("name", display_name);
        let enabled = entry.enabled();
        let dpop_bound_access_tokens = bound(entry, DPOP_BOUND);
        let tls_client_certificate_bound_access_tokens = bound(entry, CERTIFICATE_BOUND);
        let scopes = scopes(entry);
        let pushed_only = match entry.integration {
            Some(WebServer | Installed) => entry.section.flag(PUSHED_ONLY),
            _ => None,
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
            WebServer => IntegrationType::WebServer {
                secrets: client_secret::read(entry, has_keys),
                redirect_uris: redirect_uris::read(entry, RedirectUriUse::WebServer),
            },
            Installed => IntegrationType::Installed {
                redirect_uris: redirect_uris::read(entry, RedirectUriUse::Installed),
            },
            NonInteractive => IntegrationType::NonInteractive {
                secrets: client_secret::read(entry, has_keys),
                certificates: certificate::read(entry),
                organization: organization(entry),
            },
            UserBound => IntegrationType::UserBound {
                secrets: client_secret::read(entry, has_keys),
                bound_user: bound_user(entry)?,
            },
            Legacy => IntegrationType::Legacy {
                secrets: client_secret::read(entry, has_keys),
                redirect_templates: redirect_uris::read_templates(entry),
                hostname: entry.section.text("hostname").map(|text| text.value),
            },
        };
        let client_id = client_id?;
        Some(Registration::of(Self {
            name: name.unwrap_or_else(|| client_id.to_string()),
            client_id,
            integration,
            key_authentication,
            require_pushed_authorization_requests: pushed_only.is_some_and(|flag| flag.value),
            scopes,
            enabled,
            dpop_bound_access_tokens,
            tls_client_certificate_bound_access_tokens,
            managed: None,
            version: ClientVersion::default(),
            tokens_from: Timestamp::default(),
        }))
    }

    fn shown(&self, now: Timestamp, times: &[SecretTimes]) -> Value {
        let keys = &self.key_authentication;
        let others = keys.keys.len() + keys.tls_client_certificates.len();
        json!({
            "secrets": self.secrets().len(),
            "credentials": self.secrets().len() + others,
            "secret_times": client_secret::times(self, times),
            "certificates": certificate::shown(self, now),
            changes::MANAGED_KEY: self.managed.as_ref().map(ToString::to_string),
        })
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
            IntegrationType::Legacy { hostname, .. } => hostname.is_none(),
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

/// Why a non-interactive client should have an organization (D-19).
pub const NAMES_ANYBODY: &str =
    "without an organization, assertions of the client may name every user";

/// True if assertions of the client may name every user.
pub fn names_anybody(client: &Client) -> bool {
    match &client.integration {
        IntegrationType::NonInteractive { organization, .. } => organization.is_none(),
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
    if flag.value && entry.integration == Some(Legacy) {
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
        // The document alone decides, so a start need not read the entry again.
        let warnings = &entry.reading.warnings;
        warnings.report(entry.section.place(), message);
    }
    entry.text("organization", claim_text)
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
