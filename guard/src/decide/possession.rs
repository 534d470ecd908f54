//! Whether the client may use the token that it sent (RFC 9449 §7, RFC 8705 §3). What it must prove is read only from
//! the token, never from the scheme.

use std::sync::Arc;

use claims::dpop::{Expected, Nonces, Proof, ProofRefusal, RefusedProof};
use keys::signature;

use super::Host;
use super::effect::Request;
use super::requirements::{Presented, require};
use crate::authorization::Scheme;
use crate::cache::CachedToken;
use crate::config::Config;
use crate::fetch::FetchId;
use crate::forward::Header;
use crate::rules::Access;
use crate::verdict::{Denial, Verdict};
use crate::verify::{Refusal, TokenReference};

/// The headers to add to a request that passes, and its token.
pub(super) type Permit = (Arc<[Header]>, Arc<TokenReference>);

/// What the check of a proof needs of the guard.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inspector<'g> {
    config: &'g Config,
    host: &'g Host,
}

impl Host {
    pub(super) const fn inspector<'g>(&'g self, config: &'g Config) -> Inspector<'g> {
        Inspector { config, host: self }
    }
}

impl Inspector<'_> {
    /// Allows the request if the client may use the verified token, and the token has what is needed. `now`: the exact time, in
    /// seconds since 1970.
    pub(super) fn permitted(
        self,
        needed: &Access,
        token: &CachedToken,
        presented: &mut Presented<'_>,
        request: &Request<'_>,
        now: impl Fn() -> u64,
    ) -> Verdict<Permit, FetchId> {
        let proved = match (&token.confirmation, presented.scheme) {
            (None, Scheme::Bearer) => Ok(()),
            _ => self.proved(token, presented, request, &now),
        };
        let reference = Arc::clone(&token.reference);
        match proved.and_then(|()| require(needed, token, self.config.clock_skew_seconds, now)) {
            Ok(()) => Verdict::Accepted((Arc::clone(&token.headers), reference)),
            Err(denial) => Verdict::Deny(denial, Some(reference)),
        }
    }

    #[inline(never)]
    fn proved(
        self,
        token: &CachedToken,
        presented: &mut Presented<'_>,
        request: &Request<'_>,
        now: impl FnOnce() -> u64,
    ) -> Result<(), Denial> {
        let confirmation = token.confirmation.unwrap_or_default();
        let proof = match (confirmation.jkt, presented.proof.take()) {
            (None, None) => None,
            (None, Some(_)) => return Err(Denial::Token(Refusal::NotBoundToKey)),
            (Some(_), None) => return Err(Denial::Token(Refusal::Bound)),
            (Some(key), Some(proof)) => Some((key, proof)),
        };
        if let Some(bound) = confirmation.certificate {
            match request.connection.certificate() {
                None => return Err(Denial::Token(Refusal::CertificateMissing)),
                Some(shown) if shown != bound => {
                    return Err(Denial::Token(Refusal::CertificateOther));
                }
                Some(_) => {}
            }
        }
        let Some((key, proof)) = proof else {
            return Ok(());
        };
        let Some(dpop) = &self.config.dpop else {
            return Err(Denial::DpopNotConfigured);
        };
        let issuer = self.config.issuers.get(token.issuer);
        let nonces = match &dpop.nonce_key {
            None => Nonces::Off,
            Some(of) if issuer.is_none_or(|issuer| issuer.requires_nonce) => Nonces::Required(of),
            Some(of) => Nonces::Optional(of),
        };
        let access_token = str::from_utf8(presented.credentials)
            .map_err(|_| Denial::Proof(ProofRefusal::Token.into()))?;
        let expected = Expected {
            bound_to: Some(key),
            access_token: Some(access_token),
            method: request.method,
            target: request.target,
            origins: &dpop.origins,
            now: now(),
            window: dpop.window,
            nonces,
        };
        self.used(*proof, &expected).map_err(Denial::Proof)
    }

    /// The proof is remembered last, so that nobody fills the memory with proofs for tokens that are not theirs.
    fn used(self, proof: Proof<'_>, expected: &Expected<'_>) -> Result<(), RefusedProof> {
        let used = proof.check(expected)?.verify(|key, message, signature| {
            signature::signed_once(key, &*self.host.verifier, message, signature)
        })?;
        let in_common = self.host.shared_data.use_proof(&used, expected.now);
        // Without shared data, each VM remembers for itself.
        Ok(in_common.unwrap_or_else(|_| self.host.used_proofs.accept(&used, expected.now))?)
    }
}
