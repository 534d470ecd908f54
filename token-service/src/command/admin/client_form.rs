//! Flags for clients.

use clap::builder::PossibleValuesParser;
use serde::Serialize;

use super::form::{
    Form, Named, add_named_files, add_switch, changed, given, help_of_change, help_of_new,
};
use crate::http::admin::Object;
use domain::Client;
use domain::client::IntegrationKind;

const KEY: [&str; 2] = ["kid", "public_key"];
const CERTIFICATES: &str = "tls_client_certificates";
const CERTIFICATE_BOUND: &str = "tls_client_certificate_bound_access_tokens";
const PUSHED_ONLY: &str = "require_pushed_authorization_requests";

/// For new clients and changes.
#[derive(Debug, clap::Args, Serialize)]
struct Flags {
    /// The name that people see.
    #[arg(long)]
    name: Option<String>,
    /// Address of the application's start page (https or http). Error pages lead there if no redirect URI can be trusted.
    #[arg(long, value_name = "URL")]
    home_url: Option<String>,
    /// The client may not be used, and everything issued to it is revoked.
    #[arg(long)]
    #[serde(skip)]
    disable: bool,
    /// The client gets only access tokens that are bound to a key (DPoP).
    #[arg(long)]
    #[serde(skip)]
    dpop_bound: bool,
    /// The client gets only access tokens that are bound to the certificate of its connection.
    #[arg(long)]
    #[serde(skip)]
    certificate_bound: bool,
    /// Scopes that the client may ask for.
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// Redirect URIs; templates for legacy clients (web_server, installed, legacy).
    #[arg(long = "redirect-uri", value_name = "URI")]
    redirect_uris: Vec<String>,
    /// The client must push its authorization requests.
    #[arg(long)]
    #[serde(skip)]
    require_pushed_requests: bool,
    /// Whether people need a second factor for codes and refreshed tokens of the client: optional or required (web_server,
    /// installed, legacy).
    #[arg(long, value_name = "RULE")]
    second_factor: Option<String>,
    /// Issuers of identity providers. A non_interactive client may bring their assertions. For other clients, the sign-in page offers
    /// these providers (default: all with a client_id); with exactly one, the browser goes there without a page (web_server,
    /// installed, non_interactive, legacy).
    #[arg(long = "identity-provider", value_name = "ISSUER")]
    identity_providers: Vec<String>,
    /// The public keys of client assertions, with which the client authenticates (private_key_jwt) (web_server, non_interactive,
    /// user_bound).
    #[arg(long = "key", value_name = "KID=FILE")]
    #[serde(skip)]
    keys: Vec<String>,
    /// The only aud of client assertions: issuer or token_endpoint (web_server, non_interactive, user_bound).
    #[arg(long, value_name = "AUDIENCE")]
    client_assertion_audience: Option<String>,
    /// The SHA-256 thumbprints of the certificates with which the client authenticates its connection (self_signed_tls_client_auth)
    /// (web_server, non_interactive, user_bound).
    #[arg(long = "tls-certificate", value_name = "SHA256")]
    tls_client_certificates: Vec<String>,
    /// The organization to whose users the client is restricted (non_interactive).
    #[arg(long)]
    organization: Option<String>,
    /// The user as whom the client acts (user_bound).
    #[arg(long, value_name = "USERNAME")]
    bound_user: Option<String>,
    /// The one legacy instance that knows the client (legacy).
    #[arg(long)]
    hostname: Option<String>,
}

#[derive(Debug, clap::Args, Serialize)]
#[command(mut_args = help_of_new)]
pub(in crate::command) struct New {
    /// The Client ID.
    #[arg(required_unless_present = "id")]
    #[serde(skip)]
    client_id: Option<String>,
    /// The same as the argument CLIENT_ID.
    #[arg(long, value_name = "CLIENT_ID", conflicts_with = "client_id")]
    #[serde(skip)]
    id: Option<String>,
    /// The integration type: web_server, installed, non_interactive, user_bound or legacy.
    #[arg(long, hide_possible_values = true, value_parser = PossibleValuesParser::new(IntegrationKind::NAMES))]
    r#type: String,
    #[command(flatten)]
    #[serde(flatten)]
    flags: Flags,
    /// The certificates of the client's assertions (non_interactive).
    #[arg(long = "certificate", value_name = "ALIAS=FILE")]
    #[serde(skip)]
    certificates: Vec<String>,
}

