use document::InvalidDocument;
use domain::random::RandomError;
use protocol::token::KeyRingError;
use registration::protection::ProtectionError;
use store::{BackupError, StoreError};

/// Reason why an operation failed. The operation changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The body is invalid; contains every problem.
    #[error(transparent)]
    Invalid(#[from] InvalidDocument),
    /// A parameter is malformed.
    #[error("{0}")]
    Malformed(String),
    /// The body is larger than any registration.
    #[error("the body is larger than 64 MiB")]
    TooLarge,
    /// The body did not arrive in time.
    #[error("the body did not arrive within 60 seconds")]
    TooSlow,
    /// Legacy access tokens would not have their fixed length (protocol.md §2.5). Each line contains the lengths.
    #[error("{}", .0.join("\n"))]
    DoesNotFit(Vec<String>),
    /// No object has this name.
    #[error("there is no {what} {name}")]
    NotFound {
        /// Kind of the object.
        what: &'static str,
        /// Name of the missing object.
        name: String,
    },
    /// The object already exists, or its state does not allow the operation.
    #[error("{0}")]
    Conflict(String),
    /// Other replicas changed the registry at every attempt at the change.
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
    /// The random generator failed.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// The store could not be copied.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// A task of the process did not complete.
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
