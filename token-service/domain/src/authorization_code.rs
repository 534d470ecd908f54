//! Authorization codes (protocol.md §3, D-2).

use std::time::Duration;

use claims::{Confirmation, Thumbprint};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::grant::{FirstStep, Grant, RefreshStep};
use crate::grant_id::GrantId;

use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::{
    Client, ClientId, ClientVersion, CredentialsVersion, LinkedAccount, Owner, ProviderSignIn,
    Revoked, Scope, User, Username,
};

/// How long after its expiry a second use of a code revokes the grant.
pub const USED_CODE_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// What an authorization code stands for. A legacy code is too short to contain this, so the store keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeRecord {
    pub client_id: ClientId,
    pub redirect_uri: String,
    /// The PKCE challenge: SHA-256 of the verifier.
    pub code_challenge: Option<Digest>,
    pub username: Username,
    /// The linked account that the user selected.
    pub account: LinkedAccount,
    pub scope: Scope,
    /// The authentication methods of the sign-in (D-11).
    pub amr: Vec<String>,
    pub authenticated_at: Timestamp,
    pub issued_at: Timestamp,
    /// The code is refused from this second on.
    pub expires_at: Timestamp,
    /// The user's credentials at the sign-in.
    pub credentials_version: CredentialsVersion,
    /// The client at the authorization request.
    pub client_version: ClientVersion,
    /// The sign-in at an identity provider on which the code rests.
    pub provider: Option<ProviderSignIn>,
    /// The session that must still be live when the code is redeemed, if the code rests on a sign-in at an identity provider: a
    /// logout there ends the session, and with the session its codes.
    pub session: Option<Digest>,
}

/// A client's request to redeem a code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentedCode {
    pub client_id: ClientId,
    pub redirect_uri: String,
    /// SHA-256 of the code verifier in the request.
    pub verifier_digest: Option<Digest>,
    /// Whether the client proved its secret. Without this proof, only a code with a challenge is redeemed (D-25).
    pub client_authenticated: bool,
    /// What the client proved to possess with the request.
    pub proven: Confirmation,
}

#[derive(Debug, Clone, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum CodeMismatch {
    /// The code was issued to another client (RFC 6749 §4.1.3).
    #[strum(serialize = "code_of_another_client")]
    Client,
    #[strum(serialize = "code_expired")]
    Expired,
    /// The redirect URI differs from the authorization request's (RFC 6749 §4.1.3).
    #[strum(serialize = "redirect_uri_differs")]
    RedirectUri,
    /// The code has a challenge, but the request has no verifier (RFC 7636 §4.6).
    VerifierMissing,
    /// The request has a verifier, but the code has no challenge: a downgrade attempt (RFC 9700 §4.8.2).
    VerifierUnexpected,
    /// The verifier does not match the challenge (RFC 7636 §4.6).
    VerifierWrong,
    /// The authorization request named another key (`dpop_jkt`), or the request has no DPoP proof (RFC 9449 §10).
    #[strum(serialize = "code_of_another_key")]
    Key,
    /// The client proved its identity neither by a secret nor by a verifier (D-25).
    ClientUnproven,
    /// The client requests this scope beyond what the user authorized (D-9).
    ScopeExceeded(Scope),
    /// The user's credentials have changed since the sign-in, the user was removed or disabled, or the account or the identity
    /// is no longer linked (D-35); or the user ended the client's access after the code was issued (D-59); or the session of a
    /// sign-in at an identity provider has ended.
    #[strum(serialize = "sign_in_ended")]
    Outdated,
    /// The user signed in without a second factor, which is required now (D-56).
    SecondFactorMissing,
    /// The client was removed or disabled since the authorization request, or the redirect URI is no longer registered.
    ClientChanged,
}

impl CodeMismatch {
    /// The value for the log and metrics.
    pub const fn reason(&self) -> &'static str {
        self.into_str()
    }
}

/// What a code rests on, as of now.
#[derive(Debug, Clone, Copy)]
pub struct CodeBasis<'a> {
    pub client: Option<&'a Client>,
    pub user: Option<&'a User>,
    /// The first second whose codes [`CodeRecord::ended_by`] has not revoked.
    pub codes_from: Timestamp,
    /// True if [`CodeRecord::session`] is live, or the code needs no session.
    pub has_session: bool,
}

