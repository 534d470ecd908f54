use keys::signature::NoHostVerifier;
use keys::testing::LeastHost;
use serde_json::json;

use super::*;

mod issuers;

fn problems(config: &Value) -> Vec<String> {
    Config::parse(config.to_string().as_bytes(), &NoHostVerifier)
        .err()
        .unwrap_or_default()
}

fn parsed(config: &Value) -> Config {
    Config::parse(config.to_string().as_bytes(), &NoHostVerifier).unwrap()
}

/// Removes a member of the first issuer.
fn lacks(config: &mut Value, member: &str) {
    let issuer = config["issuers"][0].as_object_mut().unwrap();
    issuer.remove(member).unwrap();
}

/// True if a problem is named with this path.
fn names(problems: &[String], path: &str) -> bool {
    let start = format!("{path}: ");
    problems.iter().any(|problem| problem.starts_with(&start))
}

#[track_caller]
fn only_problem(config: &Value) -> String {
    let problems = problems(config);
    assert_eq!(problems.len(), 1, "{config}: {problems:?}");
    problems.concat()
}

fn example() -> Value {
    json!({
        "issuers": [{
            "issuer": "http://127.0.0.1:8081", "audiences": ["http://127.0.0.1:8080"],
            "jwks": {"cluster": "token-service", "authority": "token-service", "path": "/auth/jwks", "refresh_seconds": 300},
            "revocations": {"cluster": "token-service-internal", "authority": "token-service", "path": "/revocations", "poll_seconds": 2, "max_staleness_seconds": 60, "when_stale": "deny"},
            "algorithms": ["EdDSA", "ES256", "RS256"],
        }],
        "rules": [
            {"path": "/healthz", "access": "anonymous"},
            {"path_prefix": "/api/admin/", "methods": ["POST"], "scopes": ["admin"]},
            {"path_prefix": "/"},
        ],
        "forward": {"x-user-id": "user_id", "x-user-site": "user_site", "x-user-hat": "user_hat", "x-client-id": "client_id", "x-scope": "scope", "x-auth-subject": ["user_id", "sub"]},
        "forward_authorization": true,
        "clock_skew_seconds": 5,
        "token_cache_entries": 10000,
        "realm": "api",
    })
}

#[test]
fn the_example_is_good() {
    let config = parsed(&example());
    assert_eq!(config.issuers[0].algorithms.len(), 3);
    assert_eq!(config.rules.iter().len(), 3);
    assert_eq!(config.forward.len(), 6);
    let claims: Vec<_> = config
        .forward
        .iter()
        .filter(|header| header.name == "x-auth-subject")
        .map(|header| header.claims.as_slice())
        .collect();
    assert_eq!(claims, [["user_id", "sub"]]);
    assert_eq!(config.token_cache_entries, 10_000);
}

#[test]
fn a_slip_in_the_json_is_named_with_line_and_column() {
    let with_quote = "{\n  \"realm\": \"api\"\n  \"rules\": []\n}";
    for (text, problem) in [
        (
            with_quote,
            "not JSON: expected `,` or `}` at line 3 column 3",
        ),
        (
            "{\n  \"rules\": [],\n}",
            "not JSON: trailing comma at line 3 column 1",
        ),
        (
            "{\"realm\": \"api\"",
            "not JSON: EOF while parsing an object at line 1 column 15",
        ),
        ("{}{}", "not JSON: trailing characters at line 1 column 3"),
        (
            "\u{a}\u{5}rules",
            "not JSON: expected value at line 2 column 1; in Envoy, a StringValue must carry it as JSON text",
        ),
        ("[1]", "is JSON, but not an object: it must start with {"),
        (" \n", "is empty; it must be a JSON object"),
        ("{\"a\": 1, \"a\": 2}", "the member \"a\" occurs twice"),
    ] {
        let found = Config::parse(text.as_bytes(), &NoHostVerifier).unwrap_err();
        assert_eq!(found, [format!("the configuration: {problem}")], "{text}");
    }
    // Editors of Windows put a mark before a file.
    let marked = format!("\u{feff}{}", example());
    assert!(Config::parse(marked.as_bytes(), &NoHostVerifier).is_ok());
}

#[test]
fn a_misspelt_key_is_answered_with_the_key_that_was_meant() {
    let mut config = example();
    config["forward_authorisation"] = json!(false);
    config["issuers"][0]["jwks"]["refesh_seconds"] = json!(5);
    config["rules"][1]["method"] = json!(["POST"]);
    config["colour"] = json!("red");
    let expected = [
        "issuers[0].jwks.refesh_seconds: unknown key; did you mean refresh_seconds?",
        "rules[1].method: unknown key; did you mean methods?",
        "colour: unknown key",
        "forward_authorisation: unknown key; did you mean forward_authorization?",
    ];
    assert_eq!(problems(&config), expected);
}

