use crate::algorithm::Algorithm;
use crate::answers::Answer;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{self, Issuer, NOW, Store, claims, with};

/// The wait for keys is over.
const OVER: Patience = Patience::Over(Subject::Keys);

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
        due.iter().any(|fetch| fetch.subject == Subject::Keys),
        "keys are due"
    );
    guard
        .fetched(0, Subject::Keys, &issuer.jwks(), now)
        .unwrap();
}

fn decide_at(
    guard: &mut Guard,
    target: &str,
    token: Option<&str>,
    patience: Patience,
    now: u64,
) -> Decision {
    let header = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<&[u8]> = header.iter().map(String::as_bytes).collect();
    let request = Request {
        method: b"GET",
        target: target.as_bytes(),
        authorization: &headers,
    };
    guard.set_time(at(now));
    let outcome = guard.decide(request, patience, || now);
    if !matches!(outcome.decision, Decision::Wait { .. }) {
        let effect = guard.effect(outcome.clone());
        guard.count(&effect);
    }
    outcome.decision
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
            };
            let outcome = guard.decide(request, Patience::Left, || NOW);
            match guard.effect(outcome).fate {
                Fate::Pass {
                    withhold_authorization,
                    ..
                } => !withhold_authorization,
                answer => panic!("{answer:?}"),
            }
        };
        assert_eq!(forwards("/healthz"), on_anonymous, "{config}");
        assert_eq!(forwards("/api/x"), on_others, "{config}");
    }
}

/// The configuration changes while the issuer is away.
#[test]
fn a_new_vm_takes_over_the_keys_of_the_others() {
    let (issuer, other) = (Issuer::new(Algorithm::EdDsa), Issuer::new(Algorithm::EdDsa));
    let token = issuer.token(&claims());
    let store = Store::default();
    for config in [fixtures::config(), discovering()] {
        let new = |config: &Value| guard(config).with_shared_data(Box::new(store.clone()));
        let mut first = new(&config);
        first.set_time(at(NOW));
        let document = issuer_metadata("https://lobby.example.com/certs");
        let _ = first.fetched(0, Subject::Metadata, &document, NOW);
        // The last good answer counts.
        for jwks in [&other.jwks(), &issuer.jwks()] {
            first.fetched(0, Subject::Keys, jwks, NOW).unwrap();
        }
        assert!(first.fetched(0, Subject::Keys, b"{}", NOW).is_err());

        let mut changed = config.clone();
        changed["realm"] = json!("changed");
        let mut second = new(&changed);
        assert!(is_allowed(&decide(&mut second, "/api/x", Some(&token))));
        assert_eq!(second.keys_age(NOW + 7), Some(7));
        assert_eq!(second.due(NOW).len(), 1, "keys are fetched all the same");
        // Keys from elsewhere, and keys of another issuer, are other keys.
        let source = if config["issuers"][0]["jwks"].is_null() {
            "discovery"
        } else {
            "jwks"
        };
        for (place, value) in [("cluster", "c"), ("authority", "a.example")] {
            let mut elsewhere = config.clone();
            elsewhere["issuers"][0][source][place] = json!(value);
            assert!(!new(&elsewhere).has_keys(0), "{place}");
        }
        let mut renamed = config.clone();
        renamed["issuers"][0]["issuer"] = json!("https://lobby.example.com/x");
        assert!(!new(&renamed).has_keys(0));
        // Keys of an algorithm that the new configuration does not accept.
        let mut strict = config.clone();
        strict["issuers"][0]["algorithms"] = json!(["ES256"]);
        assert!(!new(&strict).has_keys(0));
    }
}

