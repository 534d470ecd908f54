//! Issuing the code.

use super::{AuthorizationRequest, SignedIn};
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::random::{self, Random, RandomError};
use domain::{CodeRecord, LinkedAccount};
use store::{Begin, Store, StoreError};

/// Why no code was issued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IssueError {
    /// No randomness.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// The code could not be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The user has other credentials by now than those of the sign-in: it has ended (D-35).
    #[error("the sign-in has ended: password or second factor have changed")]
    SignInEnded,
}

/// What a code for `account` stands for.
#[must_use]
pub fn code_record(
    request: &AuthorizationRequest,
    signed_in: &SignedIn,
    account: &LinkedAccount,
    expires_at: Timestamp,
) -> CodeRecord {
    let session = signed_in.session();
    CodeRecord {
        client_id: request.client.client_id.clone(),
        redirect_uri: request.destination.redirect_uri().as_str().to_owned(),
        code_challenge: request.code_challenge,
        username: session.username.clone(),
        account: account.clone(),
        scope: request.scope.clone(),
        amr: session.amr.clone(),
        authenticated_at: session.authenticated_at,
        expires_at,
        credentials_version: session.credentials_version,
    }
}

/// Issues a code, 43 characters with 256 random bits, once its record is durable. The store learns only the
/// digest.
///
/// # Errors
/// An [`IssueError`]; the code must not be given out then.
pub async fn issue_code(
    record: CodeRecord,
    store: &dyn Store,
    random: &dyn Random,
) -> Result<String, IssueError> {
    let code = random::text::<32>(random)?;
    match store
        .issue_code(Digest::of(code.as_bytes()), record)
        .await?
    {
        Begin::Begun => Ok(code),
        Begin::CredentialsChanged => Err(IssueError::SignInEnded),
    }
}
