//! Revocations at issuers without a feed: introspection.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tests::free_port;

use super::gate::{Gate, Kind};
use super::server::Issuer;
use crate::api::until;
use crate::support::{form_body, get, post};

/// The `jti` of each token that Authlib was asked about.
fn introspections(authlib: &Issuer) -> Vec<Value> {
    let reply = get(&format!("{}/introspections", authlib.url()), &[]);
    reply.json().as_array().unwrap().clone()
}

fn revoke(issuer: &Issuer, token: &str) {
    let credentials = STANDARD.encode("web:secret-of-web");
    let headers = [("authorization", format!("Basic {credentials}"))];
    let form = form_body(&[("token", token), ("token_type_hint", "access_token")]);
    let reply = post(&format!("{}/revoke", issuer.url()), &headers, &form);
    assert_eq!(reply.status, 200, "{}", reply.body);
}

/// Authlib's entry in the configuration, with introspection at this port.
fn asked(authlib: &Issuer, port: u16, cache_seconds: u64, when_unavailable: &str) -> Value {
    authlib.configured(&json!({
        "jwks": {"cluster": authlib.cluster(), "path": "/keys"},
        "introspection": {
            "cluster": format!("at-{port}"), "path": "/introspect",
            "client_id": "gate way", "client_secret": "secret:of the gateway",
            "cache_seconds": cache_seconds, "when_unavailable": when_unavailable,
        },
    }))
}

#[test]
fn rfc7662_a_token_that_its_issuer_revoked_is_refused_once_its_answer_is_old() {
    let [brief, long, closed, open] = [0, 1, 2, 3];
    // Each gate gets its own tokens, because a revoked token stays revoked.
    for kind in Kind::ALL {
        let authlib = Issuer::authlib();
        let dead = free_port().unwrap();
        let issuers = [
            asked(&authlib, authlib.port, 1, "deny"),
            asked(&authlib, authlib.port, 600, "deny"),
            asked(&authlib, dead, 1, "deny"),
            asked(&authlib, dead, 1, "allow"),
        ];
        let gate = Gate::start(kind, &issuers, &[authlib.port, dead]);

        // The gate asks once, and only about tokens that pass all other checks.
        let (token, another) = (authlib.token("access"), authlib.token("another"));
        let (signed, _) = token.rsplit_once('.').unwrap();
        let (_, of_another) = another.rsplit_once('.').unwrap();
        gate.refuses(long, &format!("{signed}.{of_another}"), "signature");
        let elsewhere = authlib.token("for_another_audience");
        gate.refuses(long, elsewhere, "another audience");
        assert_eq!(introspections(&authlib), Vec::<Value>::new());
        for _ in 0..5 {
            gate.accepts(long, token);
        }
        assert_eq!(introspections(&authlib).len(), 1);

        gate.accepts(brief, token);
        revoke(&authlib, token);
        until("the revocation is seen", || {
            gate.call(brief, token).status == 401
        });
        gate.refuses(brief, token, "revoked");
        gate.accepts(brief, another);
        // The answer about this token has not expired yet.
        gate.accepts(long, token);

        // The endpoint does not answer: `when_unavailable` decides.
        gate.cannot_tell(closed, token);
        gate.accepts(open, token);
        let log = gate.end();
        assert!(log.contains("introspection"), "{log}");
        assert!(!log.contains(token) && !log.contains("secret"), "{log}");
    }
}

/// The endpoint stops while the gate has cached answers. Each answer counts for `cache_seconds` and no longer, and
/// revoked tokens stay refused with `allow` and with `deny`.
#[test]
fn without_an_endpoint_answers_count_for_their_time() {
    let [long, closed, open] = [0, 1, 2];
    let authlib = Issuer::authlib();
    let issuers = [
        asked(&authlib, authlib.port, 600, "deny"),
        asked(&authlib, authlib.port, 1, "deny"),
        asked(&authlib, authlib.port, 1, "allow"),
    ];
    let gates = Gate::all(&issuers, &[authlib.port]);
    let [active, revoked, unseen] =
        ["access", "another", "third"].map(|name| authlib.token(name).to_owned());
    for gate in &gates {
        for entrance in [long, closed, open] {
            gate.accepts(entrance, &active);
        }
    }
    revoke(&authlib, &revoked);
    for gate in &gates {
        for entrance in [closed, open] {
            gate.refuses(entrance, &revoked, "revoked");
        }
    }
    drop(authlib);
    for gate in &gates {
        until("the answer is old", || {
            gate.call(closed, &active).status == 503
        });
        gate.cannot_tell(closed, &unseen);
        for token in [&active, &unseen] {
            gate.accepts(open, token);
        }
        for entrance in [closed, open] {
            gate.refuses(entrance, &revoked, "revoked");
        }
        gate.accepts(long, &active);
        gate.cannot_tell(long, &unseen);
    }
}

/// Glewlwyd requires a bearer token with the right scope.
#[test]
fn rfc7662_s2_1_a_gateway_may_ask_with_a_bearer_token() {
    let glewlwyd = Issuer::glewlwyd();
    let asked = |bearer: &str| {
        glewlwyd.configured(&json!({
            "discovery": {"cluster": glewlwyd.cluster()},
            "algorithms": ["ES384"],
            "introspection": {
                "cluster": glewlwyd.cluster(), "path": "/api/oidc/introspect",
                "bearer": bearer, "cache_seconds": 1,
            },
        }))
    };
    let introspects = glewlwyd.token("introspects");
    // Without the scope, the endpoint answers nothing about the token.
    let issuers = [asked(introspects), asked(glewlwyd.token("access"))];
    let gates = Gate::all(&issuers, &[glewlwyd.port]);
    let token = glewlwyd.token("access");
    for gate in &gates {
        gate.accepts(0, token);
        gate.cannot_tell(1, token);
        gate.refuses(0, glewlwyd.token("id"), "not an access token");
    }
    revoke(&glewlwyd, token);
    for gate in gates {
        until("the revocation is seen", || {
            gate.call(0, token).status == 401
        });
        gate.refuses(0, token, "revoked");
        let log = gate.end();
        assert!(!log.contains(introspects) && !log.contains(token), "{log}");
    }
}
