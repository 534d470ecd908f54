//! Authorization codes (protocol.md §3, D-2).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::grant::{Grant, RefreshStep};
use crate::grant_id::GrantId;

use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::{ClientId, CredentialsVersion, LinkedAccount, Scope, User, Username};

/// How long a used code is remembered, so that a second use still finds and revokes the grant.
pub const USED_CODE_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// What a code stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeRecord {
    /// The client that the code was issued to.
    pub client_id: ClientId,
    /// The redirect URI of the authorization request, as text.
    pub redirect_uri: String,
    /// The PKCE challenge: SHA-256 of the verifier.
    pub code_challenge: Option<Digest>,
    /// The user who signed in.
    pub username: Username,
    /// The linked account that was selected.
    pub account: LinkedAccount,
    /// Authorized scopes.
    pub scope: Scope,
    /// How the user signed in.
    pub amr: Vec<String>,
    /// When the user signed in.
    pub authenticated_at: Timestamp,
    /// From this second on the code is refused.
    pub expires_at: Timestamp,
    /// What the user signed in with.
    #[serde(deserialize_with = "crate::serde_form::added")]
    pub credentials_version: CredentialsVersion,
}

/// What a client presents with a code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentedCode {
    /// The client.
    pub client_id: ClientId,
    /// The redirect URI, as text.
    pub redirect_uri: String,
    /// SHA-256 of the code verifier that was sent.
    pub verifier_digest: Option<Digest>,
    /// Whether the client proved its secret. Without a proof, only a code with a challenge is redeemed (D-25).
    pub client_authenticated: bool,
}

/// Why a code does not fit what was presented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeMismatch {
    /// The code was issued to another client (RFC 6749 §4.1.3).
    Client,
    /// Too late.
    Expired,
    /// The redirect URI differs from the authorization request's (RFC 6749 §4.1.3).
    RedirectUri,
    /// The code has a challenge and no verifier came (RFC 7636 §4.6).
    VerifierMissing,
    /// A verifier came for a code without a challenge: a downgrade attempt (RFC 9700 §4.8.2).
    VerifierUnexpected,
    /// The verifier is not the one of the challenge (RFC 7636 §4.6).
    VerifierWrong,
    /// Neither a secret nor a verifier proves who the client is (D-25).
    ClientUnproven,
    /// The client asks for more than the person authorized (D-9).
    ScopeExceeded,
    /// The user's credentials have changed since, the user is gone or disabled, or the account is not linked any more
    /// (D-35).
    Outdated,
}

impl CodeMismatch {
    /// The reason as a word for the log and metrics.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Client => "code_of_another_client",
            Self::Expired => "code_expired",
            Self::RedirectUri => "redirect_uri_differs",
            Self::VerifierMissing => "verifier_missing",
            Self::VerifierUnexpected => "verifier_unexpected",
            Self::VerifierWrong => "verifier_wrong",
            Self::ClientUnproven => "client_unproven",
            Self::ScopeExceeded => "scope_exceeded",
            Self::Outdated => "sign_in_ended",
        }
    }
}

impl CodeRecord {
    /// The grant that redeeming the code creates, at its first step; that step has the scope of the code unless it has
    /// its own.
    #[must_use]
    pub fn into_grant(self, grant_id: GrantId, first: RefreshStep) -> Grant {
        Grant {
            grant_id,
            client_id: self.client_id,
            username: self.username,
            account: self.account,
            current: RefreshStep {
                // Without a scope of its own the first access token has all that was authorized.
                scope: if first.scope.is_empty() {
                    self.scope.clone()
                } else {
                    first.scope
                },
                ..first
            },
            scope: self.scope,
            amr: self.amr,
            authenticated_at: self.authenticated_at,
            spent: Vec::new(),
            revoked_at: None,
            credentials_version: self.credentials_version,
        }
    }

