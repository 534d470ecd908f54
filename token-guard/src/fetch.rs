//! Carries out the guard's fetches.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use guard::fetch::{Failure, Fetch};
use process::fetch::http::Request;
use process::fetch::{self, Client};

use crate::settings::Origin;

/// Fetches for all workers, over shared connections.
#[derive(Debug, Clone)]
pub(crate) struct Fetcher {
    client: Client,
    origins: Arc<BTreeMap<String, Origin>>,
}

impl Fetcher {
    /// Creates a fetcher that verifies https origins with the certificates in `ca_file`, or else with the
    /// system's.
    ///
    /// # Errors
    /// The file cannot be read, or contains no certificate.
    pub(crate) fn new(
        origins: BTreeMap<String, Origin>,
        ca_file: Option<&Path>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            client: Client::new(ca_file)?,
            origins: Arc::new(origins),
        })
    }

    /// Returns the body of a successful response.
    pub(crate) async fn fetch(&self, fetch: &Fetch) -> Result<Vec<u8>, Failure> {
        let answer = self.send(fetch).await.map_err(Failure::without_response)?;
        if answer.status != 200 {
            return Err(Failure {
                status: Some(answer.status),
                why: format!("status {}", answer.status),
            });
        }
        answer.body.map_err(Failure::without_response)
    }

    async fn send(&self, fetch: &Fetch) -> Result<fetch::Answer, String> {
        let endpoint = &fetch.endpoint;
        let origin = self
            .origins
            .get(&endpoint.cluster)
            .ok_or("no --cluster says where it is")?;
        let mut request = Request::builder()
            .method(fetch.method())
            .uri(origin.url(&endpoint.path))
            .header("host", &endpoint.authority);
        for (name, value) in fetch.headers() {
            request = request.header(name, value);
        }
        let request = request.body(fetch.body().map(str::to_owned));
        let request = request.map_err(|error| error.to_string())?;
        let timeout = Duration::from_secs(fetch.timeout);
        let longest = fetch.kind.longest_answer();
        self.client.send(request, timeout, longest, ()).await
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::TcpListener;

    use claims::json::BYTE_ORDER_MARK;
    use guard::fetch::{FetchKind, Form};
    use guard::secret::Secret;
    use keys::endpoint::Endpoint;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ServerConfig, ServerConnection, StreamOwned};

    use super::*;

    /// Serves `body` over https to clients that accept its certificate. Returns the port and the certificate.
    fn serve(body: &'static str) -> (u16, String) {
        let names = vec!["localhost".to_owned()];
        let own = rcgen::generate_simple_self_signed(names).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let session = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut stream = StreamOwned::new(session, connection.unwrap());
                // A client that does not accept the certificate sends no request.
                let lines = BufReader::new(&mut stream).lines();
                let head: Vec<String> = lines
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty())
                    .collect();
                if head.iter().any(|line| line == "host: lobby.example.com") {
                    let length = body.len();
                    let answer =
                        format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
                    stream.write_all(answer.as_bytes()).unwrap();
                }
            }
        });
        (port, own.cert.pem())
    }

    #[tokio::test]
    async fn https_is_verified_and_the_authority_is_the_host() {
        let (port, certificate) = serve("keys");
        let url = url::Url::parse(&format!("https://localhost:{port}")).unwrap();
        let origins = BTreeMap::from([("keys".to_owned(), Origin::of(&url))]);
        let fetch = |kind| Fetch {
            issuer: 0,
            kind,
            endpoint: Endpoint {
                cluster: "keys".to_owned(),
                authority: "lobby.example.com".to_owned(),
                path: "/auth/jwks".to_owned(),
            },
            timeout: 5,
            form: None,
        };
        let folder = tempfile::TempDir::new().unwrap();
        let ca_file = folder.path().join("ca.pem");
        std::fs::write(&ca_file, format!("{BYTE_ORDER_MARK}{certificate}")).unwrap();

        let trusting = Fetcher::new(origins.clone(), Some(&ca_file)).unwrap();
        let body = trusting.fetch(&fetch(FetchKind::Keys)).await;
        assert_eq!(body, Ok(b"keys".to_vec()));

        let strange = Fetcher::new(origins, None).unwrap();
        let refusal = strange.fetch(&fetch(FetchKind::Keys)).await.unwrap_err();
        assert!(refusal.why.contains("certificate"), "{refusal:?}");

        std::fs::write(&ca_file, "").unwrap();
        let empty = Fetcher::new(BTreeMap::new(), Some(&ca_file)).unwrap_err();
        assert!(empty.to_string().contains("none in it"), "{empty}");
    }

    #[tokio::test]
    async fn a_question_is_a_form_with_credentials() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(connection.try_clone().unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                reader.read_line(&mut head).unwrap();
            }
            let mut body = [0; 7];
            reader.read_exact(&mut body).unwrap();
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
            connection.write_all(answer.as_bytes()).unwrap();
            (head.to_ascii_lowercase(), body)
        });
        let origin = Origin::of(&format!("http://127.0.0.1:{port}").parse().unwrap());
        let origins = BTreeMap::from([("sso".to_owned(), origin)]);
        let fetcher = Fetcher::new(origins, None).unwrap();
        let fetch = Fetch {
            issuer: 0,
            kind: FetchKind::Introspection(1),
            endpoint: Endpoint {
                cluster: "sso".to_owned(),
                authority: "sso.example.com".to_owned(),
                path: "/introspect".to_owned(),
            },
            timeout: 5,
            form: Some(Form {
                authorization: Secret::new("Basic eA==".to_owned()),
                body: Secret::new("token=x".to_owned()),
            }),
        };
        assert_eq!(fetcher.fetch(&fetch).await.unwrap(), b"{}");
        let (head, body) = served.join().unwrap();
        assert_eq!(&body, b"token=x");
        for line in [
            "post /introspect http/1.1\r\n",
            "host: sso.example.com\r\n",
            "authorization: basic ea==\r\n",
            "content-type: application/x-www-form-urlencoded\r\n",
        ] {
            assert!(head.contains(line), "{head}");
        }
    }
}
