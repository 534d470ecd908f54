//! The registrations file: clients, users and certificates as TOML.
//!
//! The file says what the clients and users that it lists are, and nothing about others. Nothing of it
//! reaches the registry unless all of it is right.

mod client;
mod fields;
#[cfg(test)]
mod tests;
mod user;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use document::{InvalidDocument, Located, Place, Problem, Problems, Section, Table};
use domain::client::{Client, ClientId};
use domain::clock::Timestamp;
use domain::registry::Registry;

pub use fields::{MAX_CLAIM_LENGTH, MAX_SECRET_LENGTH, MIN_SECRET_LENGTH};
pub use user::{PasswordRegistration, TOTP_SECRET_LENGTH, UserRegistration};

/// A registrations file, checked. It may hold passwords, so it has no `Debug`.
pub struct Registrations {
    /// The clients, in the order of the file.
    pub clients: Vec<Client>,
    /// Where the file names each client.
    pub client_places: BTreeMap<ClientId, Place>,
    /// The users, in the order of the file.
    pub users: Vec<UserRegistration>,
    /// What is allowed but unwise.
    pub warnings: Vec<Problem>,
}

/// Whether a registration says everything, or may leave out what is stored or made for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// A file: it must hold the client secrets and certificates.
    Whole,
    /// A change through the administration: client secrets and certificates have operations of their own there.
    Partial,
}

impl Registrations {
    /// Reads and checks the file at `path`.
    ///
    /// `stored` is the registry that the file will be added to: a `bound_user` may be there instead of in the
    /// file, and names must not collide with it. Pass an empty one when the file stands alone. `now` tells
    /// which certificates have expired.
    ///
    /// # Errors
    /// [`InvalidDocument`] with every problem.
    pub fn load(path: &Path, stored: &Registry, now: Timestamp) -> Result<Self, InvalidDocument> {
        let problems = Problems::default();
        let table = Table::read(path, &problems);
        Self::read(table, problems, stored, Completeness::Whole, now)
    }

    /// Reads and checks the same as JSON: an object with the lists `clients` and `users`.
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
        let warnings = Problems::default();
        let mut root = Section::root(table, &problems);
        let mut names = Names::default();
        let users = root
            .sections("users")
            .into_iter()
            .filter_map(|section| user::read(section, &mut names.usernames))
            .collect();
        let mut clients = client::Reader {
            now,
            completeness,
            warnings: &warnings,
            names: &mut names,
        };
        let clients: Vec<Client> = root
            .sections("clients")
            .into_iter()
            .filter_map(|section| clients.read(section))
            .collect();
        names.check(&root, stored);
        root.finish();
        let client_places = clients.iter().filter_map(|client| {
            let place = names.client_ids.get(client.client_id.as_str())?;
            Some((client.client_id.clone(), place.clone()))
        });
        let client_places = client_places.collect();
        problems.none_or(Self {
            clients,
            client_places,
            users,
            warnings: warnings.into_sorted(),
        })
    }
}

/// The names of the whole file, each with its first place.
#[derive(Default)]
struct Names {
    usernames: BTreeMap<String, Place>,
    client_ids: BTreeMap<String, Place>,
    bound_users: Vec<Located<String>>,
}

impl Names {
    /// Compares the names with each other and with the registry that the file is added to.
    fn check(&self, root: &Section<'_>, stored: &Registry) {
        let stored_users: BTreeSet<&str> =
            stored.users().map(|user| user.username.as_str()).collect();
        let stored_clients: BTreeSet<&str> = stored
            .clients()
            .map(|client| client.client_id.as_str())
            .collect();
        let is_user = |name: &str| self.usernames.contains_key(name) || stored_users.contains(name);
        // A client's token must not pass for a user's (RFC 9700 §4.15).
        for (client_id, place) in &self.client_ids {
            if is_user(client_id) {
                let message = format!("client_id: {client_id} is also a username (RFC 9700 §4.15)");
                root.report(place, message);
            }
        }
        for (username, place) in &self.usernames {
            if stored_clients.contains(username.as_str()) {
                let message = format!("username: {username} is also a client_id (RFC 9700 §4.15)");
                root.report(place, message);
            }
        }
        for Located { value, place } in &self.bound_users {
            if !is_user(value) {
                root.report(place, format!("bound_user: there is no user {value}"));
            }
        }
    }
}
