//! The token service: an OAuth 2.0 authorization server.
//!
//! This crate has the HTTP listeners, the pages, the administration, the commands and the configuration. The rules are
//! in the crates [`protocol`], [`registry`] and [`domain`], which depend on neither actix nor the wall clock; [`secrets`] has
//! keys and password hashes, [`store`] keeps the state.

mod admin_tokens;
mod branding;
pub mod command;
pub mod config;
mod feed;
mod http;
mod jwt;
mod mail;
mod providers;
mod service;
mod telemetry;
