//! Tokens with an unknown key. For each token the filter fetches the keys, and the request waits.

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Request;
use serde_json::json;

use super::Attack;
use super::tally::Tally;
use super::target::Target;

pub(crate) const ATTACK: Attack = Attack {
    name: "unknown-keys",
    about: "500 streams at once with tokens of the right issuer and unknown keys",
    outage: None,
    explains: &[],
    run: flood,
};

/// Sends such tokens until the end of the attack.
pub(crate) fn flood(target: &Target) -> Result<Tally> {
    let (api, lobby) = (target.api.clone(), target.lobby.clone());
    target.flood(target.ports.api, 5, 100, move |attacker, number| {
        let url = format!("{api}/api/projects");
        let token = token(&lobby, &api, number);
        async move {
            let request = Request::get(url).header("authorization", format!("Bearer {token}"));
            Ok(attacker.send(request, "").await?.status)
        }
    })
}

fn token(issuer: &str, audience: &str, number: u64) -> String {
    let part = |json: serde_json::Value| URL_SAFE_NO_PAD.encode(json.to_string());
    let header = part(json!({"typ": "at+jwt", "alg": "EdDSA", "kid": format!("unknown-{number}")}));
    let claims = part(json!({
        "iss": issuer, "aud": audience, "sub": "eve", "client_id": "eve", "jti": number.to_string(),
        "iat": 1_700_000_000, "exp": 4_000_000_000_u32,
    }));
    format!("{header}.{claims}.{}", URL_SAFE_NO_PAD.encode([7; 64]))
}
