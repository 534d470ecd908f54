//! The formats that the token service and the filter share: tokens, keys, proofs and the revocation feed.
//!
//! The token service issues tokens in the format of this crate, and the filter accepts only that format. The
//! crate signs and verifies nothing: it contains names, types and a strict parser of the JWS compact form.

pub mod dpop;
pub mod json;
pub mod jwk;
pub mod jws;
pub mod media_type;
pub mod message;
pub mod revocation;
pub mod thumbprint;
pub mod token;

pub use jws::{Algorithm, CompactJws, JoseHeader, JwsError};
pub use thumbprint::{Confirmation, Thumbprint};
pub use token::{AccessTokenClaims, RefreshTokenClaims};
