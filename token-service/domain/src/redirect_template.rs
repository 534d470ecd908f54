//! Redirect templates (protocol.md §4.5): exact text, any port on loopback, or any text as whole path segments.

use url::Url;

use crate::RedirectUri;
use crate::redirect_uri::is_port;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectTemplate<'a> {
    parts: Parts<'a>,
}

/// Why a template cannot be registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("must be printable ASCII without spaces and fragment")]
    Characters,
    #[error("must be an https URL, or an http one on loopback")]
    Url,
    #[error("plain http is only for loopback")]
    InsecureHttp,
    /// A wildcard that is neither a loopback port nor a whole path segment.
    #[error("a * may be the port of a loopback address, or one whole segment of the path")]
    Wildcard,
    #[error("must have neither user name nor password")]
    UserInfo,
}

/// The hosts of loopback addresses. Legacy templates may use `localhost` too (D-24).
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl<'a> RedirectTemplate<'a> {
    pub fn parse(text: &'a str) -> Result<Self, TemplateError> {
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains('#') {
            return Err(TemplateError::Characters);
        }
        let parts = Parts::of(text).ok_or(TemplateError::Url)?;
        let is_loopback = LOOPBACK.contains(&parts.host);
        if parts.host.contains('@') {
            return Err(TemplateError::UserInfo);
        }
        match parts.scheme {
            "https" => {}
            "http" if is_loopback => {}
            "http" => return Err(TemplateError::InsecureHttp),
            _ => return Err(TemplateError::Url),
        }
        let wild = |text: &str| text.contains('*');
        let port_is_wild = parts.port == Some("*");
        let misplaced = wild(parts.host)
            || parts.query.is_some_and(wild)
            || (parts.port.is_some_and(wild) && !(port_is_wild && is_loopback))
            || parts
                .segments
                .iter()
                .any(|segment| wild(segment) && *segment != "*");
        if misplaced {
            return Err(TemplateError::Wildcard);
        }
        // Without its wildcards, the template must be a URL that browsers use unchanged.
        let concrete = text.replace(":*", ":1").replace('*', "x");
        match Url::parse(&concrete) {
            Ok(url) if url.as_str() == concrete || url.path() == "/" => Ok(Self { parts }),
            _ => Err(TemplateError::Url),
        }
    }

    /// The redirect URI `sent`, if the template matches it.
    pub fn matches(&self, sent: &str) -> Option<RedirectUri> {
        if !sent.bytes().all(|byte| byte.is_ascii_graphic()) || sent.contains(['#', '*', '\\']) {
            return None;
        }
        let parts = Parts::of(sent)?;
        let port_matches = match (self.parts.port, parts.port) {
            (Some("*"), Some(port)) => is_port(port),
            (registered, sent) => registered == sent,
        };
        let segments_match = self.parts.segments.len() == parts.segments.len()
            && self
                .parts
                .segments
                .iter()
                .zip(&parts.segments)
                .all(|(registered, sent)| match *registered {
                    "*" => is_plain_segment(sent),
                    exact => exact == *sent,
                });
        let matches = self.parts.scheme == parts.scheme
            && self.parts.host == parts.host
            && port_matches
            && segments_match
            && self.parts.query == parts.query;
        matches.then(|| RedirectUri::matched_by_template(sent.to_owned()))
    }
}

/// True if every server reads the text as exactly one segment.
fn is_plain_segment(segment: &str) -> bool {
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    !segment.is_empty() && !matches!(segment, "." | "..") && segment.bytes().all(plain)
}

/// A URL split as text. URL parsers normalize, so different texts would match.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Parts<'a> {
    scheme: &'a str,
    host: &'a str,
    port: Option<&'a str>,
    segments: Vec<&'a str>,
    query: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let mut segments = rest.split('/');
        let authority = segments.next()?;
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (authority, None),
        };
        (!host.is_empty()).then(|| Self {
            scheme,
            host,
            port,
            segments: segments.collect(),
            query,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(template: &str, sent: &str) -> bool {
        RedirectTemplate::parse(template)
            .unwrap()
            .matches(sent)
            .is_some()
    }

    #[test]
    fn exact_templates_match_themselves_alone() {
        let template = "https://app.example.com/cb?tenant=1&x=";
        assert!(matches(template, template));
        for other in [
            "https://app.example.com/cb?tenant=1",
            "https://app.example.com/cb?tenant=1&x=&code=y",
            "https://app.example.com/cb/?tenant=1&x=",
            "https://app.example.com:443/cb?tenant=1&x=",
            "https://APP.example.com/cb?tenant=1&x=",
            "http://app.example.com/cb?tenant=1&x=",
            "https://app.example.com/cb?tenant=1&x=#f",
        ] {
            assert!(!matches(template, other), "{other}");
        }
    }

    #[test]
    fn a_loopback_port_may_be_any() {
        for template in [
            "http://localhost:*/callback",
            "http://127.0.0.1:*/callback",
            "http://[::1]:*/callback",
        ] {
            let with = |port: &str| matches(template, &template.replace('*', port));
            for port in ["1", "8080", "65535"] {
                assert!(with(port), "{template} {port}");
            }
            for port in ["", "0", "65536", "x", "*", "80a", "1:2", "+8090", "08090"] {
                assert!(!with(port), "{template} {port}");
            }
            assert!(!matches(template, &template.replace(":*", "")));
        }
        let template = "http://localhost:*/callback";
        assert!(!matches(template, "http://127.0.0.1:1/callback"));
        let elsewhere = "http://localhost:1@evil.example/callback";
        assert!(!matches(template, elsewhere));
    }

    #[test]
    fn a_segment_may_be_any() {
        let template = "https://app.example.com/*/callback";
        for good in ["a", "tenant-1", "a.b_c~d"] {
            assert!(matches(template, &template.replace('*', good)), "{good}");
        }
        for bad in [
            "", ".", "..", "a/b", "a%2fb", "%2e%2e", "a?b", "a#b", "a\\b", "a;b", "*",
        ] {
            assert!(!matches(template, &template.replace('*', bad)), "{bad}");
        }
    }

    #[test]
    fn templates_that_say_too_much_are_refused() {
        for (bad, error) in [
            ("https://*.example.com/cb", TemplateError::Wildcard),
            ("https://app.example.com:*/cb", TemplateError::Wildcard),
            ("http://localhost:8*/cb", TemplateError::Wildcard),
            ("https://app.example.com/a*/cb", TemplateError::Wildcard),
            ("https://app.example.com/cb?x=*", TemplateError::Wildcard),
            ("http://app.example.com/cb", TemplateError::InsecureHttp),
            ("https://app.example.com/cb#x", TemplateError::Characters),
            ("https://app.example.com/c b", TemplateError::Characters),
            ("https://a@app.example.com/cb", TemplateError::UserInfo),
            ("com.example.app:/cb", TemplateError::Url),
            ("app.example.com/cb", TemplateError::Url),
            ("https:///cb", TemplateError::Url),
            ("https://app.example.com/x/../cb", TemplateError::Url),
        ] {
            assert_eq!(RedirectTemplate::parse(bad), Err(error), "{bad}");
        }
    }
}
