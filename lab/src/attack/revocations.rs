//! A registered client that gets tokens, and revokes new and already revoked tokens as fast as it can.

use anyhow::Context as _;
use serde_json::Value;

use super::Attack;
use super::target::{TOKEN_FORM, basic};

pub(crate) const ATTACK: Attack = Attack {
    name: "revocations",
    about: "32 streams at once that get a token and revoke it five times",
    outage: None,
    explains: &[],
    run: |target| {
        let lobby = target.lobby.clone();
        target.flood(target.ports.lobby, 1, 32, move |attacker, _| {
            let (issue, revoke) = (
                format!("{lobby}/auth/token"),
                format!("{lobby}/auth/revoke"),
            );
            async move {
                let basic = basic();
                let headers = [("authorization", basic.as_str())];
                let (status, body) = attacker.post(&issue, &headers, TOKEN_FORM).await?;
                if status != 200 {
                    return Ok(status);
                }
                let answer: Value = serde_json::from_slice(&body)?;
                let token = answer
                    .get("access_token")
                    .and_then(Value::as_str)
                    .context("no token")?;
                let mut status = 0;
                for _ in 0..5 {
                    (status, _) = attacker
                        .post(&revoke, &headers, &format!("token={token}"))
                        .await?;
                }
                Ok(status)
            }
        })
    },
};
