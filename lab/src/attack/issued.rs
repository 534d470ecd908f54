//! A registered client that gets tokens as fast as it can.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tests::browsing::form_body;
use tests::load::{CREDENTIALS, USER_BOUND};
use tests::visitor::Visitor;

use super::tally::Tally;
use super::target::Target;

/// Longest time until the pipe and the queue of lines are full.
const FILLING: Duration = Duration::from_secs(60);

const SLICE: Duration = Duration::from_secs(4);

/// Revokes each token as often.
pub(super) fn revoked(target: &Target, times: usize) -> Result<Tally> {
    let lobby = &target.world.lobby;
    let urls = [
        format!("{lobby}/auth/token"),
        format!("{lobby}/auth/revoke"),
    ];
    target.flood(target.ports.lobby, 1, 32, move |attacker, _| {
        let [issue, revoke] = urls.clone();
        async move {
            let basic = USER_BOUND.basic();
            let headers = [("authorization", basic.as_str())];
            let form = form_body(&CREDENTIALS);
            let mut answer = attacker.post(&issue, &headers, &form).await?;
            if answer.status != 200 {
                return Ok(answer.status);
            }
            let token = answer.member("access_token").context("no token")?;
            for _ in 0..times {
                let form = form_body(&[("token", &token)]);
                answer = attacker.post(&revoke, &headers, &form).await?;
            }
            Ok(answer.status)
        }
    })
}

/// Gets tokens until the log and the audit log have lost lines, because nobody reads them.
pub(super) fn unread(target: &Target) -> Result<Tally> {
    let mut sent = revoked(target, 0)?;
    let full = Instant::now() + FILLING;
    for stream in ["log", "audit"] {
        // Otherwise the pipe was never full, and the attack had no effect.
        while dropped(target, stream)? < 1.0 {
            ensure!(Instant::now() < full, "no line of the {stream} was dropped");
            sent.add(revoked(&target.for_at_least(SLICE), 0)?);
        }
    }
    Ok(sent)
}

/// Number of lines of the stream that the token service has dropped.
fn dropped(target: &Target, stream: &str) -> Result<f64> {
    let url = format!("http://127.0.0.1:{}/metrics", target.ports.internal);
    let metrics = Visitor::default().get(&url, &[])?;
    let name = format!("token_service_{stream}_lines_dropped_total");
    metrics.metric(&name).context(name)
}