/// Without keys, no token is accepted, and no client is told that its token is invalid.
#[test]
fn rfc8725_s3_3_without_keys_requests_wait_and_then_fail() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut guard = guard(&fixtures::config());
    let token = issuer.token(&claims());
    assert_eq!(
        decide(&mut guard, "/api/x", Some(&token)),
        Decision::Wait {
            issuer: 0,
            subject: Subject::Keys
        }
    );
    assert_eq!(guard.due(NOW).len(), 1);
    guard.failed(0, Subject::Keys, None, NOW);
    let over = decide_at(&mut guard, "/api/x", Some(&token), OVER, NOW);
    assert_eq!(over, Decision::Deny(Denial::KeysUnavailable));
    fetch_keys(&mut guard, &issuer, NOW + 1);
    let over = decide_at(&mut guard, "/api/x", Some(&token), OVER, NOW + 1);
    assert!(is_allowed(&over));
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
fn a_rotation_refuses_nothing() {
    let (old, new) = (Issuer::new(Algorithm::EdDsa), Issuer::new(Algorithm::EdDsa));
    let mut guard = ready(&old);
    let old_token = old.token(&claims());
    assert!(is_allowed(&decide(&mut guard, "/api/x", Some(&old_token))));

    let header = with(new.header(), "kid", json!("key-2")).to_string();
    let new_token = new.sign(&header, &claims().to_string());
    let waits = decide_at(
        &mut guard,
        "/api/x",
        Some(&new_token),
        Patience::Left,
        NOW + 10,
    );
    assert_eq!(
        waits,
        Decision::Wait {
            issuer: 0,
            subject: Subject::Keys
        }
    );
    assert_eq!(
        guard.due(NOW + 10).len(),
        1,
        "the fetch comes before its time"
    );
    let both = json!({"keys": [old.jwk("key-1"), new.jwk("key-2")]}).to_string();
    guard
        .fetched(0, Subject::Keys, both.as_bytes(), NOW + 10)
        .unwrap();
    let over = decide_at(&mut guard, "/api/x", Some(&new_token), OVER, NOW + 10);
    assert!(is_allowed(&over));
    guard.take_counts();
    assert!(is_allowed(&decide(&mut guard, "/api/x", Some(&old_token))));
    assert_eq!(
        guard.take_counts().cache_hits,
        1,
        "a key that stays keeps its tokens"
    );

    // The key is retired, so a cached token that it signed is refused.
    guard.due(NOW + 400);
    let only_new = json!({"keys": [new.jwk("key-2")]}).to_string();
    guard
        .fetched(0, Subject::Keys, only_new.as_bytes(), NOW + 400)
        .unwrap();
    let retired = decide_at(&mut guard, "/api/x", Some(&old_token), OVER, NOW + 400);
    assert_eq!(retired, refused(Refusal::KeyUnknown));
}

#[test]
fn a_key_of_the_same_name_with_other_material_is_another_key() {
    let (old, new) = (Issuer::new(Algorithm::EdDsa), Issuer::new(Algorithm::EdDsa));
    let mut guard = ready(&old);
    let token = old.token(&claims());
    assert!(is_allowed(&decide(&mut guard, "/api/x", Some(&token))));
    guard.due(NOW + 301);
    guard
        .fetched(0, Subject::Keys, &new.jwks(), NOW + 301)
        .unwrap();
    assert_eq!(
        decide(&mut guard, "/api/x", Some(&token)),
        refused(Refusal::Signature)
    );
}

#[test]
fn known_keys_outlive_bad_answers() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut guard = ready(&issuer);
    let token = issuer.token(&claims());
    for bad in [
        b"".as_slice(),
        b"<html>",
        b"{}",
        b"{\"keys\":[]}",
        b"{\"keys\":[{\"kty\":\"oct\"}]}",
        b"{\"keys\":1}",
    ] {
        assert!(guard.fetched(0, Subject::Keys, bad, NOW + 301).is_err());
    }
    guard.failed(0, Subject::Keys, None, NOW + 302);
    assert!(is_allowed(&decide(&mut guard, "/api/x", Some(&token))));
    // A key that cannot be looked up does not make the token invalid.
    let header = with(issuer.header(), "kid", json!("key-2")).to_string();
    let unknown = issuer.sign(&header, &claims().to_string());
    let over = decide_at(&mut guard, "/api/x", Some(&unknown), OVER, NOW + 303);
    assert_eq!(over, Decision::Deny(Denial::KeysUnavailable));
}

