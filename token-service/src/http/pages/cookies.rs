//! The cookies: the session, the CSRF token, the confirmed clients, the request to go on with, the known device, the last chosen
//! accounts and a sign-out.
//!
//! Except for the last three, the browser deletes the cookies when it closes; the session also ends on the server. On
//! https the cookies have the `__Host-` prefix, so that no other host and no plain http can set them (RFC 6265bis
//! §4.1.3.2). Browsers send the cookies of one port to all ports of the host. So if the issuer has a port, the cookie
//! names include the port, and two issuers on one host do not share sessions.

use actix_web::cookie::{Cookie, SameSite, time};
use actix_web::http::header::{self, HeaderValue};
use actix_web::{HttpRequest, HttpResponse};
use url::Url;

use super::csrf::CsrfToken;
use protocol::sign_in::SessionId;
use protocol::sign_in::device::{self, DeviceCookie, Devices};

/// Names and attributes of the cookies for an issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cookies {
    /// True if the issuer is https. Plain http is for development, where browsers would drop `Secure` cookies.
    is_secure: bool,
    /// The issuer's port, if given.
    port: Option<u16>,
}

impl Cookies {
    pub(super) fn of(issuer: &str) -> Self {
        Self {
            is_secure: issuer.starts_with("https://"),
            port: Url::parse(issuer).ok().and_then(|issuer| issuer.port()),
        }
    }

    fn name(self, name: &str) -> String {
        let prefix = if self.is_secure { "__Host-" } else { "" };
        match self.port {
            Some(port) => format!("{prefix}{name}-{port}"),
            None => format!("{prefix}{name}"),
        }
    }

    pub(super) fn devices(self, http: &HttpRequest) -> Devices {
        value(http, &self.name(DEVICE)).map_or_else(Devices::default, Devices::parse)
    }

    /// `response`, which makes the browser remember the known devices if there is a new one.
    pub(super) fn with_device(
        self,
        response: HttpResponse,
        device: Option<&DeviceCookie>,
    ) -> HttpResponse {
        match device {
            Some(device) => {
                let devices = device.as_str().to_owned();
                with_cookie(response, &self.lasting_cookie(DEVICE, devices))
            }
            None => response,
        }
    }

    /// The tags of the accounts that were chosen last in this browser, joined by dots.
    pub(super) fn accounts(self, http: &HttpRequest) -> &str {
        value(http, &self.name(ACCOUNTS)).unwrap_or_default()
    }

    pub(super) fn set_accounts(self, tags: String) -> Cookie<'static> {
        self.lasting_cookie(ACCOUNTS, tags)
    }

    pub(super) fn session(self, http: &HttpRequest) -> Option<SessionId> {
        value(http, &self.name(SESSION)).and_then(SessionId::parse)
    }

    pub(super) fn csrf(self, http: &HttpRequest) -> Option<CsrfToken> {
        value(http, &self.name(CSRF)).and_then(CsrfToken::parse)
    }

    /// The tags of confirmed clients that the browser sent, joined by dots.
    pub(super) fn confirmed(self, http: &HttpRequest) -> &str {
        value(http, &self.name(CONFIRMED)).unwrap_or_default()
    }

    pub(super) fn set_session(self, id: &SessionId) -> Cookie<'static> {
        self.cookie(SESSION, id.as_str().to_owned())
    }

    pub(super) fn remove_session(self) -> Cookie<'static> {
        self.removal(SESSION)
    }

    /// The path and query of the request in which the person asked for a new password.
    pub(super) fn resume(self, http: &HttpRequest) -> Option<&str> {
        value(http, &self.name(RESUME))
    }

    pub(super) fn set_resume(self, request: String) -> Cookie<'static> {
        self.cookie(RESUME, request)
    }

    pub(super) fn remove_resume(self) -> Cookie<'static> {
        self.removal(RESUME)
    }

    pub(super) fn set_csrf(self, token: &CsrfToken) -> Cookie<'static> {
        self.cookie(CSRF, token.as_str().to_owned())
    }

    pub(super) fn set_confirmed(self, tags: String) -> Cookie<'static> {
        self.cookie(CONFIRMED, tags)
    }

    /// True if the person signed out in this browser, and nobody has signed in since.
    pub(super) fn is_signed_out(self, http: &HttpRequest) -> bool {
        value(http, &self.name(SIGNED_OUT)).is_some()
    }

    pub(super) fn set_signed_out(self) -> Cookie<'static> {
        self.lasting_cookie(SIGNED_OUT, "1".to_owned())
    }

    pub(super) fn remove_signed_out(self) -> Cookie<'static> {
        self.removal(SIGNED_OUT)
    }

    fn removal(self, name: &str) -> Cookie<'static> {
        let mut cookie = self.cookie(name, String::new());
        cookie.make_removal();
        cookie
    }

    /// A cookie that the browser keeps as long as a known device.
    fn lasting_cookie(self, name: &str, value: String) -> Cookie<'static> {
        let mut cookie = self.cookie(name, value);
        let seconds = i64::try_from(device::KNOWN_FOR.as_secs()).unwrap_or(i64::MAX);
        cookie.set_max_age(time::Duration::seconds(seconds));
        cookie
    }

    fn cookie(self, name: &str, value: String) -> Cookie<'static> {
        Cookie::build(self.name(name), value)
            .path("/")
            .http_only(true)
            .same_site(SameSite::Lax)
            .secure(self.is_secure)
            .finish()
    }
}

const SESSION: &str = "session";
const CSRF: &str = "csrf";
const CONFIRMED: &str = "confirmed";
const DEVICE: &str = "device";
const ACCOUNTS: &str = "accounts";
const RESUME: &str = "resume";
const SIGNED_OUT: &str = "signed-out";

pub(super) fn with_cookie(mut response: HttpResponse, cookie: &Cookie<'_>) -> HttpResponse {
    if let Ok(value) = HeaderValue::from_str(&cookie.to_string()) {
        response.headers_mut().append(header::SET_COOKIE, value);
    }
    response
}

/// The value of the first cookie `name`. The library is not used because a malformed cookie of another application on
/// the same host must not hide our cookies.
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

    #[test]
    fn session_cookies_are_bound_to_the_host() {
        let id = SessionId::parse(ID).unwrap();
        for (issuer, name, secure) in [
            ("https://lobby.example.com", "__Host-session", "Secure; "),
            ("http://127.0.0.1:8081", "session-8081", ""),
            (
                "https://lobby.example.com:8443",
                "__Host-session-8443",
                "Secure; ",
            ),
        ] {
            let cookie = Cookies::of(issuer).set_session(&id).to_string();
            let expected = format!("{name}={ID}; HttpOnly; SameSite=Lax; {secure}Path=/");
            assert_eq!(cookie, expected);
        }
    }

    #[test]
    fn other_cookies_do_not_hide_ours() {
        let http = TestRequest::default()
            .insert_header((header::COOKIE, b"a=\xff; novalue;=;x".as_slice()))
            .append_header((
                header::COOKIE,
                format!("session2=1;session-8082=x;session={ID}"),
            ))
            .to_http_request();
        let cookies = Cookies::of("http://127.0.0.1");
        assert!(cookies.session(&http).is_some());
        assert!(cookies.csrf(&http).is_none());
        // Another issuer on the same host.
        for other in [
            "https://127.0.0.1",
            "http://127.0.0.1:8082",
            "http://127.0.0.1:8081",
        ] {
            assert!(Cookies::of(other).session(&http).is_none(), "{other}");
        }
    }
}