impl CodeRecord {
    /// The grant that redeeming the code creates, and its first step for the answer. The code is already expired at
    /// `expires_at`. The answer lacks what was taken from the client since; the grant keeps it, because it may return
    /// to the client (D-42). [`Client::binds`] says to what of `proven` the grant is bound.
    ///
    /// # Errors
    /// The [`Redemption`] without a grant.
    pub fn redeem(
        self,
        grant_id: GrantId,
        first: FirstStep,
        proven: Confirmation,
        basis: CodeBasis<'_>,
        now: Timestamp,
    ) -> Result<(Grant, RefreshStep), Redemption> {
        if now >= self.expires_at {
            return Err(Redemption::Mismatch(CodeMismatch::Expired));
        }
        let (client, user) = self
            .rests_on(basis.client, basis.user)
            .map_err(Redemption::Mismatch)?;
        if self.issued_at < basis.codes_from || !basis.has_session {
            return Err(Redemption::Mismatch(CodeMismatch::Outdated));
        }
        if !first.second_factor.accept(&self.amr, user, client) {
            return Err(Redemption::Mismatch(CodeMismatch::SecondFactorMissing));
        }
        let left = self.scope.intersection(&client.scopes);
        if let Some(requested) = &first.scope
            && !requested.is_subset_of(&left)
        {
            let excess = requested.without(&left);
            return Err(Redemption::Mismatch(CodeMismatch::ScopeExceeded(excess)));
        }
        if let Some(wait) = wait_for_tokens(client, user, &self.account, now) {
            return Err(Redemption::TooEarly(wait));
        }
        let grant = Grant {
            grant_id,
            client_id: self.client_id,
            username: self.username,
            account: self.account,
            current: RefreshStep {
                refresh_id: first.refresh_id,
                access_id: first.access_id,
                scope: first.scope.unwrap_or_else(|| self.scope.clone()),
                issued_at: first.issued_at,
                refresh_expires_at: first.refresh_expires_at,
            },
            scope: self.scope,
            amr: self.amr,
            authenticated_at: self.authenticated_at,
            spent: Vec::new(),
            revoked_at: None,
            credentials_version: self.credentials_version,
            code_expires_at: self.expires_at,
            bound: client.binds(proven),
            provider: self.provider,
        };
        let step = grant.current.clone().with_scope_of(&left);
        Ok((grant, step))
    }

    /// Like [`Self::redeem`], for a code that the store knows, after a check of the request; with what the store remembers
    /// of the code.
    ///
    /// # Errors
    /// The [`Redemption`] without a grant.
    pub fn redeem_stored(
        &self,
        presented: &PresentedCode,
        grant_id: GrantId,
        first: FirstStep,
        basis: CodeBasis<'_>,
        now: Timestamp,
    ) -> Result<((Grant, RefreshStep), UsedCode), Redemption> {
        self.belongs_to(presented).map_err(Redemption::Mismatch)?;
        let proven = Confirmation::default();
        let redeemed = self.clone().redeem(grant_id, first, proven, basis, now)?;
        Ok((redeemed, UsedCode::of(self, grant_id)))
    }

    /// Checks that the code belongs to the client of the request. The lifetime of the code does not matter here. The client
    /// is checked first, so that another client learns nothing about the code.
    fn belongs_to(&self, presented: &PresentedCode) -> Result<(), CodeMismatch> {
        let challenge = self.code_challenge.as_ref();
        presented.proves(&self.client_id, challenge, &self.redirect_uri)
    }

    /// The revocation that ends the code. Revocations of its client or its user end it too.
    pub fn ended_by(&self) -> Revoked {
        let owner = Owner::UserAtClient {
            username: self.username.clone(),
            client_id: self.client_id.clone(),
        };
        owner.revoked()
    }

    /// Client and user of the code, if the client is still the one of the authorization request and has the redirect URI,
    /// and the user still has the credentials of the sign-in and the linked account.
    ///
    /// # Errors
    /// [`CodeMismatch::ClientChanged`] or [`CodeMismatch::Outdated`] otherwise.
    pub fn rests_on<'a>(
        &self,
        client: Option<&'a Client>,
        user: Option<&'a User>,
    ) -> Result<(&'a Client, &'a User), CodeMismatch> {
        let client = client.filter(|client| {
            let redirect_uri = client.registered_redirect_uri(&self.redirect_uri);
            client.still_has(self.client_version) && redirect_uri.is_some()
        });
        let user = user.filter(|user| {
            user.still_signs_in(self.credentials_version, self.provider.as_ref())
                && user.accounts.contains(&self.account)
        });
        let client = client.ok_or(CodeMismatch::ClientChanged)?;
        Ok((client, user.ok_or(CodeMismatch::Outdated)?))
    }
}

