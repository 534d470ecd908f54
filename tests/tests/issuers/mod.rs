//! Tokens of other products: `oidc-provider`, `oauth2-mock-server`, Authlib and Glewlwyd. Each test runs with the
//! filter in real Envoy, in both forms, and with token-guard.

mod algorithms;
pub(crate) mod gate;
mod introspection;
mod keys;
mod moving_in;
pub(crate) mod server;

use serde_json::json;
use tests::proofs::ProofKey;

use self::gate::Gate;
use self::server::{AUDIENCE, Issuer};
use crate::api::until;
use crate::support::{basic, form_body, post};

/// Checks for every issuer that access tokens pass, and no other tokens.
#[track_caller]
fn assert_guarded(gate: &Gate, entrance: usize, issuer: &Issuer, others: &[&Issuer]) {
    for _ in 0..2 {
        let reply = gate.accepts(entrance, issuer.token("access"));
        assert_eq!(reply.header("x-scope"), Some("read"));
    }
    gate.refuses(entrance, issuer.token("id"), "not an access token");
    let refresh = gate.call(entrance, issuer.token("refresh"));
    assert_eq!(refresh.status, 401, "{refresh:?}");
    let elsewhere = issuer.token("for_another_audience");
    gate.refuses(entrance, elsewhere, "another audience");
    for other in others {
        let access = other.token("access");
        gate.refuses(entrance, access, "issuer that is not accepted");
    }
    until("the short-lived token expires", || {
        gate.call(entrance, issuer.token("short_lived")).status == 401
    });
    gate.refuses(entrance, issuer.token("short_lived"), "has expired");
    // The same token with another signature.
    let (signed, _) = issuer.token("access").rsplit_once('.').unwrap();
    let (_, of_another) = elsewhere.rsplit_once('.').unwrap();
    gate.refuses(entrance, &format!("{signed}.{of_another}"), "signature");
}

/// Each issuer with the profile that `docs/issuers.md` names, and with discovery of its keys.
#[test]
fn rfc8725_s3_12_access_tokens_of_four_issuers_pass_and_their_other_tokens_do_not() {
    let oidc_provider = Issuer::oidc_provider();
    let mock_server = Issuer::mock_server(&[]);
    let authlib = Issuer::authlib();
    let glewlwyd = Issuer::glewlwyd();
    let discovery = |issuer: &Issuer, document: &str| json!({"cluster": issuer.cluster(), "document": document});
    let openid = "openid-configuration";
    let issuers = [
        oidc_provider.configured(&json!({"discovery": discovery(&oidc_provider, openid)})),
        mock_server.configured(&json!({
            "discovery": discovery(&mock_server, openid),
            "types": ["JWT"],
            "access_token_claims": {"scope": true},
            "optional_claims": ["sub", "client_id", "jti"],
        })),
        authlib.configured(&json!({
            "profile": "rfc9068",
            "discovery": discovery(&authlib, "oauth-authorization-server"),
        })),
        glewlwyd.configured(&json!({
            "profile": "rfc9068",
            "discovery": discovery(&glewlwyd, openid),
            "algorithms": ["ES384"],
        })),
    ];
    let all = [&oidc_provider, &mock_server, &authlib, &glewlwyd];
    for gate in Gate::all(&issuers, &all.map(|issuer| issuer.port)) {
        for (entrance, issuer) in all.into_iter().enumerate() {
            let others: Vec<&Issuer> = all
                .into_iter()
                .filter(|other| other.port != issuer.port)
                .collect();
            assert_guarded(&gate, entrance, issuer, &others);
        }
        let person = gate.accepts(0, oidc_provider.token("access_of_a_person"));
        assert_eq!(person.header("x-client-id"), Some("web"));
    }
}

/// The issuer binds the token to the key of a proof at its token endpoint, and the gates ask for proofs of this key.
#[test]
fn rfc9449_s6_1_bound_tokens_of_oidc_provider_need_the_key_of_their_client() {
    let issuer = Issuer::oidc_provider();
    let configured = issuer.configured(&json!({"discovery": {"cluster": issuer.cluster()}}));
    let gates = Gate::all(&[configured], &[issuer.port]);
    for (gate, algorithm) in gates
        .iter()
        .flat_map(|gate| [(gate, "ES256"), (gate, "EdDSA")])
    {
        let [key, other] = [(); 2].map(|()| ProofKey::new(algorithm).unwrap());
        let endpoint = format!("{}/token", issuer.url());
        let headers = [
            ("authorization", basic("web", "secret-of-the-test")),
            ("dpop", key.prove("POST", &endpoint, None).unwrap()),
        ];
        let fields = [
            ("grant_type", "client_credentials"),
            ("scope", "read"),
            ("resource", AUDIENCE),
        ];
        let reply = post(&endpoint, &headers, &form_body(&fields));
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.text("token_type"), "DPoP");
        let token = reply.text("access_token");
        let authorization = format!("DPoP {token}");
        let call = |key: &ProofKey| {
            let url = "https://api.example.com/projects";
            let proof = key.prove("GET", url, Some(&token)).unwrap();
            let headers = [("authorization", authorization.as_str()), ("dpop", &proof)];
            gate.call_with(0, &headers)
        };
        for _ in 0..2 {
            let passes = call(&key);
            assert_eq!(passes.status, 200, "{algorithm}: {passes:?}");
            assert_eq!(passes.header("x-scope"), Some("read"));
        }
        call(&other).assert_error(401, "invalid_token");
        gate.refuses(0, &token, "bound to a key");
    }
}
