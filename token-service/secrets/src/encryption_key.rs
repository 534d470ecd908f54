//! The encryption key of a store, at start and during rotation.
//!
//! To rotate: add the new key to the file of every replica, then move it to the first line, then reseal all values
//! ([`reseal`]), then remove the old key. At each step every replica can open what the others seal.

use std::path::Path;

use domain::SealedValue;
use domain::random::{self, Random, RandomError};
use store::{SealedValues, Store, StoreError};
use zeroize::Zeroizing;

use crate::key_file::{self, Key, KeyFileError};
use crate::sealing::{
    EncryptionKey, KeyId, Root, SealingError, SealingKeys, signing_key_context, totp_context,
};

/// Maximum number of keys in the file.
const MOST_KEYS: usize = 8;

/// Maximum number of passes over values that other processes changed meanwhile.
const PASSES: usize = 3;

const ROOT_CONTEXT: &str = "root of the tags";

#[derive(Debug, thiserror::Error)]
pub enum EncryptionKeyError {
    #[error(transparent)]
    File(#[from] KeyFileError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Random(#[from] RandomError),
    #[error(transparent)]
    Sealing(#[from] SealingError),
    #[error(
        "none of the keys in encryption_key_file ({found}) opens this store{}: add the key of this store to the file",
        .needed.map(|id| format!(", which is sealed with the key {id}")).unwrap_or_default()
    )]
    OtherKey {
        /// Ids of the keys in the file.
        found: String,
        /// Id of the missing key, if the store names it.
        needed: Option<KeyId>,
    },
}

/// Reads the keys in the file at `path` and the root of `store`. An empty store gets a new root, and if the file is
/// missing, this creates it.
///
/// # Errors
/// An [`EncryptionKeyError`]; the new file and the new root may already exist.
pub async fn open(
    path: &Path,
    store: &dyn Store,
    random: &dyn Random,
) -> Result<EncryptionKey, EncryptionKeyError> {
    let mut sealed_root = store.sealed_root().await?;
    // A new key cannot open sealed values, so a key is created only for an empty store.
    if sealed_root.is_none() && !path.exists() {
        key_file::load_or_create(path, random)?;
    }
    let sealing = sealing_keys(&key_file::load_keys(path, MOST_KEYS)?)?;
    if sealed_root.is_none() {
        let root: Root = Zeroizing::new(random::bytes(random)?);
        let sealed = sealing.seal(ROOT_CONTEXT, &*root)?;
        // If another replica was faster, its root is in effect.
        store.reseal(SealedValue::Root, None, sealed).await?;
        sealed_root = store.sealed_root().await?;
    }
    let root = unsealed(&sealing, &sealed_root.unwrap_or_default())?;
    Ok(EncryptionKey::with_root(sealing, &root)?)
}

/// Reads the keys in the file at `path` as [`open`] does, before a start. `sealed_root` is the root of the store, if the store has
/// one and could be read.
///
/// # Errors
/// An [`EncryptionKeyError`] if the start would fail. Without a root, a file that is missing is no error.
pub fn check(path: &Path, sealed_root: Option<&[u8]>) -> Result<(), EncryptionKeyError> {
    if sealed_root.is_none() && !path.exists() {
        return Ok(());
    }
    let sealing = sealing_keys(&key_file::load_keys(path, MOST_KEYS)?)?;
    match sealed_root {
        Some(sealed_root) => unsealed(&sealing, sealed_root).map(drop),
        None => Ok(()),
    }
}

fn unsealed(sealing: &SealingKeys, sealed_root: &[u8]) -> Result<Root, EncryptionKeyError> {
    let opened = sealing.open(ROOT_CONTEXT, sealed_root);
    let opened = opened.map_err(|_| other_key(sealing, sealed_root))?;
    match opened.as_slice().try_into() {
        Ok(root) => Ok(Zeroizing::new(root)),
        Err(_) => Err(SealingError::Refused.into()),
    }
}

fn sealing_keys(keys: &[Key]) -> Result<SealingKeys, SealingError> {
    let (current, earlier) = keys.split_first().ok_or(SealingError::Failed)?;
    SealingKeys::new(current, earlier.iter().map(|key| &**key))
}

fn other_key(sealing: &SealingKeys, sealed: &[u8]) -> EncryptionKeyError {
    let found: Vec<String> = sealing.ids().map(|id| id.to_string()).collect();
    EncryptionKeyError::OtherKey {
        found: found.join(", "),
        needed: sealing.missing(sealed),
    }
}

/// Number of sealed values in a store per key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// The keys of the file, the current key first, each with the number of values that it sealed.
    pub keys: Vec<(KeyId, u64)>,
    /// Number of values in the current version under the current key.
    pub up_to_date: u64,
    /// Values that no key opens.
    pub unreadable: Vec<String>,
}

/// Checks all sealed values in `store`.
pub async fn usage(key: &EncryptionKey, store: &dyn Store) -> Result<Usage, StoreError> {
    let sealing = key.sealing();
    let mut usage = Usage {
        keys: sealing.ids().map(|id| (id, 0)).collect(),
        up_to_date: 0,
        unreadable: Vec::new(),
    };
    let mut values = SealedValues::default();
    while let Some(page) = values.page(store).await? {
        for (value, sealed) in page {
            let opened = sealing.opener(&context(&value), &sealed);
            match usage.keys.iter_mut().find(|(id, _)| Some(*id) == opened) {
                Some((_, count)) => *count += 1,
                None => usage.unreadable.push(name(&value)),
            }
            usage.up_to_date += u64::from(opened.is_some() && sealing.is_up_to_date(&sealed));
        }
    }
    Ok(usage)
}

/// Seals all outdated values in `store` with the current key. Values that no key opens stay unchanged. `resealed` becomes
/// the number of resealed values.
///
/// # Errors
/// [`StoreError`], or [`SealingError::Failed`]; values resealed before the error stay resealed.
pub async fn reseal(
    key: &EncryptionKey,
    store: &dyn Store,
    resealed: &mut u64,
) -> Result<(), EncryptionKeyError> {
    let sealing = key.sealing();
    *resealed = 0;
    for _ in 0..PASSES {
        let mut overtaken = false;
        let mut values = SealedValues::default();
        while let Some(page) = values.page(store).await? {
            for (value, sealed) in page {
                if sealing.is_up_to_date(&sealed) {
                    continue;
                }
                let context = context(&value);
                let Ok(plaintext) = sealing.open(&context, &sealed) else {
                    continue;
                };
                let after = sealing.seal(&context, &plaintext)?;
                match store.reseal(value, Some(sealed), after).await? {
                    true => *resealed += 1,
                    false => overtaken = true,
                }
            }
        }
        if !overtaken {
            break;
        }
    }
    Ok(())
}

fn context(value: &SealedValue) -> String {
    match value {
        SealedValue::Root => ROOT_CONTEXT.to_owned(),
        SealedValue::SigningKey(kid) => signing_key_context(kid),
        SealedValue::RegisteredTotpSecret(username) | SealedValue::OwnTotpSecret(username) => {
            totp_context(username)
        }
    }
}

fn name(value: &SealedValue) -> String {
    match value {
        SealedValue::Root => "root of the tags".to_owned(),
        SealedValue::SigningKey(kid) => format!("signing key {kid}"),
        SealedValue::RegisteredTotpSecret(username) => {
            format!("registered TOTP secret of {username}")
        }
        SealedValue::OwnTotpSecret(username) => format!("authenticator app of {username}"),
    }
}
