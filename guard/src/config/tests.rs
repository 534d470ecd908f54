use serde_json::json;

use super::*;
use crate::fixtures::LeastHost;
use crate::signature::NoHostVerifier;

fn problems(config: &Value) -> Vec<String> {
    Config::parse(config.to_string().as_bytes(), &NoHostVerifier)
        .err()
        .unwrap_or_default()
}

/// An example configuration.
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
    let config = Config::parse(example().to_string().as_bytes(), &NoHostVerifier).unwrap();
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
            assert!(
                problems
                    .iter()
                    .any(|problem| problem.starts_with(&format!("{path}: "))),
                "{authority:?} {path}: {problems:?}"
            );
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
        assert!(
            problems
                .iter()
                .any(|problem| problem.starts_with(&format!("{path}: "))),
            "{path} is not in {problems:#?}"
        );
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
    let problems = problems(&config);
    let [problem] = problems.as_slice() else {
        panic!("{place} = {value}: {problems:?}");
    };
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

/// RFC 8725 §3.12: without something that marks access tokens, an ID token would pass as one.
#[test]
fn other_types_need_something_that_marks_access_tokens() {
    for (types, is_marked) in [
        (json!(["at+jwt"]), true),
        (json!(["application/AT+jwt", "at+jwt"]), true),
        (json!(["JWT"]), false),
        (json!(["at+jwt", "JWT"]), false),
        (json!([null]), false),
    ] {
        let mut config = example();
        config["issuers"][0]["types"] = types.clone();
        let expected = match is_marked {
            true => vec![],
            false => vec![
                "issuers[0].access_token_claims: is needed where types accepts more than at+jwt: name a claim that \
                 ID tokens of this issuer do not have"
                    .to_owned(),
            ],
        };
        assert_eq!(problems(&config), expected, "{types}");
        config["issuers"][0]["access_token_claims"] = json!({"typ": "Bearer"});
        assert_eq!(problems(&config), Vec::<String>::new(), "{types}");
    }
    for types in [
        json!([]),
        json!([""]),
        json!(["a b"]),
        json!([1]),
        json!("JWT"),
    ] {
        let mut config = example();
        config["issuers"][0]["types"] = types.clone();
        let found = problems(&config);
        assert!(
            found[0].starts_with("issuers[0].types: must be a list"),
            "{types}"
        );
    }
}

#[test]
fn revocations_need_the_claims_by_which_they_name_tokens() {
    let mut config = example();
    config["issuers"][0]["optional_claims"] = json!(["jti"]);
    let expected = "issuers[0].optional_claims: must be empty beside revocations, which name tokens by these claims";
    assert_eq!(problems(&config), [expected]);
    config["issuers"][0]
        .as_object_mut()
        .unwrap()
        .remove("revocations");
    assert_eq!(problems(&config), Vec::<String>::new());
}

#[test]
fn every_named_profile_can_be_configured_and_changed() {
    for name in Profile::NAMES {
        let mut config = example();
        config["issuers"][0]
            .as_object_mut()
            .unwrap()
            .remove("revocations");
        config["issuers"][0]["profile"] = json!(name);
        let parsed = Config::parse(config.to_string().as_bytes(), &NoHostVerifier).unwrap();
        assert_eq!(parsed.issuers[0].profile, Profile::named(name).unwrap());
        config["issuers"][0]["client_id_claim"] = json!("appid");
        let parsed = Config::parse(config.to_string().as_bytes(), &NoHostVerifier).unwrap();
        assert_eq!(parsed.issuers[0].profile.client_id_claim, "appid");
    }
    assert_refused("/issuers/0/algorithms", json!(["HS256"]), "knows EdDSA");
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
    let config = Config::parse(config.to_string().as_bytes(), &NoHostVerifier).unwrap();
    assert_eq!(config.clock_skew_seconds, 7);
}

