//! Minting: writes claims and signs tokens (protocol.md §2.1, §2.2).

use claims::token::{ACCESS_TOKEN_TYPE, AccessTokenClaims, REFRESH_TOKEN_TYPE, RefreshTokenClaims};
use serde::Serialize;

use super::binding::Binding;
use super::identity::identity_token;
use super::jwt::sign;
use super::key::KeyError;
use super::key_ring::KeyRing;
use crate::settings::Settings;
use domain::clock::Timestamp;
use domain::{ClientId, Grant, GrantId, LinkedAccount, RefreshStep, Scope, TokenId, Username, amr};

#[derive(Debug, Clone, Copy)]
pub struct GrantedTo<'a> {
    pub client_id: &'a ClientId,
    pub username: &'a Username,
    pub account: &'a LinkedAccount,
    /// How the user was authenticated (D-11).
    pub amr: &'a [String],
    /// When the user signed in; `None` if the user did not.
    pub authenticated_at: Option<Timestamp>,
    pub grant_id: GrantId,
}

impl<'a> From<&'a Grant> for GrantedTo<'a> {
    fn from(grant: &'a Grant) -> Self {
        Self {
            client_id: &grant.client_id,
            username: &grant.username,
            account: &grant.account,
            amr: &grant.amr,
            authenticated_at: Some(grant.authenticated_at),
            grant_id: grant.grant_id,
        }
    }
}

/// The values that differ for each access token.
#[derive(Debug, Clone, Copy)]
pub struct AccessToken<'a> {
    pub id: TokenId,
    pub scope: &'a Scope,
    pub issued_at: Timestamp,
    pub binding: Binding,
}

impl<'a> AccessToken<'a> {
    /// The access token of a step of a grant.
    pub const fn of(step: &'a RefreshStep, binding: Binding) -> Self {
        Self {
            id: step.access_id,
            scope: &step.scope,
            issued_at: step.issued_at,
            binding,
        }
    }
}

/// Signs tokens. The same input gives the same claims, so the service can repeat a response without storing it.
#[derive(Debug, Clone, Copy)]
pub struct Mint<'a> {
    settings: &'a Settings,
    keys: &'a KeyRing,
}

impl<'a> Mint<'a> {
    pub const fn new(settings: &'a Settings, keys: &'a KeyRing) -> Self {
        Self { settings, keys }
    }

    /// An access token (JWT, `typ` `at+jwt`) that contains its own identity service token.
    pub fn access_token(
        &self,
        subject: GrantedTo<'_>,
        token: AccessToken<'_>,
    ) -> Result<String, KeyError> {
        let identity = identity_token(
            self.settings,
            self.keys.signing(),
            subject.username,
            token.id,
            token.issued_at,
            self.settings.lifetimes.access_token,
        )?;
        self.access_token_around(subject, token, &identity)
    }

    /// An access token that contains the given identity service token.
    pub fn access_token_around(
        &self,
        subject: GrantedTo<'_>,
        token: AccessToken<'_>,
        identity: &str,
    ) -> Result<String, KeyError> {
        let issued_at = token.issued_at.seconds();
        let expires_at = (token.issued_at + self.settings.lifetimes.access_token).seconds();
        let claims = AccessTokenClaims {
            iss: self.settings.issuer.as_str(),
            aud: &self.settings.api_audience,
            sub: subject.username.as_str(),
            client_id: subject.client_id.as_str(),
            idcs_access_token: identity,
            user_hat: &subject.account.username,
            user_id: &subject.account.user_id,
            user_site: &subject.account.site,
            scope: token.scope.as_str(),
            amr: subject.amr.iter().map(String::as_str).collect(),
            acr: amr::acr(subject.amr),
            auth_time: subject.authenticated_at.map(Timestamp::seconds),
            iat: issued_at,
            exp: expires_at,
            jti: &token.id.to_string(),
            grant_id: &subject.grant_id.to_string(),
            cnf: token.binding.confirmation(),
        };
        self.sign(ACCESS_TOKEN_TYPE, &claims)
    }

    /// The refresh token (JWT, `typ` `rt+jwt`) for one step of a grant.
    pub fn refresh_token(&self, grant: &Grant, step: &RefreshStep) -> Result<String, KeyError> {
        let claims = RefreshTokenClaims {
            iss: self.settings.issuer.as_str(),
            aud: &self.settings.issuer,
            sub: grant.username.as_str(),
            client_id: grant.client_id.as_str(),
            iat: step.issued_at.seconds(),
            exp: step.refresh_expires_at.seconds(),
            jti: &step.refresh_id.to_string(),
            grant_id: &grant.grant_id.to_string(),
        };
        self.sign(REFRESH_TOKEN_TYPE, &claims)
    }

    fn sign(&self, typ: &str, claims: &impl Serialize) -> Result<String, KeyError> {
        sign(self.keys.signing(), typ, claims)
    }
}
