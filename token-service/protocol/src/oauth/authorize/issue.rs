//! Issuing the code.

use super::{CodeRequest, SignedIn};
use crate::Context;
use domain::clock::Timestamp;
use domain::random::RandomError;
use domain::{CodeRecord, LinkedAccount};
use store::{Begin, StoreError};

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

/// Issues a code once its record is durable; the answer is the address that delivers the code. The store learns only the
/// digest.
///
/// # Errors
/// An [`IssueError`]; no code is given out then.
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
