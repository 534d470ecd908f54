//! Forms that stop in the middle, held open as long as the gateway allows.

use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::Result;
use tests::flood::UnfinishedPosts;

use super::tally::Tally;
use super::target::Target;

/// Unfinished forms at the same time.
const COUNT: usize = 1_100;

/// Interval at which closed connections are replaced.
const RENEW: Duration = Duration::from_secs(5);

pub(super) fn hold(
    target: &Target,
    open: fn(u16, &str, usize) -> Result<UnfinishedPosts>,
) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut held = Vec::new();
    while !target.left().is_zero() {
        match open(target.ports.lobby, "/auth/token", COUNT) {
            Ok(posts) => {
                held.push(posts);
                tally.count("1,100 opened");
            }
            Err(_) => tally.count("cut off"),
        }
        if held.len() > 3 {
            drop(held.remove(0));
        }
        let (_keep, never) = channel::<()>();
        let _waited = never.recv_timeout(RENEW.min(target.left()));
    }
    Ok(tally)
}