/// A replica stops while a gateway fetches a new key from it. The request waits for the answer of another replica.
#[test]
fn a_fetch_that_a_stopped_replica_ends_is_repeated_at_once() {
    let (old, new) = (Issuer::new(Algorithm::EdDsa), Issuer::new(Algorithm::EdDsa));
    let mut guard = ready(&old);
    let header = with(new.header(), "kid", json!("key-2")).to_string();
    let token = new.sign(&header, &claims().to_string());
    let decide =
        |guard: &mut Guard, patience, now| decide_at(guard, "/api/x", Some(&token), patience, now);
    let waits = Decision::Wait {
        issuer: 0,
        subject: Subject::Keys,
    };
    assert_eq!(decide(&mut guard, Patience::Left, NOW + 10), waits);
    let first = guard.due(NOW + 10);
    guard.failed(0, Subject::Keys, None, NOW + 11);
    assert!(guard.goes_on(&first[0], false, NOW + 11));
    assert_eq!(guard.due(NOW + 11), first);
    // The second failure is the result.
    guard.failed(0, Subject::Keys, None, NOW + 11);
    assert!(!guard.goes_on(&first[0], false, NOW + 11));
    assert_eq!(guard.due(NOW + 11), []);
    let over = decide(&mut guard, OVER, NOW + 11);
    assert_eq!(over, Decision::Deny(Denial::KeysUnavailable));
    let both = json!({"keys": [old.jwk("key-1"), new.jwk("key-2")]}).to_string();
    guard
        .fetched(0, Subject::Keys, both.as_bytes(), NOW + 13)
        .unwrap();
    assert!(!guard.goes_on(&first[0], true, NOW + 13));
    assert!(is_allowed(&decide(&mut guard, OVER, NOW + 13)));
}

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
    let since = guard.feeds[0].feed.position;
    let position = since + entries.len() as u64;
    let page = json!({"feed": "A", "since": since, "position": position, "more": false, "revocations": entries});
    let page = page.to_string();
    guard
        .fetched(0, Subject::Revocations, page.as_bytes(), now)
        .unwrap();
}

fn grant_revoked() -> Value {
    json!({"kind": "grant", "id": "grant-1", "at": NOW, "exp": NOW + 3600})
}

#[test]
fn a_revoked_token_is_refused_cached_or_not() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut guard = ready_with(&with_feed("deny"), &issuer);
    feed(&mut guard, &[], NOW);
    let token = issuer.token(&claims());
    assert!(is_allowed(&decide(&mut guard, "/api/x", Some(&token))));
    feed(&mut guard, &[grant_revoked()], NOW + 2);
    for _ in 0..2 {
        let decision = decide_at(&mut guard, "/api/x", Some(&token), Patience::Left, NOW + 2);
        assert_eq!(decision, refused(Refusal::Revoked));
    }
    let due = guard.due(NOW + 4);
    let paths: Vec<&str> = due
        .iter()
        .map(|fetch| fetch.endpoint.path.as_str())
        .collect();
    assert_eq!(paths, ["/revocations?version=2&feed=A&since=1"]);
}

#[test]
fn a_lost_feed_does_what_was_configured() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let token = issuer.token(&claims());
    let over = Patience::Over(Subject::Revocations);
    for (when_stale, expected) in [("deny", false), ("allow", true)] {
        let mut guard = ready_with(&with_feed(when_stale), &issuer);
        let first = decide_at(&mut guard, "/api/x", Some(&token), over, NOW);
        assert_eq!(is_allowed(&first), expected, "never read, {when_stale}");
        feed(&mut guard, &[], NOW);
        let fresh = decide_at(&mut guard, "/api/x", Some(&token), over, NOW + 60);
        assert!(is_allowed(&fresh));
        let stale = decide_at(&mut guard, "/api/x", Some(&token), over, NOW + 61);
        assert_eq!(is_allowed(&stale), expected, "stale, {when_stale}");
        if !expected {
            assert_eq!(stale, Decision::Deny(Denial::RevocationsUnavailable));
        }
    }
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
fn rfc9728_metadata_is_answered_and_pointed_to() {
    let mut config = fixtures::config();
    config["protected_resource"] =
        json!({"resource": "https://api.example.com/v1", "scopes_supported": ["projects"]});
    let mut guard = ready_with(&config, &Issuer::new(Algorithm::EdDsa));
    let Decision::Answer(answer) =
        decide(&mut guard, "/.well-known/oauth-protected-resource/v1", None)
    else {
        panic!("the filter answers");
    };
    assert_eq!(answer.status, 200);
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(
        body,
        json!({
            "resource": "https://api.example.com/v1",
            "authorization_servers": ["https://lobby.example.com"],
            "bearer_methods_supported": ["header"],
            "scopes_supported": ["projects"],
        })
    );
    let other = decide(&mut guard, "/.well-known/oauth-protected-resource", None);
    assert_eq!(other, Decision::Deny(Denial::NoRule));
    let Fate::Answer(refusal) = guard.effect(Denial::NoToken.into()).fate else {
        panic!("refused");
    };
    let pointer =
        "resource_metadata=\"https://api.example.com/.well-known/oauth-protected-resource/v1\"";
    assert!(
        refusal
            .headers
            .iter()
            .any(|(_, value)| value.contains(pointer))
    );
}

