//! Claims, a configuration, and the shared data of several VMs, for tests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use keys::testing::Issuer;
use serde_json::{Value, json};

use crate::shared_data::{SharedData, SharedDataError, Versioned};

/// The time of the tests, in seconds.
pub(crate) const NOW: u64 = 1_800_000_000;

/// Valid claims, for an hour.
pub(crate) fn claims() -> Value {
    json!({
        "iss": "https://lobby.example.com",
        "aud": "https://api.example.com",
        "sub": "ada@example.com",
        "client_id": "web",
        "scope": "projects documents",
        "user_id": "1879048401",
        "iat": NOW,
        "exp": NOW + 3600,
        "jti": "token-1",
        "grant_id": "grant-1",
    })
}

/// `claims` with one member changed, or removed if `value` is `null`.
pub(crate) fn with(mut claims: Value, name: &str, value: Value) -> Value {
    match value {
        Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
        value => claims[name] = value,
    }
    claims
}

/// A token with valid claims, whose header names the key `kid`.
pub(crate) fn token_of(issuer: &Issuer, kid: &str) -> String {
    let header = with(issuer.header(), "kid", json!(kid)).to_string();
    issuer.sign(&header, &claims().to_string())
}

/// A configuration with this issuer, whose keys are fetched.
pub(crate) fn config() -> Value {
    json!({
        "issuers": [{
            "issuer": "https://lobby.example.com",
            "audiences": ["https://api.example.com"],
            "jwks": {"cluster": "token-service", "path": "/auth/jwks"},
        }],
        "rules": [
            {"path": "/healthz", "access": "anonymous"},
            {"path_prefix": "/api/admin/", "scopes": ["admin"]},
            {"path_prefix": "/api/"},
        ],
        "forward": {"x-user-id": "user_id", "x-client-id": "client_id"},
    })
}

/// The shared data of several VMs.
#[derive(Debug, Default, Clone)]
pub(crate) struct Store {
    pub(crate) values: Arc<Mutex<BTreeMap<String, Versioned>>>,
    pub(crate) versions: Arc<AtomicU32>,
    /// True if the store loses what is set.
    pub(crate) forgets: bool,
}

impl SharedData for Store {
    fn get(&self, key: &str) -> Result<Option<Versioned>, SharedDataError> {
        Ok(self.values.lock().unwrap().get(key).cloned())
    }

    fn set(&self, key: &str, value: &[u8], version: Option<u32>) -> Result<bool, SharedDataError> {
        let mut values = self.values.lock().unwrap();
        let current = values.get(key).map(|(_, version)| *version);
        if version.is_some() && current.is_some() && version != current {
            return Ok(false);
        }
        let next = self.versions.fetch_add(1, Ordering::Relaxed) + 1;
        if !self.forgets {
            values.insert(key.into(), (value.to_vec(), next));
        }
        Ok(true)
    }
}