#[test]
fn every_authority_is_a_host() {
    for authority in [
        "",
        "a b",
        "a/b",
        "user@a",
        "https://a",
        "a\r\nx: y",
        "a?b",
        "a#b",
    ] {
        let endpoint = json!({"cluster": "c", "path": "/p", "authority": authority});
        let mut asked = endpoint.clone();
        asked["bearer"] = json!("b");
        let mut config = example();
        let issuers = config["issuers"].as_array_mut().unwrap();
        let mut other = issuers[0].clone();
        issuers[0]["jwks"] = endpoint.clone();
        issuers[0]["revocations"] = endpoint;
        other["issuer"] = json!("https://other.example");
        let members = other.as_object_mut().unwrap();
        members.retain(|name, _| name != "jwks" && name != "revocations");
        other["introspection"] = asked;
        other["discovery"] = json!({
            "cluster": "c", "authority": authority,
            "jwks_hosts": [{"cluster": "c", "authority": authority}],
        });
        issuers.truncate(1);
        issuers.push(other);
        let problems = problems(&config);
        for path in [
            "issuers[0].jwks.authority",
            "issuers[0].revocations.authority",
            "issuers[1].introspection.authority",
            "issuers[1].discovery.authority",
            "issuers[1].discovery.jwks_hosts[0].authority",
        ] {
            assert!(names(&problems, path), "{authority:?} {path}: {problems:?}");
        }
    }
}

#[test]
fn every_problem_is_named_with_its_path() {
    let config = json!({
        "issuers": [
            {"issuer": "a", "audiences": [], "jwks": {"cluster": "c", "path": "x", "refresh_seconds": 0, "no": 1}, "algorithms": ["none"]},
            {"issuer": "a", "audiences": ["x"], "jwks": {"keys": [{"kty": "oct"}]},
             "profile": "keycloack", "types": [], "optional_claims": ["exp"], "access_token_claims": {"typ": 1},
             "revocations": {"path": "/r", "poll_seconds": 60, "max_staleness_seconds": 2, "when_stale": "maybe"}},
            7,
        ],
        "rules": [
            {"path": "/a", "path_prefix": "/b"},
            {"path_prefix": "/a//b", "methods": [], "scopes": ["a b"], "access": "all"},
            {"path": "/x", "access": "anonymous", "scopes": ["s"], "claims": [{"claim": "r", "values": ["v"]}]},
            {"path": "/y", "forward_authorization": true}, {"path": "/y"},
            {"path": "/Y", "access": "anonymous"},
            {"path": "/z", "claims": [{"claim": "", "values": ["v"]}, {"claim": "r"}, {"values": ["v"], "value": 1}]},
        ],
        "path_case": "lower",
        "forward": {"X-Upper": "sub", "cookie": "sub", "expect": "sub", "x-forwarded-uri": "sub", "x-token-guard-status": "sub", "x-guard-authorization": "sub", "x-original-url": "sub", "x-forwarded-user": "sub", "x-a": 1, "x-b": {"claim": "b", "lists": "tabs"}, "x-c": [], "x-d": ["sub", 1], "x-e": {"claim": [""]}},
        "forward_payload": "x_payload",
        "forward_authorization": "yes",
        "clock_skew_seconds": 1.5,
        "realm": "a\"b",
        "protected_resource": {"resource": "api"},
        "polices": [],
    });
    let problems = problems(&config);
    for path in [
        "issuers[0].audiences",
        "issuers[0].algorithms",
        "issuers[0].jwks.refresh_seconds",
        "issuers[0].jwks.path",
        "issuers[0].jwks.no",
        "issuers[1].issuer",
        "issuers[1].jwks.keys",
        "issuers[1].profile",
        "issuers[1].types",
        "issuers[1].optional_claims",
        "issuers[1].access_token_claims.typ",
        "issuers[1].revocations.cluster",
        "issuers[1].revocations.when_stale",
        "issuers[1].revocations.max_staleness_seconds",
        "issuers[2]",
        "rules[0].path",
        "rules[1].path_prefix",
        "rules[1].methods",
        "rules[1].scopes",
        "rules[1].access",
        "rules[2].scopes",
        "rules[2].claims",
        "rules[3].forward_authorization",
        "rules[4].path",
        "rules[5].path",
        "rules[6].claims[0].claim",
        "rules[6].claims[1].values",
        "rules[6].claims[2].claim",
        "rules[6].claims[2].value",
        "path_case",
        "forward.X-Upper",
        "forward.cookie",
        "forward.expect",
        "forward.x-forwarded-uri",
        "forward.x-token-guard-status",
        "forward.x-guard-authorization",
        "forward.x-original-url",
        "forward.x-a",
        "forward.x-b.lists",
        "forward.x-c",
        "forward.x-d",
        "forward.x-e.claim",
        "forward_payload",
        "forward_authorization",
        "clock_skew_seconds",
        "realm",
        "protected_resource.resource",
        "polices",
    ] {
        assert!(names(&problems, path), "{path} is not in {problems:#?}");
    }
    // oauth2-proxy uses this name.
    assert!(
        !problems
            .iter()
            .any(|problem| problem.contains("x-forwarded-user"))
    );
}

