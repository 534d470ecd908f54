//! Revocation and introspection (RFC 7009, RFC 7662): who may, and the feed. The revocation matrix has what each
//! revocation ends.

use serde_json::json;

use crate::api::until;
use crate::support::{
    Browser, Client, INSTALLED, Instance, LEGACY, LEGACY_SECRET, OwnPair, Pkce, Reply, USER_BOUND,
    WEB, get, lobby, pair, shared,
};

fn tokens() -> (String, String) {
    let code = Browser::new(&lobby()).code_for(&WEB, None);
    let reply = WEB.exchange(&lobby(), &code, None);
    (reply.text("access_token"), reply.text("refresh_token"))
}

fn revoke(client: &Client, token: &str) -> Reply {
    client.post(&lobby(), "/auth/revoke", &[("token", token)])
}

fn introspect(client: &Client, token: &str) -> serde_json::Value {
    client
        .post(&lobby(), "/auth/introspect", &[("token", token)])
        .json()
}

/// No client can introspect or revoke another client's tokens.
#[test]
fn rfc7009_s2_2_other_clients_and_nonsense_change_nothing() {
    let (access, refresh) = tokens();
    for token in [access.as_str(), &refresh] {
        // RFC 7009 §2.1: "the request is refused and the client is informed of the error".
        revoke(&USER_BOUND, token).assert_error(400, "invalid_grant");
        revoke(&INSTALLED, token).assert_error(400, "invalid_grant");
    }
    for token in ["x", "a.b.c"] {
        let reply = revoke(&USER_BOUND, token);
        assert_eq!(
            (reply.status, reply.json()),
            (200, json!({})),
            "as JSON (D-32)"
        );
    }
    for token in [access.as_str(), &refresh, "x", "a.b.c"] {
        assert_eq!(introspect(&USER_BOUND, token), json!({"active": false}));
    }
    assert_eq!(introspect(&WEB, &access)["active"], true);
    assert_eq!(WEB.refresh(&lobby(), &refresh).status, 200);
    WEB.post(&lobby(), "/auth/revoke", &[])
        .assert_error(400, "invalid_request");
    WEB.post(&lobby(), "/auth/introspect", &[])
        .assert_error(400, "invalid_request");
    let stranger = Client {
        secret: Some("wrong"),
        ..WEB
    };
    revoke(&stranger, &access).assert_error(401, "invalid_client");
    stranger
        .post(&lobby(), "/auth/introspect", &[("token", &access)])
        .assert_error(401, "invalid_client");
    INSTALLED
        .post(&lobby(), "/auth/introspect", &[("token", &access)])
        .assert_error(401, "invalid_client");
}

fn feed(pair: &OwnPair, query: &str) -> Reply {
    get(
        &format!("{}/revocations{query}", pair.pair.internal_url()),
        &[],
    )
}

fn revoke_at(pair: &OwnPair, token: &str) -> Reply {
    USER_BOUND.post(&pair.lobby(), "/auth/revoke", &[("token", token)])
}

fn metric(pair: &OwnPair, name: &str) -> f64 {
    let text = get(&format!("{}/metrics", pair.pair.internal_url()), &[]).body;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|value| value.trim().parse().ok())
        .unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// A request for the feed that the service holds.
fn held(pair: &OwnPair, query: String) -> std::thread::JoinHandle<Reply> {
    let url = format!("{}/revocations{query}", pair.pair.internal_url());
    let held = std::thread::spawn(move || get(&url, &[]));
    until("the request is held", || {
        metric(pair, "token_service_revocation_feed_held_requests") > 0.0
    });
    held
}

