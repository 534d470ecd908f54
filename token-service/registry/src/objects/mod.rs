//! The objects that are registered.

mod account;
mod certificate;
mod client;
mod client_key;
mod client_secret;
mod content;
mod identity;
mod legacy_instance;
mod redirect_uris;
mod tls_client_certificate;
mod user;

pub use account::AccountView;
pub use certificate::CertificateView;
pub use client::{ClientRegistration, ClientView, NAMES_ANYBODY, names_anybody};
pub use client_key::ClientKeyView;
pub use client_secret::SecretView;
pub use identity::IdentityView;
pub use legacy_instance::{
    LegacyInstanceRegistration, LegacyInstanceView, port_problem, read_all as read_legacy_instances,
};
pub(crate) use user::MUST_CHANGE_PASSWORD;
pub use user::{UserRegistration, UserView};