/// Returns the answer to a request for the metadata of `resource`. One of the two issuers has no metadata of
/// its own.
fn metadata(resource: &str, method: &str, target: &str) -> Option<Answer> {
    let mut config = fixtures::config();
    let mut other = config["issuers"][0].clone();
    other["issuer"] = json!("https://legacy.example.com");
    other["authorization_server"] = json!(false);
    config["issuers"].as_array_mut().unwrap().push(other);
    config["protected_resource"] = json!({ "resource": resource });
    let mut guard = guard(&config);
    let request = Request {
        method: method.as_bytes(),
        target: target.as_bytes(),
        authorization: &[],
    };
    let outcome = guard.decide(request, Patience::Left, || NOW);
    match outcome.decision {
        Decision::Answer(answer) => Some(answer),
        _ => None,
    }
}

#[test]
fn rfc9728_s3_1_metadata_is_found_with_and_without_a_final_slash() {
    const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
    for (resource, path) in [
        ("https://api.example.com", ""),
        ("https://api.example.com/", ""),
        ("https://api.example.com/v1", "/v1"),
        ("https://api.example.com/v1/", "/v1"),
        ("http://[::1]:8080/a/b.c", "/a/b.c"),
    ] {
        for method in ["GET", "HEAD"] {
            for end in ["", "/", "?x=1", "/?x=1"] {
                let target = format!("{WELL_KNOWN}{path}{end}");
                let answer = metadata(resource, method, &target);
                let answer = answer.unwrap_or_else(|| panic!("{method} {target} of {resource}"));
                assert_eq!(answer.status, 200);
                let body: Value = serde_json::from_str(&answer.body).unwrap();
                assert_eq!(body["resource"], resource);
            }
        }
        for target in [
            format!("{WELL_KNOWN}{path}//"),
            format!("{WELL_KNOWN}{path}/x"),
        ] {
            assert_eq!(metadata(resource, "GET", &target), None, "{target}");
        }
        assert_eq!(
            metadata(resource, "POST", &format!("{WELL_KNOWN}{path}")),
            None
        );
    }
}

#[test]
fn rfc9728_s2_only_servers_with_metadata_are_listed() {
    let target = "/.well-known/oauth-protected-resource";
    let answer = metadata("https://api.example.com", "GET", target).unwrap();
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(
        body["authorization_servers"],
        json!(["https://lobby.example.com"])
    );
    let mut config = fixtures::config();
    config["issuers"][0]["authorization_server"] = json!(false);
    config["protected_resource"] = json!({"resource": "https://api.example.com"});
    let Decision::Answer(answer) = decide(&mut guard(&config), target, None) else {
        panic!("the filter answers");
    };
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(
        body.get("authorization_servers"),
        None,
        "no server, no member"
    );
}

/// An attacker's unknown keys cause fetches, but each of these logs only what the one before did not.
#[test]
fn unusable_keys_are_remarked_once() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut guard = guard(&fixtures::config());
    let set = |others: &[Value]| {
        let keys = [&[issuer.jwk("key-1")], others].concat();
        json!({ "keys": keys }).to_string()
    };
    let (none, one, other) = (
        json!({"kty": "oct"}),
        json!({"kid": "x", "use": "enc"}),
        json!({}),
    );
    let mut fetch = |body: String| {
        let remarks = guard.fetched(0, Subject::Keys, body.as_bytes(), NOW);
        remarks.unwrap().concat()
    };
    assert_eq!(fetch(set(&[])), "");
    assert_eq!(
        fetch(set(std::slice::from_ref(&none))),
        "1 key cannot be used: key 1: it has no kid"
    );
    for _ in 0..3 {
        assert_eq!(fetch(set(std::slice::from_ref(&none))), "");
    }
    let two = "2 keys cannot be used: key 1: not for signatures; key 2: it has no kid";
    assert_eq!(fetch(set(&[one.clone(), other.clone()])), two);
    assert_eq!(fetch(set(&[one, other])), "");
    assert_eq!(fetch(set(&[])), "all keys can be used now");
    assert_eq!(fetch(set(&[])), "");
}

#[test]
fn a_fetch_takes_over_the_keys_that_it_finds_again() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut guard = ready(&issuer);
    let key = |guard: &Guard| Rc::clone(guard.issuers[0].keys.get(Issuer::KID).unwrap());
    let before = key(&guard);
    guard
        .fetched(0, Subject::Keys, &issuer.jwks(), NOW + 301)
        .unwrap();
    assert!(Rc::ptr_eq(&before, &key(&guard)));
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

