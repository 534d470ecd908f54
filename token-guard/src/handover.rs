//! How a gateway passes the original request to token-guard: in one of two forms, each with exactly one
//! reading.
//!
//! The decision is about the method and the target that are read here, but the gateway passes on the client's
//! own request. A client that could make the two differ would choose the rule. Therefore token-guard guesses
//! nothing, and refuses a header that is missing, repeated or spelled in two ways, and a target that is not a
//! path.

use std::borrow::Cow;

use actix_web::HttpRequest;
use actix_web::http::header::{HeaderMap, HeaderValue};
use claims::Thumbprint;
use guard::authorization::is_token_byte;
use guard::forward::is_spelling;
use process::certificate::{self, Unreadable};

/// Path of a request that carries [`METHOD`] and [`URI`].
pub(crate) const FORWARD_AUTH: &str = "/forward-auth";

/// The same for nginx, whose `auth_request` supports only three kinds of response: 2xx, 401 and 403.
pub(crate) const AUTH_REQUEST: &str = "/auth-request";

/// Path prefix of requests that have the method and the target of the original request: `path_prefix` of
/// Envoy's `ext_authz`.
pub(crate) const EXT_AUTHZ: &str = "/ext-authz";

/// Header with the method of the original request.
pub(crate) const METHOD: &str = "x-forwarded-method";

/// Header with the target of the original request: path and query, as the client sent them.
pub(crate) const URI: &str = "x-forwarded-uri";

/// The form in which the gateway expects the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The client receives the response as it is.
    Plain,
    /// Every refusal is a 403, with the status and body for the client in headers.
    Folded,
}

/// The original request, about which the gateway asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Original<'a> {
    pub(crate) method: &'a [u8],
    /// Path and query.
    pub(crate) target: &'a [u8],
    pub(crate) form: Form,
}

/// Why token-guard cannot read the original request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Misuse {
    Missing(&'static str),
    Repeated(String),
    /// A header has another sign in place of `-`, and some servers treat both spellings as the same header.
    Spelling(Cow<'static, str>),
    /// The certificate in the header of this name cannot be read.
    Certificate(String, Unreadable),
    /// The method is not an HTTP token.
    Method,
    NotOriginForm,
    /// The target contains a fragment, a space or a control character.
    Illegal,
}

impl Misuse {
    /// The reason in the log. The metric counts all as `handover`.
    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::Certificate(..) => "unreadable_certificate",
            _ => "handover",
        }
    }

    /// Text of the response.
    pub(crate) fn description(&self) -> String {
        match self {
            Self::Missing(name) => format!("The gateway did not send {name}"),
            Self::Repeated(name) => format!("The request has {name} more than once"),
            Self::Spelling(name) => {
                format!("The request has {name} in another spelling")
            }
            Self::Certificate(name, unreadable) => {
                let reason = unreadable.reason();
                format!("token-guard cannot read the certificate of the client in {name}: {reason}")
            }
            Self::Method => "The request method is not an HTTP token".to_owned(),
            Self::NotOriginForm => "The request target does not start with a slash".to_owned(),
            Self::Illegal => {
                "The request target has a fragment, a space or a control character".to_owned()
            }
        }
    }
}

/// Reads the original request; `None` if the path is not a path for decisions.
pub(crate) fn read(request: &HttpRequest) -> Option<Result<Original<'_>, Misuse>> {
    let uri = request.uri();
    let path = uri.path();
    let form = match path {
        FORWARD_AUTH => Form::Plain,
        AUTH_REQUEST => Form::Folded,
        _ => {
            let target = uri.path_and_query()?.as_str().strip_prefix(EXT_AUTHZ)?;
            let is_below = target.is_empty() || !target.starts_with(is_name_character);
            return is_below.then(|| {
                check(Original {
                    method: request.method().as_str().as_bytes(),
                    target: target.as_bytes(),
                    form: Form::Plain,
                })
            });
        }
    };
    let headers = request.headers();
    let read = || {
        let (method, target) = (only(headers, METHOD)?, only(headers, URI)?);
        check(Original {
            method,
            target,
            form,
        })
    };
    Some(read())
}

