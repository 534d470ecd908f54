//! The errors of sealing.

/// Contains no detail, deliberately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealingError {
    /// The bytes were sealed with another key or for another context, or were changed.
    #[error("sealed with another encryption key, or damaged")]
    Refused,
    #[error("sealing failed")]
    Failed,
}