/// After a backup, a revocation, a restore and another revocation, the same position has a new meaning. A
/// cached token is looked up again.
#[test]
fn a_cached_token_does_not_survive_a_position_that_repeats() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut guard = ready_with(&with_feed("deny"), &issuer);
    let page = |feed: &str, entries: Value| {
        json!({"feed": feed, "since": 0, "position": 1, "more": false, "holds": false, "revocations": entries}).to_string()
    };
    let entry = |id: &str| json!([{"kind": "grant", "id": id, "at": NOW, "exp": NOW + 3600}]);
    let read = |guard: &mut Guard, page: String, now| {
        guard.set_time(at(now));
        guard.due(now);
        guard
            .fetched(0, Subject::Revocations, page.as_bytes(), now)
            .unwrap();
    };
    read(&mut guard, page("A", entry("another grant")), NOW);
    let token = issuer.token(&claims());
    assert!(is_allowed(&decide(&mut guard, "/api/x", Some(&token))));
    read(&mut guard, page("B", entry("grant-1")), NOW + 2);
    assert_eq!(
        decide(&mut guard, "/api/x", Some(&token)),
        refused(Refusal::Revoked)
    );
}

/// Up to the last second in which the token's expiry is tolerated.
#[test]
fn a_revoked_token_does_not_come_back_within_the_clock_skew() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut config = with_feed("allow");
    config["clock_skew_seconds"] = json!(300);
    let mut guard = ready_with(&config, &issuer);
    feed(&mut guard, &[grant_revoked()], NOW);
    let token = issuer.token(&claims());
    for now in NOW + 3590..NOW + 3900 {
        guard.set_time(at(now));
        (0..100).for_each(|_| guard.sweep());
        feed(&mut guard, &[], now);
        let decision = decide_at(&mut guard, "/api/x", Some(&token), Patience::Left, now);
        assert_eq!(decision, refused(Refusal::Revoked), "{}", now - NOW);
    }
    let decision = decide_at(
        &mut guard,
        "/api/x",
        Some(&token),
        Patience::Left,
        NOW + 3900,
    );
    assert_eq!(decision, refused(Refusal::Expired));
}

/// With more revocations than the table holds, cached tokens that may be revoked are refused with a reason of
/// their own, and new tokens are accepted.
#[test]
fn a_full_table_refuses_old_tokens_and_no_new_ones() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut config = with_feed("deny");
    config["issuers"][0]["revocations"]["max_entries"] = json!(1000);
    let mut guard = ready_with(&config, &issuer);
    feed(&mut guard, &[], NOW);
    let old = issuer.token(&claims());
    let fresh = with(with(claims(), "iat", json!(NOW)), "exp", json!(NOW + 7200));
    let fresh = issuer.token(&with(fresh, "jti", json!("token-2")));
    for token in [&old, &fresh] {
        assert!(is_allowed(&decide(&mut guard, "/api/x", Some(token))));
    }
    for page in 0..2 {
        let entry = |number| {
            let exp = NOW + 3600 + page * 1000 + number;
            json!({"kind": "token", "id": format!("{page} {number}"), "at": NOW, "exp": exp})
        };
        let entries: Vec<Value> = (1..1000).map(entry).collect();
        feed(&mut guard, &entries, NOW);
    }
    assert_eq!(
        decide(&mut guard, "/api/x", Some(&old)),
        refused(Refusal::Folded)
    );
    assert!(is_allowed(&decide(&mut guard, "/api/x", Some(&fresh))));
    let counts = guard.take_counts();
    assert!(counts.revocations_folded > 900);
    assert_eq!(guard.folding_feeds(), 1);
    let remarks = guard.take_remarks();
    assert_eq!(remarks.len(), 1, "{remarks:?}");
    assert!(remarks[0].1.contains("max_entries"));
}

