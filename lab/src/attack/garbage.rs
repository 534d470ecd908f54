//! Requests with malformed tokens, forms and paths.

use http::Request;

use super::Attack;

pub(crate) const ATTACK: Attack = Attack {
    name: "garbage",
    about: "200 streams at once with broken tokens at the API",
    outage: None,
    explains: &[],
    run: |target| {
        let api = target.api.clone();
        target.flood(target.ports.api, 2, 100, move |attacker, number| {
            let url = format!("{api}/api/projects");
            let credentials = match number % 8 {
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
            };
            async move {
                let request = Request::get(url).header("authorization", credentials.as_bytes());
                Ok(attacker.send(request, "").await?.status)
            }
        })
    },
};
