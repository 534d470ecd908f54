//! Clients that speak TLS, with and without a certificate.

use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

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
    /// The name in the certificate.
    pub(crate) name: String,
}

impl Identity {
    /// A new key with a certificate that the key has signed itself, for `localhost`.
    ///
    /// # Errors
    /// If the system returns no randomness.
    pub fn new() -> Result<Self> {
        Self::named("localhost")
    }

    /// Like [`Self::new`], for another name.
    ///
    /// # Errors
    /// Like [`Self::new`].
    pub fn named(name: &str) -> Result<Self> {
        let own = rcgen::generate_simple_self_signed([name.to_owned()])?;
        Self::of(name, &own.cert, &own.signing_key)
    }

    /// Writes certificate and key where the files of `examples/` read them.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write_to(&self, folder: &Path) -> io::Result<()> {
        let mut files = ["server.pem", "server.key", "clients.pem"].iter();
        files.try_for_each(|file| fs::write(folder.join(file), &self.pem))
    }

    fn of(name: &str, certificate: &Certificate, key: &KeyPair) -> Result<Self> {
        let der = PrivateKeyDer::try_from(key.serialize_der());
        Ok(Self {
            certificate: certificate.der().clone(),
            key: der.map_err(|problem| anyhow!(problem))?,
            pem: format!("{}{}", certificate.pem(), key.serialize_pem()),
            name: name.to_owned(),
        })
    }
}

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
        Identity::of(name, &certificate, &key)
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
    let mut stream = open(wire::connect(port)?, server, client)?;
    Ok(wire::exchange(&mut stream, request))
}

/// TLS on this connection. The handshake takes place with the first bytes.
///
/// # Errors
/// If the certificates are not usable.
pub fn open(
    connection: TcpStream,
    server: &Identity,
    client: Option<&Identity>,
) -> Result<StreamOwned<ClientConnection, TcpStream>> {
    let name = ServerName::try_from(server.name.clone())?;
    let tls = ClientConnection::new(Arc::new(config(server, client)?), name)?;
    Ok(StreamOwned::new(tls, connection))
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