/// Several issuers of one token service share one feed: one request, one table.
#[test]
fn issuers_with_the_same_endpoint_share_a_feed() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut config = with_feed("deny");
    let mut second = config["issuers"][0].clone();
    second["issuer"] = json!("https://us1.legacy.example");
    config["issuers"].as_array_mut().unwrap().push(second);
    let mut guard = guard(&config);
    guard.set_time(at(NOW));
    let due = guard.due(NOW);
    let feeds = due
        .iter()
        .filter(|fetch| fetch.subject == Subject::Revocations);
    assert_eq!(feeds.count(), 1);
    for index in [0, 1] {
        guard
            .fetched(index, Subject::Keys, &issuer.jwks(), NOW)
            .unwrap();
    }
    let legacy = issuer.token(&with(claims(), "iss", json!("https://us1.legacy.example")));
    let waits = decide(&mut guard, "/api/x", Some(&legacy));
    assert_eq!(
        waits,
        Decision::Wait {
            issuer: 0,
            subject: Subject::Revocations
        }
    );
    let user = json!({"feed": "A", "since": 0, "position": 1, "more": false, "holds": false, "revocations": [
        {"kind": "user", "id": "ada@example.com", "iss": "https://us1.legacy.example", "at": NOW, "exp": NOW + 3600},
    ]});
    guard
        .fetched(0, Subject::Revocations, user.to_string().as_bytes(), NOW)
        .unwrap();
    assert_eq!(
        decide(&mut guard, "/api/x", Some(&legacy)),
        refused(Refusal::Revoked)
    );
    let other = issuer.token(&claims());
    assert!(is_allowed(&decide(&mut guard, "/api/x", Some(&other))));
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

/// The due fetches, as subject and path.
fn due_paths(guard: &mut Guard, now: u64) -> Vec<(Subject, String)> {
    let due = guard.due(now).into_iter();
    due.map(|fetch| (fetch.subject, fetch.endpoint.path))
        .collect()
}

const DOCUMENT: &str = "/.well-known/openid-configuration";

#[test]
fn discovered_keys_are_fetched_after_the_metadata() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut guard = guard(&discovering());
    let token = issuer.token(&claims());
    let waits = Decision::Wait {
        issuer: 0,
        subject: Subject::Keys,
    };
    assert_eq!(decide(&mut guard, "/api/x", Some(&token)), waits);
    let due = guard.due(NOW);
    let [fetch] = due.as_slice() else {
        panic!("{due:?}");
    };
    assert_eq!(
        (
            fetch.endpoint.path.as_str(),
            fetch.endpoint.authority.as_str()
        ),
        (DOCUMENT, "lobby.example.com")
    );
    assert_eq!(
        fetch.source(),
        (0, Subject::Keys),
        "who needs keys waits for it"
    );
    assert!(!guard.goes_on(fetch, false, NOW));
    let document = issuer_metadata("https://lobby.example.com/certs");
    guard.fetched(0, Subject::Metadata, &document, NOW).unwrap();
    assert!(guard.goes_on(fetch, true, NOW));
    assert_eq!(
        due_paths(&mut guard, NOW),
        [(Subject::Keys, "/certs".to_owned())]
    );
    guard
        .fetched(0, Subject::Keys, &issuer.jwks(), NOW)
        .unwrap();
    assert!(is_allowed(&decide(&mut guard, "/api/x", Some(&token))));

    // For an unknown key, the guard fetches the keys from the known address. When the time is over, it fetches
    // the metadata again.
    let header = with(issuer.header(), "kid", json!("key-2")).to_string();
    let unknown = issuer.sign(&header, &claims().to_string());
    let later = decide_at(
        &mut guard,
        "/api/x",
        Some(&unknown),
        Patience::Left,
        NOW + 10,
    );
    assert_eq!(later, waits);
    assert_eq!(
        due_paths(&mut guard, NOW + 10),
        [(Subject::Keys, "/certs".to_owned())]
    );
    guard
        .fetched(0, Subject::Keys, &issuer.jwks(), NOW + 10)
        .unwrap();
    assert_eq!(
        due_paths(&mut guard, NOW + 310),
        [(Subject::Metadata, DOCUMENT.to_owned())]
    );
    let moved = issuer_metadata("https://lobby.example.com/moved");
    guard
        .fetched(0, Subject::Metadata, &moved, NOW + 310)
        .unwrap();
    assert_eq!(
        due_paths(&mut guard, NOW + 310),
        [(Subject::Keys, "/moved".to_owned())]
    );
}

