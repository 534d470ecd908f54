//! The legacy flow (protocol.md §2.5, §4.4 to 4.7, §7.2, §8), apart from the current ones so that it can be deleted one
//! day. It shares their store, users, keys and sign-in, and nothing that it issues is known to them.

pub mod access_token;
pub mod error;
pub mod logon;
pub mod refresh_token;
pub mod token_endpoint;
