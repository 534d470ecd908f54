//! Redirect URIs: what may be registered and what matches (protocol.md §5.5, D-12, RFC 6749 §3.1.2, RFC 8252 §7).
//!
//! A redirect URI keeps its original text and is compared as text (RFC 9700 §2.1), because a URL parser can normalize
//! two different texts to the same URL.

use serde::{Deserialize, Serialize};
use url::Url;

use crate::text::text;

/// The client type that the pattern is registered for. Each type has its own rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedirectUriUse {
    /// Web Server Application: https, or http on a loopback address.
    WebServer,
    /// Installed Application: private-use scheme, loopback, or https (single-page apps).
    Installed,
}

/// Why a redirect URI cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RedirectUriError {
    #[error("not an absolute URI")]
    NotAbsolute,
    /// The URI has a fragment (RFC 6749 §3.1.2).
    #[error("a redirect URI has no fragment")]
    Fragment,
    #[error("a redirect URI has no user name or password")]
    Credentials,
    #[error("only the port of http://127.0.0.1:*/path or http://[::1]:*/path may be a wildcard")]
    Wildcard,
    /// A web server knows its port, so a wildcard port is refused (D-12).
    #[error(
        "a wildcard port is for installed clients; a web_server client registers each redirect URI in full"
    )]
    WildcardOfWebServer,
    #[error("http is for 127.0.0.1 and [::1] only; use https")]
    PlainHttp,
    /// The name may lead to another machine (RFC 8252 §8.3).
    #[error(
        "http is for 127.0.0.1 and [::1] only, because localhost may be another machine (RFC 8252 §8.3); write \
         127.0.0.1 in place of localhost, also in the application"
    )]
    Localhost,
    #[error("a web_server client redirects to https, or to http on 127.0.0.1 or [::1]")]
    PrivateUseScheme,
    /// `scheme://..` contains a host. Private-use schemes have no host (RFC 8252 §7.1).
    #[error("a private-use redirect URI has the form scheme:/path")]
    PrivateUseForm,
    /// The browser itself runs or reads URIs of this scheme.
    #[error("the scheme {0} is not for redirects")]
    ForbiddenScheme(String),
}

/// A registered redirect URI.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "snake_case")]
pub enum RedirectUriPattern {
    /// Matches only the same text.
    #[strum(to_string = "{0}")]
    Exact(String),
    /// A loopback URI with any port.
    #[strum(to_string = "{origin}:*{path}")]
    LoopbackAnyPort {
        /// `http://127.0.0.1` or `http://[::1]`.
        origin: String,
        /// The text after the port: path and query.
        path: String,
    },
}

/// A redirect URI that matches a registered pattern. Only [`RedirectUriPattern::matches`] and the legacy templates
/// create values, so it is safe to redirect to a value (RFC 9700 §4.11).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectUri(String);

impl RedirectUri {
    /// A redirect URI that a legacy template matched.
    pub(crate) const fn matched_by_template(text: String) -> Self {
        Self(text)
    }

    /// True if any app on the user's device may receive requests to this URI: a loopback address or a private-use
    /// scheme (RFC 8252 §8.6).
    pub fn is_native(&self) -> bool {
        !self.0.starts_with("https://")
    }

    /// The URI with `parameters` appended to its query. Spaces are written as `%20`, which form decoding and plain
    /// percent-decoding read alike. The registered text stays unchanged.
    pub fn with_parameters<'a>(
        &self,
        parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> String {
        let query = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(parameters)
            .finish()
            .replace('+', "%20");
        let separator = match self.0.split_once('?') {
            None => "?",
            Some((_, "")) => "",
            Some((_, query)) if query.ends_with('&') => "",
            Some(_) => "&",
        };
        format!("{}{separator}{query}", self.0)
    }
}

text!(RedirectUri);

