//! Clients and their integration types (protocol.md §1).

use claims::Confirmation;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantArray, VariantNames};
use zeroize::Zeroizing;

use super::certificate::Certificate;
use super::client_key::KeyAuthentication;
use super::managed::Managed;
use super::redirect_template::RedirectTemplate;
use super::redirect_uri::{RedirectUri, RedirectUriPattern};
use super::scope::Scope;
use super::user::Username;
use crate::Session;
use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::random::{self, Random, RandomError};
use crate::text::text;

/// The Client ID: 1 to 128 printable ASCII characters without space (a subset of RFC 6749 §A.1).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClientId(String);

impl ClientId {
    /// Parses a Client ID; `None` if the text is empty, too long or has other characters.
    pub fn parse(text: &str) -> Option<Self> {
        let legal =
            (1..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        legal.then(|| Self(text.to_owned()))
    }
}

impl TryFrom<String> for ClientId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("a client_id has 1 to 128 printable ASCII characters and no space")
    }
}

text!(ClientId);

/// The version of a client, on which its codes depend. Registering and disabling the client give it a new number. No number
/// is used twice, not even for a client that is removed and registered again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientVersion(u64);

impl ClientVersion {
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    pub client_id: ClientId,
    /// The name on the sign-in page.
    pub name: String,
    /// Address of the application's start page (https or http). Error pages lead there if no redirect URI can be trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home_url: Option<String>,
    #[serde(flatten)]
    pub integration: IntegrationType,
    #[serde(flatten)]
    pub key_authentication: KeyAuthentication,
    /// The client may start authorization requests only by pushing them (RFC 9126 §6).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub require_pushed_authorization_requests: bool,
    /// Codes and refreshed tokens need a sign-in with a second factor (D-56).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requires_second_factor: bool,
    /// Issuers of identity providers: those whose assertions a non-interactive client may bring, those by which the people of
    /// another client sign in (empty: all that are configured).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub identity_providers: Vec<String>,
    /// All scopes that the client may request.
    pub scopes: Scope,
    /// A disabled client is treated like an unknown client.
    pub enabled: bool,
    /// The client gets only access tokens that are bound to a key (RFC 9449 §5.2).
    pub dpop_bound_access_tokens: bool,
    /// The client gets only access tokens that are bound to the certificate of its connection (RFC 8705 §3.4).
    pub tls_client_certificate_bound_access_tokens: bool,
    /// The file that defines the client; `None` if commands define the client (D-27).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed: Option<Managed>,
    /// Only the store sets this; registry changes ignore it.
    pub version: ClientVersion,
    /// The first `iat` that no revocation of the whole client covers. Only the store sets this; registry changes ignore it.
    pub tokens_from: Timestamp,
}

/// The four integration types of protocol.md §1, and the clients of the legacy flow (protocol.md §4.4 to 4.7).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum IntegrationType {
    /// Web Server Application: confidential, authorization code, PKCE optional.
    WebServer {
        /// One secret, or two during a rotation.
        secrets: Vec<ClientSecret>,
        /// Exact redirect URIs.
        redirect_uris: Vec<RedirectUriPattern>,
    },
    /// Installed Application: public, authorization code with PKCE.
    Installed {
        /// Exact redirect URIs, or loopback redirect URIs with any port.
        redirect_uris: Vec<RedirectUriPattern>,
    },
    /// Non-Interactive Integration: trusted, JWT bearer.
    NonInteractive {
        /// One secret, or two during a rotation.
        secrets: Vec<ClientSecret>,
        /// The uploaded certificates. Several are allowed, for rollover.
        certificates: Vec<Certificate>,
        /// If set, assertions may name only users of this organization (D-19).
        organization: Option<String>,
    },
    /// User-Bound Integration: confidential, client credentials, always acts as one user.
    UserBound {
        /// One secret, or two during a rotation.
        secrets: Vec<ClientSecret>,
        bound_user: Username,
    },
    /// A client of the legacy flow. The current endpoints treat it as unknown.
    Legacy {
        /// Empty for a client without a secret.
        secrets: Vec<ClientSecret>,
        /// Redirect templates (protocol.md §4.5), as text.
        redirect_templates: Vec<String>,
        /// The only instance that knows the client; `None` for every instance.
        hostname: Option<String>,
    },
}

