//! The rows of the table.

use std::io::{Read as _, Write as _};
use std::sync::LazyLock;

use serde_json::{Value, json};
use tests::front::{HOST, pages};
use tests::gateways::Kind;
use tests::tls::{self, Identity};
use tests::{Answer, wire};
use tests::{browsing::form_body, http2};

use super::{BALANCED, Place};
use crate::api::until;
use crate::binding::{hexadecimal, named};
use crate::support::{ADA, CREDENTIALS, Client, Form, Reply, WEB, answered};

pub(super) fn check(place: &Place) {
    single_requests(place);
    other_hosts(place);
    redirect_and_http2(place);
    forged_addresses(place);
    throttling(place);
    certificates(place);
    sign_in(place);
    rate(place);
}

/// What holds behind a load balancer, before a service that reads certificates from another header.
pub(super) fn check_behind(place: &Place) {
    let appended = format!("X-Forwarded-For: 203.0.113.7, {BALANCED}\r\n");
    addresses(place, &[&appended], BALANCED, 1);
    let (_, form, forged) = certified(place);
    let port = place.front.mutual_tls;
    let answer = place.ask((1, None), port, "POST /auth/token", &forged, &form);
    place.expect("the other header", answer.status == 401, answer);
}

/// The pages of every proxy's own answers: away, too many requests, other requests.
static PAGES: LazyLock<Vec<String>> =
    LazyLock::new(|| pages("examples/envoy-ext-authz/front.yaml").unwrap());

/// What a browser accepts when a person opens an address.
const BROWSER: &str = "Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8\r\n";

/// Before a token service that does not run: a page for people, JSON for programs, and when to try again.
pub(super) fn check_deserted(place: &Place) {
    for (headers, kind, text) in [
        (BROWSER, "text/html; charset=utf-8", &*PAGES[0]),
        (
            "Accept: */*\r\n",
            "application/json",
            "\"temporarily_unavailable\"",
        ),
        ("", "application/json", "\"temporarily_unavailable\""),
    ] {
        for start in ["GET /auth/", "POST /auth/sign-in", "GET /nowhere"] {
            let answer = place.ask((1, None), place.front.https, start, headers, "");
            let is_right = (502..=504).contains(&answer.status)
                && answer.header("content-type") == Some(kind)
                && answer.values("retry-after").len() == 1
                && answer.body.contains(text);
            place.expect("without a service", is_right, (headers, answer));
        }
    }
}

/// A host that the proxy does not know.
fn other_hosts(place: &Place) {
    let request = format!(
        "GET /auth/ HTTP/1.1\r\nHost: other.example.com\r\nConnection: close\r\n{BROWSER}\r\n"
    );
    let connection = place.connect(1, place.front.https);
    let mut connection = tls::open(connection, place.server, None).unwrap();
    let answer = wire::exchange(&mut connection, &request);
    let is_right = answer.as_ref().is_some_and(|answer| {
        [404, 421].contains(&answer.status)
            && answer.header("content-type") == Some("text/html; charset=utf-8")
            && answer.body.contains(&PAGES[2])
    });
    place.expect("another host", is_right, answer);
}

/// What no client may send: at most a refusal of the proxy.
const REFUSED: &[u16] = &[0, 400, 404, 421];

fn single_requests(place: &Place) {
    let administrator = format!("Authorization: Bearer {}\r\n", place.service.admin_token());
    let administrator = administrator.as_str();
    let [fits, large] = [65_536, 65_537].map(|length| "a".repeat(length));
    let chunked = format!("10001\r\n{large}\r\n0\r\n\r\n");
    let page = "Origin: https://spa.example.com\r\nAccess-Control-Request-Method: POST\r\n";
    let rows: [(&str, &str, &str, &[u16]); 19] = [
        ("GET /auth/jwks", "", "", &[200]),
        ("GET /OAuthStatus", "", "", &[200]),
        ("POST /as/token.oauth2", "", "grant_type=x", &[400, 401]),
        ("OPTIONS /auth/token", page, "", &[200]),
        ("POST /auth/token", "", &fits, &[400, 401]),
        // HAProxy may close the connection before the client has read the answer.
        ("POST /auth/token", "", &large, &[0, 413]),
        (
            "POST /auth/token",
            "Transfer-Encoding: chunked\r\n",
            &chunked,
            &[0, 413],
        ),
        ("GET /admin/clients", administrator, "", &[404]),
        ("GET /revocations", administrator, "", &[404]),
        ("GET /metrics", administrator, "", &[404]),
        ("GET /readyz", administrator, "", &[404]),
        ("GET //admin/clients", administrator, "", &[301, 404]),
        (
            "GET /auth/../admin/clients",
            administrator,
            "",
            &[301, 400, 404],
        ),
        (
            "GET /%2e%2e/admin/clients",
            administrator,
            "",
            &[301, 400, 404],
        ),
        (
            "GET /auth/%2e%2e/admin/clients",
            administrator,
            "",
            &[301, 400, 404],
        ),
        (
            "GET /auth/..%2fadmin/clients",
            administrator,
            "",
            &[400, 404],
        ),
        (
            "GET http://127.0.0.1:9081/admin/clients",
            administrator,
            "",
            REFUSED,
        ),
        (
            "GET /admin/clients",
            "Host: 127.0.0.1:9081\r\n",
            "",
            REFUSED,
        ),
        (
            "GET /auth/jwks",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "0\r\n\r\n",
            &[0, 200, 400],
        ),
    ];
    for (start, headers, body, statuses) in rows {
        let answer = place.ask((1, None), place.front.https, start, headers, body);
        place.expect(start, statuses.contains(&answer.status), &answer.headers);
        if headers == page {
            let allowed = answer.values("access-control-allow-origin");
            place.expect(
                "CORS",
                allowed == ["https://spa.example.com"],
                &answer.headers,
            );
        }
    }
}

