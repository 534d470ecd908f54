use std::ops::{Deref, DerefMut};

use ::keys::algorithm::Algorithm;
use ::keys::testing::Issuer;
use serde_json::{Value, json};

use super::*;
use crate::answers::Answer;
use crate::fixtures::{self, NOW, Store, claims, token_of, with};

mod feed;
mod introspection;
mod keys;
mod metadata;
mod possession;

/// What became of a request.
type Seen = Verdict<(), FetchId>;

const PASSES: Seen = Verdict::Accepted(());
const WAITS_FOR_KEYS: Seen = Verdict::Wait((0, FetchKind::Keys));

const fn denied(denial: Denial) -> Seen {
    Verdict::Deny(denial, None)
}

const fn refused(refusal: Refusal) -> Seen {
    denied(Denial::Token(refusal))
}

/// A guard, and its time on both clocks.
struct Tested {
    guard: Guard,
    now: u64,
}

impl Deref for Tested {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}

impl DerefMut for Tested {
    fn deref_mut(&mut self) -> &mut Guard {
        &mut self.guard
    }
}

impl Tested {
    fn new(config: &Value) -> Self {
        let config = Config::parse(config.to_string().as_bytes(), &NoHostVerifier).unwrap();
        Self {
            guard: Guard::new(config),
            now: NOW,
        }
    }

    /// A guard that has fetched its keys.
    fn ready(config: &Value, issuer: &Issuer) -> Self {
        let mut guard = Self::new(config);
        assert!(guard.due().iter().any(|due| due.kind == FetchKind::Keys));
        guard.keys(issuer);
        guard
    }

    fn sharing(self, store: impl SharedData + 'static) -> Self {
        let guard = self.guard.with_shared_data(Box::new(store));
        Self { guard, ..self }
    }

    fn at(&mut self, now: u64) -> &mut Self {
        let (wall, steady) = (now, now);
        self.guard.set_time(Time { wall, steady });
        self.now = now;
        self
    }

    fn due(&mut self) -> Vec<Fetch> {
        self.guard.due(self.now)
    }

    /// The due fetches, as kind and path.
    fn due_paths(&mut self) -> Vec<(FetchKind, String)> {
        let due = self.due().into_iter();
        due.map(|fetch| (fetch.kind, fetch.endpoint.path)).collect()
    }

    fn try_fetch(&mut self, kind: FetchKind, body: impl AsRef<[u8]>) -> Result<String, String> {
        let fetched = self.guard.fetched(0, kind, body.as_ref(), self.now);
        fetched.map(|remarks| remarks.concat())
    }

    #[track_caller]
    fn fetch(&mut self, kind: FetchKind, body: impl AsRef<[u8]>) -> String {
        self.try_fetch(kind, body).unwrap()
    }

    fn keys(&mut self, issuer: &Issuer) {
        self.fetch(FetchKind::Keys, issuer.jwks());
    }

    fn fail(&mut self, kind: FetchKind) {
        self.guard.failed(0, kind, None, self.now);
    }

    /// Reads a page of the feed with these entries.
    fn feed(&mut self, entries: &[Value]) {
        self.at(self.now);
        self.due();
        let since = self.feeds[0].read().position;
        let position = since + entries.len() as u64;
        let page = json!({"feed": "A", "since": since, "position": position, "more": false, "revocations": entries});
        self.fetch(FetchKind::Revocations, page.to_string());
    }

    fn decide(&mut self, request: Request<'_>, patience: Patience) -> Decision {
        let now = self.now;
        let decision = self.at(now).guard.decide(request, patience, || now);
        if let Decision::Now(effect) = &decision {
            self.guard.count(effect);
        }
        decision
    }

    #[track_caller]
    fn effect(&mut self, request: Request<'_>) -> Effect {
        match self.decide(request, Patience::Left) {
            Decision::Now(effect) => effect,
            waits => panic!("{waits:?}"),
        }
    }

    fn see(&mut self, request: Request<'_>, patience: Patience) -> Seen {
        match self.decide(request, patience) {
            Decision::After(source) => Verdict::Wait(source),
            Decision::Now(Effect { fate, denial, .. }) => match denial {
                Some(denial) => denied(denial),
                None if matches!(fate, Fate::Pass { .. }) => PASSES,
                None => panic!("{fate:?}"),
            },
        }
    }

