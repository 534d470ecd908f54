//! Legacy token exchange and refresh (protocol.md §4.6, §4.7).

use std::sync::Arc;
use std::time::Duration;

use claims::Confirmation;
use serde::Serialize;
use utoipa::ToSchema;

use super::access_token::{self, MintError, Names};
use super::logon::code_digest;
use super::refresh_token::LegacyRefreshToken;
use super::token_error::LegacyTokenError;
use crate::Context;
use crate::oauth::client_authentication::{self, Served};
use crate::oauth::endpoint_request::EndpointRequest;
use crate::oauth::error::{TokenError, required};
use crate::oauth::grants::{GrantType, IssuedStep, redeemed, rotate};
use crate::oauth::parameter::Parameter;
use crate::oauth::parameters::{Contradiction, Parameters};
use crate::oauth::token_response::Authorization;
use crate::token::Binding;
use domain::{
    Client, ClientId, FirstStep, GrantId, LegacyInstance, PresentedCode, Redemption,
    RefreshRotation, TokenId,
};

/// Time for which a used refresh token gets the same tokens again (D-15).
pub const REUSE_GRACE: Duration = Duration::from_secs(60);

/// The response of the legacy flow, with exactly these members.
#[derive(Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct LegacyTokenResponse {
    /// Always `Bearer`.
    pub token_type: &'static str,
    /// Time from this response until the access token expires, in seconds.
    pub expires_in: u64,
    /// 42 characters.
    pub refresh_token: String,
    /// 481 characters.
    pub access_token: String,
    /// For the audit log; not part of the response.
    #[serde(skip)]
    pub authorization: Authorization,
    /// {hostname} of the issuing instance; not part of the response.
    #[serde(skip)]
    pub hostname: String,
}

/// Handles one request on the authorization server of `instances`. If several instances share one authorization server,
/// the code or refresh token identifies the instance.
///
/// # Errors
/// A [`LegacyTokenError`]: the first error of the instance that got furthest with the request.
pub async fn answer<'a>(
    context: &Context<'_>,
    instances: impl IntoIterator<Item = &'a LegacyInstance>,
    request: &EndpointRequest<'_>,
) -> Result<LegacyTokenResponse, LegacyTokenError> {
    let body = Parameters::parse(request.body)?;
    let query = Parameters::parse(request.query.as_bytes())?;
    let fields = body
        .merged_with(query)
        .map_err(|Contradiction| LegacyTokenError::Contradiction)?;
    let mut refusal = LegacyTokenError::Disabled { is_its: false };
    for instance in instances {
        match answer_at(context, instance, request, &fields).await {
            Ok(response) => return Ok(response),
            Err(error) => match (knowledge(&refusal), knowledge(&error)) {
                (_, None) => return Err(error),
                (before, now) if now >= before => refusal = error,
                _ => {}
            },
        }
    }
    Err(refusal)
}

/// How far an instance got with a request that may belong to another instance. `None` if the request belongs to this
/// instance.
const fn knowledge(refusal: &LegacyTokenError) -> Option<u8> {
    match refusal {
        LegacyTokenError::Disabled { is_its: false } => Some(0),
        LegacyTokenError::Common(TokenError::UnknownClient) => Some(1),
        LegacyTokenError::Common(TokenError::UnknownCode | TokenError::RefreshToken) => Some(2),
        _ => None,
    }
}

async fn answer_at(
    context: &Context<'_>,
    instance: &LegacyInstance,
    request: &EndpointRequest<'_>,
    fields: &Parameters<'_>,
) -> Result<LegacyTokenResponse, LegacyTokenError> {
    let endpoint = Endpoint { context, instance };
    if !instance.enabled {
        let is_its = endpoint.knows(fields).await?;
        return Err(LegacyTokenError::Disabled { is_its });
    }
    let grant_type = required(fields, Parameter::GrantType)?;
    match grant_type.parse() {
        Ok(GrantType::AuthorizationCode) => {
            let client = endpoint.client(&request.authorization, fields).await?;
            endpoint.exchange(&client, fields).await
        }
        Ok(GrantType::RefreshToken) => {
            let client = endpoint
                .refreshing_client(&request.authorization, fields)
                .await?;
            endpoint.refresh(&client, fields).await
        }
        _ => Err(LegacyTokenError::GrantType),
    }
}

struct Endpoint<'a> {
    context: &'a Context<'a>,
    instance: &'a LegacyInstance,
}

