//! Requests and replies.

use serde_json::Value;
use tests::Answer;
use tests::visitor::Visitor;
use ureq::AsSendBody;
use ureq::http::HeaderMap;

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

    /// The wait that the answer asks for, in seconds. A wait of one second may be over before the next request.
    pub(crate) fn wait(&self) -> Option<u64> {
        self.header("retry-after").map(|wait| wait.parse().unwrap())
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
        Self {
            status: answer.status,
            headers: answer.headers,
            body: answer.body,
        }
    }
}

/// Sends a request without cookies.
pub(crate) fn send(
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: impl AsSendBody,
) -> Reply {
    let answer = Visitor::default().send(method, url, headers, body);
    answer.unwrap().into()
}

/// A metric of Envoy with this port for its admin interface; `None` if no metric has this name.
pub(crate) fn stat(admin: u16, name: &str) -> Option<u64> {
    let url = format!("http://127.0.0.1:{admin}/stats?filter=^{name}$");
    let body = get(&url, &[]).body;
    body.trim().rsplit_once(": ")?.1.parse().ok()
}

/// A GET with these headers.
pub(crate) fn get(url: &str, headers: &[(&str, &str)]) -> Reply {
    send("GET", url, headers, ())
}