/// The loopback origins of RFC 8252 §7.3. `localhost` is not allowed, because it may resolve to another address (§8.3).
const LOOPBACK_ORIGINS: [&str; 2] = ["http://127.0.0.1", "http://[::1]"];

/// Schemes with a special meaning in browsers. They never lead back to an app.
const FORBIDDEN_SCHEMES: [&str; 17] = [
    "about",
    "blob",
    "chrome",
    "data",
    "file",
    "filesystem",
    "ftp",
    "intent",
    "javascript",
    "mailto",
    "market",
    "sms",
    "tel",
    "vbscript",
    "view-source",
    "ws",
    "wss",
];

impl RedirectUriPattern {
    /// Parses a redirect URI for registration.
    pub fn parse(text: &str, use_: RedirectUriUse) -> Result<Self, RedirectUriError> {
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains('\\') {
            return Err(RedirectUriError::NotAbsolute);
        }
        if text.contains('#') {
            return Err(RedirectUriError::Fragment);
        }
        if let Some(pattern) = Self::loopback_any_port(text) {
            return match use_ {
                RedirectUriUse::Installed => Ok(pattern),
                RedirectUriUse::WebServer => Err(RedirectUriError::WildcardOfWebServer),
            };
        }
        if text.contains('*') {
            return Err(RedirectUriError::Wildcard);
        }
        let url = Url::parse(text).map_err(|_| RedirectUriError::NotAbsolute)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(RedirectUriError::Credentials);
        }
        match url.scheme() {
            "https" => Self::with_authority(text, "https://"),
            "http" if is_loopback(&url) => Self::with_authority(text, "http://"),
            "http" if url.host_str() == Some("localhost") => Err(RedirectUriError::Localhost),
            "http" => Err(RedirectUriError::PlainHttp),
            scheme if FORBIDDEN_SCHEMES.contains(&scheme) => {
                Err(RedirectUriError::ForbiddenScheme(scheme.to_owned()))
            }
            _ if use_ == RedirectUriUse::WebServer => Err(RedirectUriError::PrivateUseScheme),
            scheme => {
                let rest = &text[scheme.len() + 1..];
                if rest.starts_with('/') && !rest.starts_with("//") {
                    Ok(Self::Exact(text.to_owned()))
                } else {
                    Err(RedirectUriError::PrivateUseForm)
                }
            }
        }
    }

    /// True for a private-use scheme that is not a domain in reverse: any app may claim it (RFC 8252 §7.1).
    pub fn has_undotted_scheme(&self) -> bool {
        let Self::Exact(text) = self else {
            return false;
        };
        let scheme = text.split(':').next().unwrap_or_default();
        !scheme.contains('.') && !["http", "https"].contains(&scheme)
    }

    /// Refuses `https:host` and `HTTPS://host`, which parse as URLs but are probably typing errors.
    fn with_authority(text: &str, start: &str) -> Result<Self, RedirectUriError> {
        if text.starts_with(start) {
            Ok(Self::Exact(text.to_owned()))
        } else {
            Err(RedirectUriError::NotAbsolute)
        }
    }

    fn loopback_any_port(text: &str) -> Option<Self> {
        LOOPBACK_ORIGINS.into_iter().find_map(|origin| {
            let path = text.strip_prefix(origin)?.strip_prefix(":*")?;
            (path.starts_with('/') && !path.contains('*')).then(|| Self::LoopbackAnyPort {
                origin: origin.to_owned(),
                path: path.to_owned(),
            })
        })
    }

    /// The redirect URI `sent` if this pattern allows it. The texts must be equal, except for the port of a loopback
    /// pattern (RFC 8252 §7.3, RFC 9700 §2.1).
    pub fn matches(&self, sent: &str) -> Option<RedirectUri> {
        let allowed = match self {
            Self::Exact(registered) => registered == sent,
            Self::LoopbackAnyPort { origin, path } => sent
                .strip_prefix(origin.as_str())
                .and_then(|rest| rest.strip_suffix(path.as_str()))
                .is_some_and(|port| port.is_empty() || port.strip_prefix(':').is_some_and(is_port)),
        };
        allowed.then(|| RedirectUri(sent.to_owned()))
    }

    /// The web origin of a single-page app at this URI, which calls the token endpoint. `None` for URIs other than
    /// https and loopback http with a fixed port (D-12, D-20).
    pub fn web_origin(&self) -> Option<String> {
        let Self::Exact(text) = self else { return None };
        let origin = Url::parse(text).ok()?.origin();
        origin.is_tuple().then(|| origin.ascii_serialization())
    }

    /// True if a single-page app at this URI may have the origin `origin`.
    pub fn allows_origin(&self, origin: &str) -> bool {
        match self {
            Self::Exact(_) => self.web_origin().as_deref() == Some(origin),
            Self::LoopbackAnyPort {
                origin: registered, ..
            } => without_port(origin) == registered,
        }
    }

    /// The origin without port of a single-page app that may have any port; `None` for other patterns.
    pub fn any_port_origin(&self) -> Option<&str> {
        match self {
            Self::Exact(_) => None,
            Self::LoopbackAnyPort { origin, .. } => Some(origin),
        }
    }
}

