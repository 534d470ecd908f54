use crate::algorithm::Algorithm;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{self, Issuer, NOW, Store, claims, with};

mod feed;
mod introspection;
mod keys;
mod metadata;
mod possession;

/// The wait for keys is over.
const OVER: Patience = Patience::Over(FetchKind::Keys);

fn guard(config: &Value) -> Guard {
    match Config::parse(config.to_string().as_bytes(), &NoHostVerifier) {
        Ok(config) => Guard::new(config),
        Err(problems) => panic!("{problems:?}"),
    }
}

/// A guard that has fetched its keys.
fn ready(issuer: &Issuer) -> Guard {
    ready_with(&fixtures::config(), issuer)
}

fn ready_with(config: &Value, issuer: &Issuer) -> Guard {
    let mut guard = guard(config);
    fetch_keys(&mut guard, issuer, NOW);
    guard
}

/// Both clocks at the same time.
fn at(now: u64) -> Time {
    Time {
        wall: now,
        steady: now,
    }
}

fn fetch_keys(guard: &mut Guard, issuer: &Issuer, now: u64) {
    let due = guard.due(now);
    assert!(
        due.iter().any(|fetch| fetch.kind == FetchKind::Keys),
        "keys are due"
    );
    guard
        .fetched(0, FetchKind::Keys, &issuer.jwks(), now)
        .unwrap();
}

fn decide_at(
    guard: &mut Guard,
    target: &str,
    token: Option<&str>,
    patience: Patience,
    now: u64,
) -> Decision {
    outcome_at(guard, target, token, patience, now).decision
}

fn outcome_at(
    guard: &mut Guard,
    target: &str,
    token: Option<&str>,
    patience: Patience,
    now: u64,
) -> Outcome {
    let header = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<&[u8]> = header.iter().map(String::as_bytes).collect();
    let request = Request {
        method: b"GET",
        target: target.as_bytes(),
        authorization: &headers,
        dpop: &[],
        connection: &None,
    };
    guard.set_time(at(now));
    let outcome = guard.decide(request, patience, || now);
    if !matches!(outcome.decision, Decision::Wait { .. }) {
        let effect = guard.effect(outcome.clone());
        guard.count(&effect);
    }
    outcome
}

fn decide(guard: &mut Guard, target: &str, token: Option<&str>) -> Decision {
    decide_at(guard, target, token, Patience::Left, NOW)
}

fn refused(refusal: Refusal) -> Decision {
    Decision::Deny(Denial::Token(refusal))
}

fn is_allowed(decision: &Decision) -> bool {
    matches!(decision, Decision::Allow(_) | Decision::Anonymous { .. })
}

#[test]
fn a_good_token_lets_in_with_its_claims() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut guard = ready(&issuer);
    let token = issuer.token(&claims());
    for _ in 0..3 {
        let Decision::Allow(headers) = decide(&mut guard, "/api/projects", Some(&token)) else {
            panic!("a good token");
        };
        let expected = [("x-client-id", "web"), ("x-user-id", "1879048401")];
        let mut headers: Vec<(&str, &str)> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        headers.sort_unstable();
        assert_eq!(headers, expected);
    }
    let counts = guard.take_counts();
    assert_eq!(
        (counts.allowed, counts.cache_hits, counts.cache_misses),
        (3, 2, 1)
    );
}

#[test]
fn what_needs_no_token_and_what_nobody_may() {
    let mut guard = ready(&Issuer::new(Algorithm::EdDsa));
    assert!(is_allowed(&decide(&mut guard, "/healthz", None)));
    assert_eq!(
        decide(&mut guard, "/other", None),
        Decision::Deny(Denial::NoRule)
    );
    assert_eq!(
        decide(&mut guard, "/api/../healthz", None),
        Decision::Deny(Denial::Path)
    );
    assert_eq!(
        decide(&mut guard, "/api/x", None),
        Decision::Deny(Denial::NoToken)
    );
    assert_eq!(
        decide(&mut guard, "/api/x", Some("a.b.c")),
        refused(Refusal::Malformed)
    );
    assert_eq!(
        decide(&mut guard, "/api/x?access_token=a", None),
        Decision::Deny(Denial::NoToken)
    );
    let two = decide(&mut guard, "/api/x?y=1&access_token=a", Some("a.b.c"));
    assert_eq!(two, Decision::Deny(Denial::TwoTokens));
}

