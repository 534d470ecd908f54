//! What the client of a token request proves to possess, and to what the access token is bound.

use claims::{Confirmation, Thumbprint};

use super::endpoint_request::EndpointRequest;
use super::error::TokenError;
use super::proof::PresentedProof;
use crate::Context;
use crate::paths::TOKEN;
use crate::token::Binding;
use domain::Client;

/// A DPoP proof, a certificate of the connection, both or nothing. The proof may have been used before: see [`Self::use_up`].
#[derive(Debug)]
#[must_use]
pub struct Possession {
    proof: PresentedProof,
    certificate: Option<Thumbprint>,
    /// The access token is bound to the certificate.
    binds_certificate: bool,
}

impl Possession {
    /// Checks the proof and the certificate of a token request. A client that is registered for bound tokens gets no other
    /// ones, by no grant (RFC 9449 §5.2, RFC 8705 §3.4).
    ///
    /// # Errors
    /// [`TokenError::CertificateToBind`] or [`TokenError::Proof`], also for what is missing.
    pub fn check(
        context: &Context<'_>,
        request: &EndpointRequest<'_>,
        client: &Client,
    ) -> Result<Self, TokenError> {
        let certificate = request.connection.certificate();
        let binds_certificate = client.tls_client_certificate_bound_access_tokens;
        if binds_certificate && certificate.is_none() {
            return Err(TokenError::CertificateToBind);
        }
        // Bindings are compared in the transaction that redeems the code or the refresh token.
        let is_required = client.dpop_bound_access_tokens;
        let proof = PresentedProof::check(context, request, TOKEN, is_required, None)?;
        Ok(Self {
            proof,
            certificate,
            binds_certificate,
        })
    }

    /// With what a code or a grant is compared.
    pub fn proven(&self) -> Confirmation {
        Confirmation {
            jkt: self.proof.key(),
            certificate: self.certificate,
        }
    }

    /// Uses up the proof: see [`PresentedProof::use_up`]. Returns the binding of the access token.
    ///
    /// # Errors
    /// As [`PresentedProof::use_up`].
    pub async fn use_up(self, context: &Context<'_>) -> Result<Binding, TokenError> {
        let key = self.proof.key();
        let certificate = self.certificate.filter(|_| self.binds_certificate);
        self.proof.use_up(context, context.used_proofs).await?;
        Ok(Binding::of(key, certificate))
    }
}