fn redirect_and_http2(place: &Place) {
    let request = format!("GET /auth/?a=b HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
    let mut connection = place.connect(1, place.front.http);
    let answer = wire::exchange(&mut connection, &request).unwrap();
    let [location] = answer.values("location")[..] else {
        return place.expect("no redirect", false, answer);
    };
    let is_there =
        location.starts_with(&format!("https://{HOST}")) && location.ends_with("/auth/?a=b");
    place.expect("redirect", answer.status == 301 && is_there, &answer);
    let request = format!("GET /auth/jwks HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
    let answer = http2::send(place.front.https, Some(place.server), None, &request).unwrap();
    place.expect(
        "HTTP/2",
        answer.as_ref().is_some_and(|answer| answer.status == 200),
        &answer,
    );
}

/// A wrong secret for a client that only this proxy's requests name.
fn guess(place: &Place, of: &Client, client: u8, headers: &str) -> Answer {
    let secret = Some("a guess");
    let headers = format!(
        "Authorization: {}\r\n{headers}",
        Client { secret, ..*of }.basic()
    );
    let form = form_body(&CREDENTIALS);
    let port = place.front.https;
    place.ask((client, None), port, "POST /auth/token", &headers, &form)
}

fn registered(place: &Place) -> Client {
    let members = json!({"bound_user": "grace@example.com"});
    place.service.register("user_bound", members)
}

fn forged_addresses(place: &Place) {
    let forged = [
        "X-Forwarded-For: 203.0.113.7\r\n",
        "X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-For: 203.0.113.8, 127.0.0.1\r\n",
        "X-Forwarded-For: \u{ff}\r\n",
        "X_Forwarded_For: 203.0.113.7\r\n",
        "Forwarded: for=203.0.113.7\r\nX-Real-IP: 203.0.113.7\r\nTrue-Client-IP: 203.0.113.7\r\n",
        "Connection: x-forwarded-for\r\n",
        "X-Request-Id: forged\r\n",
    ];
    addresses(place, &forged, &place.address(2).to_string(), 5);
}

/// The audit log has the address of the client, and the id of the answer, for at least `least` of the requests with these headers.
fn addresses(place: &Place, headers: &[&str], address: &str, least: usize) {
    let client = registered(place);
    let mut expected = Vec::new();
    for forged in headers {
        let answer = guess(place, &client, 2, forged);
        place.expect(forged, [400, 401].contains(&answer.status), &answer);
        if answer.status == 401 {
            let id = answer.values("x-request-id").concat();
            place.expect("the id", id != "forged", &answer);
            expected.push((json!(address), json!(id)));
        }
    }
    let words = format!(
        "audit --limit 500 --action token_request_refused --client {}",
        client.id
    );
    let logged = || -> Vec<(Value, Value)> {
        let listed = place.service.json(&words);
        let entries = listed["items"].as_array().unwrap().iter().rev();
        let seen = |entry: &Value| (entry["address"].clone(), entry["request_id"].clone());
        entries.map(seen).collect()
    };
    until("the audit log has it", || logged().len() == expected.len());
    let is_right = expected.len() >= least && logged() == expected;
    place.expect("the audit log", is_right, (logged(), expected));
}

/// The service counts the guesses of each client, not of the proxy.
fn throttling(place: &Place) {
    let client = registered(place);
    until("guesses have to wait", || {
        let answer = guess(place, &client, 3, "");
        // A refusal of the service itself.
        answer.status == 429 && !answer.values("strict-transport-security").is_empty()
    });
    let other = guess(place, &client, 4, "");
    place.expect("guesses of another client", other.status == 401, other);
}

/// A certificate, the form of a client that authenticates with it, and headers that claim it.
fn certified(place: &Place) -> (Identity, String, String) {
    let own = Identity::new().unwrap();
    let hexadecimal = hexadecimal(&own);
    let members =
        json!({"bound_user": "grace@example.com", "tls_client_certificates": [&hexadecimal]});
    let form = named(&place.service.register("user_bound", members));
    let forged = format!(
        "X-Token-Service-Client-Certificate: {hexadecimal}\r\nX-Forwarded-Tls-Client-Cert: {hexadecimal}\r\n"
    );
    (own, form, forged)
}

/// A certificate counts at the third listener, and nothing else there or elsewhere.
fn certificates(place: &Place) {
    let (own, form, forged) = certified(place);
    let front = &place.front;
    for (port, certificate, headers, status) in [
        (front.mutual_tls, Some(&own), "", 200),
        (front.mutual_tls, Some(&own), &*forged, 200),
        (front.mutual_tls, None, &*forged, 401),
        (front.https, Some(&own), &*forged, 401),
    ] {
        let answer = place.ask((1, certificate), port, "POST /auth/token", headers, &form);
        place.expect(
            "certificate",
            answer.status == status,
            (status, certificate.is_some(), answer),
        );
    }
    let page = place.ask((1, Some(&own)), front.mutual_tls, "GET /auth/", "", "");
    place.expect("a page for certificates", page.status == 404, page);
}

/// A person signs in, and the session does so for the next request.
fn sign_in(place: &Place) {
    let mut cookies: Vec<String> = Vec::new();
    let mut open = |start: &str, body: &str| {
        let headers = format!("Cookie: {}\r\n", cookies.join("; "));
        let answer = place.ask((1, None), place.front.https, start, &headers, body);
        for cookie in answer.values("set-cookie") {
            let pair = cookie.split(';').next().unwrap_or_default();
            let name = pair.split('=').next().unwrap_or_default();
            cookies.retain(|other| other.split('=').next() != Some(name));
            cookies.push(pair.to_owned());
        }
        Reply::from(answer)
    };
    let authorize = format!("GET /auth/authorize?{}", form_body(&WEB.request(&[])));
    let page = open(&authorize, "");
    place.expect(
        "HSTS",
        page.header("strict-transport-security").is_some(),
        &page,
    );
    let form = Form::of(&page);
    let hidden = form.hidden.iter().map(|(name, value)| (&**name, &**value));
    let fields: Vec<_> = hidden.chain(ADA).collect();
    let signed_in = open(&format!("POST {}", form.action), &form_body(&fields));
    let next = signed_in.header("location").unwrap_or_default();
    let next = next.trim_start_matches(&format!("https://{HOST}"));
    for start in [format!("GET {next}"), authorize] {
        let done = open(&start, "");
        let code = answered(&done, WEB.redirect_uri, "code");
        place.expect("a code", code.is_some(), done);
    }
}

/// 100 requests at once, of a browser and of a program in turn. The released Caddy cannot limit them.
fn rate(place: &Place) {
    let program = format!("GET /auth/jwks HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
    let browser = program.replace("\r\n\r\n", &format!("\r\n{BROWSER}\r\n"));
    let last = program.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    let mut connection =
        tls::open(place.connect(5, place.front.https), place.server, None).unwrap();
    connection
        .write_all(((browser.clone() + &program).repeat(49) + &browser + &last).as_bytes())
        .unwrap();
    let mut answers = Vec::new();
    // A proxy may close the connection early.
    let _ended = connection.read_to_end(&mut answers);
    let answers = String::from_utf8_lossy(&answers);
    let [passed, refused] =
        [200, 429].map(|status| answers.matches(&format!("HTTP/1.1 {status}")).count());
    let is_right = match place.kind {
        Kind::Caddy => passed == 100,
        _ => {
            let bodies = [
                &*PAGES[1],
                "\"Too many requests come from this address; send fewer\"",
            ];
            passed >= 60
                && bodies
                    .map(|body| answers.matches(body).count())
                    .iter()
                    .sum::<usize>()
                    == refused
        }
    };
    place.expect("rate", is_right, (passed, refused, answers.lines().last()));
}

/// Three seconds. Caddy waits for the rest of a form as long as the client stays.
pub(super) fn unfinished(place: &Place) {
    let head = format!("POST /auth/token HTTP/1.1\r\nHost: {HOST}\r\n");
    let rest = match place.kind {
        Kind::Caddy => "",
        _ => "Content-Length: 1000\r\n\r\ngrant_type=",
    };
    let begun = ["", rest].map(|rest| {
        let connection = place.connect(6, place.front.https);
        let mut connection = tls::open(connection, place.server, None).unwrap();
        connection
            .write_all(format!("{head}{rest}").as_bytes())
            .unwrap();
        connection
    });
    for mut connection in begun {
        let mut answer = Vec::new();
        let ended = connection.read_to_end(&mut answer);
        let is_late = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        let answer = String::from_utf8_lossy(&answer);
        place.expect(
            "an unfinished request",
            !ended.as_ref().is_err_and(is_late),
            &answer,
        );
        place.expect(
            "an unfinished request",
            !answer.starts_with("HTTP/1.1 2"),
            &answer,
        );
    }
}