/// True if a character after the prefix makes the prefix part of a longer name.
const fn is_name_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '_')
}

/// Returns the value of a header that occurs exactly once, in one spelling.
fn only<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<&'a [u8], Misuse> {
    at_most_one(headers, name)?.ok_or(Misuse::Missing(name))
}

fn at_most_one<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a [u8]>, Misuse> {
    let is_respelled = |other: &str| other != name && is_spelling(name, other.as_bytes());
    if headers.keys().any(|other| is_respelled(other.as_str())) {
        return Err(Misuse::Spelling(name.to_owned().into()));
    }
    let mut values = headers.get_all(name);
    let value = values.next().map(HeaderValue::as_bytes);
    if values.next().is_some() {
        return Err(Misuse::Repeated(name.to_owned()));
    }
    Ok(value)
}

/// Reads the header `name`, in which the gateway hands over the client's certificate. nginx and Traefik send no header if
/// the client has shown none.
pub(crate) fn client_certificate(
    headers: &HeaderMap,
    name: &str,
) -> Result<Option<Thumbprint>, Misuse> {
    let value = at_most_one(headers, name)?.unwrap_or_default();
    certificate::read(value).map_err(|unreadable| Misuse::Certificate(name.to_owned(), unreadable))
}

fn check(original: Original<'_>) -> Result<Original<'_>, Misuse> {
    let Original { method, target, .. } = original;
    if method.is_empty() || !method.iter().all(|byte| is_token_byte(*byte)) {
        return Err(Misuse::Method);
    }
    if !target.starts_with(b"/") {
        return Err(Misuse::NotOriginForm);
    }
    let illegal = |byte: &u8| matches!(byte, 0..=0x20 | 0x7f | b'#');
    if target.iter().any(illegal) {
        return Err(Misuse::Illegal);
    }
    Ok(original)
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    type Reading = Option<Result<(String, String, Form), Misuse>>;

    fn reading(request: TestRequest) -> Reading {
        let request = request.to_http_request();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        read(&request).map(|read| {
            read.map(|original| (text(original.method), text(original.target), original.form))
        })
    }

    fn asked(path: &str, headers: &[(&'static str, &str)]) -> Reading {
        let mut request = TestRequest::with_uri(path);
        for (name, value) in headers {
            request = request.append_header((*name, *value));
        }
        reading(request)
    }

    fn original(method: &str, target: &str, form: Form) -> Reading {
        Some(Ok((method.to_owned(), target.to_owned(), form)))
    }

    #[test]
    fn one_pair_of_headers_is_read() {
        let pair = [(METHOD, "POST"), (URI, "/api//x?y=%2f&z=/../")];
        let target = "/api//x?y=%2f&z=/../";
        assert_eq!(
            asked("/forward-auth", &pair),
            original("POST", target, Form::Plain)
        );
        assert_eq!(
            asked("/auth-request?x", &pair),
            original("POST", target, Form::Folded)
        );
    }

    #[test]
    fn what_is_missing_repeated_or_respelled_is_refused() {
        let (method, uri) = ((METHOD, "GET"), (URI, "/x"));
        for (headers, misuse) in [
            (vec![], Misuse::Missing(METHOD)),
            (vec![uri], Misuse::Missing(METHOD)),
            (vec![method], Misuse::Missing(URI)),
            (vec![method, uri, uri], Misuse::Repeated(URI.into())),
            (
                vec![method, (METHOD, "PUT"), uri],
                Misuse::Repeated(METHOD.into()),
            ),
            (
                vec![method, uri, ("X_Forwarded_Uri", "/public/x")],
                Misuse::Spelling(URI.into()),
            ),
            (
                vec![method, ("x-forwarded_uri", "/x")],
                Misuse::Spelling(URI.into()),
            ),
            (
                vec![method, uri, ("X.Forwarded.Uri", "/x")],
                Misuse::Spelling(URI.into()),
            ),
            (
                vec![("x_forwarded-method", "GET"), method, uri],
                Misuse::Spelling(METHOD.into()),
            ),
        ] {
            let read = asked("/forward-auth", &headers);
            assert_eq!(read, Some(Err(misuse)), "{headers:?}");
        }
        let others = [
            method,
            uri,
            ("x-forwarded-host", "x"),
            ("x-original-uri", "/y"),
        ];
        assert_eq!(
            asked("/forward-auth", &others),
            original("GET", "/x", Form::Plain)
        );
    }

    #[test]
    fn a_certificate_is_handed_over_once() {
        const NAME: &str = "x-token-guard-client-certificate";
        let read = |headers: &[(&'static str, &str)]| {
            let mut request = TestRequest::default();
            for header in headers {
                request = request.append_header(*header);
            }
            client_certificate(request.to_http_request().headers(), NAME)
        };
        let digest = "07".repeat(32);
        assert_eq!(
            read(&[(NAME, &digest)]),
            Ok(Some(Thumbprint::from_bytes([7; 32])))
        );
        for none in [&[][..], &[(NAME, "")], &[("x-other", &digest)]] {
            assert_eq!(read(none), Ok(None), "{none:?}");
        }
        for (headers, misuse) in [
            (
                vec![(NAME, ""), (NAME, &digest)],
                Misuse::Repeated(NAME.into()),
            ),
            (
                vec![(NAME, "forged")],
                Misuse::Certificate(NAME.into(), Unreadable::Other),
            ),
            (
                vec![("X_Token_Guard_Client_Certificate", &digest)],
                Misuse::Spelling(NAME.into()),
            ),
            (
                vec![(NAME, ""), ("x-token-guard-client~certificate", &digest)],
                Misuse::Spelling(NAME.into()),
            ),
        ] {
            assert_eq!(read(&headers), Err(misuse), "{headers:?}");
        }
    }

    #[test]
    fn a_target_is_a_path_and_a_query() {
        for (target, misuse) in [
            ("", Misuse::NotOriginForm),
            ("*", Misuse::NotOriginForm),
            ("x", Misuse::NotOriginForm),
            ("http://host/x", Misuse::NotOriginForm),
            ("/x#y", Misuse::Illegal),
            ("/x?y#z", Misuse::Illegal),
            ("/x, /y", Misuse::Illegal),
            ("/x\ty", Misuse::Illegal),
        ] {
            let read = asked("/forward-auth", &[(METHOD, "GET"), (URI, target)]);
            assert_eq!(read, Some(Err(misuse)), "{target}");
        }
        for method in ["", "GET /x", "G,E"] {
            let read = asked("/forward-auth", &[(METHOD, method), (URI, "/x")]);
            assert_eq!(read, Some(Err(Misuse::Method)), "{method}");
        }
    }

    #[test]
    fn the_prefix_of_ext_authz_stands_before_the_path() {
        let ext_authz = |path: &str| reading(TestRequest::delete().uri(path));
        for target in ["/", "/x/y?z=%2F", "//x", "/ext-authz/x", "/%2e%2e/x;y"] {
            let path = format!("/ext-authz{target}");
            assert_eq!(ext_authz(&path), original("DELETE", target, Form::Plain));
        }
        for path in [
            "/ext-authz",
            "/ext-authz*",
            "/ext-authz?x",
            "/ext-authz%2fx",
        ] {
            assert_eq!(ext_authz(path), Some(Err(Misuse::NotOriginForm)), "{path}");
        }
        for path in [
            "/",
            "/ext-authzx",
            "/ext-auth",
            "/x/ext-authz/y",
            "/forward-auth/",
        ] {
            assert_eq!(ext_authz(path), None, "{path}");
        }
    }
}
