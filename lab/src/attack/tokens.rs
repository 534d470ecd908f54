//! Tokens that are refused, many at once.

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Request;
use serde_json::json;

use super::tally::Tally;
use super::target::Target;

/// 500 streams with tokens of the right issuer and unknown keys. For each token the filter fetches the keys, and the request
/// waits.
pub(super) fn of_unknown_keys(target: &Target) -> Result<Tally> {
    let (issuer, audience) = (target.world.lobby.clone(), target.world.api.clone());
    flood(target, 5, move |number| {
        let part = |json: serde_json::Value| URL_SAFE_NO_PAD.encode(json.to_string());
        let kid = format!("unknown-{number}");
        let header = part(json!({"typ": "at+jwt", "alg": "EdDSA", "kid": kid}));
        let claims = part(json!({
            "iss": issuer, "aud": audience, "sub": "eve", "client_id": "eve", "jti": number.to_string(),
            "iat": 1_700_000_000, "exp": 4_000_000_000_u32,
        }));
        let signature = URL_SAFE_NO_PAD.encode([7; 64]);
        format!("Bearer {header}.{claims}.{signature}")
    })
}

/// 200 streams with broken tokens.
pub(super) fn garbage(target: &Target) -> Result<Tally> {
    flood(target, 2, |number| match number % 8 {
        0 => "Bearer a.b.c".to_owned(),
        1 => format!("Bearer {}", "a".repeat(16_000)),
        2 => format!("Bearer eyJhbGciOiJub25lIn0.e30.{number}"),
        3 => "Bearer ".to_owned() + &".".repeat(4_000),
        4 => format!(
            "Bearer eyJ0eXAiOiJhdCtqd3QiLCJhbGciOiJFZERTQSJ9.{}.AA",
            "e30".repeat(1_000)
        ),
        5 => "Basic dXNlcjpwYXNzd29yZA".to_owned(),
        6 => "Bearer \u{80}\u{ff}".to_owned(),
        _ => format!("Bearer {number}"),
    })
}

/// Calls the API with these credentials, over connections with 100 streams each.
fn flood(
    target: &Target,
    connections: usize,
    credentials: impl Fn(u64) -> String + Send + Sync + 'static,
) -> Result<Tally> {
    let url = format!("{}/api/projects", target.world.api);
    target.flood(
        target.ports.api,
        connections,
        100,
        move |attacker, number| {
            let credentials = credentials(number);
            let request = Request::get(&url).header("authorization", credentials.as_bytes());
            async move { Ok(attacker.send(request, "").await?.status) }
        },
    )
}
