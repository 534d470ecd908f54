//! The log, and traces for an OpenTelemetry collector.

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::Value;

use crate::api::until;
use crate::support::{
    Browser, CREDENTIALS, Collector, OwnPair, Span, USER_BOUND, WEB, database, form_body, post,
};

/// The spans of the token service for requests with this name.
fn requests<'a>(spans: &'a [Span], name: &'a str) -> impl Iterator<Item = &'a Span> {
    let of_service = spans
        .iter()
        .filter(|span| span.of_resource("service.name") == "token-service");
    of_service.filter(move |span| span.name == name)
}

/// The span of the gateway for the same request.
fn at_gateway<'a>(spans: &'a [Span], request: &Span) -> Option<&'a Span> {
    let parent = spans.iter().find(|span| span.id == request.parent)?;
    assert_eq!(parent.of_resource("service.name"), "gateway");
    Some(parent)
}

fn names_beneath<'a>(spans: &'a [Span], request: &Span) -> Vec<&'a str> {
    let children = spans.iter().filter(|span| span.parent == request.id);
    let names = children.map(|span| {
        assert_eq!(span.trace, request.trace);
        span.name.as_str()
    });
    names.collect()
}

/// The trace context of a client, which no trace may have.
const FORGED: &str = "00-f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0-f0f0f0f0f0f0f0f0-00";

#[test]
fn one_trace_shows_gateway_and_service_and_names_nobody() {
    let postgres = database();
    for (system, store) in [("redb", None), ("postgresql", Some(postgres.url()))] {
        let collector = Collector::start();
        let mut changes = vec![("OTEL_BSP_SCHEDULE_DELAY", "100")];
        changes.extend(store.map(|url| ("TOKEN_SERVICE__STORE__URL", url)));
        let pair = OwnPair::with_traces(&collector, &changes);
        let lobby = pair.pair.lobby_url();
        let headers = [
            ("authorization", USER_BOUND.basic()),
            ("user-agent", "secret-agent".to_owned()),
            ("traceparent", FORGED.to_owned()),
        ];
        let url = format!("{lobby}/auth/token?secret-of-a-query");
        let token = post(&url, &headers, &form_body(&CREDENTIALS)).done();
        Browser::new(&lobby).code_for(&WEB, None);
        let user = pair.administrate("GET", "/users/ada@example.com", "");
        assert_eq!(user.status, 200);
        assert_eq!(Browser::new(&lobby).open("/secret-path").status, 404);

        let complete = |spans: &[Span]| {
            let of_gateway = |name: &'static str| {
                requests(spans, name).any(|request| at_gateway(spans, request).is_some())
            };
            of_gateway("POST /auth/token")
                && of_gateway("POST /auth/sign-in")
                && of_gateway("GET")
                && requests(spans, "GET /admin/users/{username}")
                    .next()
                    .is_some()
        };
        until("all spans arrive", || complete(&collector.spans()));
        let spans = collector.spans();

        let request = requests(&spans, "POST /auth/token").next().unwrap();
        let gateway = at_gateway(&spans, request).unwrap();
        assert_eq!(gateway.kind, SpanKind::Server);
        assert!(gateway.parent.is_empty());
        assert_eq!(gateway.trace, request.trace);
        assert_ne!(request.trace, [0xf0; 16], "a client decides about no trace");
        assert_eq!(request.kind, SpanKind::Server);
        for (name, value) in [
            ("http.request.method", "POST"),
            ("http.response.status_code", "200"),
            ("http.route", "/auth/token"),
            ("url.path", "/auth/token"),
            ("url.scheme", "http"),
            ("request_id", token.header("x-request-id").unwrap()),
            ("request_id", gateway.attribute("guid:x-request-id")),
        ] {
            assert_eq!(request.attribute(name), value, "{name}");
        }
        assert_eq!(
            request.of_resource("service.version"),
            env!("CARGO_PKG_VERSION")
        );
        assert!(!request.of_resource("service.instance.id").is_empty());
        let store = spans.iter().find(|span| span.parent == request.id).unwrap();
        assert_eq!(store.attribute("db.system.name"), system);
        assert_eq!(store.attribute("db.operation.name"), store.name);
        let plain = |letter: char| letter.is_ascii_lowercase() || letter == '_';
        assert!(store.name.chars().all(plain), "{}", store.name);

        let sign_in = requests(&spans, "POST /auth/sign-in").next().unwrap();
        let names = names_beneath(&spans, sign_in);
        assert!(names.contains(&"hash password"), "{names:?}");
        assert!(names.len() > 1, "the store: {names:?}");

        let unknown = requests(&spans, "GET").next().unwrap();
        assert_eq!(unknown.attribute("http.response.status_code"), "404");
        for span in &spans {
            let text = format!("{span:?}").to_ascii_lowercase();
            for word in ["secret-", "ada@", "password-of", "readyz"] {
                assert!(!text.contains(word), "{word} in {text}");
            }
            assert_eq!(span.events, 0, "{text}");
            let root = span.parent.is_empty();
            assert!(!root || span.kind == SpanKind::Server, "{text}");
        }
        let log = pair.pair.end();
        assert!(!log.contains("otel."), "{log}");
    }
}

#[test]
fn a_line_of_the_json_log_names_its_request_once_and_its_reason_in_a_word() {
    let pair = OwnPair::start(&[("TOKEN_SERVICE__LOG_FORMAT", "json")]);
    USER_BOUND
        .token(&pair.pair.lobby_url(), &[("grant_type", "unknown")])
        .assert_error(400, "invalid_grant");
    let log = pair.pair.end();
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let refused: Vec<Value> = lines
        .filter(|line| line["message"] == "request refused")
        .collect();
    let [line] = refused.as_slice() else {
        panic!("{refused:?}");
    };
    assert_eq!(line["endpoint"], "token");
    assert_eq!(line["reason"], "unknown_grant_type");
    assert_eq!(line["span"]["path"], "/auth/token");
    assert!(line.get("spans").is_none(), "{line}");
}
