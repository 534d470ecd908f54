//! Clients that speak TLS, with and without a certificate.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::{Answer, wire};

/// A key with a certificate.
#[derive(Debug)]
pub struct Identity {
    pub certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    /// Certificate and key.
    pub pem: String,
}

impl Identity {
    /// A new key with a certificate that the key has signed itself, for `localhost`.
    ///
    /// # Errors
    /// If the system returns no randomness.
    pub fn new() -> Result<Self> {
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        Self::of(&own.cert, &own.signing_key)
    }

    fn of(certificate: &Certificate, key: &KeyPair) -> Result<Self> {
        let der = PrivateKeyDer::try_from(key.serialize_der());
        Ok(Self {
            certificate: certificate.der().clone(),
            key: der.map_err(|problem| anyhow!(problem))?,
            pem: format!("{}{}", certificate.pem(), key.serialize_pem()),
        })
    }
}

/// A certification authority.
#[derive(Debug)]
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    /// A new key, with a certificate that the key has signed itself.
    ///
    /// # Errors
    /// If the system returns no randomness.
    pub fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let name = &mut params.distinguished_name;
        name.push(DnType::CommonName, "authority of the tests");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        Ok(Self(issuer))
    }

    /// A new key with a certificate of the authority for this name.
    ///
    /// # Errors
    /// Like [`Self::new`].
    pub fn issue(&self, name: &str) -> Result<Identity> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new([name.to_owned()])?.signed_by(&key, &self.0)?;
        Identity::of(&certificate, &key)
    }

    /// The certificate of the authority.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.pem()
    }
}

/// Sends a request to the server with this certificate at `port`, and reads the response. `None` if
/// the server ends the connection without a response.
///
/// # Errors
/// If nothing listens on the port.
pub fn send(
    port: u16,
    server: &Identity,
    client: Option<&Identity>,
    request: &str,
) -> Result<Option<Answer>> {
    let config = config(server, client)?;
    let name = ServerName::try_from("localhost")?;
    let connection = ClientConnection::new(Arc::new(config), name)?;
    let mut stream = StreamOwned::new(connection, wire::connect(port)?);
    Ok(wire::exchange(&mut stream, request))
}

/// Trusts the server with this certificate, and shows that of `client`.
pub(crate) fn config(server: &Identity, client: Option<&Identity>) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(server.certificate.clone())?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    Ok(match client {
        Some(client) => config
            .with_client_auth_cert(vec![client.certificate.clone()], client.key.clone_key())?,
        None => config.with_no_client_auth(),
    })
}
