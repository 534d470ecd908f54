//! The domain of the token service: clients, users and their accounts, grants, codes and sessions, with their rules.
//! Types and plain functions without I/O, HTTP or database. Callers pass in time and randomness.

pub mod amr;
pub mod attempt;
pub mod audit_entry;
pub mod audit_event;
pub mod authorization_code;
pub mod cap;
pub mod certificate;
pub mod client;
pub mod client_key;
pub mod client_secret;
pub mod clock;
pub mod credentials;
pub mod digest;
pub mod ended_by;
pub mod excerpt;
pub mod grant;
pub mod grant_id;
pub mod identity;
pub mod layout;
pub mod legacy_instance;
pub mod managed;
pub mod notice;
pub mod object;
pub mod observed;
pub mod password_scheme;
pub mod random;
pub mod redirect_template;
pub mod redirect_uri;
pub mod refresh_rotation;
pub mod registry_change;
pub mod registry_index;
pub mod registry_summary;
pub mod revocation;
pub mod scope;
pub mod sealed_value;
pub mod second_factor_rules;
pub mod session;
pub mod signing_key;
mod spelling;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod text;
pub mod token_id;
pub mod user;

pub use attempt::{Admission, Counted, Failures, Pace, PacedKey};
pub use audit_event::{AuditAction, AuditEvent, AuditKind, AuditRange, AuditRecord};
pub use authorization_code::wait_for_tokens;
pub use authorization_code::{
    CodeMismatch, CodeRecord, PresentedCode, Redemption, SelfContainedCode,
};
pub use certificate::Certificate;
pub use client::{Client, ClientId, ClientVersion, IntegrationKind, IntegrationType};
pub use client_key::{ClientKey, KeyAuthentication};
pub use client_secret::{SecretTimes, SecretUse};
pub use credentials::{Credentials, SecondFactor};
pub use excerpt::Excerpt;
pub use grant::{FirstStep, Grant, GrantFilter, RefreshStep};
pub use grant_id::GrantId;
pub use identity::{Identity, LinkedIdentity, ProviderSignIn, ProviderSignOut};
pub use layout::Layout;
pub use legacy_instance::LegacyInstance;
pub use managed::Managed;
pub use notice::{ClaimedNotice, Notice};
pub use object::{ObjectKind, ObjectName};
pub use observed::{Observed, SignIns};
pub use redirect_uri::{RedirectUri, RedirectUriPattern};
pub use refresh_rotation::{RefreshRotation, Rotation, RotationRefusal};
pub use registry_change::{FileChange, Premises, RegistryChange, RegistryChanges, RegistryOutcome};
pub use registry_index::IndexDifference;
pub use registry_summary::{CertificateExpiry, RegistrySummary};
pub use revocation::{
    Extent, FeedId, FeedState, Owner, Revocation, Revoked, TokenReference, TokenSubject,
};
pub use scope::Scope;
pub use sealed_value::SealedValue;
pub use second_factor_rules::{SecondFactorRule, SecondFactorRules};
pub use session::{
    EndedSignIns, EndingSessions, Session, SessionPlace, SessionStage, UnfinishedSignIn,
    UnfinishedSignIns,
};
pub use signing_key::SealedSigningKey;
pub use spelling::ambiguity;
pub use token_id::TokenId;
pub use user::{CredentialsVersion, LinkedAccount, PasswordLink, User, Username};
