//! The token service: an OAuth 2.0 authorization server.
//!
//! This crate has the HTTP listeners, the pages, the administration, the commands and the configuration. The rules are
//! in the crates [`protocol`] and [`domain`], which depend on neither actix nor the wall clock; [`store`] keeps the
//! state.

pub mod admin_tokens;
pub mod audit_log;
pub mod command;
pub mod config;
pub mod feed;
pub mod http;
pub mod limits;
pub mod metrics;
pub mod readiness;
pub mod service;
pub mod sweep_time;
mod traces;
pub mod upkeep;
pub mod visible;
