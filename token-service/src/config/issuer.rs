//! `issuer`, `api_audience` and `identity_audience`: the addresses that tokens name.

use document::{Located, Section};
use url::Url;

/// Reads an issuer: a base URL without path (D-49).
pub(super) fn parse(text: &str) -> Result<String, String> {
    let issuer = base_url(text)?;
    if Url::parse(&issuer).is_ok_and(|url| url.path() != "/") {
        return Err(
            "must have no path: the paths of pages and cookies begin at the root of the host. Give the service its own host name"
                .to_owned(),
        );
    }
    Ok(issuer)
}

/// Reads a URL without query and fragment (RFC 8414 §2). Clients compare URLs as text, so the URL must be in its normal form.
pub(super) fn base_url(text: &str) -> Result<String, String> {
    if !text.contains("://") {
        return Err(format!("has no scheme: write https://{text}"));
    }
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "https" | "http") || url.host().is_none() {
        return Err("must be an https URL, or an http one for development".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must have neither query nor fragment (RFC 8414 §2)".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must have neither user name nor password".to_owned());
    }
    if text.ends_with('/') {
        return Err("must not end with a slash".to_owned());
    }
    let normal = url.as_str().trim_end_matches('/');
    if normal != text {
        return Err(format!("must be in its normal form: {normal}"));
    }
    Ok(text.to_owned())
}

pub(super) fn parse_audience(text: &str) -> Result<String, &'static str> {
    if text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err("must be printable ASCII without spaces")
    }
}

/// Reports equal audiences. Access, refresh and identity tokens need different audiences, so that even a verifier that
/// ignores `typ` cannot confuse them.
pub(super) fn check_audiences(
    root: &Section<'_>,
    issuer: &Located<String>,
    api: &Located<String>,
    identity: &Located<String>,
) {
    let all = [
        ("issuer", issuer),
        ("api_audience", api),
        ("identity_audience", identity),
    ];
    for (index, (key, audience)) in all.iter().enumerate() {
        for (other, earlier) in all.iter().take(index) {
            if audience.value == earlier.value {
                root.report(&audience.place, format!("{key}: must differ from {other}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{base_url, parse};
    use crate::config::tests::load;

    /// RFC 8414 §2; clients compare the issuer as text.
    #[test]
    fn an_issuer_has_one_form() {
        for text in [
            "https://lobby.example.com",
            "https://lobby.example.com:8443",
            "http://127.0.0.1:8081",
            "http://[::1]:8081",
        ] {
            assert_eq!(parse(text).as_deref(), Ok(text));
        }
        for text in [
            "https://lobby.example.com/",
            "https://lobby.example.com/a/",
            "https://example.com/tenant/a",
            "https://lobby.example.com?x",
            "https://lobby.example.com#x",
            "https://user@lobby.example.com",
            "https://LOBBY.example.com",
            "https://lobby.example.com:443",
            "https://lobby.example.com/a/../b",
            "ftp://lobby.example.com",
            "lobby.example.com",
            "https://",
            " https://lobby.example.com",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        for text in ["lobby.example.com", "localhost:8081"] {
            let problem = format!("has no scheme: write https://{text}");
            assert_eq!(parse(text), Err(problem));
        }
    }

    /// D-49: the pages of such an issuer would post passwords to the root of the host.
    #[test]
    fn an_issuer_has_no_path() {
        let problem = parse("https://example.com/tenant").unwrap_err();
        assert!(problem.starts_with("must have no path: "), "{problem}");
        assert!(base_url("https://example.com/tenant").is_ok());
        assert_eq!(
            load("issuer = 'https://example.com/tenant'\n", &[]).unwrap_err(),
            [format!("config.toml:1: issuer: {problem}")]
        );
    }

    #[test]
    fn audiences_differ() {
        let text = "issuer = 'https://a.example'\napi_audience = 'https://a.example'\n\
                    identity_audience = 'https://a.example'\n";
        assert_eq!(
            load(text, &[]).unwrap_err(),
            [
                "config.toml:2: api_audience: must differ from issuer",
                "config.toml:3: identity_audience: must differ from api_audience",
                "config.toml:3: identity_audience: must differ from issuer",
            ]
        );
    }
}