/// The time until a token for this client, user and account is valid; `None` if a token is valid now. If a client or user was
/// disabled and enabled again, or the account unlinked and linked again, the revocation covers tokens that are issued for some
/// seconds yet (protocol.md §3).
pub fn wait_for_tokens(
    client: &Client,
    user: &User,
    account: &LinkedAccount,
    now: Timestamp,
) -> Option<Duration> {
    let covered = user.accounts_from.iter();
    let account_from = covered.filter_map(|(covered, from)| (covered == account).then_some(*from));
    let from = client.tokens_from.max(user.tokens_from);
    let wait = account_from.fold(from, Timestamp::max).since(now);
    (!wait.is_zero()).then_some(wait)
}

impl PresentedCode {
    /// Checks client, verifier, secret and redirect URI against the authorization request.
    fn proves(
        &self,
        client_id: &ClientId,
        code_challenge: Option<&Digest>,
        redirect_uri: &str,
    ) -> Result<(), CodeMismatch> {
        if *client_id != self.client_id {
            return Err(CodeMismatch::Client);
        }
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

/// A code of the current flows. The code itself contains what it stands for, sealed, so issuing the code writes nothing.
/// The code is used if its grant exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfContainedCode {
    pub grant_id: GrantId,
    pub record: CodeRecord,
    /// The key that the authorization request named (RFC 9449 §10).
    pub dpop_jkt: Option<Thumbprint>,
}

impl SelfContainedCode {
    /// Checks that the code belongs to the client and the key of the request, and is not so old that even its second use
    /// has no effect.
    ///
    /// # Errors
    /// The first [`CodeMismatch`]. Change nothing then.
    pub fn concerns(&self, presented: &PresentedCode, now: Timestamp) -> Result<(), CodeMismatch> {
        self.record.belongs_to(presented)?;
        if self.dpop_jkt.is_some() && self.dpop_jkt != presented.proven.jkt {
            return Err(CodeMismatch::Key);
        }
        if now > self.record.expires_at + USED_CODE_RETENTION {
            return Err(CodeMismatch::Expired);
        }
        Ok(())
    }
}

/// What the store remembers of a used legacy code: enough to distinguish a replay from a request that would not have
/// redeemed the code. Codes leak through browser histories and logs, so a request with only the code must not revoke the
/// grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedCode {
    client_id: ClientId,
    /// The grant that redeeming the code created.
    pub grant_id: GrantId,
    redirect_uri: String,
    code_challenge: Option<Digest>,
}

impl UsedCode {
    pub fn of(record: &CodeRecord, grant_id: GrantId) -> Self {
        Self {
            client_id: record.client_id.clone(),
            grant_id,
            redirect_uri: record.redirect_uri.clone(),
            code_challenge: record.code_challenge,
        }
    }

    /// The grant to revoke if `presented` would have redeemed the code. Expiry does not matter here.
    ///
    /// # Errors
    /// The mismatch. Revoke nothing then.
    pub fn replayed_by(&self, presented: &PresentedCode) -> Result<GrantId, Redemption> {
        let challenge = self.code_challenge.as_ref();
        let proven = presented.proves(&self.client_id, challenge, &self.redirect_uri);
        proven.map_err(Redemption::Mismatch)?;
        Ok(self.grant_id)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redemption {
    /// The code is now used, and the grant is new.
    Redeemed {
        grant: Box<Grant>,
        /// The first step, with the scope that the client may have now.
        step: RefreshStep,
    },
    /// The code was used before, and the request matches it. The grant of the first use is now revoked.
    Replayed(GrantId),
    /// The request does not match the code. Nothing changed.
    Mismatch(CodeMismatch),
    /// The tokens would be revoked already: see [`wait_for_tokens`]. Nothing changed.
    TooEarly(Duration),
    Unknown,
}
