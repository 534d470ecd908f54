//! What servers answer.

use http::HeaderMap;

/// A complete response.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    /// The content. HTTP/1.1 byte for byte ([`crate::wire`]) leaves the sizes of chunks in it.
    pub body: String,
}

impl Answer {
    /// The values of a header.
    #[must_use]
    pub fn values(&self, name: &str) -> Vec<&str> {
        let values = self.headers.get_all(name).iter();
        values
            .filter_map(|value| str::from_utf8(value.as_bytes()).ok())
            .collect()
    }

    /// The first value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.values(name).first().copied()
    }

    /// A text member of the JSON body.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<String> {
        let body: serde_json::Value = serde_json::from_str(&self.body).ok()?;
        Some(body.get(name)?.as_str()?.to_owned())
    }

    /// The value of a metric in the format of Prometheus.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<f64> {
        let of = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
        self.body.lines().find_map(of)
    }

    /// True for 503 with the time of the next attempt.
    #[must_use]
    pub fn names_a_retry(&self) -> bool {
        self.status == 503 && self.header("retry-after").is_some()
    }

    /// The code in the address of the redirect.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        let (_, rest) = self.header("location")?.split_once("code=")?;
        rest.split('&').next()
    }
}
