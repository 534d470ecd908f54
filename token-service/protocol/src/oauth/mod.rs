//! The protocol of the current flows (protocol.md §4.1, §4.2). Plain functions and types: no HTTP server, no
//! database, no wall clock.

pub mod account_selection;
pub mod assertion;
pub mod authorize;
pub mod client_authentication;
pub mod connection;
pub mod endpoint_request;
pub mod error;
mod error_code;
pub mod grants;
pub mod message;
pub mod parameter;
pub mod parameters;
pub mod pkce;
mod possession;
pub mod proof;
pub mod pushed;
pub mod refusal;
mod sealed_code;
pub mod secret_guesses;
pub mod token_endpoint;
pub mod token_response;