    fn bare(&mut self, target: &str) -> Seen {
        self.see(get(target, &[]), Patience::Left)
    }

    fn get(&mut self, target: &str, token: &str) -> Seen {
        let header = format!("Bearer {token}");
        self.see(get(target, &[header.as_bytes()]), Patience::Left)
    }

    fn send(&mut self, token: &str) -> Seen {
        self.get("/api/x", token)
    }

    /// The wait for a fetch of this kind is over.
    fn send_after(&mut self, kind: FetchKind, token: &str) -> Seen {
        let header = format!("Bearer {token}");
        self.see(get("/api/x", &[header.as_bytes()]), Patience::Over(kind))
    }
}

fn get<'a>(target: &'a str, authorization: &'a [&'a [u8]]) -> Request<'a> {
    Request {
        method: b"GET",
        target: target.as_bytes(),
        authorization,
        dpop: &[],
        connection: &None,
    }
}

#[track_caller]
fn answer(effect: Effect) -> Answer {
    match effect.fate {
        Fate::Answer(answer) => answer,
        pass => panic!("{pass:?}"),
    }
}

#[track_caller]
fn authorization(effect: Effect) -> Authorization {
    match effect.fate {
        Fate::Pass { authorization, .. } => authorization,
        answer => panic!("{answer:?}"),
    }
}

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let mut headers = answer.headers.iter();
    headers.find_map(|(of, value)| (*of == name).then_some(value.as_str()))
}

#[track_caller]
fn challenge(answer: &Answer) -> &str {
    header(answer, "www-authenticate").unwrap()
}

/// The keys of two issuers.
fn both(old: &Issuer, new: &Issuer) -> String {
    json!({"keys": [old.jwk("key-1"), new.jwk("key-2")]}).to_string()
}

fn issuer() -> Issuer {
    Issuer::new(Algorithm::EdDsa)
}

/// A guard with its keys, their issuer, and a token.
fn ready() -> (Tested, Issuer, String) {
    ready_with(&fixtures::config())
}

fn ready_with(config: &Value) -> (Tested, Issuer, String) {
    let issuer = issuer();
    let token = issuer.token(&claims());
    (Tested::ready(config, &issuer), issuer, token)
}