    /// Compares what was presented with what the code stands for. Expiry: refused at `expires_at` itself. An empty
    /// `scope` asks for all that was authorized.
    ///
    /// # Errors
    /// The first [`CodeMismatch`], client first so that another client learns nothing of the code.
    pub fn check(
        &self,
        presented: &PresentedCode,
        scope: &Scope,
        now: Timestamp,
    ) -> Result<(), CodeMismatch> {
        if self.client_id != presented.client_id {
            return Err(CodeMismatch::Client);
        }
        if now >= self.expires_at {
            return Err(CodeMismatch::Expired);
        }
        presented.proves(self.code_challenge.as_ref(), &self.redirect_uri)?;
        if !scope.is_subset_of(&self.scope) {
            return Err(CodeMismatch::ScopeExceeded);
        }
        Ok(())
    }

    /// Whether the code still rests on what `user` is now: the credentials of the sign-in, and a linked account.
    #[must_use]
    pub fn rests_on(&self, user: Option<&User>) -> bool {
        user.is_some_and(|user| {
            user.still_has(self.credentials_version) && user.accounts.contains(&self.account)
        })
    }
}

impl PresentedCode {
    /// Compares verifier, secret and redirect URI with those of the authorization request.
    fn proves(
        &self,
        code_challenge: Option<&Digest>,
        redirect_uri: &str,
    ) -> Result<(), CodeMismatch> {
        match (code_challenge, &self.verifier_digest) {
            (Some(_), None) => return Err(CodeMismatch::VerifierMissing),
            (None, Some(_)) => return Err(CodeMismatch::VerifierUnexpected),
            (Some(challenge), Some(digest)) if challenge != digest => {
                return Err(CodeMismatch::VerifierWrong);
            }
            (None, None) if !self.client_authenticated => {
                return Err(CodeMismatch::ClientUnproven);
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
        if redirect_uri != self.redirect_uri {
            return Err(CodeMismatch::RedirectUri);
        }
        Ok(())
    }
}

/// What is remembered of a used code: enough to tell a replay from a request that would not have redeemed the code.
/// Codes leak through histories and logs, so the code alone must not end its grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedCode {
    client_id: ClientId,
    /// The grant that the code became.
    pub grant_id: GrantId,
    redirect_uri: String,
    code_challenge: Option<Digest>,
}

impl UsedCode {
    /// What is remembered of `record`, which became this grant.
    #[must_use]
    pub fn of(record: &CodeRecord, grant_id: GrantId) -> Self {
        Self {
            client_id: record.client_id.clone(),
            grant_id,
            redirect_uri: record.redirect_uri.clone(),
            code_challenge: record.code_challenge,
        }
    }

    /// The grant to revoke if `presented` would have redeemed the code, however late it comes.
    ///
    /// # Errors
    /// The first [`CodeMismatch`]; nothing is to be revoked then.
    pub fn replayed_by(&self, presented: &PresentedCode) -> Result<GrantId, CodeMismatch> {
        if self.client_id != presented.client_id {
            return Err(CodeMismatch::Client);
        }
        presented.proves(self.code_challenge.as_ref(), &self.redirect_uri)?;
        Ok(self.grant_id)
    }

    /// Like [`Self::replayed_by`], of a code about which an earlier version kept no more than its client and grant:
    /// only a client that proved its secret is believed.
    ///
    /// # Errors
    /// [`CodeMismatch::Client`] otherwise.
    pub fn judge_short(
        client_id: &ClientId,
        grant_id: GrantId,
        presented: &PresentedCode,
    ) -> Result<GrantId, CodeMismatch> {
        if *client_id == presented.client_id && presented.client_authenticated {
            Ok(grant_id)
        } else {
            Err(CodeMismatch::Client)
        }
    }
}

/// The outcome of presenting a code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redemption {
    /// The code is used up and this is its new grant.
    Redeemed(Box<Grant>),
    /// The code was used before, and the request would have redeemed it; the grant of that use is now revoked.
    Replayed(GrantId),
    /// The code does not fit; nothing changed.
    Mismatch(CodeMismatch),
    /// No such code.
    Unknown,
}