impl IntegrationType {
    pub const fn kind(&self) -> IntegrationKind {
        match self {
            Self::WebServer { .. } => IntegrationKind::WebServer,
            Self::Installed { .. } => IntegrationKind::Installed,
            Self::NonInteractive { .. } => IntegrationKind::NonInteractive,
            Self::UserBound { .. } => IntegrationKind::UserBound,
            Self::Legacy { .. } => IntegrationKind::Legacy,
        }
    }

    /// The `type` in registrations.
    pub const fn name(&self) -> &'static str {
        self.kind().name()
    }
}

/// An integration type without its fields.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray, VariantNames,
)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum IntegrationKind {
    WebServer,
    Installed,
    NonInteractive,
    UserBound,
    Legacy,
}

impl IntegrationKind {
    /// All types, in the order of protocol.md §1.
    pub const ALL: &'static [Self] = <Self as VariantArray>::VARIANTS;

    /// The name of each type.
    pub const NAMES: &'static [&'static str] = <Self as VariantNames>::VARIANTS;

    /// The `type` in registrations.
    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

/// Prefix of generated client secrets. Secret scanners recognize it.
pub const GENERATED_PREFIX: &str = "tscs_";

/// A client secret, stored only as its SHA-256 digest. Generated secrets have 256 random bits, so a slow password hash
/// would add cost but no security (D-21).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientSecret(Digest);

impl ClientSecret {
    pub fn of(secret: &str) -> Self {
        Self(Digest::of(secret.as_bytes()))
    }

    /// A new secret and its text: [`GENERATED_PREFIX`] and 256 random bits in base64url (D-21).
    pub fn generate(random: &dyn Random) -> Result<(Zeroizing<String>, Self), RandomError> {
        let bits = Zeroizing::new(random::text::<32>(random)?);
        let text = Zeroizing::new(format!("{GENERATED_PREFIX}{}", *bits));
        let secret = Self::of(&text);
        Ok((text, secret))
    }

    pub const fn from_digest(digest: Digest) -> Self {
        Self(digest)
    }

    pub const fn digest(&self) -> &Digest {
        &self.0
    }

    /// True if `presented` is this secret. Compares in constant time.
    pub fn matches(&self, presented: &str) -> bool {
        self.0 == Digest::of(presented.as_bytes())
    }
}

impl Client {
    /// True if people may sign in to the client as in this session: with a password, or with one of its identity providers.
    pub fn accepts_sign_in(&self, session: &Session) -> bool {
        let issuer = session
            .provider
            .as_ref()
            .map(|sign_in| &sign_in.identity.issuer);
        let own = &self.identity_providers;
        own.is_empty() || issuer.is_none_or(|issuer| own.contains(issuer))
    }

    /// A client with only a Client ID and a type; all other fields are empty. The bound user of a user-bound client is
    /// set to the Client ID, because no user has this name (RFC 9700 §4.15).
    pub fn new(client_id: ClientId, kind: IntegrationKind) -> Self {
        let integration = match kind {
            IntegrationKind::WebServer => IntegrationType::WebServer {
                secrets: Vec::new(),
                redirect_uris: Vec::new(),
            },
            IntegrationKind::Installed => IntegrationType::Installed {
                redirect_uris: Vec::new(),
            },
            IntegrationKind::NonInteractive => IntegrationType::NonInteractive {
                secrets: Vec::new(),
                certificates: Vec::new(),
                organization: None,
            },
            IntegrationKind::UserBound => IntegrationType::UserBound {
                secrets: Vec::new(),
                bound_user: Username::of_printable_ascii(client_id.as_str()),
            },
            IntegrationKind::Legacy => IntegrationType::Legacy {
                secrets: Vec::new(),
                redirect_templates: Vec::new(),
                hostname: None,
            },
        };
        Self {
            name: client_id.to_string(),
            home_url: None,
            client_id,
            integration,
            key_authentication: KeyAuthentication::default(),
            require_pushed_authorization_requests: false,
            requires_second_factor: false,
            identity_providers: Vec::new(),
            scopes: Scope::default(),
            enabled: true,
            dpop_bound_access_tokens: false,
            tls_client_certificate_bound_access_tokens: false,
            managed: None,
            version: ClientVersion::default(),
            tokens_from: Timestamp::default(),
        }
    }

