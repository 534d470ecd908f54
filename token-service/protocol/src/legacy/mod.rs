//! The legacy flow (protocol.md §2.5, §4.4 to §4.7, §7.2, §8), separate from the current flows so that it can be
//! deleted later. It uses their store, users, keys and sign-in, but they do not depend on it.

mod access_token;
pub mod logon;
mod refresh_token;
pub mod status;
pub mod token_endpoint;
pub mod token_error;

use async_trait::async_trait;
use serde_json::Value;

use crate::Context;
use crate::flow::{BeginError, Flow, OpaqueRefreshToken, TokenName};
use crate::oauth::authorize::CodeRequest;
use crate::settings::Settings;
use crate::token::IssuedToken;
use domain::{Client, LegacyInstance, RegistrySummary, legacy_instance};
use logon::LogonRequest;
use refresh_token::LegacyRefreshToken;

/// `GET`, on a legacy host: tells whether OAuth2 is enabled, and the authorization server (protocol.md §4.4).
pub const STATUS: &str = "/OAuthStatus";
/// `GET`, on a legacy host: logon with a browser (protocol.md §4.5).
const LOGON: &str = "/Logon";
/// `POST`, on a legacy authorization server: exchange and refresh (protocol.md §4.6, §4.7).
pub const TOKEN: &str = "/as/token.oauth2";

#[derive(Debug)]
pub struct Legacy;

#[async_trait(?Send)]
impl Flow for Legacy {
    fn begins_at(&self) -> &'static str {
        LOGON
    }

    fn redirects_with_302(&self) -> bool {
        true
    }

    async fn begin(
        &self,
        context: &Context<'_>,
        query: &[u8],
        host: &str,
    ) -> Result<Box<dyn CodeRequest>, BeginError> {
        let summary = context.summary;
        let instance = summary
            .legacy_instance(host)
            .ok_or_else(|| BeginError::WrongHost(wrong_host(LOGON, host, summary)))?;
        let request = LogonRequest::validate(query, instance, context.directory).await?;
        Ok(Box::new(request))
    }

    fn endpoints(&self) -> &'static [(&'static str, &'static str)] {
        &[("GET", STATUS), ("GET", LOGON), ("POST", TOKEN)]
    }

    fn issuers(&self, _settings: &Settings, instances: &[LegacyInstance]) -> Vec<String> {
        instances
            .iter()
            .map(|instance| legacy_instance::issuer(&instance.hostname))
            .collect()
    }

    fn access_token(&self, claims: Value) -> Option<IssuedToken> {
        access_token::read(claims)
    }

    fn opaque_refresh_token<'a>(
        &self,
        context: &Context<'a>,
        token: &str,
    ) -> Option<OpaqueRefreshToken<'a>> {
        let key = context.encryption_key;
        let mut instances = context.summary.legacy_instances.iter();
        instances.find_map(|instance| {
            let token = LegacyRefreshToken::parse(token, &instance.hostname, key)?;
            Some(OpaqueRefreshToken {
                kind: "legacy refresh token",
                host: &instance.hostname,
                is_enabled: instance.enabled,
                grant_id: token.grant_id,
                refresh_id: token.id(&instance.hostname, key),
                reuse_grace: token_endpoint::REUSE_GRACE,
            })
        })
    }

    fn serves(&self, client: &Client, host: &str) -> bool {
        access_token::serves(client, host)
    }

    fn misfit(&self, name: TokenName<'_>, settings: &Settings) -> Option<String> {
        access_token::misfit(name, settings)
    }
}

/// The error text for a host that does not serve `path`. Each instance has one host for status and logon, and one for
/// tokens (protocol.md §4.4 to §4.7).
pub fn wrong_host(path: &str, host: &str, summary: &RegistrySummary) -> String {
    let right = if path == TOKEN {
        let instance = summary.legacy_instance(host);
        instance.map(|instance| &instance.auth_server_hostname)
    } else {
        let instance = summary.legacy_auth_servers(host).next();
        instance.map(|instance| &instance.hostname)
    };
    match right {
        Some(right) => format!("This host does not serve {path}; {right} does"),
        None => format!("{path} belongs to the legacy flow, and this host is no legacy host"),
    }
}
