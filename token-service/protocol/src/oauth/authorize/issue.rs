//! Issuing the code.

use super::{CodeRequest, SignedIn};
use crate::Context;
use domain::clock::Timestamp;
use domain::random::RandomError;
use domain::{CodeRecord, LinkedAccount};
use store::{Begin, StoreError};

/// Reason why no code was issued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IssueError {
    /// The random generator failed.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The user's credentials have changed since the sign-in, which ended the session (D-35).
    #[error("the sign-in has ended: password or second factor have changed")]
    SignInEnded,
}

/// The record of a code for `account`.
pub(super) fn code_record(
    request: &dyn CodeRequest,
    signed_in: &SignedIn,
    account: &LinkedAccount,
    expires_at: Timestamp,
) -> CodeRecord {
    let session = signed_in.session();
    CodeRecord {
        client_id: request.client().client_id.clone(),
        redirect_uri: request.redirect_uri().as_str().to_owned(),
        code_challenge: request.code_challenge(),
        username: session.username.clone(),
        account: account.clone(),
        scope: request.scope(),
        amr: session.amr.clone(),
        authenticated_at: session.authenticated_at,
        expires_at,
        credentials_version: session.credentials_version,
    }
}

/// Issues a code after its record is durable, and returns the redirect URI with the code. The store gets only the
/// digest.
///
/// # Errors
/// An [`IssueError`]; then no code is issued.
pub async fn issue_code(
    request: &dyn CodeRequest,
    context: &Context<'_>,
    signed_in: &SignedIn,
    account: &LinkedAccount,
) -> Result<String, IssueError> {
    let code = request.draw_code(context.random)?;
    let lifetime = request.code_lifetime(&context.settings.lifetimes);
    let record = code_record(request, signed_in, account, context.now + lifetime);
    match context.store.issue_code(code.digest, record).await? {
        Begin::Begun => Ok(request.with_code(&code.text, &context.settings.issuer)),
        Begin::CredentialsChanged => Err(IssueError::SignInEnded),
    }
}
