//! DPoP proofs (RFC 9449): what the token endpoint and a gateway check in the same way.
//!
//! A proof is checked in steps, the cheapest first. Each step takes the result of the previous one, so no step can be left
//! out: [`Proof::parse`], [`Proof::check`], [`CheckedProof::verify`]. The caller then accepts the [`ProofUse`] once, as the
//! last step, so that nobody can fill its memory with proofs that are not theirs.

mod key;
mod nonce;
mod origin;
mod proof;
mod refusal;
pub mod used_proofs;

pub use nonce::NonceKey;
pub use origin::PublicOrigin;
pub use proof::{CheckedProof, Expected, Nonces, Proof, ProofUse, Window};
pub use refusal::{ProofRefusal, RefusedProof};
pub use used_proofs::UsedProofs;

/// The scheme in `Authorization` and `WWW-Authenticate`, and the value of `token_type` (RFC 9449 §5, §7.1).
pub const SCHEME: &str = "DPoP";
/// Name of the request header with the proof, in lower case (RFC 9449 §4.1).
pub const HEADER: &str = "dpop";
/// Name of the response header with a nonce, in lower case (RFC 9449 §8).
pub const NONCE_HEADER: &str = "dpop-nonce";
/// `typ` of a proof (RFC 9449 §4.2).
pub const PROOF_TYPE: &str = "dpop+jwt";
/// Longest proof that is parsed, in bytes. A proof with an RSA key of 4096 bits has some 2,000.
pub const MAX_PROOF_BYTES: usize = 4096;

#[cfg(test)]
mod tests;
