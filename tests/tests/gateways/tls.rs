//! Clients that speak TLS, with and without a certificate.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tests::wire::Answer;

/// A key with a certificate that it has signed itself.
pub(super) struct Identity {
    pub(super) certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    /// Certificate and key.
    pub(super) pem: String,
}

impl Identity {
    pub(super) fn new() -> Self {
        let names = ["127.0.0.1".to_owned()];
        let own = rcgen::generate_simple_self_signed(names).unwrap();
        Self {
            certificate: own.cert.der().clone(),
            key: PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap(),
            pem: format!("{}{}", own.cert.pem(), own.signing_key.serialize_pem()),
        }
    }
}

/// Sends a request with `Connection: close` to the server with this certificate at `port`, and reads the response. `None` if
/// the server ends the connection without a response.
pub(super) fn send(
    port: u16,
    server: &Identity,
    client: Option<&Identity>,
    request: &str,
) -> Option<Answer> {
    let mut roots = RootCertStore::empty();
    roots.add(server.certificate.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match client {
        Some(client) => config
            .with_client_auth_cert(vec![client.certificate.clone()], client.key.clone_key())
            .unwrap(),
        None => config.with_no_client_auth(),
    };
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(90)))
        .unwrap();
    let mut stream = StreamOwned::new(connection, stream);
    // A server may answer and close the connection before it has read everything.
    let _sent = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    // Some servers close the connection without TLS's own end.
    let _ended = stream.read_to_end(&mut answer);
    Answer::parse(&String::from_utf8_lossy(&answer))
}
