//! Every algorithm, with tokens signed by the library jose.

use serde_json::{Value, json};

use super::gate::{Gate, Kind};
use super::server::Issuer;

const ACCEPTED: [&str; 7] = [
    "EdDSA", "ES256", "ES384", "RS256", "RS384", "RS512", "PS256",
];

/// Algorithms of the issuer that the guard does not know.
const UNKNOWN: [&str; 2] = ["ES512", "PS512"];

fn configured(issuer: &Issuer, algorithms: &[&str]) -> Value {
    issuer.configured(&json!({
        "jwks": {"cluster": issuer.cluster(), "path": "/jwks"},
        "types": ["JWT"],
        "access_token_claims": {"scope": true},
        "optional_claims": ["sub", "client_id", "jti"],
        "algorithms": algorithms,
    }))
}

#[test]
fn rfc8725_s3_1_each_key_verifies_its_own_algorithm_and_each_issuer_has_its_own() {
    let all: Vec<&str> = ACCEPTED.into_iter().chain(UNKNOWN).collect();
    let issuer = Issuer::mock_server(&all);
    let another = Issuer::mock_server(&all);
    let mut lists = vec![json!([configured(&issuer, &ACCEPTED)])];
    // Two issuers at one entrance: the algorithms of one do not apply to the other.
    lists.push(json!([
        configured(&issuer, &["ES384", "PS256"]),
        configured(&another, &["RS256", "EdDSA"]),
    ]));
    for kind in Kind::ALL {
        let gate = Gate::of_lists(kind, &lists, &[issuer.port, another.port]);
        for algorithm in ACCEPTED {
            let token = issuer.token(&format!("good/{algorithm}"));
            gate.accepts(0, token);
            let of_another = another.token(&format!("good/{algorithm}"));
            let (signed, _) = token.rsplit_once('.').unwrap();
            let (_, signature) = of_another.rsplit_once('.').unwrap();
            gate.refuses(0, &format!("{signed}.{signature}"), "signature");
            gate.refuses(0, of_another, "issuer that is not accepted");
            for (issuer, accepted) in [
                (&issuer, ["ES384", "PS256"]),
                (&another, ["RS256", "EdDSA"]),
            ] {
                let token = issuer.token(&format!("good/{algorithm}"));
                match accepted.contains(&algorithm) {
                    true => drop(gate.accepts(1, token)),
                    false => gate.refuses(1, token, "algorithm that is not accepted"),
                }
            }
        }
        for algorithm in UNKNOWN {
            let token = issuer.token(&format!("good/{algorithm}"));
            gate.refuses(0, token, "algorithm that is not accepted");
        }
        // Tokens that name the RS256 key: signed by it with another algorithm, signed with its public key as an HMAC
        // secret, and unsigned.
        for algorithm in ["RS384", "RS512", "PS256"] {
            let token = issuer.token(&format!("of_rs256_key/{algorithm}"));
            gate.refuses(0, token, "key for another algorithm");
        }
        for algorithm in ["HS256", "none"] {
            let token = issuer.token(&format!("of_rs256_key/{algorithm}"));
            gate.refuses(0, token, "algorithm that is not accepted");
        }
    }
}
