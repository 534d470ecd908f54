//! The objects that are registered, each described once.

mod account;
mod certificate;
pub mod changes;
mod client;
mod client_key;
mod client_secret;
mod content;
mod legacy_instance;
mod redirect_uris;
mod tls_client_certificate;
mod user;

pub use account::ACCOUNT;
pub use client::{NAMES_ANYBODY, names_anybody};
pub use legacy_instance::{port_problem, read_all as read_legacy_instances};
pub use user::TOTP_SECRET_LENGTH;
