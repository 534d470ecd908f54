//! A log collector that has stopped reading the output of the token service.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tests::visitor::Visitor;

use super::target::{Attacker, TOKEN_FORM, Target, basic};
use super::{Attack, Outage};

/// Longest time until the pipe and the queue of lines are full.
const FILLING: Duration = Duration::from_secs(60);

const SLICE: Duration = Duration::from_secs(4);

pub(crate) const ATTACK: Attack = Attack {
    name: "stalled-logs",
    about: "32 streams at once that get tokens, while nobody reads log and audit log",
    outage: Some(&Outage {
        gateway: &[],
        begin: |pair| {
            pair.set_environment("TOKEN_SERVICE_LOG", "debug");
            pair.stop_token_service();
            pair.leave_output_unread();
            pair.start_token_service()
        },
    }),
    explains: &[],
    run: |target| {
        let lobby = target.lobby.clone();
        let attacker = move |attacker: Attacker, _| {
            let url = format!("{lobby}/auth/token");
            async move {
                let headers = [("authorization", basic())];
                let headers = headers
                    .each_ref()
                    .map(|(name, value)| (*name, value.as_str()));
                Ok(attacker.post(&url, &headers, TOKEN_FORM).await?.status)
            }
        };
        let mut sent = target.flood(target.ports.lobby, 1, 32, attacker.clone())?;
        let full = Instant::now() + FILLING;
        for stream in ["log", "audit"] {
            // Otherwise the pipe was never full, and the attack had no effect.
            while dropped(target, stream)? == 0 {
                ensure!(Instant::now() < full, "no line of the {stream} was dropped");
                let target = target.for_at_least(SLICE);
                sent.add(target.flood(target.ports.lobby, 1, 32, attacker.clone())?);
            }
        }
        Ok(sent)
    },
};

/// Number of lines of the stream that the token service has dropped.
fn dropped(target: &Target, stream: &str) -> Result<u64> {
    let url = format!("http://127.0.0.1:{}/metrics", target.ports.internal);
    let metrics = Visitor::default().get(&url, &[])?.body;
    let name = format!("token_service_{stream}_lines_dropped_total ");
    let count = metrics.lines().find_map(|line| line.strip_prefix(&name));
    Ok(count.context(name)?.trim().parse()?)
}
