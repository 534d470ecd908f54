//! Clients, users and legacy instances as lists of named fields, so that they can be compared and shown.

use domain::client::{Client, ClientSecret, IntegrationType};
use domain::legacy_instance::LegacyInstance;
use domain::redirect_uri::RedirectUriPattern;
use domain::remembered::{Element, Said};
use domain::user::{LinkedAccount, User};
use domain::{Certificate, Username};

/// A named field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) elements: Vec<Element>,
    pub(super) shown: Shown,
}

/// How a change of a field is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// Old and new value.
    Value,
    /// What came and what went.
    List,
    /// By its name alone.
    Secret,
}

/// The change of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldChange {
    /// The field's key in a registrations file.
    pub field: &'static str,
    /// Old and new value, for people; `None` for secrets.
    pub values: Option<String>,
}

impl FieldChange {
    /// The fields that differ.
    pub(super) fn between(before: &[Field], after: &[Field]) -> Vec<Self> {
        let pairs = before.iter().zip(after);
        let differing = pairs.filter(|(before, after)| before.elements != after.elements);
        differing
            .map(|(before, after)| Self {
                field: before.name,
                values: values(before, after),
            })
            .collect()
    }
}

fn values(before: &Field, after: &Field) -> Option<String> {
    match before.shown {
        Shown::Secret => None,
        Shown::Value => Some(format!("{} -> {}", text(before), text(after))),
        Shown::List => {
            let only = |one: &Field, other: &Field, sign: char| -> Vec<String> {
                let elements = one.elements.iter();
                let missing = elements.filter(|element| !other.elements.contains(element));
                missing
                    .map(|element| format!("{sign}{}", element.value.escape_debug()))
                    .collect()
            };
            let mut changes = only(before, after, '-');
            changes.extend(only(after, before, '+'));
            if changes.is_empty() {
                changes.push("another order".to_owned());
            }
            Some(changes.join(" "))
        }
    }
}

/// The values of a field, for people.
pub(super) fn text(field: &Field) -> String {
    let values: Vec<String> = field
        .elements
        .iter()
        .map(|element| match field.shown {
            Shown::Value => format!("{:?}", element.value),
            Shown::List | Shown::Secret => element.value.escape_debug().to_string(),
        })
        .collect();
    if values.is_empty() {
        "nothing".to_owned()
    } else {
        values.join(" ")
    }
}

/// The fields as a file's are remembered.
pub(super) fn said(fields: Vec<Field>) -> Said {
    let fields = fields.into_iter();
    fields
        .map(|field| (field.name.to_owned(), field.elements))
        .collect()
}

fn value(name: &'static str, value: Option<&str>) -> Field {
    Field {
        name,
        elements: value.into_iter().map(single).collect(),
        shown: Shown::Value,
    }
}

fn list(name: &'static str, elements: Vec<Element>) -> Field {
    Field {
        name,
        elements,
        shown: Shown::List,
    }
}

pub(super) fn secret(name: &'static str, elements: Vec<Element>) -> Field {
    Field {
        name,
        elements,
        shown: Shown::Secret,
    }
}

/// The value of a field that is no list.
pub(super) fn single(value: &str) -> Element {
    Element {
        key: String::new(),
        value: value.to_owned(),
    }
}

/// A value of a list that is its own key.
pub(super) fn itself(value: &str) -> Element {
    Element {
        key: value.to_owned(),
        value: value.to_owned(),
    }
}

pub(super) fn of_flag(flag: bool) -> Element {
    single(if flag { "true" } else { "false" })
}

pub(super) fn of_secret(secret: &ClientSecret) -> Element {
    itself(&secret.digest().to_base64url())
}

pub(super) fn of_certificate(certificate: &Certificate) -> Element {
    Element {
        key: certificate.alias.clone(),
        value: format!("{} (x5t {})", certificate.alias, certificate.x5t()),
    }
}

pub(super) fn of_account(account: &LinkedAccount) -> Element {
    let LinkedAccount {
        user_id,
        username,
        site,
    } = account;
    Element {
        // Two texts in one, told apart by their quotes.
        key: format!("{user_id:?} at {site:?}"),
        value: format!("{username:?} ({user_id:?} at {site:?})"),
    }
}

/// What only some integration types have.
#[derive(Debug, Clone, Default)]
pub(super) struct Parts {
    pub(super) secrets: Vec<ClientSecret>,
    pub(super) redirect_uris: Vec<RedirectUriPattern>,
    pub(super) templates: Vec<String>,
    pub(super) certificates: Vec<Certificate>,
    pub(super) organization: Option<String>,
    pub(super) bound_user: Option<Username>,
    pub(super) hostname: Option<String>,
}

