//! Clients, users, linked accounts and certificates: what registration creates (spec §1, §5).

pub mod apply;
pub mod certificate;
pub mod client;
pub mod legacy_instance;
pub mod password_hash;
pub mod redirect_uri;
pub mod registrations;
pub mod remembered;
pub mod scope;
pub mod snapshot;
pub mod user;

pub use certificate::Certificate;
pub use client::{Client, ClientId, IntegrationType};
pub use legacy_instance::LegacyInstance;
pub use redirect_uri::{RedirectUri, RedirectUriPattern};
pub use remembered::{ObjectName, Remembered};
pub use scope::Scope;
pub use snapshot::Registry;
pub use user::{CredentialsVersion, LinkedAccount, User, Username};
