//! The URL of a request as its clients know it.

use std::borrow::Cow;

use fluent_uri::Uri;

/// Where clients reach an API or an authorization server: scheme, host and port, and the path under which the gateway
/// publishes it, if any. It is configured, because a client chooses `Host` and `X-Forwarded-Host` itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicOrigin {
    /// Without a final slash.
    prefix: String,
}

impl PublicOrigin {
    /// Reads an `http` or `https` URL without user, query and fragment. A final slash is ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let uri = Uri::parse(text).ok()?;
        let authority = uri.authority()?;
        let is_web =
            ["http", "https"].contains(&uri.scheme().as_str().to_ascii_lowercase().as_str());
        let is_plain = uri.query().is_none() && uri.fragment().is_none();
        if !is_web || !is_plain || authority.host().is_empty() || authority.userinfo().is_some() {
            return None;
        }
        let prefix = text.strip_suffix('/').unwrap_or(text).to_owned();
        Some(Self { prefix })
    }

    /// The URL of a request for `target` at this origin, without the query, for a message.
    pub(super) fn url(&self, target: &[u8]) -> String {
        let path = target.split(|byte| *byte == b'?').next().unwrap_or(target);
        format!("{}{}", self.prefix, String::from_utf8_lossy(path))
    }

    /// True if `url` is that of a request for `target` (path and query) at this origin. Queries and fragments are ignored
    /// (RFC 9449 §4.3, check 9); otherwise the URLs are compared after normalization by syntax and scheme (RFC 3986 §6.2.2,
    /// §6.2.3).
    pub(super) fn is_at(&self, url: &str, target: &[u8]) -> bool {
        let path = target.split(|byte| *byte == b'?').next().unwrap_or(target);
        let Ok(path) = str::from_utf8(path) else {
            return false;
        };
        // Anything else would lengthen the host.
        if !path.is_empty() && !path.starts_with('/') {
            return false;
        }
        let expected = normal(&format!("{}{path}", self.prefix));
        expected.is_some() && expected == normal(url)
    }
}

/// What browsers send in a path as it is, although RFC 3986 §3.3 has no place for it there (WHATWG URL, path
/// percent-encode set).
const RAW: [(char, &str); 4] = [('[', "%5B"), (']', "%5D"), ('^', "%5E"), ('|', "%7C")];

/// The URL in normal form, without query and fragment. `None` if it is not a URL with a host.
fn normal(url: &str) -> Option<String> {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let url = url.get(..end)?;
    let host = url.find("://")? + "://".len();
    let path = url.get(host..)?.find('/').map_or(end, |path| host + path);
    let (origin, path) = url.split_at(path);
    let mut url = Cow::Borrowed(url);
    if path.contains(RAW.map(|(raw, _)| raw)) {
        let escape = |path: String, (raw, code)| path.replace(raw, code);
        url = Cow::Owned(format!(
            "{origin}{}",
            RAW.into_iter().fold(path.to_owned(), escape)
        ));
    }
    let uri = Uri::parse(url.as_ref()).ok()?;
    uri.authority()?;
    let mut normal = uri.normalize().into_string();
    // RFC 3986 §6.2.3: with an authority, an empty path is that of the root.
    if uri.path().is_empty() {
        normal.push('/');
    }
    Some(normal)
}
