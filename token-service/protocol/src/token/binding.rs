//! What a client must prove when it uses an access token.

use claims::dpop;
use claims::{Confirmation, Thumbprint};

/// To what an access token is bound. There is no default: code that mints a token must say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// Anybody who holds the token may use it (RFC 6750).
    Bearer,
    /// The client must prove each member that is present. At least one is.
    To(Confirmation),
}

impl Binding {
    /// The binding to the key of a DPoP proof, to the certificate of a connection, or to both. Without both, a bearer token.
    pub fn of(jkt: Option<Thumbprint>, certificate: Option<Thumbprint>) -> Self {
        let confirmation = Confirmation { jkt, certificate };
        if confirmation == Confirmation::default() {
            Self::Bearer
        } else {
            Self::To(confirmation)
        }
    }

    /// The claim `cnf` (RFC 7800 §3.1); `None` for a bearer token.
    pub const fn confirmation(self) -> Option<Confirmation> {
        match self {
            Self::Bearer => None,
            Self::To(confirmation) => Some(confirmation),
        }
    }

    /// The key of the DPoP proofs with which the token is used.
    pub fn key(self) -> Option<Thumbprint> {
        self.confirmation()?.jkt
    }

    /// The certificate of the connections over which the token is used.
    pub fn certificate(self) -> Option<Thumbprint> {
        self.confirmation()?.certificate
    }

    /// The value of `token_type` (RFC 9449 §5). A certificate does not change the scheme (RFC 8705 §3).
    pub fn token_type(self) -> &'static str {
        match self.key() {
            Some(_) => dpop::SCHEME,
            None => "Bearer",
        }
    }
}
