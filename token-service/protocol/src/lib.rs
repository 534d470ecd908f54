//! The protocol. Plain functions and types over the store, with clock and randomness as parameters; no HTTP server and
//! no configuration file.

pub mod context;
mod directory;
pub mod flow;
pub mod flows;
pub mod identity_provider;
pub mod issued_token;
pub mod legacy;
pub mod lifetimes;
pub mod oauth;
pub mod paths;
pub mod provider_sign_in;
pub mod secret_uses;
pub mod settings;
pub mod sign_in;
pub mod token;

pub use context::Context;
pub use directory::Directory;
pub use settings::Settings;