/// Checks that the example is refused after one change at `place`, a JSON pointer.
#[track_caller]
fn assert_refused(place: &str, value: Value, expected: &str) {
    let mut config = example();
    config["protected_resource"] = json!({"resource": "https://api.example.com"});
    *config.pointer_mut(place).unwrap() = value.clone();
    let problem = only_problem(&config);
    assert!(problem.contains(expected), "{place} = {value}: {problem}");
}

/// A value that would never match or be reached is a typing error, and could open a path or close it for all.
#[test]
fn what_can_have_no_effect_is_refused() {
    for (method, hint) in [
        ("post", "did you mean \"POST\"?"),
        ("Post", "did you mean \"POST\"?"),
        ("purge", "did you mean \"PURGE\"?"),
        (" POST", "did you mean \"POST\"?"),
        ("PO ST", "is no HTTP method"),
        ("POST,PUT", "is no HTTP method"),
        ("", "is no HTTP method"),
        ("POST\n", "did you mean \"POST\"?"),
        ("P\u{d6}ST", "is no HTTP method"),
    ] {
        assert_refused("/rules/1/methods", json!(["PUT", method]), hint);
    }
    for audiences in [json!([""]), json!(["https://api.example.com", ""])] {
        assert_refused("/issuers/0/audiences", audiences, "none that is empty");
    }
    assert_refused(
        "/forward/x-user-id",
        json!(""),
        "must be the name of a claim",
    );
    for path in [
        "/api/*",
        "/api/{id}",
        "/a b",
        "/caf\u{e9}",
        "/a%7eb",
        "/a/../b",
    ] {
        assert_refused(
            "/rules/1/path_prefix",
            json!(path),
            "rules[1].path_prefix: ",
        );
    }
    for path in ["/auth/jwks#x", "/auth/a b", "/caf\u{e9}"] {
        assert_refused("/issuers/0/jwks/path", json!(path), "printable ASCII");
    }
}

/// RFC 9728 §3.1: no request could reach the metadata at its derived path.
#[test]
fn a_resource_whose_metadata_cannot_be_reached_is_refused() {
    for resource in [
        "api.example.com",
        "ftp://api.example.com",
        "https://",
        "https:///v1",
        "https://api.example.com?x=1",
        "https://api.example.com/v1?x=1",
        "https://api.example.com/v1#x",
        "https://user@api.example.com",
        "https://api.example.com/a//b",
        "https://api.example.com/a/../b",
        "https://api.example.com/a%20b",
        "https://api.example.com/a b",
        "https://api.example.com/a;b",
        "https://api example.com",
    ] {
        assert_refused(
            "/protected_resource/resource",
            json!(resource),
            "protected_resource.resource: ",
        );
    }
    for resource in [
        "https://api.example.com",
        "https://api.example.com/",
        "https://api.example.com:8443/v1/",
        "http://127.0.0.1:8080",
        "http://[::1]:8080/a/b.c",
    ] {
        let mut config = example();
        config["protected_resource"] = json!({"resource": resource, "scopes_supported": ["a"]});
        assert_eq!(problems(&config), Vec::<String>::new(), "{resource}");
    }
}

#[test]
fn methods_of_any_name_are_good_in_upper_case() {
    let mut config = example();
    config["rules"][1]["methods"] = json!(["GET", "PROPFIND", "M-SEARCH", "VERSION-CONTROL"]);
    assert_eq!(problems(&config), Vec::<String>::new());
}

#[test]
fn what_is_missing_is_named() {
    assert_eq!(
        problems(&json!({})),
        ["issuers: is missing", "rules: is missing"]
    );
    let empty = problems(&json!({"issuers": [], "rules": []}));
    assert_eq!(empty.len(), 2, "{empty:?}");
    for text in ["", "[]", "{", "{\"realm\":\"a\",\"realm\":\"b\"}"] {
        assert_eq!(
            Config::parse(text.as_bytes(), &NoHostVerifier)
                .unwrap_err()
                .len(),
            1,
            "{text}"
        );
    }
}