#[test]
fn metadata_that_cannot_be_used_leads_nowhere() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut guard = guard(&discovering());
    guard.due(NOW);
    let elsewhere = issuer_metadata("https://evil.example/certs");
    assert!(
        guard
            .fetched(0, Subject::Metadata, &elsewhere, NOW)
            .is_err()
    );
    assert_eq!(
        due_paths(&mut guard, NOW),
        [(Subject::Metadata, DOCUMENT.to_owned())]
    );
    guard.failed(0, Subject::Metadata, None, NOW);
    assert_eq!(due_paths(&mut guard, NOW + 1), []);
    assert_eq!(
        due_paths(&mut guard, NOW + 2),
        [(Subject::Metadata, DOCUMENT.to_owned())]
    );

    // After the keys were found, the guard fetches them from the same address until the metadata is valid
    // again.
    let good = issuer_metadata("https://lobby.example.com/certs");
    guard.fetched(0, Subject::Metadata, &good, NOW + 2).unwrap();
    guard.due(NOW + 2);
    guard
        .fetched(0, Subject::Keys, &issuer.jwks(), NOW + 2)
        .unwrap();
    for (now, bad) in [(NOW + 302, Some(&elsewhere)), (NOW + 604, None)] {
        assert_eq!(
            due_paths(&mut guard, now),
            [(Subject::Metadata, DOCUMENT.to_owned())]
        );
        match bad {
            Some(body) => drop(guard.fetched(0, Subject::Metadata, body, now).unwrap_err()),
            None => guard.failed(0, Subject::Metadata, None, now),
        }
        assert_eq!(
            due_paths(&mut guard, now),
            [(Subject::Keys, "/certs".to_owned())]
        );
        guard
            .fetched(0, Subject::Keys, &issuer.jwks(), now)
            .unwrap();
    }
}

fn introspecting(when_unavailable: &str) -> Value {
    with_members(&json!({"introspection": {
        "cluster": "sso", "path": "/introspect", "client_id": "gate way", "client_secret": "s:3",
        "when_unavailable": when_unavailable,
    }}))
}

/// Returns the question that is due.
#[track_caller]
fn question(guard: &mut Guard, now: u64) -> Fetch {
    let mut due = guard.due(now);
    due.retain(|fetch| fetch.subject != Subject::Keys);
    assert_eq!(due.len(), 1, "{due:?}");
    due.remove(0)
}

#[test]
fn rfc7662_a_verified_token_is_asked_about_and_its_answer_counts_for_a_while() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut guard = ready_with(&introspecting("deny"), &issuer);
    let token = issuer.token(&claims());
    let at = |guard: &mut Guard, now| decide_at(guard, "/api/x", Some(&token), Patience::Left, now);
    let waits = at(&mut guard, NOW);
    let asked = question(&mut guard, NOW);
    let Decision::Wait { subject, .. } = waits else {
        panic!("{waits:?}");
    };
    assert_eq!(asked.source(), (0, subject));
    let body = format!("token={token}&token_type_hint=access_token");
    assert_eq!(
        (asked.method(), asked.body()),
        ("POST", Some(body.as_str()))
    );
    // `gate%20way:s%3A3`
    let authorization = ("authorization", "Basic Z2F0ZSUyMHdheTpzJTNBMw==");
    assert!(
        asked.headers().contains(&authorization),
        "{:?}",
        asked.headers()
    );
    let shown = format!("{asked:?} {:?}", guard.config());
    assert!(
        !shown.contains("Basic") && !shown.contains(&token),
        "{shown}"
    );

    guard
        .fetched(0, subject, br#"{"active":true}"#, NOW)
        .unwrap();
    for now in [NOW, NOW + 29] {
        assert!(is_allowed(&at(&mut guard, now)), "{now}");
    }
    assert_eq!(guard.take_counts().cache_hits, 1);
    assert!(matches!(at(&mut guard, NOW + 30), Decision::Wait { .. }));
    let asked = question(&mut guard, NOW + 30);
    guard
        .fetched(0, asked.subject, br#"{"active":false}"#, NOW + 30)
        .unwrap();
    assert_eq!(at(&mut guard, NOW + 30), refused(Refusal::Revoked));
    assert_eq!(at(&mut guard, NOW + 31), refused(Refusal::Revoked));
}

/// A client without a valid signature cannot cause a question.
#[test]
fn only_verified_tokens_are_asked_about() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut guard = ready_with(&introspecting("allow"), &issuer);
    let good = issuer.token(&claims());
    let (signed, _) = good.rsplit_once('.').unwrap();
    let expired = issuer.token(&with(claims(), "exp", json!(NOW - 100)));
    let elsewhere = issuer.token(&with(claims(), "aud", json!("https://other.example.com")));
    for number in 0..100 {
        let forged = format!("{signed}.{}", "A".repeat(80 + number % 6));
        for token in [
            forged.as_str(),
            expired.as_str(),
            elsewhere.as_str(),
            "a.b.c",
        ] {
            let decision = decide(&mut guard, "/api/x", Some(token));
            assert!(
                matches!(decision, Decision::Deny(Denial::Token(_))),
                "{decision:?}"
            );
        }
    }
    assert_eq!(guard.due(NOW), []);
}

