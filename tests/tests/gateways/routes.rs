//! Routes that a header of `forward` chooses: the guard names the route, never the client.

use tests::gateways::Kind;
use tests::wire;

use super::{Guarded, at_every_gateway, bearer};

/// Replacements in a gateway's file that add a route for the `x-user-id` of the good token and one for a user whom only clients
/// name, as docs/gateways.md says. The resource server gets the name of the route in `x-route`.
const fn changes(kind: Kind) -> &'static [(&'static str, &'static str)] {
    match kind {
        Kind::EnvoyExtAuthz | Kind::EnvoyFilter => &[(
            "                        - match: { prefix: \"/\" }\n",
            r#"                        - match: { prefix: "/", headers: [{ name: x-user-id, string_match: { exact: "1879048402" } }] }
                          request_headers_to_add: [{ header: { key: x-route, value: good } }]
                          route: { cluster: resource-server }
                        - match: { prefix: "/", headers: [{ name: x-user-id, string_match: { exact: "8" } }] }
                          request_headers_to_add: [{ header: { key: x-route, value: eight } }]
                          route: { cluster: resource-server }
                        - match: { prefix: "/" }
"#,
        )],
        Kind::Nginx | Kind::DebianNginx => &[
            (
                "    map $guard_body $refusal {",
                "    map $guard_user_id $route { default \"\"; 1879048402 good; 8 eight; }\n    map $guard_body $refusal {",
            ),
            (
                "            proxy_set_header X-Scope $guard_scope;",
                "            proxy_set_header X-Scope $guard_scope;\n            proxy_set_header X-Route $route;",
            ),
        ],
        Kind::Caddy => &[(
            "\t\t\treverse_proxy 127.0.0.1:8000 {",
            "\t\t\t@good header X-User-Id 1879048402
\t\t\treverse_proxy @good 127.0.0.1:8000 {
\t\t\t\theader_up X-Route good
\t\t\t}
\t\t\t@eight header X-User-Id 8
\t\t\treverse_proxy @eight 127.0.0.1:8000 {
\t\t\t\theader_up X-Route eight
\t\t\t}
\t\t\treverse_proxy 127.0.0.1:8000 {",
        )],
        Kind::Traefik => &[
            (
                "#tls       middlewares: [few-of-one-address, no-forged-identity, client-certificate, token-guard]
      service: resource-server
",
                "    good:
      parentRefs: [api]
      rule: Header(`X-User-Id`, `1879048402`)
      middlewares: [good]
      service: resource-server
    eight:
      parentRefs: [api]
      rule: Header(`X-User-Id`, `8`)
      middlewares: [eight]
      service: resource-server
    other:
      parentRefs: [api]
      rule: PathPrefix(`/`)
      service: resource-server
",
            ),
            (
                "  middlewares:\n    #",
                "  middlewares:
    good:
      headers: { customRequestHeaders: { X-Route: good } }
    eight:
      headers: { customRequestHeaders: { X-Route: eight } }
    #",
            ),
        ],
        Kind::HaProxy => &[(
            "    default_backend resource-server\n",
            "    use_backend good if { req.hdr(x-user-id) 1879048402 }
    use_backend eight if { req.hdr(x-user-id) 8 }
    default_backend resource-server

backend good
    http-request set-header x-route good
    server resource-server 127.0.0.1:8000

backend eight
    http-request set-header x-route eight
    server resource-server 127.0.0.1:8000
",
        )],
    }
}

/// Sends requests that name another user, and returns a line for each that took a wrong route.
fn strays(kind: Kind) -> Vec<String> {
    let guarded = Guarded::start(kind, changes(kind));
    let [good, bare] = [&guarded.tokens.good, &guarded.tokens.bare].map(|token| bearer(token));
    let eight = "X-User-Id: 8\r\n";
    let mut strays = Vec::new();
    for (number, (target, headers, expected)) in [
        ("/api/projects", good.clone(), Some("good")),
        ("/api/projects", format!("{good}{eight}"), Some("good")),
        ("/api/projects", format!("{bare}{eight}"), None),
        ("/public/x", eight.to_owned(), None),
        ("/public/x", format!("{good}{eight}"), None),
        ("/public/x", "X-User-Id: 1879048402\r\n".to_owned(), None),
    ]
    .into_iter()
    .enumerate()
    {
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Test: {number}\r\n{headers}\r\n"
        );
        wire::send(guarded.gateway.port(), &request).unwrap();
        let arrived = guarded.upstream.arrived(&number.to_string());
        let route = arrived.as_ref().map(|arrived| arrived.values("x-route"));
        if route != Some(Vec::from_iter(expected)) {
            let name = kind.name();
            strays.push(format!(
                "{name}: request {number}: {route:?}, not {expected:?}"
            ));
        }
    }
    strays
}

#[test]
fn no_client_chooses_a_route_at_any_gateway() {
    at_every_gateway(strays);
}

#[forms::each]
fn no_client_chooses_a_route_before_the_filter() {
    assert_eq!(strays(Kind::EnvoyFilter), [""; 0]);
}
