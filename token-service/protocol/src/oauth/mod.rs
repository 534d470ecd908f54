//! The protocol of the current flows (spec §4.1, §4.2). Plain functions and types: no HTTP server, no
//! database, no wall clock.

pub mod account_selection;
pub mod assertion;
pub mod authorize;
pub mod client_authentication;
pub mod endpoint_request;
pub mod error;
pub mod grants;
pub mod introspection;
pub mod issued_token;
pub mod parameters;
pub mod revocation;
pub mod token_endpoint;
pub mod token_response;