#[test]
fn without_an_answer_tokens_are_refused_or_accepted_as_configured() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let token = issuer.token(&claims());
    for (when_unavailable, is_open) in [("deny", false), ("allow", true)] {
        let mut guard = ready_with(&introspecting(when_unavailable), &issuer);
        decide(&mut guard, "/api/x", Some(&token));
        let asked = question(&mut guard, NOW);
        guard.failed(0, asked.subject, Some(503), NOW);
        let patience = Patience::Over(asked.subject);
        let over = decide_at(&mut guard, "/api/x", Some(&token), patience, NOW);
        match is_open {
            true => assert!(is_allowed(&over)),
            false => assert_eq!(over, Decision::Deny(Denial::RevocationsUnavailable)),
        }
        // The next answer counts at once.
        let again = decide_at(&mut guard, "/api/x", Some(&token), Patience::Left, NOW + 2);
        assert!(matches!(again, Decision::Wait { .. }), "{again:?}");
        let asked = question(&mut guard, NOW + 2);
        guard
            .fetched(0, asked.subject, br#"{"active":false}"#, NOW + 2)
            .unwrap();
        let known = decide_at(&mut guard, "/api/x", Some(&token), patience, NOW + 2);
        assert_eq!(known, refused(Refusal::Revoked));
    }
}

#[test]
fn a_token_that_cannot_be_introspected_is_refused_and_no_other() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let [bad, good] = ["bad", "good"].map(|jti| issuer.token(&with(claims(), "jti", json!(jti))));
    for when_unavailable in ["deny", "allow"] {
        for body in [
            None,
            Some(b"{\"active\":1}".as_slice()),
            Some(&[b' '; 70_000]),
        ] {
            let mut guard = ready_with(&introspecting(when_unavailable), &issuer);
            decide(&mut guard, "/api/x", Some(&bad));
            let subject = question(&mut guard, NOW).subject;
            match body {
                Some(body) => drop(guard.fetched(0, subject, body, NOW).unwrap_err()),
                None => guard.failed(0, subject, Some(400), NOW),
            }
            for patience in [Patience::Over(subject), Patience::Left] {
                let refused = decide_at(&mut guard, "/api/x", Some(&bad), patience, NOW);
                assert_eq!(refused, Decision::Deny(Denial::RevocationsUnavailable));
            }
            decide(&mut guard, "/api/x", Some(&good));
            let subject = question(&mut guard, NOW).subject;
            let active = guard.fetched(0, subject, br#"{"active":true}"#, NOW);
            active.unwrap();
            assert!(is_allowed(&decide(&mut guard, "/api/x", Some(&good))));
        }
    }
}

/// The wait for keys takes nothing from the wait for what must be known next about the token.
#[test]
fn a_request_that_waited_for_keys_waits_for_the_next_source_too() {
    let (old, new) = (Issuer::new(Algorithm::EdDsa), Issuer::new(Algorithm::EdDsa));
    let header = with(new.header(), "kid", json!("key-2")).to_string();
    let token = new.sign(&header, &claims().to_string());
    let both = json!({"keys": [old.jwk("key-1"), new.jwk("key-2")]}).to_string();
    let waiting = |config: &Value| {
        let mut guard = ready_with(config, &old);
        let waits = decide(&mut guard, "/api/x", Some(&token));
        assert!(matches!(
            waits,
            Decision::Wait {
                subject: Subject::Keys,
                ..
            }
        ));
        guard
            .fetched(0, Subject::Keys, both.as_bytes(), NOW)
            .unwrap();
        let over = Patience::Over(Subject::Keys);
        let waits = decide_at(&mut guard, "/api/x", Some(&token), over, NOW);
        let Decision::Wait { subject, .. } = waits else {
            panic!("{waits:?}");
        };
        (guard, subject)
    };
    for when_unavailable in ["deny", "allow"] {
        let (mut guard, subject) = waiting(&introspecting(when_unavailable));
        assert_eq!(question(&mut guard, NOW).subject, subject);
        guard
            .fetched(0, subject, br#"{"active":false}"#, NOW)
            .unwrap();
        let over = Patience::Over(subject);
        let decision = decide_at(&mut guard, "/api/x", Some(&token), over, NOW);
        assert_eq!(decision, refused(Refusal::Revoked));
    }
    let (mut guard, subject) = waiting(&with_feed("deny"));
    assert_eq!(subject, Subject::Revocations);
    feed(&mut guard, &[], NOW);
    let over = Patience::Over(subject);
    assert!(is_allowed(&decide_at(
        &mut guard,
        "/api/x",
        Some(&token),
        over,
        NOW
    )));
}
