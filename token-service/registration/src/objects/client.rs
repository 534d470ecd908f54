//! Clients (protocol.md §1, §5).

use super::{certificate, client_secret, redirect_uris};
use crate::describe::checks::display_name;
use crate::describe::member::{Fixed, member, member_of_types};
use crate::describe::reading::{Entry, claim, switch};
use crate::describe::{Description, Field, Flag, Registered, Rule, flag, flags};
use document::Located;
use domain::client::IntegrationKind;
use domain::remembered::ObjectKind;
use domain::{Client, ClientId, Excerpt, RegistryChange, Scope, Username};

const FIELDS: &[Field<Client>] = &[
    Field {
        given: "1 to 128 printable ASCII characters without space.",
        required: true,
        column: true,
        rule: Rule::Name,
        members: &[&Fixed("client_id", |client: &Client| {
            client.client_id.as_str()
        })],
        ..Field::new("client_id", "Client ID", "The Client ID.")
    },
    Field {
        required: true,
        flag: flag("type", "TYPE"),
        column: true,
        rule: Rule::Type,
        members: &[&Fixed("type", |client: &Client| client.integration.name())],
        ..Field::new(
            "type",
            "Type",
            "The integration type: `web_server`, `installed`, `non_interactive`, `user_bound` or `legacy`.",
        )
    },
    Field {
        given: "The Client ID if absent.",
        flag: flag("name", "NAME"),
        column: true,
        members: &[&member!(Client, name, |entry, key| entry.text(key, display_name))],
        ..Field::new("name", "Name", "The name that people see.")
    },
    Field {
        given: "`true` if absent.",
        flag: flags(
            ("enable", "The client may be used."),
            (
                "disable",
                "The client may not be used, and everything issued to it is revoked.",
            ),
            true,
        ),
        column: true,
        rule: Rule::Enabled,
        members: &[&member!(Client, enabled, switch)],
        ..Field::new("enabled", "Enabled", "Whether the client may be used.")
    },
    Field {
        flag: flag("scope", "SCOPE"),
        rule: Rule::List,
        members: &[&member!(Client, scopes, scopes)],
        ..Field::new("scopes", "Scopes", "Scopes that the client may ask for.")
    },
    Field {
        flag: flag("redirect-uri", "URI"),
        rule: Rule::FilledList,
        members: &[
            &member_of_types!(WebServer | Installed, redirect_uris, redirect_uris::read),
            &member_of_types!(Legacy, redirect_templates, redirect_uris::read_templates),
        ],
        ..Field::new(
            "redirect_uris",
            "Redirect URIs",
            "Redirect URIs; templates for legacy clients.",
        )
    },
    Field {
        alternative: Some(client_secret::DIGEST),
        given: "32 to 1024 bytes. The administration generates an absent one, but not for `legacy`.",
        shown: Some(client_secret::SHOWN),
        rule: Rule::ClientSecrets,
        members: &[&member_of_types!(
            WebServer | NonInteractive | UserBound | Legacy,
            secrets,
            client_secret::read
        )],
        ..Field::new("client_secret", "Client secret", "The client secret.")
    },
    Field {
        flag: Some(Flag::NamedFile("certificate")),
        shown: Some(certificate::SHOWN),
        rule: Rule::FilledList,
        members: &[&member_of_types!(
            NonInteractive,
            certificates,
            certificate::read
        )],
        ..Field::new(
            "certificates",
            "Certificates",
            "The certificates of the client's assertions.",
        )
    },
    Field {
        flag: flag("organization", "ORGANIZATION"),
        members: &[&member_of_types!(NonInteractive, organization, claim)],
        ..Field::new(
            "organization",
            "Organization",
            "The organization to whose users the client is restricted.",
        )
    },
    Field {
        flag: flag("bound-user", "USERNAME"),
        members: &[&member_of_types!(UserBound, bound_user, bound_user)],
        ..Field::new(
            "bound_user",
            "Bound user",
            "The user as whom the client acts.",
        )
    },
    Field {
        flag: flag("hostname", "HOSTNAME"),
        members: &[&member_of_types!(Legacy, hostname, |entry, key| entry
            .section
            .text(key)
            .map(|hostname| Some(hostname.value)))],
        ..Field::new(
            "hostname",
            "Hostname",
            "The one legacy instance that knows the client.",
        )
    },
];

impl Registered for Client {
    const KIND: ObjectKind = ObjectKind::Client;
    const NAME_KEY: &'static str = "client_id";
    const DESCRIPTION: Description<Self> = Description {
        registration: (
            "ClientRegistration",
            "A client's registration: an entry of `clients` of a registrations file. Which keys it has depends on \
                   its type.",
        ),
        view: ("ClientView", "A client."),
        fields: FIELDS,
    };

    fn name(&self) -> &str {
        self.client_id.as_str()
    }

    fn integration(&self) -> Option<IntegrationKind> {
        Some(self.integration.kind())
    }

    fn begin(entry: &mut Entry<'_, '_>) -> Option<Self> {
        let client_id = client_id(entry);
        entry.integration = entry.required("type", |text| {
            let mut kinds = IntegrationKind::ALL.into_iter();
            let names = || IntegrationKind::ALL.map(IntegrationKind::name).join(", ");
            kinds
                .find(|kind| kind.name() == text)
                .ok_or_else(|| format!("expected one of {}", names()))
        });
        Some(Self::new(client_id?, entry.integration?))
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

fn scopes(entry: &mut Entry<'_, '_>, key: &'static str) -> Option<Scope> {
    let tokens = entry.section.texts(key)?;
    for Located { value, place } in &tokens {
        if value.contains(' ') || Scope::parse(value).is_none() {
            let message = format!("{key}: {value:?} is not a scope token (RFC 6749 §3.3)");
            entry.section.report(place, message);
        }
    }
    let tokens: Vec<String> = tokens.into_iter().map(|token| token.value).collect();
    Scope::try_from(tokens.join(" ")).ok()
}

/// Does not check whether the user exists: the check runs when all users of the document are known.
fn bound_user(entry: &mut Entry<'_, '_>, key: &'static str) -> Option<Username> {
    let mut bound_user = entry.section.required_text(key)?;
    let username = Username::parse(&bound_user.value);
    if let Some(username) = &username {
        bound_user.value = username.to_string();
    }
    entry.reading.bound_users.push(bound_user);
    username
}