#[test]
fn a_good_token_lets_in_with_its_claims() {
    let (mut guard, _, token) = ready();
    let authorization = format!("Bearer {token}");
    for _ in 0..3 {
        let effect = guard.effect(get("/api/projects", &[authorization.as_bytes()]));
        let Fate::Pass { add, .. } = effect.fate else {
            panic!("a good token");
        };
        let headers = [("x-client-id", "web"), ("x-user-id", "1879048401")];
        assert_eq!(
            *add,
            headers.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }
    let Counts {
        allowed,
        cache_hits,
        cache_misses,
        ..
    } = guard.take_counts();
    assert_eq!((allowed, cache_hits, cache_misses), (3, 2, 1));
}

#[test]
fn what_needs_no_token_and_what_nobody_may() {
    let (mut guard, ..) = ready();
    for (target, seen) in [
        ("/healthz", PASSES),
        ("/other", denied(Denial::NoRule)),
        ("/api/../healthz", denied(Denial::Path)),
        ("/api/x", denied(Denial::NoToken)),
        ("/api/x?access_token=a", denied(Denial::NoToken)),
    ] {
        assert_eq!(guard.bare(target), seen, "{target}");
    }
    assert_eq!(guard.send("a.b.c"), refused(Refusal::Malformed));
    let two = guard.get("/api/x?y=1&access_token=a", "a.b.c");
    assert_eq!(two, denied(Denial::TwoTokens));
}

#[test]
fn scopes_are_needed_on_every_request() {
    let (mut guard, issuer, token) = ready();
    let lacks = denied(Denial::Scope(vec!["admin".into()]));
    assert_eq!(guard.get("/api/admin/x", &token), lacks);
    assert_eq!(guard.send(&token), PASSES);
    assert_eq!(guard.get("/api/admin/x", &token), lacks);
    let admin = issuer.token(&with(claims(), "scope", json!("projects admin")));
    assert_eq!(guard.get("/api/admin/x", &admin), PASSES);
}

/// RFC 9470.
#[test]
fn a_path_asks_how_and_when_the_person_signed_in() {
    let mut config = fixtures::config();
    config["rules"].as_array_mut().unwrap().extend([
        json!({"path_prefix": "/strong", "scopes": ["projects"], "acr": "urn:mfa", "amr": ["pwd", "otp"]}),
        json!({"path_prefix": "/recent/", "max_age": 300}),
        json!({"path": "/recent/money", "acr": "urn:mfa", "max_age": 60}),
    ]);
    let skew = 5;
    let (mut guard, issuer, _) = ready_with(&config);
    let token = |members: Value| {
        let mut all = claims();
        let members = members.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(members);
        issuer.token(&all)
    };
    let two = json!({"acr": "urn:mfa", "amr": ["otp", "pwd", "x"]});
    for (path, members, passes) in [
        ("/strong", two.clone(), true),
        ("/strong", json!({"acr": "urn:mfa", "amr": ["pwd"]}), false),
        ("/strong", json!({"amr": ["otp", "pwd"]}), false),
        ("/strong", json!({}), false),
        ("/recent/x", json!({"auth_time": NOW - 300 - skew}), true),
        ("/recent/x", json!({"auth_time": NOW - 301 - skew}), false),
        ("/recent/x", json!({"auth_time": NOW + skew}), true),
        ("/recent/x", json!({"auth_time": NOW + skew + 1}), false),
        ("/recent/x", json!({"auth_time": u64::MAX}), false),
        ("/recent/x", json!({"auth_time": NOW.to_string()}), false),
        ("/recent/x", json!({}), false),
        ("/recent/money", json!({"auth_time": NOW}), false),
        (
            "/recent/money",
            json!({"auth_time": NOW, "acr": "urn:mfa"}),
            true,
        ),
    ] {
        let token = token(members);
        // The second decision comes from the cache.
        for _ in 0..2 {
            let seen = guard.get(path, &token);
            let is_denied = matches!(&seen, Verdict::Deny(Denial::SignIn(_), _));
            assert!(seen == PASSES || is_denied, "{path}: {seen:?}");
            assert_eq!(seen == PASSES, passes, "{path}");
            assert_eq!(guard.send(&token), PASSES);
        }
    }
    // A token in the cache grows too old.
    let aging = token(json!({"auth_time": NOW}));
    assert_eq!(guard.get("/recent/x", &aging), PASSES);
    guard.at(NOW + 301 + skew);
    assert_ne!(guard.get("/recent/x", &aging), PASSES);
    guard.at(NOW);

    let challenged = |guard: &mut Tested, path: &str, token: &str| {
        let header = format!("Bearer {token}");
        let answer = answer(guard.effect(get(path, &[header.as_bytes()])));
        assert_eq!(answer.status, 401);
        assert!(answer.body.contains("insufficient_user_authentication"));
        challenge(&answer).to_owned()
    };
    let plain = token(json!({}));
    for (path, expected) in [
        ("/strong", ", scope=\"projects\", acr_values=\"urn:mfa\""),
        ("/recent/x", ", max_age=\"300\""),
        ("/recent/money", ", acr_values=\"urn:mfa\", max_age=\"60\""),
    ] {
        let challenge = challenged(&mut guard, path, &plain);
        let start = "Bearer realm=\"api\", error=\"insufficient_user_authentication\", error_description=\"The person must";
        assert!(challenge.starts_with(start), "{challenge}");
        assert!(challenge.ends_with(expected), "{challenge}");
    }
    // A scope is named first: a new sign-in would not bring it.
    let other = token(json!({"scope": "other"}));
    let lacks = denied(Denial::Scope(vec!["projects".into()]));
    assert_eq!(guard.get("/strong", &other), lacks);
    assert_eq!(guard.take_counts().denied["sign_in"] % 2, 0);
}

/// Roles as Entra, Auth0 and Keycloak write them.
#[test]
fn values_of_claims_are_needed_on_every_request() {
    let mut config = fixtures::config();
    config["rules"].as_array_mut().unwrap().extend([
        json!({"path_prefix": "/entra", "claims": [{"claim": "roles", "values": ["a", "b"]}]}),
        json!({"path_prefix": "/auth0/", "claims": [{"claim": "https://example.com/roles", "values": ["a"]}]}),
        json!({"path_prefix": "/keycloak", "scopes": ["projects"], "claims": [
            {"claim": "roles", "within": ["realm_access"], "values": ["a"]},
            {"claim": "tenant", "values": ["t"]},
        ]}),
    ]);
    let (mut guard, issuer, _) = ready_with(&config);
    let token = |members: Value| {
        let mut all = claims();
        let members = members.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(members);
        issuer.token(&all)
    };
    let realm = json!({"roles": ["a"]});
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
            json!({"realm_access": realm, "tenant": "t"}),
            true,
        ),
        (
            "/keycloak",
            json!({"realm_access": realm, "tenant": "u"}),
            false,
        ),
        ("/keycloak", json!({"roles": ["a"], "tenant": "t"}), false),
    ] {
        let token = token(members);
        let expected = if passes {
            PASSES
        } else {
            denied(Denial::ClaimValue)
        };
        // The second decision comes from the cache.
        for _ in 0..2 {
            assert_eq!(guard.get(path, &token), expected, "{path}");
            assert_eq!(guard.send(&token), PASSES);
        }
    }
    // A scope that is missing too is named first, because the client can ask for a scope.
    let without = token(json!({"scope": "other"}));
    let lacks = denied(Denial::Scope(vec!["projects".into()]));
    assert_eq!(guard.get("/keycloak", &without), lacks);
    // Another reading of the path, without the slash, needs both.
    assert_ne!(guard.get("/auth0", &without), PASSES);
}

