//! Recent uses of client secrets, until they are written to the store.
//!
//! An operator removes an old secret when no client uses it any more, so a precision of minutes is enough. Within
//! [`NOTED_EVERY`] only the first use of a secret is noted, and a request never waits for the store. The memory is bounded:
//! of many clients, only the unwritten uses stay.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::client::ClientSecret;
use domain::clock::Timestamp;
use domain::{ClientId, SecretUse};
use store::{Store, StoreError};
use tokio::sync::Notify;

/// Precision of the last use of a secret.
pub const NOTED_EVERY: Duration = Duration::from_secs(5 * 60);

/// Number of clients whose uses wait at most. Further uses are not noted; a later use of the same secret is.
const MOST_CLIENTS: usize = 20_000;

/// Number of clients from which on the uses are written at once, and not kept after that.
const CROWD: usize = MOST_CLIENTS / 2;

/// Uses in one transaction, so that other writes do not wait long.
const BATCH: usize = 500;

/// The last noted uses.
#[derive(Debug, Default)]
pub struct SecretUses {
    noted: Mutex<HashMap<ClientId, Vec<Noted>>>,
    crowded: Notify,
}

#[derive(Debug)]
struct Noted {
    secret: ClientSecret,
    at: Timestamp,
    is_written: bool,
}

impl SecretUses {
    /// Notes that `client_id` proved `secret` at `now`.
    pub fn note(&self, client_id: &ClientId, secret: &ClientSecret, now: Timestamp) {
        let mut noted = self.noted();
        let Some(secrets) = noted.get_mut(client_id) else {
            if noted.len() < MOST_CLIENTS {
                noted.insert(client_id.clone(), vec![Noted::new(secret, now)]);
            }
            if noted.len() >= CROWD {
                self.crowded.notify_one();
            }
            return;
        };
        match secrets.iter_mut().find(|noted| noted.secret == *secret) {
            Some(noted) if now.since(noted.at) < NOTED_EVERY => {}
            Some(noted) => *noted = Noted::new(secret, now),
            None => secrets.push(Noted::new(secret, now)),
        }
    }

    /// Waits until so many uses are noted that they should be written now.
    pub async fn crowded(&self) {
        self.crowded.notified().await;
    }

    /// Writes unwritten uses to the store.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails; then the uses stay unwritten.
    pub async fn write(&self, store: &dyn Store, now: Timestamp) -> Result<(), StoreError> {
        for uses in self.unwritten().chunks(BATCH) {
            store.note_secret_uses(uses.to_vec()).await?;
            let mut noted = self.noted();
            for used in uses {
                let secrets = noted.get_mut(&used.client_id).into_iter().flatten();
                let is_it = |noted: &&mut Noted| noted.secret == used.secret && noted.at == used.at;
                for noted in secrets.filter(is_it) {
                    noted.is_written = true;
                }
            }
        }
        let mut noted = self.noted();
        let is_crowded = noted.len() >= CROWD;
        noted.retain(|_, secrets| {
            secrets.retain(|noted| {
                !noted.is_written || (!is_crowded && now.since(noted.at) < NOTED_EVERY)
            });
            !secrets.is_empty()
        });
        Ok(())
    }

    fn unwritten(&self) -> Vec<SecretUse> {
        let noted = self.noted();
        let secrets = noted.iter().flat_map(|(client_id, secrets)| {
            let unwritten = secrets.iter().filter(|noted| !noted.is_written);
            unwritten.map(|noted| SecretUse {
                client_id: client_id.clone(),
                secret: noted.secret.clone(),
                at: noted.at,
            })
        });
        secrets.collect()
    }

    fn noted(&self) -> MutexGuard<'_, HashMap<ClientId, Vec<Noted>>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Noted {
    fn new(secret: &ClientSecret, at: Timestamp) -> Self {
        Self {
            secret: secret.clone(),
            at,
            is_written: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use store::redb::RedbStore;

    #[tokio::test]
    async fn a_secret_in_use_is_written_once_in_a_while() {
        let folder = TempDir::new().unwrap();
        let store = RedbStore::open(&folder.path().join("store.redb"), NOTED_EVERY).unwrap();
        let (web, secret) = (ClientId::parse("web").unwrap(), ClientSecret::of("secret"));
        let at = |seconds: u64| Timestamp::from_seconds(1_800_000_000 + seconds);
        let uses = SecretUses::default();
        let unwritten = || {
            let uses = uses.unwritten().into_iter();
            uses.map(|used| used.at).collect::<Vec<_>>()
        };
        uses.note(&web, &secret, at(0));
        uses.note(&web, &secret, at(1));
        assert_eq!(unwritten(), [at(0)]);
        uses.write(&store, at(10)).await.unwrap();
        uses.note(&web, &secret, at(299));
        assert!(unwritten().is_empty());
        uses.note(&web, &secret, at(300));
        assert_eq!(unwritten(), [at(300)]);
        uses.note(&web, &ClientSecret::of("successor"), at(301));
        assert_eq!(unwritten(), [at(300), at(301)]);
        uses.write(&store, at(310)).await.unwrap();
        uses.write(&store, at(1000)).await.unwrap();
        assert!(
            uses.noted().is_empty(),
            "a client that came once stays for ever"
        );
    }

    #[tokio::test]
    async fn uses_of_many_clients_are_written_early_and_take_bounded_memory() {
        let folder = TempDir::new().unwrap();
        let store = RedbStore::open(&folder.path().join("store.redb"), NOTED_EVERY).unwrap();
        let now = Timestamp::from_seconds(1_800_000_000);
        let secret = ClientSecret::of("secret");
        let uses = SecretUses::default();
        let client = |number: usize| ClientId::parse(&format!("client-{number}")).unwrap();
        for number in 0..CROWD {
            uses.note(&client(number), &secret, now);
        }
        uses.crowded().await;
        uses.write(&store, now).await.unwrap();
        assert_eq!(uses.noted().len(), 0);
        for number in 0..2 * MOST_CLIENTS {
            uses.note(&client(number), &secret, now);
        }
        assert_eq!(uses.noted().len(), MOST_CLIENTS);
        uses.write(&store, now).await.unwrap();
        uses.note(&client(2 * MOST_CLIENTS), &secret, now);
        assert_eq!(uses.unwritten().len(), 1, "later uses are noted");
    }
}