    /// The redirect URI `sent`, if it is registered: as a redirect URI (RFC 9700 §2.1), or for a legacy client by a template
    /// (protocol.md §4.5).
    pub fn registered_redirect_uri(&self, sent: &str) -> Option<RedirectUri> {
        if let IntegrationType::Legacy {
            redirect_templates, ..
        } = &self.integration
        {
            let mut templates = redirect_templates
                .iter()
                .filter_map(|template| RedirectTemplate::parse(template).ok());
            return templates.find_map(|template| template.matches(sent));
        }
        let mut patterns = self.redirect_uris().iter();
        patterns.find_map(|pattern| pattern.matches(sent))
    }

    /// True if the client has nothing with which it could authenticate (RFC 6749 §2.1).
    pub const fn is_public(&self) -> bool {
        match &self.integration {
            IntegrationType::Installed { .. } => true,
            IntegrationType::Legacy { secrets, .. } => secrets.is_empty(),
            IntegrationType::WebServer { .. }
            | IntegrationType::NonInteractive { .. }
            | IntegrationType::UserBound { .. } => false,
        }
    }

    /// To what a grant of the client becomes bound when the client proves `proven` at the exchange of the code (D-50): public
    /// clients bind their refresh tokens (RFC 9449 §5, RFC 8705 §4), confidential clients authenticate instead.
    pub fn binds(&self, proven: Confirmation) -> Confirmation {
        if !self.is_public() {
            return Confirmation::default();
        }
        let is_bound = self.tls_client_certificate_bound_access_tokens;
        Confirmation {
            certificate: proven.certificate.filter(|_| is_bound),
            ..proven
        }
    }

    /// True if a code from this version of the client is still valid.
    pub fn still_has(&self, version: ClientVersion) -> bool {
        self.enabled && self.version == version
    }

    /// The redirect URIs; empty for types without redirect URIs.
    pub fn redirect_uris(&self) -> &[RedirectUriPattern] {
        match &self.integration {
            IntegrationType::WebServer { redirect_uris, .. }
            | IntegrationType::Installed { redirect_uris } => redirect_uris,
            IntegrationType::NonInteractive { .. }
            | IntegrationType::UserBound { .. }
            | IntegrationType::Legacy { .. } => &[],
        }
    }

    /// The user as whom the client acts; `None` for types that are not bound to a user.
    pub const fn bound_user(&self) -> Option<&Username> {
        match &self.integration {
            IntegrationType::UserBound { bound_user, .. } => Some(bound_user),
            _ => None,
        }
    }

    /// Spells the bound user as `registered` returns the name, because stores find bound users by the registered spelling
    /// (D-43). Keeps the spelling if `registered` returns `None`.
    pub fn spell_bound_user(&mut self, registered: impl FnOnce(&Username) -> Option<Username>) {
        if let IntegrationType::UserBound { bound_user, .. } = &mut self.integration
            && let Some(spelling) = registered(bound_user)
        {
            *bound_user = spelling;
        }
    }

    /// The secrets, mutable; `None` for the type without secrets.
    pub const fn secrets_mut(&mut self) -> Option<&mut Vec<ClientSecret>> {
        match &mut self.integration {
            IntegrationType::WebServer { secrets, .. }
            | IntegrationType::NonInteractive { secrets, .. }
            | IntegrationType::UserBound { secrets, .. }
            | IntegrationType::Legacy { secrets, .. } => Some(secrets),
            IntegrationType::Installed { .. } => None,
        }
    }

    /// The certificates, mutable; `None` for types without certificates.
    pub const fn certificates_mut(&mut self) -> Option<&mut Vec<Certificate>> {
        match &mut self.integration {
            IntegrationType::NonInteractive { certificates, .. } => Some(certificates),
            _ => None,
        }
    }

    /// The certificates; empty for types without certificates.
    pub fn certificates(&self) -> &[Certificate] {
        match &self.integration {
            IntegrationType::NonInteractive { certificates, .. } => certificates,
            _ => &[],
        }
    }

    /// True if the client may redeem a code with the verifier in place of its authentication (D-25, D-46).
    pub const fn may_prove_by_verifier(&self) -> bool {
        matches!(self.integration, IntegrationType::WebServer { .. })
            && self.key_authentication.is_empty()
    }

    /// The secrets; empty for public clients.
    pub fn secrets(&self) -> &[ClientSecret] {
        match &self.integration {
            IntegrationType::WebServer { secrets, .. }
            | IntegrationType::NonInteractive { secrets, .. }
            | IntegrationType::UserBound { secrets, .. }
            | IntegrationType::Legacy { secrets, .. } => secrets,
            IntegrationType::Installed { .. } => &[],
        }
    }
}