/// The resource server must not take a token for verified that nobody verified.
#[test]
fn anonymous_paths_withhold_the_authorization_header() {
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
        let (mut guard, _, token) = ready_with(&config);
        let header = format!("Bearer {token}");
        for (target, forwards) in [("/healthz", on_anonymous), ("/api/x", on_others)] {
            let effect = guard.effect(get(target, &[header.as_bytes()]));
            let is_sent = authorization(effect) == Authorization::AsSent;
            assert_eq!(is_sent, forwards, "{target}: {config}");
        }
    }
}

#[test]
fn a_hit_ends_with_the_token() {
    let (mut guard, _, token) = ready();
    let last = NOW + 3600 + 4;
    assert_eq!(guard.send(&token), PASSES);
    assert_eq!(guard.at(last).send(&token), PASSES);
    let after = guard.at(last + 1).send(&token);
    assert_eq!(after, refused(Refusal::Expired));
}

#[test]
fn report_only_lets_through_and_counts() {
    let mut config = fixtures::config();
    config["report_only"] = json!(true);
    let (mut guard, ..) = ready_with(&config);
    let effect = guard.effect(get("/api/x", &[]));
    assert_eq!(effect.denial, Some(Denial::NoToken));
    assert_eq!(effect.name(), "no_token");
    assert!(matches!(effect.fate, Fate::Pass { add, .. } if add.is_empty()));
    let counts = guard.take_counts();
    assert_eq!((counts.reported, counts.allowed), (1, 0));
    assert_eq!(counts.denied.get("no_token"), Some(&1));

    // The refusal also applies in report-only mode.
    let refusal = guard.refusal(Denial::Host, None);
    guard.count(&refusal);
    assert_eq!(answer(refusal).status, 503);
    let counts = guard.take_counts();
    assert_eq!((counts.reported, counts.denied.get("host")), (0, Some(&1)));
}

