//! The token service: an OAuth 2.0 authorization server.
//!
//! Dependencies go in one direction: `http -> oauth | sign_in -> registry, token -> store`. The protocol in [`oauth`]
//! does not depend on actix, redb or the wall clock.

pub mod admin;
pub mod admin_tokens;
pub mod audit_log;
pub mod command;
pub mod config;
pub mod encryption_key;
pub mod event_view;
pub mod feed;
pub mod http;
pub mod key_file;
pub mod limits;
pub mod metrics;
pub mod output;
pub mod service;
pub mod upkeep;
pub mod visible;
