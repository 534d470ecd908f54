//! What the token service and the filter must agree on.
//!
//! The token service mints what this crate describes and the filter accepts only that, so the two cannot
//! drift apart. The crate signs and verifies nothing: it holds names, shapes and the strict parser of the
//! JWS compact form.

pub mod json;
pub mod jwk;
pub mod jws;
pub mod revocation;
pub mod token;

pub use jws::{Algorithm, CompactJws, JoseHeader, JwsError};
pub use token::{AccessTokenClaims, RefreshTokenClaims};