#[test]
fn the_feed_over_http() {
    let mut pair = OwnPair::start(&[]);
    let empty = feed(&pair, "").json();
    let id = empty["feed"].as_str().unwrap().to_owned();
    assert_eq!(id.len(), 22);
    let page = |since: u64, position: u64, revocations: serde_json::Value| {
        json!({
            "feed": id, "since": since, "position": position, "more": false, "holds": true,
            "revocations": revocations,
        })
    };
    assert_eq!(empty, page(0, 0, json!([])));

    let (first, second) = (pair.token(), pair.token());
    assert_eq!(revoke_at(&pair, &first).status, 200);
    let entries = feed(&pair, "?version=1&since=0&wait=20").json()["revocations"].clone();
    let claims = crate::token::claims(&first);
    assert_eq!(entries[0]["kind"], "token");
    assert_eq!(entries[0]["id"], claims["jti"]);
    assert_eq!(entries[0]["exp"], claims["exp"]);
    for query in [
        "?since=0",
        "?version=3",
        "?version=1&feed=another&since=1&wait=20",
        "?version=1&since=9",
    ] {
        assert_eq!(
            feed(&pair, query).json(),
            page(0, 1, entries.clone()),
            "{query}"
        );
    }
    for query in [
        "?since=x",
        "?version=two",
        "?version=0",
        "?version=1&wait=-1",
        "?since=1&since=1",
    ] {
        feed(&pair, query).assert_error(400, "invalid_request");
    }
    // A repeated revocation adds no second entry.
    assert_eq!(revoke_at(&pair, &first).status, 200);
    let query = format!("?version=1&feed={id}&since=1");
    assert_eq!(feed(&pair, &query).json(), page(1, 1, json!([])));

    let waiting = held(&pair, format!("{query}&wait=20"));
    assert_eq!(revoke_at(&pair, &second).status, 200);
    let told = waiting.join().unwrap().json();
    assert_eq!((&told["since"], &told["position"]), (&json!(1), &json!(2)));
    assert_eq!(
        told["revocations"][0]["id"],
        crate::token::claims(&second)["jti"]
    );

    let renewed = pair.json("revocations renew-feed")["feed"].clone();
    assert_ne!(renewed, json!(id));
    let page = feed(&pair, &format!("?version=1&feed={id}&since=2&wait=20")).json();
    assert_eq!((&page["feed"], &page["since"]), (&renewed, &json!(0)));

    let waiting = held(&pair, "?version=1&since=2&wait=20".to_owned());
    pair.pair.stop_token_service();
    let reply = waiting.join().unwrap();
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(reply.json()["holds"], false, "who stops holds nobody");
}

/// One client cannot fill the feed. Revocations that write nothing do not count.
#[test]
fn a_client_that_revokes_too_much_is_told_to_wait() {
    let pair = OwnPair::start(&[("TOKEN_SERVICE__LIMITS__REVOCATIONS_PER_SECOND", "1")]);
    let token = pair.token();
    assert_eq!(revoke_at(&pair, &token).status, 200);
    for _ in 0..10 {
        assert_eq!(revoke_at(&pair, &token).status, 200);
        assert_eq!(revoke_at(&pair, "unknown").status, 200);
    }
    let mut refused = 0;
    while refused < 2 {
        let token = pair.token();
        let reply = revoke_at(&pair, &token);
        if reply.status == 200 {
            continue;
        }
        refused += 1;
        reply.assert_error(429, "temporarily_unavailable");
        let wait = reply.wait().unwrap();
        assert!(wait >= 1, "{wait}");
        let fields = [("token", token.as_str())];
        let reply = USER_BOUND.post(&pair.lobby(), "/auth/introspect", &fields);
        assert_eq!(
            reply.json()["active"],
            true,
            "a refused revocation ends nothing"
        );
    }
    assert!(metric(&pair, "token_service_revocations_refused_total") >= 2.0);
    until("the audit log tells of it", || {
        pair.done("audit").contains("revocations_limited")
    });
    let audit = pair.done("audit");
    assert_eq!(audit.matches("revocations_limited").count(), 1, "{audit}");
}

/// Anybody can be a public client, so one user could use up the limit. The other users still sign out: revoking a refresh
/// token ends its grant and does not count.
#[test]
fn one_user_of_a_public_client_keeps_nobody_from_signing_out() {
    let pair = OwnPair::start(&[("TOKEN_SERVICE__LIMITS__REVOCATIONS_PER_SECOND", "1")]);
    let lobby = pair.lobby();
    let pkce = Pkce::of(&"v".repeat(43));
    let tokens = || {
        let code = Browser::new(&lobby).code_for(&INSTALLED, Some(&pkce));
        INSTALLED.exchange(&lobby, &code, Some(&pkce))
    };
    let revoke = |token: &str| INSTALLED.post(&lobby, "/auth/revoke", &[("token", token)]);
    let other = tokens();
    let mut own = tokens();
    let is_used_up = (0..300).any(|_| {
        let status = revoke(&own.text("access_token")).status;
        own = INSTALLED.refresh(&lobby, &own.text("refresh_token"));
        status == 429
    });
    assert!(is_used_up, "access tokens have a limit");
    assert_eq!(revoke(&other.text("refresh_token")).status, 200);
    pair.until_refused(&other.text("access_token"));
    let refreshed = INSTALLED.refresh(&lobby, &other.text("refresh_token"));
    refreshed.assert_error(400, "invalid_grant");
}

