//! The opened signing keys of the service. One key signs; every key verifies until its last token has expired.

use std::sync::Arc;

use claims::jwk::JwkSet;
use claims::jws::JwsError;
use claims::{Algorithm, CompactJws};
use serde_json::{Map, Value};

use super::key::{KeyError, SigningKey};
use super::rotation::{self, Policy, Signers, Step};
use domain::clock::Timestamp;
use domain::{AuditEvent, SealedSigningKey};
use secrets::sealing::{EncryptionKey, SealingError, signing_key_context};
use store::{Store, StoreError};

/// Reason why the service has no usable keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyRingError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "the signing key {kid} cannot be opened: {error}; is this the encryption key of this store?"
    )]
    Sealing {
        kid: String,
        /// True if the key signs now, so that this process must not answer any more.
        signs: bool,
        error: SealingError,
    },
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The store returns no key of the configured algorithm although the service just added a key.
    #[error("the store holds no signing key for {}", .0.name())]
    Missing(Algorithm),
}

/// All usable keys, with the signing key.
#[derive(Debug)]
pub struct KeyRing {
    sealed: Vec<SealedSigningKey>,
    signing: Arc<SigningKey>,
    ed25519: Option<Arc<SigningKey>>,
    all: Vec<Arc<SigningKey>>,
    published: String,
}

impl KeyRing {
    /// Carries out the steps that are due by `policy` (creating the first keys, announcing successors, deleting keys
    /// whose tokens have all expired), then opens the store's keys.
    ///
    /// # Errors
    /// A [`KeyRingError`]: the service cannot start without keys.
    pub async fn open(
        store: &dyn Store,
        encryption_key: &EncryptionKey,
        policy: &Policy,
        now: Timestamp,
    ) -> Result<Self, KeyRingError> {
        let sealed = upkeep(store, encryption_key, policy, now).await?;
        Self::new(sealed, encryption_key, policy, now)
    }

    /// The ring at `now`, by the same rules as [`Self::open`]. `None` if this ring is still current.
    ///
    /// # Errors
    /// A [`KeyRingError`]; this ring stays usable until its keys are deleted.
    pub async fn refreshed(
        &self,
        store: &dyn Store,
        encryption_key: &EncryptionKey,
        policy: &Policy,
        now: Timestamp,
    ) -> Result<Option<Self>, KeyRingError> {
        let sealed = upkeep(store, encryption_key, policy, now).await?;
        let signers = Signers::at(&sealed, policy, now);
        let same_signers = [
            (signers.current, Some(&*self.signing)),
            (signers.legacy, self.ed25519()),
        ]
        .iter()
        .all(|(wanted, used)| wanted.map(|key| key.kid.as_str()) == used.map(SigningKey::kid));
        if same_signers && sealed == self.sealed {
            return Ok(None);
        }
        Self::new(sealed, encryption_key, policy, now).map(Some)
    }

    fn new(
        sealed: Vec<SealedSigningKey>,
        encryption_key: &EncryptionKey,
        policy: &Policy,
        now: Timestamp,
    ) -> Result<Self, KeyRingError> {
        let signers = Signers::at(&sealed, policy, now);
        for key in [signers.current, signers.legacy].into_iter().flatten() {
            open(key, encryption_key, true)?;
        }
        let all = sealed
            .iter()
            .map(|key| open(key, encryption_key, false).map(Arc::new))
            .collect::<Result<Vec<_>, _>>()?;
        let opened = |wanted: Option<&SealedSigningKey>| {
            all.iter()
                .find(|key| wanted.is_some_and(|wanted| wanted.kid == key.kid()))
                .cloned()
        };
        let keys = all.iter().map(|key| key.jwk().clone()).collect();
        Ok(Self {
            signing: opened(signers.current).ok_or(KeyRingError::Missing(policy.algorithm))?,
            ed25519: opened(signers.legacy),
            published: serde_json::to_string(&JwkSet { keys }).map_err(|_| KeyError)?,
            all,
            sealed,
        })
    }

    /// The sealed keys from the store, oldest first.
    pub fn sealed(&self) -> &[SealedSigningKey] {
        &self.sealed
    }

    pub const fn signing(&self) -> &Arc<SigningKey> {
        &self.signing
    }

    /// The current Ed25519 signing key, if any. Tokens of the legacy flow have no room for longer signatures.
    pub fn ed25519(&self) -> Option<&SigningKey> {
        self.ed25519.as_deref()
    }