#[test]
fn defaults() {
    let config = json!({
        "issuers": [{"issuer": "a", "audiences": ["b"], "jwks": {"cluster": "c", "path": "/p"}}],
        "rules": [{"path_prefix": "/"}],
    });
    let config = Config::parse(config.to_string().as_bytes(), &NoHostVerifier).unwrap();
    assert!(config.forward_authorization && !config.report_only);
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
fn discovery_and_introspection_are_read_strictly() {
    let with = |members: Value| {
        let mut config = example();
        let issuer = config["issuers"][0].as_object_mut().unwrap();
        issuer.remove("revocations");
        issuer.remove("jwks");
        issuer.insert(
            "issuer".to_owned(),
            json!("https://sso.example.com/realms/a"),
        );
        issuer.extend(members.as_object().unwrap().clone());
        config
    };
    let discovery = json!({"cluster": "sso"});
    let jwks = json!({"cluster": "c", "path": "/p"});
    let introspection = json!({"cluster": "sso", "path": "/i", "bearer": "b"});
    let mut full = discovery.clone();
    full.as_object_mut().unwrap().extend(json!({
        "document": "oauth-authorization-server", "authority": "sso.internal", "refresh_seconds": 60,
        "jwks_hosts": [{"authority": "keys.example.com:8443", "cluster": "keys"}],
    }).as_object().unwrap().clone());
    let config = with(json!({"discovery": full, "introspection": introspection}));
    let config = Config::parse(config.to_string().as_bytes(), &NoHostVerifier).unwrap();
    let KeySource::Discovered(found) = &config.issuers[0].keys else {
        panic!("discovered");
    };
    let endpoint = &found.endpoint;
    assert_eq!(
        endpoint.path,
        "/.well-known/oauth-authorization-server/realms/a"
    );
    assert_eq!(
        (endpoint.authority.as_str(), found.refresh_seconds),
        ("sso.internal", 60)
    );
    let asked = config.issuers[0].introspection.as_ref().unwrap();
    assert_eq!(asked.authorization.expose(), "Bearer b");
    assert_eq!((asked.cache_seconds, asked.max_concurrent), (30, 64));
    assert_eq!(asked.when_unavailable, WhenStale::Deny);

    for (members, expected) in [
        (json!({}), "issuers[0].jwks: is missing, and discovery"),
        (
            json!({"discovery": discovery, "jwks": jwks}),
            "issuers[0].discovery: cannot stand beside jwks",
        ),
        (
            json!({"discovery": {}}),
            "issuers[0].discovery.cluster: is missing",
        ),
        (
            json!({"discovery": {"cluster": "c", "document": "oidc"}}),
            "issuers[0].discovery.document: must be openid-configuration or oauth",
        ),
        (
            json!({"discovery": discovery, "issuer": "sso"}),
            "issuers[0].discovery.document: needs an issuer",
        ),
        (
            json!({"discovery": {"cluster": "c", "path": "/x"}}),
            "issuers[0].discovery.path: unknown key",
        ),
        (
            json!({"discovery": {"cluster": "c", "jwks_hosts": [{"authority": "https://a", "cluster": "c"}]}}),
            "issuers[0].discovery.jwks_hosts[0].authority: must be a host",
        ),
        (
            json!({"jwks": jwks, "introspection": {"cluster": "c", "path": "/i"}}),
            "issuers[0].introspection.client_id: and client_secret are needed",
        ),
        (
            json!({"jwks": jwks, "introspection": {"cluster": "c", "path": "/i", "client_id": "a"}}),
            "issuers[0].introspection.client_id: and client_secret are needed",
        ),
        (
            json!({"jwks": jwks, "introspection": {"cluster": "c", "path": "/i", "bearer": "a\nb"}}),
            "issuers[0].introspection.bearer: must be printable",
        ),
        (
            json!({"jwks": jwks, "introspection": {"cluster": "c", "path": "/i", "bearer": "b", "cache_seconds": 0}}),
            "issuers[0].introspection.cache_seconds: must be",
        ),
        (
            json!({"jwks": jwks, "introspection": introspection, "revocations": {"cluster": "c", "path": "/r"}}),
            "issuers[0].introspection: means nothing beside revocations",
        ),
    ] {
        let problems = problems(&with(members.clone()));
        let [problem] = problems.as_slice() else {
            panic!("{members}: {problems:?}");
        };
        assert!(problem.starts_with(expected), "{members}: {problem}");
    }
}

#[test]
fn an_algorithm_that_the_host_cannot_verify_is_refused_with_those_that_it_can() {
    let mut config = example();
    let all: Vec<_> = Algorithm::ALL.map(Algorithm::name).into();
    config["issuers"][0]["algorithms"] = json!(all);
    let expected = "issuers[0].algorithms: ES384 is for hosts that verify it themselves, and this host does not; \
        here it can be EdDSA, ES256, RS256, RS384, RS512, PS256";
    assert_eq!(problems(&config), [expected]);
    let text = config.to_string();
    let config = Config::parse(text.as_bytes(), &LeastHost).unwrap();
    assert_eq!(config.issuers[0].algorithms, Algorithm::ALL.into());
}

/// An issuer that names no algorithm accepts no slow algorithm, and none that would be ambiguous for its keys
/// without `alg`.
#[test]
fn without_a_list_there_is_one_algorithm_for_each_type_of_key() {
    let mut config = example();
    config["issuers"][0]
        .as_object_mut()
        .unwrap()
        .remove("algorithms");
    let config = Config::parse(config.to_string().as_bytes(), &LeastHost).unwrap();
    assert_eq!(config.issuers[0].algorithms, Algorithm::DEFAULT.into());
}
