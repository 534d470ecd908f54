//! Requests and replies.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::Value;
use tests::browsing;
use tests::wire::Answer;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use ureq::Agent;
use ureq::http::{HeaderMap, HeaderName, HeaderValue, Request};

/// Values of `Host` of a page whose name resolves to an internal listener after the page was loaded (DNS rebinding).
pub(crate) const REBOUND_HOSTS: &[&str] = &[
    "rebound.example",
    "rebound.example:9081",
    "127.0.0.1.rebound.example",
    "[::1].rebound.example",
];

/// Values of `Host` that no public page can have.
pub(crate) const PRIVATE_HOSTS: &[&str] = &["localhost:9081", "10.0.0.1", "[::1]:9081"];

/// A complete reply.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Reply {
    /// The header `name`, which occurs at most once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?.to_str().unwrap();
        assert_eq!(values.next(), None, "{name} occurs twice");
        Some(value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {}: {}", self.status, self.body))
    }

    /// The value of a string member of the JSON body.
    pub(crate) fn text(&self, member: &str) -> String {
        self.json()[member]
            .as_str()
            .unwrap_or_else(|| panic!("no {member} in {}", self.body))
            .to_owned()
    }

    /// Asserts the error of protocol.md §2.4: this status, exactly these two members.
    #[track_caller]
    pub(crate) fn assert_error(&self, status: u16, error: &str) -> String {
        assert_eq!(self.status, status, "{}", self.body);
        let body = self.json();
        let mut members: Vec<&String> = body.as_object().unwrap().keys().collect();
        members.sort();
        assert_eq!(members, ["error", "error_description"]);
        assert_eq!(body["error"], error, "{}", self.body);
        assert!(
            self.header("content-type")
                .is_some_and(|kind| kind.starts_with("application/json"))
        );
        // RFC 9110 §15.5.2.
        assert!(status != 401 || self.header("www-authenticate").is_some());
        let description = self.text("error_description");
        assert!(!description.is_empty());
        let legal = |byte: u8| matches!(byte, 0x20..=0x21 | 0x23..=0x5b | 0x5d..=0x7e);
        assert!(description.bytes().all(legal), "{description}");
        description
    }
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        let headers = answer.headers().map(|(name, value)| {
            let name = HeaderName::try_from(name).unwrap();
            (name, HeaderValue::try_from(value).unwrap())
        });
        Self {
            status: answer.status,
            headers: headers.collect(),
            body: answer.body.clone(),
        }
    }
}

/// How long a request may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// An agent that follows no redirect and treats no status as an error.
pub(crate) fn agent() -> Agent {
    browsing::agent(PATIENCE)
}

/// Sends `request` unchanged.
pub(crate) fn send(agent: &Agent, request: Request<impl ureq::AsSendBody>) -> Reply {
    let response = agent.run(request).unwrap();
    let (parts, mut body) = response.into_parts();
    Reply {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: body.read_to_string().unwrap(),
    }
}

/// A GET with these headers.
pub(crate) fn get(url: &str, headers: &[(&str, &str)]) -> Reply {
    let mut request = Request::get(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    send(&agent(), request.body(()).unwrap())
}

/// Sends a request. Dropping the connection resets it.
pub(crate) fn unanswered(
    runtime: &Runtime,
    port: u16,
    head: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> TcpStream {
    let headers = headers.iter();
    let headers: String = headers
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let length = body.len();
    let request = format!(
        "{head} HTTP/1.1\r\nhost: 127.0.0.1\r\n{headers}content-length: {length}\r\n\r\n{body}"
    );
    let sent = runtime.block_on(async {
        let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        connection.set_zero_linger()?;
        connection.write_all(request.as_bytes()).await?;
        std::io::Result::Ok(connection)
    });
    sent.unwrap()
}
