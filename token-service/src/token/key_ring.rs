//! The keys of the service: one signs, all verify until their last token has expired.

use std::sync::Arc;

use claims::jwk::JwkSet;
use claims::jws::JwsError;
use claims::{Algorithm, CompactJws};
use serde_json::{Map, Value};

use super::key::{KeyError, SigningKey};
use crate::clock::Timestamp;
use crate::sealing::{EncryptionKey, SealingError};
use crate::store::{SealedSigningKey, Store, StoreError};

/// Why there are no keys to work with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyRingError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The keys in the store were sealed with another encryption key.
    #[error(
        "the signing key {kid} cannot be opened: {error}; is this the encryption key of this store?"
    )]
    Sealing {
        /// Which key.
        kid: String,
        /// What sealing said.
        error: SealingError,
    },
    /// A key could not be made or read.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The store holds no key of the configured algorithm although one was just added.
    #[error("the store holds no signing key for {}", .0.name())]
    Missing(Algorithm),
}

/// All usable keys, and which of them signs.
#[derive(Debug)]
pub struct KeyRing {
    signing: Arc<SigningKey>,
    ed25519: Option<Arc<SigningKey>>,
    all: Vec<Arc<SigningKey>>,
    published: String,
}

impl KeyRing {
    /// Opens the store's keys, and makes the first key of `algorithm` if there is none; for the `legacy` flow also
    /// one for Ed25519, whatever `algorithm` is.
    ///
    /// # Errors
    /// A [`KeyRingError`]: the service cannot work without keys.
    pub async fn open(
        store: &dyn Store,
        encryption_key: &EncryptionKey,
        algorithm: Algorithm,
        legacy: bool,
        now: Timestamp,
    ) -> Result<Self, KeyRingError> {
        let mut sealed = store.signing_keys().await?;
        let also = legacy.then_some(Algorithm::EdDsa);
        for needed in [algorithm].into_iter().chain(also) {
            if !sealed
                .iter()
                .any(|key| key.algorithm == needed && key.retired_at.is_none())
            {
                sealed = store
                    .ensure_signing_key(new_key(encryption_key, needed, now)?)
                    .await?;
            }
        }
        let mut all = Vec::with_capacity(sealed.len());
        let (mut signing, mut ed25519) = (None, None);
        for stored in sealed {
            let pkcs8 = encryption_key
                .open(&sealing_context(&stored.kid), &stored.sealed_pkcs8)
                .map_err(|error| KeyRingError::Sealing {
                    kid: stored.kid.clone(),
                    error,
                })?;
            let key = Arc::new(SigningKey::from_pkcs8(stored.algorithm, &pkcs8)?);
            if stored.algorithm == algorithm && stored.retired_at.is_none() {
                signing = Some(Arc::clone(&key));
            }
            if stored.algorithm == Algorithm::EdDsa && stored.retired_at.is_none() {
                ed25519 = Some(Arc::clone(&key));
            }
            all.push(key);
        }
        let keys = all.iter().map(|key| key.jwk()).collect::<Result<_, _>>()?;
        Ok(Self {
            signing: signing.ok_or(KeyRingError::Missing(algorithm))?,
            ed25519,
            all,
            published: serde_json::to_string(&JwkSet { keys }).map_err(|_| KeyError)?,
        })
    }

    /// The key that signs now.
    #[must_use]
    pub fn signing(&self) -> &SigningKey {
        &self.signing
    }

    /// The Ed25519 key that signs now, if there is one: the legacy flow's tokens have no room for other signatures.
    #[must_use]
    pub fn ed25519(&self) -> Option<&SigningKey> {
        self.ed25519.as_deref()
    }

    /// The JWK set as JSON: what `/auth/jwks` answers.
    #[must_use]
    pub fn published(&self) -> &str {
        &self.published
    }

    /// The claims of a token of type `typ` that one of these keys signed; `None` for anything else.
    ///
    /// Nothing in the claims has been compared yet: issuer, audience and times are the caller's.
    #[must_use]
    pub fn verify(&self, token: &str, typ: &str) -> Option<Map<String, Value>> {
        let read = || -> Result<Option<Map<String, Value>>, JwsError> {
            let jws = CompactJws::parse(token)?;
            if jws.header.typ.as_deref() != Some(typ) {
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

fn new_key(
    encryption_key: &EncryptionKey,
    algorithm: Algorithm,
    now: Timestamp,
) -> Result<SealedSigningKey, KeyRingError> {
    let pkcs8 = SigningKey::generate_pkcs8(algorithm)?;
    let kid = SigningKey::from_pkcs8(algorithm, &pkcs8)?.kid().to_owned();
    let sealed_pkcs8 = encryption_key
        .seal(&sealing_context(&kid), &pkcs8)
        .map_err(|error| KeyRingError::Sealing {
            kid: kid.clone(),
            error,
        })?;
    Ok(SealedSigningKey {
        kid,
        algorithm,
        sealed_pkcs8,
        created_at: now,
        retired_at: None,
    })
}

fn sealing_context(kid: &str) -> String {
    format!("signing-key:{kid}")
}
