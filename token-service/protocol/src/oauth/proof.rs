//! The DPoP proof of a token request (RFC 9449 §5) or of a pushed authorization request (RFC 9449 §10.1).

use claims::dpop::{
    Expected, Nonces, Proof, ProofRefusal, ProofUse, PublicOrigin, UsedProofs, Window,
};
use claims::jwk::PublicKey;
use claims::{Algorithm, Thumbprint};

use super::endpoint_request::EndpointRequest;
use super::error::TokenError;
use crate::Context;
use crate::settings::{NoncePolicy, SingleUse};
use domain::client_key::VerifyingKey;
use domain::clock::Timestamp;
use store::{OnceId, Use};

/// The accepted algorithms: `dpop_signing_alg_values_supported` (RFC 9449 §5.1).
pub const ALGORITHMS: [Algorithm; 3] = Algorithm::ALL;

/// For how long a proof without a nonce is accepted (RFC 9449 §11.1).
pub const WINDOW: Window = Window {
    max_age: 60,
    skew: 10,
};

/// The proof of a request, or that it has none. The signature is verified, but the proof may have been used before:
/// see [`Self::use_up`].
#[derive(Debug)]
#[must_use]
pub struct PresentedProof(Option<ProofUse>);

impl PresentedProof {
    /// Checks the proof of a request to `path`. `bound_to` is the key that the request names.
    ///
    /// # Errors
    /// [`TokenError::Proof`], also if a proof `is_required` and the client sent none (RFC 9449 §5.2).
    pub fn check(
        context: &Context<'_>,
        request: &EndpointRequest<'_>,
        path: &str,
        is_required: bool,
        bound_to: Option<Thumbprint>,
    ) -> Result<Self, TokenError> {
        if request.dpop.is_empty() && !is_required {
            return Ok(Self(None));
        }
        let proof = Proof::parse(&request.dpop, &ALGORITHMS)?;
        let origin = PublicOrigin::parse(request.connection.base_url(&context.settings.issuer));
        let key = context.encryption_key.nonce_key();
        let checked = proof.check(&Expected {
            bound_to,
            access_token: None,
            method: b"POST",
            target: path.as_bytes(),
            origins: origin.as_slice(),
            now: context.now.seconds(),
            window: WINDOW,
            nonces: match context.settings.dpop.nonce {
                NoncePolicy::Optional => Nonces::Optional(key),
                NoncePolicy::Required => Nonces::Required(key),
            },
        })?;
        Ok(Self(Some(checked.verify(verifies)?)))
    }

    pub fn key(&self) -> Option<Thumbprint> {
        self.0.map(|used| used.thumbprint)
    }

    /// Uses up the proof, in the `memory` of its endpoint. This is the last step before something is redeemed or
    /// issued, so that nobody can fill the memory with proofs of requests that are refused anyway.
    ///
    /// # Errors
    /// [`TokenError::Proof`] if the proof was used before, or the memory is full; [`TokenError::Store`].
    pub async fn use_up(
        self,
        context: &Context<'_>,
        memory: &UsedProofs,
    ) -> Result<(), TokenError> {
        let Some(used) = self.0 else {
            return Ok(());
        };
        memory.accept(&used, context.now.seconds())?;
        if context.settings.dpop.single_use == SingleUse::Store {
            let (id, until) = (
                OnceId::of_proof(&used.id),
                Timestamp::from_seconds(used.until),
            );
            let used = context.store.use_once(id, until, context.now);
            if used.await? == Use::Again {
                return Err(ProofRefusal::Replayed.into());
            }
        }
        Ok(())
    }
}

/// True if `signature` is the signature of `message` by the private key of `key`.
pub fn verifies(key: &PublicKey, message: &[u8], signature: &[u8]) -> bool {
    VerifyingKey::of(key).is_ok_and(|key| key.verifies(message, signature))
}
