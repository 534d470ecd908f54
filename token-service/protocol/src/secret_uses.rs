//! Recent uses of client secrets, until they are written to the store.
//!
//! An operator removes an old secret when no client uses it any more, so a precision of minutes is enough. Within
//! [`NOTED_EVERY`] only the first use of a secret is noted, and a request never waits for the store.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::client::ClientSecret;
use domain::clock::Timestamp;
use domain::{ClientId, SecretUse};
use store::{Store, StoreError};

/// Precision of the last use of a secret.
pub const NOTED_EVERY: Duration = Duration::from_secs(5 * 60);

/// The last noted uses.
#[derive(Debug, Default)]
pub struct SecretUses(Mutex<HashMap<ClientId, Vec<Noted>>>);

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
            noted.insert(client_id.clone(), vec![Noted::new(secret, now)]);
            return;
        };
        match secrets.iter_mut().find(|noted| noted.secret == *secret) {
            Some(noted) if now.since(noted.at) < NOTED_EVERY => {}
            Some(noted) => *noted = Noted::new(secret, now),
            None => secrets.push(Noted::new(secret, now)),
        }
    }

    /// Writes unwritten uses to the store.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails; then the uses stay unwritten.
    pub async fn write(&self, store: &dyn Store, now: Timestamp) -> Result<(), StoreError> {
        let uses = self.unwritten();
        if !uses.is_empty() {
            store.note_secret_uses(uses.clone()).await?;
        }
        let mut noted = self.noted();
        for used in &uses {
            let secrets = noted.get_mut(&used.client_id).into_iter().flatten();
            for noted in secrets.filter(|noted| noted.secret == used.secret && noted.at == used.at)
            {
                noted.is_written = true;
            }
        }
        noted.retain(|_, secrets| {
            secrets.retain(|noted| !noted.is_written || now.since(noted.at) < NOTED_EVERY);
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
}