impl Endpoint<'_> {
    /// True if the code or the refresh token is of this instance. Redeems nothing.
    async fn knows(&self, fields: &Parameters<'_>) -> Result<bool, LegacyTokenError> {
        if self.refresh_token(fields).is_ok() {
            return Ok(true);
        }
        let code = required(fields, Parameter::Code).ok();
        let (Some(code), Some(nobody)) = (code, ClientId::parse("-")) else {
            return Ok(false);
        };
        let context = self.context;
        // No code belongs to a request without a redirect URI, so the code stays as it is.
        let presented = PresentedCode {
            client_id: nobody,
            redirect_uri: String::new(),
            verifier_digest: None,
            client_authenticated: false,
            proven: Confirmation::default(),
        };
        let code = code_digest(code, &self.instance.hostname);
        let grant_id = GrantId::generate(context.random, context.now)?;
        let first = self.first_step(LegacyRefreshToken::first(grant_id))?;
        let asked = context
            .store
            .redeem_legacy_code(code, presented, grant_id, first, context.now);
        Ok(asked.await.map_err(TokenError::from)? != Redemption::Unknown)
    }

    fn first_step(&self, token: LegacyRefreshToken) -> Result<FirstStep, TokenError> {
        let context = self.context;
        Ok(FirstStep {
            refresh_id: token.id(&self.instance.hostname, context.encryption_key),
            access_id: TokenId::generate(context.random)?,
            scope: None,
            issued_at: context.now,
            refresh_expires_at: context.now + context.settings.lifetimes.refresh_token,
            second_factor: Arc::clone(&context.settings.second_factor),
        })
    }

    /// The client, from Basic authentication or `client_id`. A client with a secret must authenticate (protocol.md
    /// §4.6).
    async fn client(
        &self,
        authorization: &[&[u8]],
        fields: &Parameters<'_>,
    ) -> Result<Arc<Client>, LegacyTokenError> {
        let served = Served::Legacy(&self.instance.hostname);
        let presented =
            client_authentication::authenticate(self.context, served, authorization, None, fields)
                .await?;
        presented.note_use(self.context);
        Ok(Arc::clone(presented.fully_authenticated()?))
    }

    /// protocol.md §4.7 lists no `client_id` for a refresh. Without `client_id` and Basic authentication, the token
    /// identifies the client, and the client must have no secret.
    async fn refreshing_client(
        &self,
        authorization: &[&[u8]],
        fields: &Parameters<'_>,
    ) -> Result<Arc<Client>, LegacyTokenError> {
        if !authorization.is_empty() || fields.contains(Parameter::ClientId) {
            return self.client(authorization, fields).await;
        }
        let token = self.refresh_token(fields)?;
        let grant = self.context.store.grant(token.grant_id).await?;
        let client_id = grant.ok_or(TokenError::RefreshToken)?.client_id;
        let named = Parameters::of([(Parameter::ClientId.name(), client_id.as_str())]);
        self.client(&[], &named).await
    }

    fn refresh_token(&self, fields: &Parameters<'_>) -> Result<LegacyRefreshToken, TokenError> {
        let text = required(fields, Parameter::RefreshToken)?;
        let key = self.context.encryption_key;
        LegacyRefreshToken::parse(text, &self.instance.hostname, key)
            .ok_or(TokenError::RefreshToken)
    }

    async fn exchange(
        &self,
        client: &Client,
        fields: &Parameters<'_>,
    ) -> Result<LegacyTokenResponse, LegacyTokenError> {
        let context = self.context;
        let code = required(fields, Parameter::Code)?;
        let redirect_uri = required(fields, Parameter::RedirectUri)?;
        let presented = PresentedCode {
            client_id: client.client_id.clone(),
            redirect_uri: redirect_uri.to_owned(),
            verifier_digest: None,
            client_authenticated: true,
            proven: Confirmation::default(),
        };
        let grant_id = GrantId::generate(context.random, context.now)?;
        let token = LegacyRefreshToken::first(grant_id);
        let first = self.first_step(token)?;
        let code = code_digest(code, &self.instance.hostname);
        let redemption =
            context
                .store
                .redeem_legacy_code(code, presented, grant_id, first, context.now);
        let redemption = redemption.await.map_err(TokenError::from)?;
        let issued = redeemed(redemption)?;
        self.respond(&issued, token)
    }

    async fn refresh(
        &self,
        client: &Client,
        fields: &Parameters<'_>,
    ) -> Result<LegacyTokenResponse, LegacyTokenError> {
        let context = self.context;
        let token = self.refresh_token(fields)?;
        let next = token.next();
        let id =
            |token: LegacyRefreshToken| token.id(&self.instance.hostname, context.encryption_key);
        let rotation = RefreshRotation {
            grant_id: token.grant_id,
            refresh_id: id(token),
            client_id: client.client_id.clone(),
            username: None,
            proven: Confirmation::default(),
            scope: None,
            second_factor: Arc::clone(&context.settings.second_factor),
            next_refresh_id: id(next),
            next_access_id: TokenId::generate(context.random)?,
            now: context.now,
            lifetime: context.settings.lifetimes.refresh_token,
            grace: REUSE_GRACE,
        };
        let lifetime = context.settings.lifetimes.legacy_access_token;
        let issued = rotate(context, rotation, lifetime).await?;
        self.respond(&issued, next)
    }

    fn respond(
        &self,
        issued: &IssuedStep,
        refresh_token: LegacyRefreshToken,
    ) -> Result<LegacyTokenResponse, LegacyTokenError> {
        let IssuedStep {
            grant,
            step,
            issuance,
            asked: _,
        } = issued;
        let context = self.context;
        let lifetime = context.settings.lifetimes.legacy_access_token;
        let key = context.keys.ed25519().ok_or(TokenError::Signing)?;
        let subject = Names {
            hostname: &self.instance.hostname,
            audience: &context.settings.api_audience,
            client_id: grant.client_id.as_str(),
            user_id: &grant.account.user_id,
        };
        let minted = access_token::mint(
            key,
            subject,
            grant.grant_id,
            step.access_id,
            step.issued_at,
            step.issued_at + lifetime,
        );
        let access_token = minted.map_err(|error| match error {
            MintError::NoRoom => LegacyTokenError::UserIdTooLong,
            MintError::Key(error) => error.into(),
        })?;
        Ok(LegacyTokenResponse {
            token_type: "Bearer",
            expires_in: issued.expires_in(lifetime, context.now).as_secs(),
            refresh_token: refresh_token.text(&self.instance.hostname, context.encryption_key),
            access_token,
            authorization: Authorization::of(grant, *issuance, Binding::Bearer),
            hostname: self.instance.hostname.clone(),
        })
    }
}
