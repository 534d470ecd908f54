//! The registrations file: clients, users and certificates as TOML.
//!
//! The file describes only the clients and users that it lists. Nothing in the file is applied if any part is wrong.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::describe::reading::Reading;
use crate::describe::{Completeness, Registered, Registration};
use document::{InvalidDocument, Located, Place, Problem, Problems, Section, Table};
use domain::Excerpt;
use domain::client::{Client, ClientId, IntegrationType};
use domain::clock::Timestamp;
use domain::object::{ObjectKind, ObjectName};
use domain::user::{User, Username};
use protocol::Settings;

/// A checked registrations file. The type has no `Debug`, because it may contain passwords.
pub struct Registrations {
    /// The clients, in the order of the file.
    pub clients: Vec<Registration<Client>>,
    /// The users, in the order of the file.
    pub users: Vec<Registration<User>>,
    /// Where the file defines each object.
    pub places: BTreeMap<ObjectName, Place>,
    /// Values that are allowed but not advisable.
    pub warnings: Vec<Problem>,
    /// True if the file names other files, whose content counts too.
    pub names_files: bool,
}

impl Registrations {
    /// The names of the objects: first users, then clients, each in the order of the document.
    pub fn objects(&self) -> impl Iterator<Item = ObjectName> {
        let users = self.users.iter().map(|user| user.object.object_name());
        let clients = self.clients.iter();
        users.chain(clients.map(|client| client.object.object_name()))
    }

    /// Reads registrations as JSON: an object with the lists `clients` and `users`.
    pub fn from_json(
        body: serde_json::Map<String, serde_json::Value>,
        completeness: Completeness,
        now: Timestamp,
    ) -> Draft<Self> {
        Self::read(
            Table::from_json(body),
            completeness,
            now,
            Problems::default(),
        )
    }

    /// Reads a document in which `problems` were found before.
    pub(crate) fn read(
        document: Table,
        completeness: Completeness,
        now: Timestamp,
        problems: Problems,
    ) -> Draft<Self> {
        let mut reading = Reading::new(completeness, now);
        let mut root = Section::root(document, &problems);
        let users = reading.list(&mut root, "users");
        let clients = reading.list(&mut root, "clients");
        root.finish();
        let places = reading.names.iter().flat_map(|(kind, names)| {
            let names = names.iter();
            names.map(|(name, place)| (ObjectName::new(*kind, name), place.clone()))
        });
        let read = Some(Self {
            places: places.collect(),
            clients,
            users,
            warnings: std::mem::take(&mut reading.warnings).into_sorted(),
            names_files: reading.names_files,
        });
        Draft {
            read,
            reading,
            problems,
        }
    }
}

/// A warning about a client that lacks something of the configuration: a legacy client whose host name is not one of those for
/// which `is_known` is true, a client of an identity provider that is not configured or with which its people cannot sign in, or a client
/// with certificates of TLS where the service has no listener for them (`takes_certificates`).
pub fn unserved(
    client: &Client,
    is_known: impl Fn(&str) -> bool,
    takes_certificates: bool,
    settings: &Settings,
) -> Option<String> {
    let id = &client.client_id;
    if let IntegrationType::Legacy {
        hostname: Some(hostname),
        ..
    } = &client.integration
        && !is_known(hostname)
    {
        let message = "which no legacy instance has";
        return Some(format!(
            "client_id: {id} is for the hostname {hostname}, {message}"
        ));
    }
    let mut issuers = client.identity_providers.iter();
    if let Some(issuer) = issuers.find(|issuer| settings.identity_provider(issuer).is_none()) {
        return Some(format!(
            "client_id: {id} names the identity provider {issuer}, for which there is no [[identity_providers]]"
        ));
    }
    let signs_in = !matches!(client.integration, IntegrationType::NonInteractive { .. });
    let named = client.identity_providers.iter().filter(|_| signs_in);
    let mut named = named.filter_map(|issuer| settings.identity_provider(issuer));
    if let Some(provider) = named.find(|provider| provider.client_id.is_none()) {
        let issuer = &provider.issuer;
        return Some(format!(
            "client_id: {id} names the identity provider {issuer}, which has no client_id: nobody signs in with it"
        ));
    }
    let has_certificates = client.tls_client_certificate_bound_access_tokens
        || !client.key_authentication.tls_client_certificates.is_empty();
    let message = "is registered with a certificate, for which there is no mutual_tls.listen";
    (has_certificates && !takes_certificates).then(|| format!("client_id: {id} {message}"))
}

/// A document that was read, but not yet compared with the stored registrations. The type has no `Debug`, because it
/// may contain passwords.
#[must_use]
pub struct Draft<T> {
    read: Option<T>,
    reading: Reading,
    problems: Problems,
}

impl<T> Draft<T> {
    /// The objects that [`Self::check`] and a plan look up: everything that the document lists, clients and users with
    /// the same names, and bound users.
    pub fn names(&self) -> Vec<ObjectName> {
        let listed = self.reading.names.iter();
        let mut names: BTreeSet<ObjectName> = listed
            .flat_map(|(kind, listed)| listed.keys().flat_map(|name| looked_up(*kind, name)))
            .collect();
        let bound_users = self.reading.bound_users.iter();
        names.extend(bound_users.filter_map(|bound| user(&bound.value)));
        names.into_iter().collect()
    }