#[test]
fn scopes_are_needed_on_every_request() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut guard = ready(&issuer);
    let token = issuer.token(&claims());
    let denied = Decision::Deny(Denial::Scope(vec!["admin".into()]));
    assert_eq!(decide(&mut guard, "/api/admin/x", Some(&token)), denied);
    assert!(is_allowed(&decide(&mut guard, "/api/x", Some(&token))));
    assert_eq!(decide(&mut guard, "/api/admin/x", Some(&token)), denied);
    let admin = issuer.token(&with(claims(), "scope", json!("projects admin")));
    assert!(is_allowed(&decide(
        &mut guard,
        "/api/admin/x",
        Some(&admin)
    )));
}

/// Roles as Entra, Auth0 and Keycloak write them.
#[test]
fn values_of_claims_are_needed_on_every_request() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut config = fixtures::config();
    config["rules"].as_array_mut().unwrap().extend([
        json!({"path_prefix": "/entra", "claims": [{"claim": "roles", "values": ["a", "b"]}]}),
        json!({"path_prefix": "/auth0/", "claims": [{"claim": "https://example.com/roles", "values": ["a"]}]}),
        json!({"path_prefix": "/keycloak", "scopes": ["projects"], "claims": [
            {"claim": "roles", "within": ["realm_access"], "values": ["a"]},
            {"claim": "tenant", "values": ["t"]},
        ]}),
    ]);
    let mut guard = ready_with(&config, &issuer);
    let token = |members: Value| {
        let mut all = claims();
        let members = members.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(members);
        issuer.token(&all)
    };
    let denied = Decision::Deny(Denial::ClaimValue);
    for (path, members, passes) in [
        ("/entra", json!({"roles": ["b", "c", "a"]}), true),
        ("/entra", json!({"roles": ["a"]}), false),
        ("/entra", json!({"scope": "a b"}), false),
        (
            "/auth0/x",
            json!({"https://example.com/roles": ["a"]}),
            true,
        ),
        ("/auth0/x", json!({"roles": ["a"]}), false),
        (
            "/keycloak",
            json!({"realm_access": {"roles": ["a"]}, "tenant": "t"}),
            true,
        ),
        (
            "/keycloak",
            json!({"realm_access": {"roles": ["a"]}, "tenant": "u"}),
            false,
        ),
        ("/keycloak", json!({"roles": ["a"], "tenant": "t"}), false),
    ] {
        let token = token(members);
        // The second decision comes from the cache.
        for _ in 0..2 {
            let decision = decide(&mut guard, path, Some(&token));
            assert_eq!(is_allowed(&decision), passes, "{path} {decision:?}");
            assert!(passes || decision == denied);
            assert!(is_allowed(&decide(&mut guard, "/api/x", Some(&token))));
        }
    }
    // A scope that is missing too is named first, because the client can ask for a scope.
    let without = token(json!({"scope": "other"}));
    let decision = decide(&mut guard, "/keycloak", Some(&without));
    assert_eq!(
        decision,
        Decision::Deny(Denial::Scope(vec!["projects".into()]))
    );
    // Another reading of the path, without the slash, needs both.
    let decision = decide(&mut guard, "/auth0", Some(&without));
    assert!(!is_allowed(&decision));
}

/// The resource server must not take a token for verified that nobody verified.
#[test]
fn anonymous_paths_withhold_the_authorization_header() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    for (report_only, of_rule, of_all, on_anonymous, on_others) in [
        (false, None, true, false, true),
        (false, Some(false), true, false, true),
        (false, Some(true), true, true, true),
        (false, Some(true), false, false, false),
        (true, None, true, true, true),
        (true, None, false, false, false),
    ] {
        let mut config = fixtures::config();
        config["report_only"] = json!(report_only);
        config["forward_authorization"] = json!(of_all);
        if let Some(of_rule) = of_rule {
            config["rules"][0]["forward_authorization"] = json!(of_rule);
        }
        let mut guard = ready_with(&config, &issuer);
        let header = format!("Bearer {}", issuer.token(&claims()));
        let mut forwards = |target: &str| {
            let request = Request {
                method: b"GET",
                target: target.as_bytes(),
                authorization: &[header.as_bytes()],
                dpop: &[],
                connection: &None,
            };
            let outcome = guard.decide(request, Patience::Left, || NOW);
            match guard.effect(outcome).fate {
                Fate::Pass { authorization, .. } => authorization == Authorization::AsSent,
                answer => panic!("{answer:?}"),
            }
        };
        assert_eq!(forwards("/healthz"), on_anonymous, "{config}");
        assert_eq!(forwards("/api/x"), on_others, "{config}");
    }
}

