//! The connection over which a request came to an endpoint with client authentication (RFC 8705).

use claims::Thumbprint;

/// Which listener took the request, and what the gateway says there about the client's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection<'a> {
    /// The public listener. A certificate of the client is not known there.
    Public,
    /// The listener for mutual TLS.
    MutualTls {
        /// The base address of the endpoints (`mtls_endpoint_aliases`), without a trailing slash.
        url: &'a str,
        certificate: Shown,
    },
}

/// The certificate with which a client authenticated its connection. TLS has proven that the client has its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    Nothing,
    /// SHA-256 of the DER of the certificate (RFC 8705 §3.1).
    Certificate(Thumbprint),
    /// The gateway sent something else than one certificate, for this reason.
    Unreadable(&'static str),
    /// An address outside `mutual_tls.gateways` sent the header of the gateway.
    Untrusted,
}

impl<'a> Connection<'a> {
    /// The certificate; `None` if the client has shown none.
    pub const fn certificate(self) -> Option<Thumbprint> {
        match self {
            Self::MutualTls {
                certificate: Shown::Certificate(thumbprint),
                ..
            } => Some(thumbprint),
            Self::Public | Self::MutualTls { .. } => None,
        }
    }

    /// The base address under which clients know the endpoint.
    pub const fn base_url(self, issuer: &'a str) -> &'a str {
        match self {
            Self::Public => issuer,
            Self::MutualTls { url, .. } => url,
        }
    }
}