    /// The listed names of clients and users, each with the place of its first entry.
    pub fn places(&self) -> impl Iterator<Item = (ObjectKind, &str, &Place)> {
        self.reading.names.iter().flat_map(|(kind, names)| {
            let names = names.iter();
            names.map(|(name, place)| (*kind, name.as_str(), place))
        })
    }

    pub fn into_problems(self) -> InvalidDocument {
        InvalidDocument {
            problems: self.problems.into_sorted(),
        }
    }

    /// Compares the names in the document with each other and with `stored`, which contains [`Self::names`] as far as
    /// they are registered. A `bound_user` may be in `stored` instead of the document. Names must not collide with
    /// `stored`.
    ///
    /// # Errors
    /// [`InvalidDocument`] with every problem, including the problems of reading.
    pub fn check(self, stored: &Excerpt) -> Result<T, InvalidDocument> {
        check_names(&self.reading, &self.problems, stored);
        let read = self.problems.none_or(self.read)?;
        // Every missing value was reported as a problem.
        read.ok_or(InvalidDocument {
            problems: Vec::new(),
        })
    }
}

/// What a plan looks up to change the object `name`: the object, and the client or user that must not have the same name
/// (RFC 9700 §4.15).
pub fn looked_up(kind: ObjectKind, name: &str) -> Vec<ObjectName> {
    match kind {
        ObjectKind::Client | ObjectKind::User => {
            let client = ClientId::parse(name);
            let client = client.map(|id| ObjectName::new(ObjectKind::Client, id.as_str()));
            client.into_iter().chain(user(name)).collect()
        }
        ObjectKind::LegacyInstance => vec![ObjectName::new(kind, name)],
    }
}

/// The name in the form in which it is stored.
fn user(name: &str) -> Option<ObjectName> {
    let username = Username::parse(name)?;
    Some(ObjectName::new(ObjectKind::User, username))
}

/// Reads one object as JSON, with the keys of an entry in a file.
pub fn read_entry<T: Registered>(
    body: serde_json::Map<String, serde_json::Value>,
    completeness: Completeness,
    now: Timestamp,
) -> Draft<Registration<T>> {
    let problems = Problems::default();
    let section = Section::root(Table::from_json(body), &problems);
    let mut reading = Reading::new(completeness, now);
    let read = reading.object(section);
    Draft {
        read,
        reading,
        problems,
    }
}

fn check_names(reading: &Reading, problems: &Problems, stored: &Excerpt) {
    let names = |kind| reading.names.get(&kind).into_iter().flatten();
    let is_user = |name: &str| {
        let usernames = reading.names.get(&ObjectKind::User);
        let username = Username::parse(name);
        usernames.is_some_and(|names| names.contains_key(name))
            || username.is_some_and(|username| stored.user_spelt(&username).is_some())
    };
    // A client's token must not be mistaken for a user's token (RFC 9700 §4.15). Tokens carry the registered spelling, so
    // letter case matters here.
    for (client_id, place) in names(ObjectKind::Client) {
        if is_user(client_id) {
            let message = format!("client_id: {client_id} is also a username (RFC 9700 §4.15)");
            problems.report(place, message);
        }
    }
    for (username, place) in names(ObjectKind::User) {
        if Client::find(stored, username).is_some() {
            let message = format!("username: {username} is also a client_id (RFC 9700 §4.15)");
            problems.report(place, message);
        }
    }
    let listed = reading.names.get(&ObjectKind::User);
    let listed = listed.map(|listed| check_spellings(listed, problems, stored));
    let listed = listed.unwrap_or_default();
    let is_user = |username: Username| {
        stored.user(&username).is_some() || listed.contains(&*username.folded())
    };
    for Located { value, place } in &reading.bound_users {
        if !Username::parse(value).is_some_and(is_user) {
            problems.report(place, format!("bound_user: there is no user {value}"));
        }
    }
}

/// Reports names of users that differ from another name only in letter case (D-43). Returns the folded form of
/// the listed names.
fn check_spellings(
    listed: &BTreeMap<String, Place>,
    problems: &Problems,
    stored: &Excerpt,
) -> HashSet<String> {
    let mut first: HashMap<String, (&String, &Place)> = HashMap::new();
    for (name, place) in listed {
        let Some(username) = Username::parse(name) else {
            continue;
        };
        let folded = username.folded().into_owned();
        if let Some((other, at)) = first.get(&folded) {
            let message = format!(
                "username: {username} differs from {other} at {at} only in letter case: keep one of the two"
            );
            problems.report(place, message);
            continue;
        }
        first.insert(folded, (name, place));
        let other = stored.user(&username).map(|user| &user.username);
        if let Some(other) = other.filter(|other| !listed.contains_key(other.as_str())) {
            let message = format!(
                "username: {username} differs from the registered user {other} only in letter case: write {other}, \
                 or remove that user first"
            );
            problems.report(place, message);
        }
    }
    first.into_keys().collect()
}