#[test]
fn a_hit_ends_with_the_token() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut guard = ready(&issuer);
    let token = issuer.token(&claims());
    let last = NOW + 3600 + 4;
    assert!(is_allowed(&decide(&mut guard, "/api/x", Some(&token))));
    assert!(is_allowed(&decide_at(
        &mut guard,
        "/api/x",
        Some(&token),
        Patience::Left,
        last
    )));
    let after = decide_at(&mut guard, "/api/x", Some(&token), Patience::Left, last + 1);
    assert_eq!(after, refused(Refusal::Expired));
}

#[test]
fn report_only_lets_through_and_counts() {
    let mut config = fixtures::config();
    config["report_only"] = json!(true);
    let mut guard = ready_with(&config, &Issuer::new(Algorithm::EdDsa));
    let decision = decide(&mut guard, "/api/x", None);
    assert_eq!(decision, Decision::Deny(Denial::NoToken));
    let effect = guard.effect(decision.into());
    assert_eq!(effect.name(), "no_token");
    let Fate::Pass { add, .. } = effect.fate else {
        panic!("it goes through");
    };
    assert!(add.is_empty());
    let counts = guard.take_counts();
    assert_eq!((counts.reported, counts.allowed), (1, 0));
    assert_eq!(counts.denied.get("no_token"), Some(&1));

    // The refusal also applies in report-only mode.
    let refusal = guard.refusal(Denial::Host, None);
    assert!(matches!(&refusal.fate, Fate::Answer(answer) if answer.status == 503));
    guard.count(&refusal);
    let counts = guard.take_counts();
    assert_eq!((counts.reported, counts.denied.get("host")), (0, Some(&1)));
}

