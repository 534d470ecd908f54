//! What the token service and the filter must agree on.
//!
//! The token service issues tokens as this crate describes them, and the filter accepts no others, so the two cannot
//! drift apart. The crate signs and verifies nothing: it has names, shapes and the strict parser of the JWS compact
//! form.

pub mod json;
pub mod jwk;
pub mod jws;
pub mod revocation;
pub mod token;

pub use jws::{Algorithm, CompactJws, JoseHeader, JwsError};
pub use token::{AccessTokenClaims, RefreshTokenClaims};