#[derive(Debug, clap::Args, Serialize)]
struct Added {
    /// Adds to the scopes.
    #[arg(long, value_name = "SCOPE", conflicts_with = "scopes")]
    #[serde(rename = "scopes")]
    add_scope: Vec<String>,
    /// Adds to the redirect uris.
    #[arg(long, value_name = "URI", conflicts_with = "redirect_uris")]
    #[serde(rename = "redirect_uris")]
    add_redirect_uri: Vec<String>,
    /// Adds to the identity providers.
    #[arg(long, value_name = "ISSUER", conflicts_with = "identity_providers")]
    #[serde(rename = "identity_providers")]
    add_identity_provider: Vec<String>,
    /// Adds to the keys.
    #[arg(long, value_name = "KID=FILE", conflicts_with = "keys")]
    #[serde(skip)]
    add_key: Vec<String>,
    /// Adds to the tls certificates.
    #[arg(long, value_name = "SHA256", conflicts_with = CERTIFICATES)]
    #[serde(rename = "tls_client_certificates")]
    add_tls_certificate: Vec<String>,
}

#[derive(Debug, clap::Args, Serialize)]
struct Removed {
    /// Removes from the scopes.
    #[arg(long, value_name = "SCOPE", conflicts_with = "scopes")]
    #[serde(rename = "scopes")]
    remove_scope: Vec<String>,
    /// Removes from the redirect uris.
    #[arg(long, value_name = "URI", conflicts_with = "redirect_uris")]
    #[serde(rename = "redirect_uris")]
    remove_redirect_uri: Vec<String>,
    /// Removes from the identity providers.
    #[arg(long, value_name = "ISSUER", conflicts_with = "identity_providers")]
    #[serde(rename = "identity_providers")]
    remove_identity_provider: Vec<String>,
    /// Removes from the keys.
    #[arg(long, value_name = "KID", conflicts_with = "keys")]
    #[serde(rename = "keys")]
    remove_key: Vec<String>,
    /// Removes from the tls certificates.
    #[arg(long, value_name = "SHA256", conflicts_with = CERTIFICATES)]
    #[serde(rename = "tls_client_certificates")]
    remove_tls_certificate: Vec<String>,
}

#[derive(Debug, clap::Args, Serialize)]
#[command(mut_args = help_of_change)]
pub(in crate::command) struct Change {
    #[command(flatten)]
    #[serde(skip)]
    client: Named<Client>,
    #[command(flatten)]
    #[serde(flatten)]
    flags: Flags,
    /// The client may be used.
    #[arg(long, conflicts_with = "disable")]
    #[serde(skip)]
    enable: bool,
    /// The client also gets bearer tokens.
    #[arg(long, conflicts_with = "dpop_bound")]
    #[serde(skip)]
    dpop_optional: bool,
    /// Access tokens are not bound to certificates.
    #[arg(long, conflicts_with = "certificate_bound")]
    #[serde(skip)]
    certificate_optional: bool,
    /// Authorization requests may come from the browser.
    #[arg(long, conflicts_with = "require_pushed_requests")]
    #[serde(skip)]
    allow_unpushed_requests: bool,
    #[command(flatten)]
    #[serde(skip)]
    added: Added,
    #[command(flatten)]
    #[serde(skip)]
    removed: Removed,
}

impl Flags {
    /// Adds the switches, with `others` as their opposites, and the keys from files.
    fn add_to(&self, mut body: Object, others: [bool; 4]) -> anyhow::Result<Object> {
        let [enable, dpop_optional, certificate_optional, allow_unpushed] = others;
        for (key, on, off) in [
            ("enabled", enable, self.disable),
            ("dpop_bound_access_tokens", self.dpop_bound, dpop_optional),
            (
                CERTIFICATE_BOUND,
                self.certificate_bound,
                certificate_optional,
            ),
            (PUSHED_ONLY, self.require_pushed_requests, allow_unpushed),
        ] {
            add_switch(&mut body, key, on, off);
        }
        add_named_files(&mut body, "keys", "key", KEY, &self.keys)?;
        Ok(body)
    }
}

impl Form for New {
    type Object = Client;

    fn name(&self) -> &str {
        let name = self.client_id.as_ref().or(self.id.as_ref());
        name.map_or("", String::as_str)
    }

    fn body(&self) -> anyhow::Result<Object> {
        let mut body = self.flags.add_to(given(self)?, [false; 4])?;
        let (keys, files) = (["alias", "pem"], &self.certificates);
        add_named_files(&mut body, "certificates", "certificate", keys, files)?;
        Ok(body)
    }
}

impl Form for Change {
    type Object = Client;

    fn name(&self) -> &str {
        &self.client.name
    }

    fn body(&self) -> anyhow::Result<Object> {
        let others = [
            self.enable,
            self.dpop_optional,
            self.certificate_optional,
            self.allow_unpushed_requests,
        ];
        let mut body = self.flags.add_to(changed(self)?, others)?;
        let mut added = given(&self.added)?;
        add_named_files(&mut added, "keys", "add-key", KEY, &self.added.add_key)?;
        for (member, edits) in [("add", added), ("remove", given(&self.removed)?)] {
            if !edits.is_empty() {
                body.insert(member.to_owned(), edits.into());
            }
        }
        Ok(body)
    }
}
