//! Why a proof is refused.

use std::borrow::Cow;

use strum::{IntoStaticStr, VariantArray};

use crate::message::printable;

/// Why a DPoP proof is refused. The names are for logs and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, VariantArray)]
#[strum(prefix = "proof_", serialize_all = "snake_case")]
pub enum ProofRefusal {
    /// The request has no `DPoP` header.
    Missing,
    /// The request has more than one `DPoP` header (RFC 9449 §4.3, check 1).
    Several,
    /// Longer than [`super::MAX_PROOF_BYTES`].
    TooLong,
    /// Not a compact JWS with strict JSON parts.
    Malformed,
    /// `typ` is not [`super::PROOF_TYPE`].
    Type,
    /// The header contains `crit`.
    Critical,
    /// `alg` is none of the accepted algorithms.
    Algorithm,
    /// `jwk` is not a public key for `alg` in its only form, or contains private members or certificates.
    Key,
    /// `jti`, `htm`, `htu` or `iat` is missing, or a claim has the wrong type.
    Claims,
    /// The proof is signed with another key than the token, code or grant is bound to.
    Binding,
    /// `ath` is not the hash of the access token (RFC 9449 §4.3, check 12).
    Token,
    /// `htm` is another method.
    Method,
    /// `htu` is another URL.
    Url,
    /// `iat` is older than the accepted age.
    Stale,
    /// `iat` lies in the future.
    NotYetValid,
    /// A nonce is required, and the proof has none, or one that is not accepted (any longer).
    Nonce,
    /// The signature does not verify with `jwk`.
    Signature,
    /// The proof was used before (RFC 9449 §11.1).
    Replayed,
    /// The memory of used proofs is full for this key.
    Busy,
}

impl ProofRefusal {
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// True if the client should repeat the request with the nonce of the response (RFC 9449 §8, §9). The proof itself was
    /// right except for its time.
    pub const fn wants_nonce(self) -> bool {
        matches!(self, Self::Nonce | Self::Busy)
    }

    /// Message for the client: ASCII without quotes and backslashes (RFC 6750 §3).
    pub const fn description(self) -> &'static str {
        match self {
            Self::Missing => "A DPoP proof is needed: send the header DPoP",
            Self::Several => "There is more than one DPoP header",
            Self::TooLong => "The DPoP proof is longer than 4096 bytes",
            Self::Malformed => "The DPoP proof is not a signed JWT",
            Self::Type => "The typ of the DPoP proof is not dpop+jwt",
            Self::Critical => "The DPoP proof has a crit header that is not understood",
            Self::Algorithm => "The DPoP proof is signed with an algorithm that is not accepted",
            Self::Key => {
                "The jwk of the DPoP proof is not a plain public key for its alg, in base64url without padding"
            }
            Self::Claims => {
                "The DPoP proof lacks jti, htm, htu or iat, or a claim has the wrong type"
            }
            Self::Binding => {
                "The DPoP proof is signed with another key than the one that was bound"
            }
            Self::Token => "The ath of the DPoP proof is not the hash of the access token",
            Self::Method => "The htm of the DPoP proof is another method than that of the request",
            Self::Url => "The htu of the DPoP proof is another URL than that of the request",
            Self::Stale => "The iat of the DPoP proof is too long ago",
            Self::NotYetValid => "The iat of the DPoP proof lies in the future",
            Self::Nonce => "The DPoP proof needs the nonce of this response",
            Self::Signature => "The signature of the DPoP proof is wrong",
            Self::Replayed => "The DPoP proof was used before",
            Self::Busy => {
                "Too many DPoP proofs are in use now: repeat the request with another proof"
            }
        }
    }
}

/// A refusal with its message for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedProof {
    pub refusal: ProofRefusal,
    /// ASCII without quotes and backslashes (RFC 6750 §3).
    pub description: Cow<'static, str>,
}

impl From<ProofRefusal> for RefusedProof {
    fn from(refusal: ProofRefusal) -> Self {
        Self {
            refusal,
            description: refusal.description().into(),
        }
    }
}

impl RefusedProof {
    /// [`ProofRefusal::Url`] with both URLs, without queries and fragments, which may hold secrets.
    #[cold]
    pub(super) fn url(htu: &str, expected: &[String]) -> Self {
        let end = htu.find(['?', '#']).unwrap_or(htu.len());
        let received = printable(htu.get(..end).unwrap_or_default());
        let expected = printable(&expected.join(" or "));
        Self {
            refusal: ProofRefusal::Url,
            description: format!("The htu of the DPoP proof is {received}; expected {expected}")
                .into(),
        }
    }
}