/// RFC 7662 §2.1 demands that a client authenticates itself to introspect; RFC 7009 §2.1 lets a public client revoke.
/// Clients of the legacy flow are no exception.
#[test]
fn legacy_clients_introspect_with_their_secret_alone_and_revoke_their_own_tokens() {
    let (access, _) = tokens();
    assert_eq!(
        introspect(&LEGACY_SECRET, &access),
        json!({"active": false})
    );
    LEGACY
        .post(&lobby(), "/auth/introspect", &[("token", &access)])
        .assert_error(401, "invalid_client");
    for client in [LEGACY, LEGACY_SECRET] {
        revoke(&client, &access).assert_error(400, "invalid_grant");
    }
    assert_eq!(introspect(&WEB, &access)["active"], true);

    let us1 = Instance::of(pair());
    let own = us1.exchange(&LEGACY, &us1.code(&LEGACY));
    let refresh = own.text("refresh_token");
    assert_eq!(revoke(&LEGACY, &refresh).status, 200);
    let refreshed = us1.refresh(&LEGACY, &refresh);
    refreshed.assert_error(400, "invalid_grant");
}

/// For some seconds yet, the revocation covers new tokens too: the service issues none, and none that the gateway refuses.
#[test]
fn no_token_is_dead_when_it_is_issued() {
    let pair = shared();
    let site = "https://us1.example.com";
    let account = |id: &str| json!({"user_id": id, "username": "dead", "site": site});
    let accounts = json!([account("77"), account("78")]);
    let user = json!({"username": "dead@example.com", "password": "demo-password-of-dead", "accounts": accounts});
    pair.change("POST", "/users", &user.to_string());
    let client = pair.register("user_bound", json!({"bound_user": "dead@example.com"}));
    let ask_for = |id: &str| {
        let account = [("user_id", id), ("user_site", site)];
        client.token(
            &pair.lobby(),
            &[&[("grant_type", "client_credentials")], &account[..]].concat(),
        )
    };
    let ask = || ask_for("77");
    let user = "/users/dead@example.com";
    for path in [&format!("/clients/{}", client.id), user] {
        let before = ask().text("access_token");
        pair.change("PATCH", path, r#"{"enabled": false}"#);
        pair.change("PATCH", path, r#"{"enabled": true}"#);
        let early = ask();
        early.assert_error(503, "temporarily_unavailable");
        let wait = early.wait().unwrap();
        assert!((1..=16).contains(&wait), "{wait}");
        pair.until_refused(&before);
        until("tokens are issued", || ask().status == 200);
        assert_eq!(pair.call(&ask().text("access_token")), 200, "{path}");
    }
    let linked = format!("{user}/accounts?user_id=77&site={site}");
    pair.change("DELETE", &linked, "");
    pair.change(
        "POST",
        &format!("{user}/accounts"),
        &account("77").to_string(),
    );
    ask().assert_error(503, "temporarily_unavailable");
    assert_eq!(pair.call(&ask_for("78").text("access_token")), 200);
}

/// A cut-off ends what was issued until now, and nothing that is issued after.
#[forms::each]
fn tokens_from_after_a_cut_off_are_valid() {
    let pair = OwnPair::start(&[]);
    for (path, body) in [
        ("/revocations/cut-off", ""),
        ("/keys/rotate", r#"{"immediate": true, "cut_off": true}"#),
    ] {
        let before = pair.token();
        pair.change("POST", path, body);
        let after = pair.token();
        pair.until_refused(&before);
        assert_eq!(pair.call(&after), 200, "{path}");
    }
}
