//! Failures of issuing a code.

use domain::random::RandomError;
use secrets::sealing::SealingError;
use store::StoreError;

/// Reason why no code was issued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IssueError {
    #[error(transparent)]
    Random(#[from] RandomError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The code could not be sealed.
    #[error(transparent)]
    Sealing(#[from] SealingError),
    /// The pushed request has yielded its code before (RFC 9126 §4).
    #[error("the pushed request was used before")]
    RequestUsed,
    /// The user's credentials have changed since the sign-in, which ended the session (D-35). Only for a code that the store
    /// keeps; the redemption of another code compares the credentials.
    #[error("the sign-in has ended: password or second factor have changed")]
    SignInEnded,
}