/// Hosts that convert protobuf to JSON write every number as a float.
#[test]
fn whole_floats_are_numbers() {
    let mut config = example();
    config["clock_skew_seconds"] = json!(7.0);
    let config = parsed(&config);
    assert_eq!(config.clock_skew_seconds, 7);
}

#[test]
fn defaults() {
    let config = json!({
        "issuers": [{"issuer": "a", "audiences": ["b"], "jwks": {"cluster": "c", "path": "/p"}}],
        "rules": [{"path_prefix": "/"}],
    });
    let config = parsed(&config);
    assert_eq!(config.forward_authorization, ForwardAuthorization::AsSent);
    assert!(!config.report_only && config.dpop.is_none());
    assert!(!config.issuers[0].sender_constrained && !config.issuers[0].requires_nonce);
    assert!(config.issuers[0].authorization_server);
    assert_eq!(config.token_cache_bytes, 64 * 1024 * 1024);
    assert_eq!(
        (config.realm.as_str(), config.clock_skew_seconds),
        ("api", 5)
    );
    let KeySource::Fetched {
        endpoint,
        refresh_seconds,
    } = &config.issuers[0].keys
    else {
        panic!("fetched");
    };
    assert_eq!((endpoint.authority.as_str(), *refresh_seconds), ("c", 300));
}

#[test]
fn rfc9449_the_settings_of_proofs() {
    let dpop = |dpop: Value| {
        let mut config = example();
        config["dpop"] = dpop;
        config
    };
    let key = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE";
    let mut good = dpop(json!({
        "origins": ["https://api.example.com", "https://www.example.com:8443/api/"],
        "algorithms": ["RS256", "EdDSA"], "proof_max_age_seconds": 30, "proof_skew_seconds": 0, "nonce_key": key,
    }));
    good["issuers"][0]["dpop_nonce"] = json!("required");
    good["issuers"][0]["sender_constrained"] = json!("required");
    good["forward_authorization"] = json!("bearer");
    let config = parsed(&good);
    let settings = config.dpop.unwrap();
    assert_eq!(settings.algs(), "RS256 EdDSA");
    assert_eq!((settings.window.max_age, settings.window.skew), (30, 0));
    assert_eq!(settings.origins.len(), 2);
    assert!(!format!("{settings:?}").contains(key));
    assert_eq!(config.forward_authorization, ForwardAuthorization::AsBearer);
    let origins = json!(["https://api.example.com"]);
    let least = dpop(json!({"origins": origins}));
    let config = parsed(&least);
    let settings = config.dpop.unwrap();
    assert_eq!(settings.algs(), "ES256 EdDSA");
    assert_eq!((settings.window.max_age, settings.window.skew), (60, 10));
    assert!(settings.nonce_key.is_none());
    for (members, place) in [
        (json!({}), "dpop.origins"),
        (json!({"origins": []}), "dpop.origins"),
        (
            json!({"origins": ["https://api.example.com", "api.example.com"]}),
            "dpop.origins",
        ),
        (
            json!({"origins": ["https://api.example.com/?x"]}),
            "dpop.origins",
        ),
        (
            json!({"origins": origins, "algorithms": []}),
            "dpop.algorithms",
        ),
        (
            json!({"origins": origins, "algorithms": ["ES256", "HS256"]}),
            "dpop.algorithms",
        ),
        (
            json!({"origins": origins, "proof_max_age_seconds": 0}),
            "dpop.proof_max_age_seconds",
        ),
        (
            json!({"origins": origins, "proof_skew_seconds": 301}),
            "dpop.proof_skew_seconds",
        ),
        (
            json!({"origins": origins, "nonce_key": &key[1..]}),
            "dpop.nonce_key",
        ),
        (
            json!({"origins": origins, "nonce_key": format!("{key}=")}),
            "dpop.nonce_key",
        ),
        (json!({"origins": origins, "nonces": true}), "dpop.nonces"),
    ] {
        let problem = only_problem(&dpop(members.clone()));
        assert!(problem.starts_with(place), "{members}: {problem}");
        assert!(!problem.contains(&key[1..]), "{problem}");
    }
    let mut without_key = least;
    without_key["issuers"][0]["dpop_nonce"] = json!("required");
    let problems = problems(&without_key);
    assert_eq!(problems, ["issuers[0].dpop_nonce: needs dpop.nonce_key"]);
}
