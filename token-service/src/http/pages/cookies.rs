//! The cookies: the session, the token against cross-site request forgery, and what the browser is known by.
//!
//! The first two are gone when the browser closes; the session also ends on the server. On https they have the
//! `__Host-` prefix, so that no other host and no plain http can set them (RFC 6265bis §4.1.3.2).

use actix_web::cookie::{Cookie, SameSite, time};
use actix_web::http::header::{self, HeaderValue};
use actix_web::{HttpRequest, HttpResponse};

use super::csrf::CsrfToken;
use crate::sign_in::SessionId;
use crate::sign_in::device::{self, DeviceCookie, Devices};

/// Names and attributes, by the scheme of the issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cookies {
    /// The issuer is https.
    Secure,
    /// The issuer is http: development, where browsers would drop `Secure` cookies.
    Plain,
}

impl Cookies {
    pub(super) fn of(issuer: &str) -> Self {
        if issuer.starts_with("https://") {
            Self::Secure
        } else {
            Self::Plain
        }
    }

    const fn session_name(self) -> &'static str {
        match self {
            Self::Secure => "__Host-session",
            Self::Plain => "session",
        }
    }

    const fn csrf_name(self) -> &'static str {
        match self {
            Self::Secure => "__Host-csrf",
            Self::Plain => "csrf",
        }
    }

    const fn device_name(self) -> &'static str {
        match self {
            Self::Secure => "__Host-device",
            Self::Plain => "device",
        }
    }

    /// What the browser says of itself.
    pub(super) fn devices(self, http: &HttpRequest) -> Devices {
        value(http, self.device_name()).map_or_else(Devices::default, Devices::parse)
    }

    pub(super) fn set_devices(self, value: &DeviceCookie) -> Cookie<'static> {
        let mut cookie = self.cookie(self.device_name(), value.as_str().to_owned());
        let seconds = i64::try_from(device::KNOWN_FOR.as_secs()).unwrap_or(i64::MAX);
        cookie.set_max_age(time::Duration::seconds(seconds));
        cookie
    }

    /// The session id that the browser sent.
    pub(super) fn session(self, http: &HttpRequest) -> Option<SessionId> {
        value(http, self.session_name()).and_then(SessionId::parse)
    }

    /// The CSRF token that the browser sent.
    pub(super) fn csrf(self, http: &HttpRequest) -> Option<CsrfToken> {
        value(http, self.csrf_name()).and_then(CsrfToken::parse)
    }

    pub(super) fn set_session(self, id: &SessionId) -> Cookie<'static> {
        self.cookie(self.session_name(), id.as_str().to_owned())
    }

    pub(super) fn remove_session(self) -> Cookie<'static> {
        let mut cookie = self.cookie(self.session_name(), String::new());
        cookie.make_removal();
        cookie
    }

    pub(super) fn set_csrf(self, token: &CsrfToken) -> Cookie<'static> {
        self.cookie(self.csrf_name(), token.as_str().to_owned())
    }

    fn cookie(self, name: &'static str, value: String) -> Cookie<'static> {
        Cookie::build(name, value)
            .path("/")
            .http_only(true)
            .same_site(SameSite::Lax)
            .secure(self == Self::Secure)
            .finish()
    }
}

/// The response with `cookie` added.
pub(super) fn with_cookie(mut response: HttpResponse, cookie: &Cookie<'_>) -> HttpResponse {
    if let Ok(value) = HeaderValue::from_str(&cookie.to_string()) {
        response.headers_mut().append(header::SET_COOKIE, value);
    }
    response
}

/// The value of the first cookie `name`. Read by hand because the cookies of other applications on the same
/// host are none of our business: one of them that does not parse must not hide ours.
fn value<'a>(http: &'a HttpRequest, name: &str) -> Option<&'a str> {
    http.headers()
        .get_all(header::COOKIE)
        .flat_map(|header| header.as_bytes().split(|byte| *byte == b';'))
        .filter_map(|pair| std::str::from_utf8(pair).ok()?.trim().split_once('='))
        .find_map(|(candidate, value)| (candidate == name).then_some(value))
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    const ID: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    /// Checklist row 27.
    #[test]
    fn session_cookies_are_bound_to_the_host() {
        let id = SessionId::parse(ID).unwrap();
        assert_eq!(
            Cookies::of("https://lobby.example.com")
                .set_session(&id)
                .to_string(),
            format!("__Host-session={ID}; HttpOnly; SameSite=Lax; Secure; Path=/")
        );
        assert_eq!(
            Cookies::of("http://127.0.0.1:8081")
                .set_session(&id)
                .to_string(),
            format!("session={ID}; HttpOnly; SameSite=Lax; Path=/")
        );
    }

    #[test]
    fn other_cookies_do_not_hide_ours() {
        let http = TestRequest::default()
            .insert_header((header::COOKIE, b"a=\xff; novalue;=;x".as_slice()))
            .append_header((header::COOKIE, format!("session2=1;session={ID}")))
            .to_http_request();
        assert!(Cookies::Plain.session(&http).is_some());
        assert!(Cookies::Secure.session(&http).is_none());
        assert!(Cookies::Plain.csrf(&http).is_none());
    }
}
