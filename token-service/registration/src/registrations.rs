//! The registrations file: clients, users and certificates as TOML.
//!
//! The file describes only the clients and users that it lists. Nothing in the file is applied if any part is wrong.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use crate::describe::reading::Reading;
use crate::describe::{Completeness, Registered, Registration};
use document::{InvalidDocument, Located, Place, Problem, Problems, Section, Table};
use domain::client::{Client, ClientId};
use domain::clock::Timestamp;
use domain::registry::Registry;
use domain::remembered::ObjectKind;
use domain::user::User;

/// A checked registrations file. The type has no `Debug`, because it may contain passwords.
pub struct Registrations {
    /// The clients, in the order of the file.
    pub clients: Vec<Registration<Client>>,
    /// Where the file defines each client.
    pub client_places: BTreeMap<ClientId, Place>,
    /// The users, in the order of the file.
    pub users: Vec<Registration<User>>,
    /// Values that are allowed but not advisable.
    pub warnings: Vec<Problem>,
}

impl Registrations {
    /// Reads and checks the file at `path`.
    ///
    /// `stored` is the registry that the file will be added to. A `bound_user` may be in `stored` instead of the file,
    /// and names must not collide with `stored`. Pass an empty registry if there is none. `now` decides which
    /// certificates have expired.
    ///
    /// # Errors
    /// [`InvalidDocument`] with every problem.
    pub fn load(path: &Path, stored: &Registry, now: Timestamp) -> Result<Self, InvalidDocument> {
        let problems = Problems::default();
        let table = Table::read(path, &problems);
        Self::read(table, problems, stored, Completeness::Whole, now)
    }

    /// Reads and checks registrations as JSON: an object with the lists `clients` and `users`.
    ///
    /// # Errors
    /// [`InvalidDocument`] with every problem.
    pub fn from_json(
        body: serde_json::Map<String, serde_json::Value>,
        stored: &Registry,
        completeness: Completeness,
        now: Timestamp,
    ) -> Result<Self, InvalidDocument> {
        let table = Table::from_json(body);
        Self::read(table, Problems::default(), stored, completeness, now)
    }

    fn read(
        table: Table,
        problems: Problems,
        stored: &Registry,
        completeness: Completeness,
        now: Timestamp,
    ) -> Result<Self, InvalidDocument> {
        let mut root = Section::root(table, &problems);
        let mut reading = Reading::new(completeness, now);
        let users = reading.list(&mut root, "users");
        let clients: Vec<Registration<Client>> = reading.list(&mut root, "clients");
        root.finish();
        check_names(&reading, &problems, stored);
        let client_ids = reading.names.get(&ObjectKind::Client);
        let client_places = clients.iter().filter_map(|client| {
            let place = client_ids?.get(client.object.name())?;
            Some((client.object.client_id.clone(), place.clone()))
        });
        let client_places = client_places.collect();
        problems.none_or(Self {
            clients,
            client_places,
            users,
            warnings: reading.warnings.into_sorted(),
        })
    }
}

/// Reads and checks one object as JSON, with the keys of an entry in a file.
///
/// # Errors
/// [`InvalidDocument`] with every problem.
pub fn read_entry<T: Registered>(
    body: serde_json::Map<String, serde_json::Value>,
    stored: &Registry,
    completeness: Completeness,
    now: Timestamp,
) -> Result<Registration<T>, InvalidDocument> {
    let problems = Problems::default();
    let section = Section::root(Table::from_json(body), &problems);
    let mut reading = Reading::new(completeness, now);
    let read = reading.object(section);
    check_names(&reading, &problems, stored);
    let read: Option<Registration<T>> = problems.none_or(read)?;
    // Every missing value was reported as a problem.
    read.ok_or(InvalidDocument {
        problems: Vec::new(),
    })
}

/// Compares the names in a document with each other and with the stored registry.
fn check_names(reading: &Reading, problems: &Problems, stored: &Registry) {
    let names = |kind| reading.names.get(&kind).into_iter().flatten();
    let is_user = |name: &str| {
        let usernames = reading.names.get(&ObjectKind::User);
        usernames.is_some_and(|names| names.contains_key(name))
            || User::find(stored, name).is_some()
    };
    // A client's token must not be mistaken for a user's token (RFC 9700 §4.15).
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
    for Located { value, place } in &reading.bound_users {
        if !is_user(value) {
            problems.report(place, format!("bound_user: there is no user {value}"));
        }
    }
}