/// An origin without its port, comparable with [`RedirectUriPattern::any_port_origin`].
pub fn without_port(origin: &str) -> &str {
    match origin.rsplit_once(':') {
        Some((rest, port)) if is_port(port) => rest,
        _ => origin,
    }
}

fn is_loopback(url: &Url) -> bool {
    matches!(url.host_str(), Some("127.0.0.1" | "[::1]"))
}

/// A port as clients write it: 1 to 65535 in decimal, without leading zeros.
pub(crate) fn is_port(text: &str) -> bool {
    !text.starts_with('0')
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registered(text: &str) -> Result<RedirectUriPattern, RedirectUriError> {
        RedirectUriPattern::parse(text, RedirectUriUse::Installed)
    }

    #[test]
    fn registration_takes_the_forms_of_the_specification() {
        for text in [
            "com.example.app:/callback",
            "http://127.0.0.1:8000/callback",
            "http://127.0.0.1:*/callback",
            "http://[::1]:*/callback",
            "https://app.example.com/callback?tenant=1",
        ] {
            assert_eq!(registered(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn registration_refuses_everything_else() {
        use RedirectUriError as E;
        for (text, error) in [
            ("https://app.example.com/cb#x", E::Fragment),
            ("https://*.example.com/cb", E::Wildcard),
            ("https://app.example.com:*/cb", E::Wildcard),
            ("http://localhost:*/cb", E::Wildcard),
            ("http://127.0.0.1:*/a/*", E::Wildcard),
            ("http://localhost:8000/cb", E::Localhost),
            ("http://app.example.com/cb", E::PlainHttp),
            ("http://127.0.0.1.example.com/cb", E::PlainHttp),
            ("https://user@app.example.com/cb", E::Credentials),
            ("com.example.app://host/cb", E::PrivateUseForm),
            ("com.example.app:cb", E::PrivateUseForm),
            ("packagebuilder:callback", E::PrivateUseForm),
            (
                "javascript:/alert(1)",
                E::ForbiddenScheme("javascript".into()),
            ),
            ("data:/x", E::ForbiddenScheme("data".into())),
            ("/callback", E::NotAbsolute),
            ("https:app.example.com/cb", E::NotAbsolute),
            ("https://app.example.com\\@evil.example/", E::NotAbsolute),
            ("https://app.example.com/a b", E::NotAbsolute),
            ("", E::NotAbsolute),
        ] {
            assert_eq!(registered(text), Err(error), "{text}");
        }
        for (text, error) in [
            ("com.example.app:/cb", E::PrivateUseScheme),
            ("http://127.0.0.1:*/cb", E::WildcardOfWebServer),
        ] {
            let registered = RedirectUriPattern::parse(text, RedirectUriUse::WebServer);
            assert_eq!(registered, Err(error), "{text}");
        }
    }

    /// Any app may receive requests to a native URI, and claim a scheme without a dot (RFC 8252 §7.1, §8.6).
    #[test]
    fn rfc8252_s8_6_only_https_leads_to_one_place() {
        for (text, is_native, is_undotted) in [
            ("https://app.example.com/cb", false, false),
            ("http://127.0.0.1:8000/cb", true, false),
            ("com.example.app:/cb", true, false),
            ("app:/cb", true, true),
        ] {
            let pattern = registered(text).unwrap();
            assert_eq!(pattern.has_undotted_scheme(), is_undotted, "{text}");
            assert_eq!(pattern.matches(text).unwrap().is_native(), is_native);
        }
    }

    /// Exact text; only the loopback port may differ.
    #[test]
    fn nothing_but_the_registered_text_matches() {
        let pattern = registered("https://app.example.com/callback?tenant=1").unwrap();
        assert!(
            pattern
                .matches("https://app.example.com/callback?tenant=1")
                .is_some()
        );
        for sent in [
            "https://evil.example.com/callback?tenant=1",
            "https://app.example.com.evil.example/callback?tenant=1",
            "https://app.example.com/callback",
            "https://app.example.com/callback?tenant=2",
            "https://app.example.com/callback?tenant=1&x=1",
            "https://app.example.com/callback/?tenant=1",
            "https://app.example.com/Callback?tenant=1",
            "https://APP.example.com/callback?tenant=1",
            "HTTPS://app.example.com/callback?tenant=1",
            "http://app.example.com/callback?tenant=1",
            "https://app.example.com:443/callback?tenant=1",
            "https://user@app.example.com/callback?tenant=1",
            "https://app.example.com/x/../callback?tenant=1",
            "https://app.example.com/%63allback?tenant=1",
            "https://app.example.com/callback?tenant=1#fragment",
        ] {
            assert_eq!(pattern.matches(sent), None, "{sent}");
        }
    }

    #[test]
    fn a_loopback_wildcard_matches_any_port_and_nothing_else() {
        let pattern = registered("http://127.0.0.1:*/callback").unwrap();
        for sent in [
            "http://127.0.0.1:1/callback",
            "http://127.0.0.1:65535/callback",
            "http://127.0.0.1/callback",
        ] {
            assert!(pattern.matches(sent).is_some(), "{sent}");
        }
        for sent in [
            "http://127.0.0.1:65536/callback",
            "http://127.0.0.1:0/callback",
            "http://127.0.0.1:/callback",
            "http://127.0.0.1:080/callback",
            "http://127.0.0.1:*/callback",
            "http://127.0.0.1:80@evil.example/callback",
            "http://127.0.0.1.evil.example/callback",
            "http://localhost:80/callback",
            "http://127.0.0.2:80/callback",
            "https://127.0.0.1:80/callback",
            "http://127.0.0.1:80/callback/",
            "http://127.0.0.1:80/callback?x=1",
            "http://127.0.0.1:80/x/callback",
        ] {
            assert_eq!(pattern.matches(sent), None, "{sent}");
        }
    }

    #[test]
    fn parameters_are_appended_and_the_registered_query_stays() {
        let add = |text: &str| {
            registered(text)
                .unwrap()
                .matches(text)
                .unwrap()
                .with_parameters([("code", "a b"), ("state", "ü&=")])
        };
        let added = "code=a%20b&state=%C3%BC%26%3D";
        for (uri, separator) in [
            ("https://a.example/cb", "?"),
            ("https://a.example/cb?x=%7E", "&"),
            ("https://a.example/cb?", ""),
            ("https://a.example/cb?x&", ""),
            ("com.example.app:/cb", "?"),
        ] {
            assert_eq!(add(uri), format!("{uri}{separator}{added}"));
        }
    }
}