    /// The JWK set as JSON, which `/auth/jwks` returns.
    pub fn published(&self) -> &str {
        &self.published
    }

    /// The claims of a token of type `typ` that one of these keys signed; `None` for other tokens.
    ///
    /// The caller must check issuer, audience and times.
    pub fn verify(&self, token: &str, typ: &str) -> Option<Map<String, Value>> {
        let read = || -> Result<Option<Map<String, Value>>, JwsError> {
            let jws = CompactJws::parse(token)?;
            if !jws.header.has_type(typ) {
                return Ok(None);
            }
            let signed = self.all.iter().any(|key| {
                jws.header.kid.as_deref() == Some(key.kid())
                    && jws.header.alg.as_deref() == Some(key.algorithm().name())
                    && key.verifies(jws.signing_input.as_bytes(), &jws.signature)
            });
            if signed {
                jws.claims().map(Some)
            } else {
                Ok(None)
            }
        };
        read().ok().flatten()
    }
}

/// Carries out the due steps and returns all keys of the store.
async fn upkeep(
    store: &dyn Store,
    encryption_key: &EncryptionKey,
    policy: &Policy,
    now: Timestamp,
) -> Result<Vec<SealedSigningKey>, KeyRingError> {
    let keys = store.signing_keys().await?;
    let due = rotation::due(&keys, policy, now);
    if due.is_empty() {
        return Ok(keys);
    }
    carry_out(due, store, encryption_key, Arc::default(), now).await?;
    Ok(store.signing_keys().await?)
}

/// Carries out the steps. The first new key is stored together with the entries `audit` of the audit log. Returns the
/// entries that no key was stored with, because other replicas were faster.
///
/// # Errors
/// A [`KeyRingError`]; steps before the failed step stay in effect.
pub async fn carry_out(
    steps: Vec<Step>,
    store: &dyn Store,
    encryption_key: &EncryptionKey,
    mut audit: Arc<[AuditEvent]>,
    now: Timestamp,
) -> Result<Arc<[AuditEvent]>, KeyRingError> {
    for step in steps {
        match step {
            Step::Add {
                algorithm,
                signs_from,
                number,
                unless_after,
            } => {
                let key = SealedSigningKey {
                    signs_from,
                    number,
                    ..generate(encryption_key, algorithm, now)?
                };
                let kid = key.kid.clone();
                let entries = Arc::clone(&audit);
                if store.add_signing_key(key, unless_after, entries).await? {
                    audit = Arc::default();
                    let algorithm = algorithm.name();
                    tracing::info!(kid, algorithm, %signs_from, "a signing key was made");
                }
            }
            Step::Retire { kid } => {
                tracing::info!(kid, "a signing key signs no more");
                store.retire_signing_key(kid, Some(now)).await?;
            }
            Step::Resume { kid } => {
                tracing::info!(kid, "a retired signing key signs again");
                store.retire_signing_key(kid, None).await?;
            }
            Step::Forget { kid } => {
                tracing::info!(
                    kid,
                    "a signing key is forgotten: its last token has expired"
                );
                store.forget_signing_key(kid, Arc::default()).await?;
            }
        }
    }
    Ok(audit)
}

fn generate(
    encryption_key: &EncryptionKey,
    algorithm: Algorithm,
    now: Timestamp,
) -> Result<SealedSigningKey, KeyRingError> {
    let pkcs8 = SigningKey::generate_pkcs8(algorithm)?;
    let kid = SigningKey::from_pkcs8(algorithm, &pkcs8)?.kid().to_owned();
    let sealed_pkcs8 = encryption_key
        .seal(&signing_key_context(&kid), &pkcs8)
        .map_err(|error| KeyRingError::Sealing {
            kid: kid.clone(),
            signs: false,
            error,
        })?;
    Ok(SealedSigningKey {
        kid,
        algorithm,
        sealed_pkcs8,
        created_at: now,
        signs_from: now,
        number: 0,
        retired_at: None,
    })
}

fn open(
    key: &SealedSigningKey,
    encryption_key: &EncryptionKey,
    signs: bool,
) -> Result<SigningKey, KeyRingError> {
    let pkcs8 = encryption_key
        .open(&signing_key_context(&key.kid), &key.sealed_pkcs8)
        .map_err(|error| KeyRingError::Sealing {
            kid: key.kid.clone(),
            signs,
            error,
        })?;
    Ok(SigningKey::from_pkcs8(key.algorithm, &pkcs8)?)
}
