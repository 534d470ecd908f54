//! Issuing the code.

use std::time::Duration;

use super::{CodeRequest, IssueError, SignedIn};
use crate::Context;
use domain::clock::Timestamp;
use domain::{CodeRecord, LinkedAccount};

pub(super) fn code_record(
    request: &dyn CodeRequest,
    signed_in: &SignedIn,
    account: &LinkedAccount,
    issued_at: Timestamp,
    lifetime: Duration,
) -> CodeRecord {
    let (client, session) = (request.client(), signed_in.session());
    CodeRecord {
        client_id: client.client_id.clone(),
        redirect_uri: request.redirect_uri().as_str().to_owned(),
        code_challenge: request.code_challenge(),
        username: session.username.clone(),
        account: account.clone(),
        scope: request.scope(),
        amr: session.amr.clone(),
        authenticated_at: session.authenticated_at,
        issued_at,
        expires_at: issued_at + lifetime,
        credentials_version: session.credentials_version,
        client_version: client.version,
        provider: session.provider.clone(),
        session: (session.provider.is_some()).then(|| signed_in.live().id.digest()),
    }
}

/// Issues a code, and returns the redirect URI with the code.
///
/// # Errors
/// An [`IssueError`]; then no code is issued.
pub async fn issue_code(
    request: &dyn CodeRequest,
    context: &Context<'_>,
    signed_in: &SignedIn,
    account: &LinkedAccount,
) -> Result<String, IssueError> {
    let lifetime = request.code_lifetime(&context.settings.lifetimes);
    let record = code_record(request, signed_in, account, context.now, lifetime);
    let code = request.issue(context, record).await?;
    Ok(request.with_code(&code, &context.settings.issuer))
}
