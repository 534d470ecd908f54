//! Requests over HTTP to addresses that an operator configured: no redirects, no proxy, verified certificates, bounded in time and
//! size. Each request has its own thread, so that a slow name lookup or a slow answer does not block a worker.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use claims::json::{is_utf_16, unmarked};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::sync::oneshot;
pub use ureq::http;
use ureq::http::Request;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::{Agent, AsSendBody, Body};

/// Sends requests over shared connections.
#[derive(Debug, Clone)]
pub struct Client(Agent);

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// The body, or why it broke off.
    pub body: Result<Vec<u8>, String>,
}

impl Client {
    /// Creates a client that verifies https origins with the certificates in `ca_file`, or else with the system's.
    ///
    /// # Errors
    /// The file cannot be read, or contains no certificate.
    pub fn new(ca_file: Option<&Path>) -> anyhow::Result<Self> {
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(
                rustls::crypto::aws_lc_rs::default_provider(),
            ))
            .root_certs(RootCerts::new_with_certs(&roots(ca_file)?))
            .build();
        let agent = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            // Connects only to the configured addresses: no proxy from the environment, no redirects.
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .build()
            .into();
        Ok(Self(agent))
    }

    /// Sends a request. `timeout` is for the whole of it. The client reads one byte more than `longest`, for the caller to see a
    /// body that is too long. `held` lives as long as the thread.
    ///
    /// # Errors
    /// There is no answer. The text says why.
    pub async fn send<B: AsRef<[u8]> + Send + 'static>(
        &self,
        request: Request<Option<B>>,
        timeout: Duration,
        longest: usize,
        held: impl Send + 'static,
    ) -> Result<Answer, String> {
        let (sender, receiver) = oneshot::channel();
        let client = self.clone();
        let thread = std::thread::Builder::new().name("fetch".to_owned());
        thread
            .spawn(move || {
                // While the program stops, nobody waits for the result.
                let _ = sender.send(client.send_now(request, timeout, longest));
                drop(held);
            })
            .map_err(|error| format!("no thread: {error}"))?;
        let answer = receiver.await;
        answer.unwrap_or_else(|_| Err("the fetch broke off".to_owned()))
    }

    fn send_now<B: AsRef<[u8]>>(
        &self,
        request: Request<Option<B>>,
        timeout: Duration,
        longest: usize,
    ) -> Result<Answer, String> {
        let (head, body) = request.into_parts();
        let mut response = match &body {
            Some(body) => self.run(Request::from_parts(head, body.as_ref()), timeout)?,
            None => self.run(Request::from_parts(head, ()), timeout)?,
        };
        let mut body = Vec::new();
        let mut reader = response.body_mut().as_reader().take(longest as u64 + 1);
        let read = reader.read_to_end(&mut body);
        Ok(Answer {
            status: response.status().as_u16(),
            body: read.map(|_| body).map_err(|error| error.to_string()),
        })
    }

    fn run(
        &self,
        request: Request<impl AsSendBody>,
        timeout: Duration,
    ) -> Result<http::Response<Body>, String> {
        let request = self.0.configure_request(request);
        let request = request.timeout_global(Some(timeout)).build();
        self.0.run(request).map_err(|error| error.to_string())
    }
}

fn roots(ca_file: Option<&Path>) -> anyhow::Result<Vec<Certificate<'static>>> {
    let certificates = match ca_file {
        None => rustls_native_certs::load_native_certs().certs,
        Some(path) => certificates(path)?,
    };
    Ok(certificates
        .iter()
        .map(|certificate| Certificate::from_der(certificate).to_owned())
        .collect())
}

/// Reads the certificates in the PEM file at `path`.
///
/// # Errors
/// The file cannot be read, or contains no certificate in PEM.
pub fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let unreadable = || format!("cannot read certificates from {}", path.display());
    let text = std::fs::read(path).with_context(unreadable)?;
    anyhow::ensure!(
        !is_utf_16(&text),
        "{}: it is UTF-16: save it as UTF-8",
        unreadable()
    );
    let certificates = CertificateDer::pem_slice_iter(unmarked(&text))
        .collect::<Result<Vec<_>, _>>()
        .with_context(unreadable)?;
    anyhow::ensure!(
        !certificates.is_empty(),
        "{}: none in it in PEM (BEGIN CERTIFICATE)",
        unreadable()
    );
    Ok(certificates)
}
