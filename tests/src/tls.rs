//! Clients that speak TLS, with and without a certificate.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::wire::Answer;

/// Longest time to wait for the next bytes of a response.
const PATIENCE: Duration = Duration::from_secs(90);

/// A key with a certificate that the key has signed itself, for `localhost`.
#[derive(Debug)]
pub struct Identity {
    pub certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    /// Certificate and key.
    pub pem: String,
}

impl Identity {
    /// A new key.
    ///
    /// # Errors
    /// If the system returns no randomness.
    pub fn new() -> Result<Self> {
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let key = PrivateKeyDer::try_from(own.signing_key.serialize_der());
        Ok(Self {
            certificate: own.cert.der().clone(),
            key: key.map_err(|problem| anyhow!(problem))?,
            pem: format!("{}{}", own.cert.pem(), own.signing_key.serialize_pem()),
        })
    }
}

/// Sends a request with `Connection: close` to the server with this certificate at `port`, and reads the response. `None` if
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
    let mut roots = RootCertStore::empty();
    roots.add(server.certificate.clone())?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let config = match client {
        Some(client) => config
            .with_client_auth_cert(vec![client.certificate.clone()], client.key.clone_key())?,
        None => config.with_no_client_auth(),
    };
    let name = ServerName::try_from("localhost")?;
    let connection = ClientConnection::new(Arc::new(config), name)?;
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut stream = StreamOwned::new(connection, stream);
    // A server may answer and close the connection before it has read everything.
    let _sent = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    // Some servers close the connection without TLS's own end.
    let _ended = stream.read_to_end(&mut answer);
    Ok(Answer::parse(&String::from_utf8_lossy(&answer)))
}