/// RFC 6750 §3: a client learns the scopes before its first token, not only after a token without them.
#[test]
fn rfc6750_s3_a_401_names_the_scopes_of_the_rule() {
    let issuer = issuer();
    let expired = issuer.token(&with(claims(), "exp", json!(NOW - 600)));
    let expired = format!("Bearer {expired}");
    let expired: &[&[u8]] = &[expired.as_bytes()];
    let mut with_dpop = fixtures::config();
    with_dpop["dpop"] = json!({"origins": ["https://api.example.com"]});
    for (path, sent, ends, scopes) in [
        (
            "/api/admin/x",
            [].as_slice(),
            r#"realm="api", scope="admin""#,
            2,
        ),
        ("/api/admin", &[], r#"realm="api", scope="admin""#, 2),
        ("/api/admin/x", expired, r#"expired", scope="admin""#, 2),
        ("/api/x", &[], r#"realm="api""#, 0),
        ("/api/x", expired, r#"expired""#, 0),
    ] {
        let [plain, both] = [&fixtures::config(), &with_dpop].map(|config| {
            let refusal = answer(Tested::ready(config, &issuer).effect(get(path, sent)));
            assert_eq!(refusal.status, 401);
            challenge(&refusal).to_owned()
        });
        assert!(plain.ends_with(ends), "{path}: {plain}");
        // Both challenges have the scopes.
        assert_eq!(both.matches("scope=\"admin\"").count(), scopes, "{both}");
    }
}

#[test]
fn rfc6750_s3_challenges() {
    const EXPIRED: &str = "Bearer realm=\"api\", error=\"invalid_token\", error_description=\"The access token has expired\"";
    const SCOPE: &str = "Bearer realm=\"api\", error=\"insufficient_scope\", error_description=\"The access token lacks a scope; needed here: a b\", scope=\"a b\"";
    // No scope would help.
    const CLAIM: &str = "Bearer realm=\"api\", error=\"insufficient_scope\", error_description=\"The access token lacks a role or another value that is needed here\"";
    const TWO: &str = "Bearer realm=\"api\", error=\"invalid_request\", error_description=\"Send the access token only in the Authorization header\"";
    let (guard, ..) = ready();
    let scopes = vec!["a".into(), "b".into()];
    for (denial, status, challenge) in [
        (Denial::NoToken, 401, Some("Bearer realm=\"api\"")),
        (Denial::Token(Refusal::Expired), 401, Some(EXPIRED)),
        (Denial::Scope(scopes), 403, Some(SCOPE)),
        (Denial::ClaimValue, 403, Some(CLAIM)),
        (Denial::NoRule, 403, None),
        (Denial::Path, 400, None),
        (Denial::KeysUnavailable, 503, None),
        (Denial::TwoTokens, 400, Some(TWO)),
    ] {
        let refusal = answer(guard.denial(denial, None));
        let found = (refusal.status, header(&refusal, "www-authenticate"));
        assert_eq!(found, (status, challenge));
    }
}

#[test]
fn the_bytes_of_the_cache_are_bounded_by_the_configuration() {
    let mut config = fixtures::config();
    config["token_cache_bytes"] = json!(16 * 1024);
    let (mut guard, issuer, _) = ready_with(&config);
    for number in 0..100 {
        let token = issuer.token(&with(claims(), "jti", json!(number.to_string())));
        for _ in 0..2 {
            assert_eq!(guard.send(&token), PASSES);
        }
        assert!(guard.cache_bytes() <= 16 * 1024);
    }
    assert!(guard.cache_bytes() > 8 * 1024);
    assert_eq!(guard.take_counts().cache_hits, 100);
}

#[test]
fn hundreds_of_issuers_are_found_by_name() {
    let issuer = issuer();
    let inline = |name: String| json!({"issuer": name, "audiences": ["https://api.example.com"], "jwks": {"keys": [issuer.jwk("key-1")]}});
    let name = |number| format!("https://{number}.example");
    let mut config = fixtures::config();
    config["issuers"] = (0..300).map(|number| inline(name(number))).collect();
    let mut guard = Tested::new(&config);
    assert_eq!(guard.due(), [], "inline keys are not fetched");
    for (number, seen) in [
        (0, PASSES),
        (150, PASSES),
        (299, PASSES),
        (300, refused(Refusal::Issuer)),
    ] {
        let claims = with(claims(), "iss", json!(name(number)));
        assert_eq!(guard.send(&issuer.token(&claims)), seen);
    }
}

/// The configuration with additional members of its issuer.
fn with_members(members: &Value) -> Value {
    let mut config = fixtures::config();
    let issuer = config["issuers"][0].as_object_mut().unwrap();
    issuer.extend(members.as_object().unwrap().clone());
    issuer.retain(|_, value| !value.is_null());
    config
}

fn with_feed(when_stale: &str) -> Value {
    with_members(&json!({"revocations": {
        "cluster": "internal", "path": "/revocations", "poll_seconds": 2, "max_staleness_seconds": 60,
        "when_stale": when_stale,
    }}))
}