/// RFC 6750 §3: a client learns the scopes before its first token, not only after a token without them.
#[test]
fn rfc6750_s3_a_401_names_the_scopes_of_the_rule() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let expired = issuer.token(&with(claims(), "exp", json!(NOW - 600)));
    let mut with_dpop = fixtures::config();
    with_dpop["dpop"] = json!({"origins": ["https://api.example.com"]});
    for (path, token, ends) in [
        ("/api/admin/x", None, r#"realm="api", scope="admin""#),
        ("/api/admin", None, r#"realm="api", scope="admin""#),
        ("/api/admin/x", Some(&expired), r#"expired", scope="admin""#),
        ("/api/x", None, r#"realm="api""#),
        ("/api/x", Some(&expired), r#"expired""#),
    ] {
        let challenge = |guard: &mut Guard| {
            let outcome = outcome_at(guard, path, token.map(String::as_str), Patience::Left, NOW);
            let Fate::Answer(answer) = guard.effect(outcome).fate else {
                panic!("it goes through");
            };
            assert_eq!(answer.status, 401);
            let (_, challenge) = answer
                .headers
                .into_iter()
                .find(|(name, _)| *name == "www-authenticate")
                .unwrap();
            challenge
        };
        let plain = challenge(&mut ready(&issuer));
        assert!(plain.ends_with(ends), "{path}: {plain}");
        // Both challenges have the scopes.
        let both = challenge(&mut ready_with(&with_dpop, &issuer));
        let scopes = both.matches("scope=\"admin\"").count();
        assert_eq!(
            scopes,
            if path.starts_with("/api/admin") { 2 } else { 0 },
            "{both}"
        );
    }
}

#[test]
fn rfc6750_s3_challenges() {
    let guard = ready(&Issuer::new(Algorithm::EdDsa));
    let answer = |denial: Denial| match guard.effect(denial.into()).fate {
        Fate::Answer(answer) => {
            let challenge = answer
                .headers
                .iter()
                .find(|(name, _)| *name == "www-authenticate");
            (answer.status, challenge.map(|(_, value)| value.clone()))
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(
        answer(Denial::NoToken),
        (401, Some("Bearer realm=\"api\"".into()))
    );
    let (status, challenge) = answer(Denial::Token(Refusal::Expired));
    let expected = "Bearer realm=\"api\", error=\"invalid_token\", error_description=\"The access token has expired\"";
    assert_eq!((status, challenge.as_deref()), (401, Some(expected)));
    let (status, challenge) = answer(Denial::Scope(vec!["a".into(), "b".into()]));
    assert_eq!(status, 403);
    assert!(challenge.unwrap().ends_with("error=\"insufficient_scope\", error_description=\"The access token lacks a scope; needed here: a b\", scope=\"a b\""));
    // No scope would help.
    let (status, challenge) = answer(Denial::ClaimValue);
    assert_eq!(status, 403);
    assert!(challenge.unwrap().ends_with("error=\"insufficient_scope\", error_description=\"The access token lacks a role or another value that is needed here\""));
    assert_eq!(answer(Denial::NoRule), (403, None));
    assert_eq!(answer(Denial::Path), (400, None));
    assert_eq!(answer(Denial::KeysUnavailable), (503, None));
    let (status, challenge) = answer(Denial::TwoTokens);
    assert_eq!(status, 400);
    assert!(challenge.unwrap().contains("error=\"invalid_request\""));
}

#[test]
fn the_bytes_of_the_cache_are_bounded_by_the_configuration() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut config = fixtures::config();
    config["token_cache_bytes"] = json!(16 * 1024);
    let mut guard = ready_with(&config, &issuer);
    for number in 0..100 {
        let token = issuer.token(&with(claims(), "jti", json!(number.to_string())));
        for _ in 0..2 {
            assert!(is_allowed(&decide(&mut guard, "/api/x", Some(&token))));
        }
        assert!(guard.cache_bytes() <= 16 * 1024);
    }
    assert!(guard.cache_bytes() > 8 * 1024);
    assert_eq!(guard.take_counts().cache_hits, 100);
}

#[test]
fn hundreds_of_issuers_are_found_by_name() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let inline = |name: String| json!({"issuer": name, "audiences": ["https://api.example.com"], "jwks": {"keys": [issuer.jwk("key-1")]}});
    let mut config = fixtures::config();
    config["issuers"] = (0..300)
        .map(|number| inline(format!("https://{number}.example")))
        .collect();
    let mut guard = guard(&config);
    assert_eq!(guard.due(NOW), [], "inline keys are not fetched");
    for number in [0, 150, 299] {
        let claims = with(claims(), "iss", json!(format!("https://{number}.example")));
        assert!(is_allowed(&decide(
            &mut guard,
            "/api/x",
            Some(&issuer.token(&claims))
        )));
    }
    let stranger = with(claims(), "iss", json!("https://300.example"));
    assert_eq!(
        decide(&mut guard, "/api/x", Some(&issuer.token(&stranger))),
        refused(Refusal::Issuer)
    );
}

/// The configuration with additional members of its issuer.
fn with_members(members: &Value) -> Value {
    let mut config = fixtures::config();
    let issuer = config["issuers"][0].as_object_mut().unwrap();
    issuer.extend(members.as_object().unwrap().clone());
    issuer.retain(|_, value| !value.is_null());
    config
}

fn discovering() -> Value {
    with_members(&json!({"jwks": null, "discovery": {"cluster": "sso"}}))
}

fn issuer_metadata(jwks_uri: &str) -> Vec<u8> {
    json!({"issuer": "https://lobby.example.com", "jwks_uri": jwks_uri})
        .to_string()
        .into_bytes()
}

const DOCUMENT: &str = "/.well-known/openid-configuration";

fn with_feed(when_stale: &str) -> Value {
    let mut config = fixtures::config();
    config["issuers"][0]["revocations"] = json!({
        "cluster": "internal", "path": "/revocations", "poll_seconds": 2, "max_staleness_seconds": 60,
        "when_stale": when_stale,
    });
    config
}

/// Reads a page with these entries.
fn feed(guard: &mut Guard, entries: &[Value], now: u64) {
    guard.set_time(at(now));
    guard.due(now);
    let since = guard.feeds[0].read().position;
    let position = since + entries.len() as u64;
    let page = json!({"feed": "A", "since": since, "position": position, "more": false, "revocations": entries});
    let page = page.to_string();
    guard
        .fetched(0, FetchKind::Revocations, page.as_bytes(), now)
        .unwrap();
}
