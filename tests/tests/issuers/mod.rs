//! Tokens of other products: `oidc-provider`, `oauth2-mock-server`, Authlib and Glewlwyd. Each test runs with the
//! filter in real Envoy, and with token-guard.

mod algorithms;
pub(crate) mod gate;
mod introspection;
mod keys;
mod moving_in;
mod server;

use serde_json::json;

use self::gate::Gate;
use self::server::Issuer;
use crate::api::until;

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
    for gate in Gate::both(&issuers, &all.map(|issuer| issuer.port)) {
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
