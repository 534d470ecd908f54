//! A registered client that gets tokens, and revokes new and already revoked tokens as fast as it can.

use anyhow::Context as _;

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
                let mut answer = attacker.post(&issue, &headers, TOKEN_FORM).await?;
                if answer.status != 200 {
                    return Ok(answer.status);
                }
                let token = answer.member("access_token").context("no token")?;
                for _ in 0..5 {
                    let form = format!("token={token}");
                    answer = attacker.post(&revoke, &headers, &form).await?;
                }
                Ok(answer.status)
            }
        })
    },
};
