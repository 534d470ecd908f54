//! End-to-end tests: requests go through real Envoy to the real token service on a real file. All tests are in one
//! binary, so that they can share one pair.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that meets the unexpected has failed"
)]

mod alerts;
mod api;
mod authorize;
mod binding;
mod browser;
mod chart;
mod client_assertion;
mod client_libraries;
mod discovery;
mod due;
mod early_access;
mod edge;
mod examples;
mod faults;
mod feed;
mod filter;
mod flood;
mod front;
mod gateways;
mod identity_assertion;
mod issuers;
mod k6;
mod legacy;
mod make_up;
mod mod_oauth2;
mod mounting;
mod native;
mod nonsense;
mod operations;
mod outages;
mod packaging;
mod protocol_page;
mod provider_sign_in;
mod pushed;
mod readme;
mod recipes;
mod refresh;
mod replicas;
mod restart;
mod revocation;
mod revocation_matrix;
mod runbook;
mod sign_in;
mod support;
mod token;
mod upgrade;
mod wasm;
