//! Why the administration refuses something.

use document::InvalidDocument;
use domain::random::RandomError;
use protocol::token::KeyRingError;
use registration::protection::ProtectionError;
use store::{BackupError, StoreError};

/// Why an operation was not done. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The body is not what the operation takes; every problem is listed.
    #[error(transparent)]
    Invalid(#[from] InvalidDocument),
    /// A parameter is not what the operation takes.
    #[error("{0}")]
    Malformed(String),
    /// A body that is larger than any registration is.
    #[error("the body is larger than 64 MiB")]
    TooLarge,
    /// A body that took too long.
    #[error("the body did not arrive within 60 seconds")]
    TooSlow,
    /// Legacy access tokens would not have their length (protocol.md §2.5); each line has its arithmetic.
    #[error("{}", .0.join("\n"))]
    DoesNotFit(Vec<String>),
    /// There is nothing of this name.
    #[error("there is no {what} {name}")]
    NotFound {
        /// What kind of thing.
        what: &'static str,
        /// Name of the missing object.
        name: String,
    },
    /// It is there already, or in a state that does not allow it.
    #[error("{0}")]
    Conflict(String),
    /// Other replicas changed the registry again and again while the change was planned.
    #[error("other replicas are changing the registry at the same time: try again")]
    Overtaken,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The signing keys cannot be read or made.
    #[error(transparent)]
    Keys(#[from] KeyRingError),
    /// A secret cannot be hashed or sealed.
    #[error(transparent)]
    Protection(#[from] ProtectionError),
    /// No randomness for a secret.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// There is no copy of the store.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// A task of the process was lost.
    #[error("{0}")]
    Internal(String),
}

impl AdminError {
    pub(super) fn not_found(what: &'static str, name: impl Into<String>) -> Self {
        Self::NotFound {
            what,
            name: name.into(),
        }
    }
}