impl Parts {
    pub(super) fn of(integration: &IntegrationType) -> Self {
        match integration.clone() {
            IntegrationType::WebServer {
                secrets,
                redirect_uris,
            } => Self {
                secrets,
                redirect_uris,
                ..Self::default()
            },
            IntegrationType::Installed { redirect_uris } => Self {
                redirect_uris,
                ..Self::default()
            },
            IntegrationType::NonInteractive {
                secrets,
                certificates,
                organization,
            } => Self {
                secrets,
                certificates,
                organization,
                ..Self::default()
            },
            IntegrationType::UserBound {
                secrets,
                bound_user,
            } => Self {
                secrets,
                bound_user: Some(bound_user),
                ..Self::default()
            },
            IntegrationType::Legacy {
                secrets,
                redirect_templates,
                hostname,
            } => Self {
                secrets,
                templates: redirect_templates,
                hostname,
                ..Self::default()
            },
        }
    }

    /// The integration of the same type as `like` with these parts. A part that the type has not is left out.
    pub(super) fn assemble(self, like: &IntegrationType) -> IntegrationType {
        let Self {
            secrets,
            redirect_uris,
            templates,
            certificates,
            organization,
            bound_user,
            hostname,
        } = self;
        match like {
            IntegrationType::WebServer { .. } => IntegrationType::WebServer {
                secrets,
                redirect_uris,
            },
            IntegrationType::Installed { .. } => IntegrationType::Installed { redirect_uris },
            IntegrationType::NonInteractive { .. } => IntegrationType::NonInteractive {
                secrets,
                certificates,
                organization,
            },
            IntegrationType::UserBound {
                bound_user: like, ..
            } => IntegrationType::UserBound {
                secrets,
                bound_user: bound_user.unwrap_or_else(|| like.clone()),
            },
            IntegrationType::Legacy { .. } => IntegrationType::Legacy {
                secrets,
                redirect_templates: templates,
                hostname,
            },
        }
    }
}

pub(super) fn of_client(client: &Client) -> Vec<Field> {
    let parts = Parts::of(&client.integration);
    let uris = parts.redirect_uris.iter().map(ToString::to_string);
    let uris = uris.chain(parts.templates.iter().cloned());
    vec![
        value("name", Some(&client.name)),
        value("type", Some(client.integration.name())),
        secret(
            "client_secret",
            parts.secrets.iter().map(of_secret).collect(),
        ),
        list("redirect_uris", uris.map(|uri| itself(&uri)).collect()),
        list("scopes", client.scopes.tokens().map(itself).collect()),
        list(
            "certificates",
            parts.certificates.iter().map(of_certificate).collect(),
        ),
        value("organization", parts.organization.as_deref()),
        value(
            "bound_user",
            parts.bound_user.as_ref().map(Username::as_str),
        ),
        value("hostname", parts.hostname.as_deref()),
        value("enabled", Some(&of_flag(client.enabled).value)),
    ]
}

/// The fields of a user. Password and TOTP secret are in their stored forms: these serve to compare what is stored.
pub(super) fn of_user(user: &User) -> Vec<Field> {
    let hash = user.password_hash.as_deref().map(single);
    let sealed = user.totp_secret_sealed.as_deref();
    let sealed = sealed.map(|sealed| single(&data_encoding::HEXLOWER.encode(sealed)));
    vec![
        value("email", user.email.as_deref()),
        secret(PASSWORD, hash.into_iter().collect()),
        secret(TOTP_SECRET, sealed.into_iter().collect()),
        value("organization", user.organization.as_deref()),
        value("single_sign_on", Some(&of_flag(user.single_sign_on).value)),
        list("accounts", user.accounts.iter().map(of_account).collect()),
        value("enabled", Some(&of_flag(user.enabled).value)),
    ]
}

/// The field of a user's password.
pub(super) const PASSWORD: &str = "password";
/// The field of a user's registered TOTP secret.
pub(super) const TOTP_SECRET: &str = "totp_secret";

pub(super) fn of_legacy_instance(instance: &LegacyInstance) -> Vec<Field> {
    vec![
        value("auth_server_hostname", Some(&instance.auth_server_hostname)),
        value("enabled", Some(&of_flag(instance.enabled).value)),
    ]
}
