//! `make bench-revocation` measures the time from the response of `POST /auth/revoke` to the first refusal at the API,
//! through real Envoy. `SHORT=1` measures for a moment.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tests::Pair;
use tests::load::{USER_BOUND, World};
use tests::visitor::Visitor;

use crate::measure::percentile;
use crate::short;

/// Number of tokens that are revoked, one after the other.
const ROUNDS: usize = 200;

/// Timeout: if the API still accepts a token this long after its revocation, the benchmark fails.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn measure() -> Result<()> {
    let state = tempfile::TempDir::new()?;
    let pair = Pair::of_demo(state.path(), &[])?;
    let rounds = short::count(ROUNDS);
    let (world, visitor) = (World::of(&pair, ""), Visitor::default());
    let times = (0..rounds)
        .map(|_| round(&world, &visitor))
        .collect::<Result<Vec<Duration>>>()?;
    let [p50, p90, p99, most] = [500, 900, 990, 1000].map(|part| percentile(&times, part));
    println!("refused at the API after the answer of /auth/revoke, {rounds} tokens");
    println!("| p50 | p90 | p99 | most |");
    println!("|---|---|---|---|");
    println!("| {p50:.0} ms | {p90:.0} ms | {p99:.0} ms | {most:.0} ms |");
    Ok(())
}

/// Issues one token, uses it, revokes it and waits for its refusal.
fn round(world: &World, visitor: &Visitor) -> Result<Duration> {
    let form = [
        ("grant_type", "client_credentials"),
        ("user_id", "1879048403"),
        ("user_site", "https://us1.example.com"),
    ];
    let answer = world.post(visitor, USER_BOUND, "/auth/token", &form)?;
    let token = answer
        .member("access_token")
        .with_context(|| format!("no token: {answer:?}"))?;
    let status = || anyhow::Ok(world.call_with(visitor, &token)?.status);
    ensure!(status()? == 200, "the API refuses a fresh token");
    let fields = [("token", &*token)];
    let revoked = world.post(visitor, USER_BOUND, "/auth/revoke", &fields)?;
    ensure!(revoked.status == 200, "/auth/revoke answers {revoked:?}");
    let since = Instant::now();
    while status()? != 401 {
        ensure!(since.elapsed() < PATIENCE, "the token is still accepted");
    }
    Ok(since.elapsed())
}
