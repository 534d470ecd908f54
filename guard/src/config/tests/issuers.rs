//! Issuers and their keys.

use super::*;

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
    let expected = "issuers[0].optional_claims: must be empty if revocations is set, because revocations name tokens by these claims";
    assert_eq!(problems(&config), [expected]);
    lacks(&mut config, "revocations");
    assert_eq!(problems(&config), Vec::<String>::new());
}

#[test]
fn every_named_profile_can_be_configured_and_changed() {
    for name in Profile::NAMES {
        let mut config = example();
        lacks(&mut config, "revocations");
        config["issuers"][0]["profile"] = json!(name);
        let profile = Profile::named(name).unwrap();
        assert_eq!(parsed(&config).issuers[0].profile, profile);
        config["issuers"][0]["client_id_claim"] = json!("appid");
        let profile = &parsed(&config).issuers[0].profile;
        assert_eq!(profile.client_id_claim, "appid");
    }
    assert_refused("/issuers/0/algorithms", json!(["HS256"]), "knows EdDSA");
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
    let config = parsed(&config);
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
            "issuers[0].discovery: cannot be combined with jwks",
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
            "issuers[0].introspection: cannot be combined with revocations",
        ),
    ] {
        let problem = only_problem(&with(members.clone()));
        assert!(problem.starts_with(expected), "{members}: {problem}");
    }
}

#[test]
fn an_algorithm_that_the_host_cannot_verify_is_refused_with_those_that_it_can() {
    let mut config = example();
    let all: Vec<_> = Algorithm::ALL.iter().map(|it| it.name()).collect();
    config["issuers"][0]["algorithms"] = json!(all);
    let expected = "issuers[0].algorithms: ES384 is for hosts that verify it themselves, and this host does not; \
        here it can be EdDSA, ES256, RS256, RS384, RS512, PS256";
    assert_eq!(problems(&config), [expected]);
    let text = config.to_string();
    let config = Config::parse(text.as_bytes(), &LeastHost).unwrap();
    assert_eq!(
        config.issuers[0].algorithms,
        Algorithm::ALL.iter().copied().collect()
    );
}

/// An issuer that names no algorithm accepts no slow algorithm, and none that would be ambiguous for its keys
/// without `alg`.
#[test]
fn without_a_list_there_is_one_algorithm_for_each_type_of_key() {
    let mut config = example();
    lacks(&mut config, "algorithms");
    let config = Config::parse(config.to_string().as_bytes(), &LeastHost).unwrap();
    assert_eq!(config.issuers[0].algorithms, Algorithm::DEFAULT.into());
}
