//! The target of an attack, and ways to send it many concurrent requests.

use std::future::Future;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::Result;
use http::Request;
use http::request::Builder;
use tests::http2::{self, Requests};
use tests::{Answer, Pair, Ports, load};

use super::tally::Tally;

/// The address from which attackers connect; the client connects from 127.0.0.1. Envoy reports the machine's address for both.
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// `Authorization` of the demo's user-bound client.
pub(crate) fn basic() -> String {
    load::basic(
        load::USER_BOUND.id,
        load::USER_BOUND.secret.unwrap_or_default(),
    )
}

/// The token request of that client.
pub(crate) const TOKEN_FORM: &str =
    "grant_type=client_credentials&user_id=1879048402&user_site=https://us1.example.com";

/// A running pair and the time at which the attack ends.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) ports: Ports,
    pub(crate) lobby: String,
    pub(crate) api: String,
    end: Instant,
}

impl Target {
    pub(crate) fn new(pair: &Pair, end: Instant) -> Self {
        Self {
            ports: pair.ports(),
            lobby: pair.lobby_url(),
            api: pair.api_url(),
            end,
        }
    }

    /// The same target, attacked for this time from now on if the rest is shorter.
    pub(crate) fn for_at_least(&self, time: Duration) -> Self {
        Self {
            end: self.end.max(Instant::now() + time),
            ..self.clone()
        }
    }

    /// The remaining time.
    pub(crate) fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Runs `attacker` over `connections` HTTP/2 connections to `port`, `streams` times at once on each, repeatedly
    /// until the end time. `attacker` gets a rising number, and returns the outcome.
    pub(crate) fn flood<F, Fut>(
        &self,
        port: u16,
        connections: usize,
        streams: usize,
        attacker: F,
    ) -> Result<Tally>
    where
        F: Fn(Attacker, u64) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<u16>> + Send,
    {
        let runtime = http2::runtime()?;
        let end = tokio::time::Instant::from_std(self.end);
        let tallies = (0..connections).map(|connection| {
            let attacker = attacker.clone();
            runtime.spawn(async move {
                let mut tally = Tally::default();
                let mut round = 0_u64;
                while tokio::time::Instant::now() < end {
                    let Ok(requests) = http2::connect(ATTACKER, port).await else {
                        tally.count("no connection");
                        tokio::time::timeout(RECONNECT, std::future::pending::<()>())
                            .await
                            .unwrap_or_default();
                        continue;
                    };
                    let attackers: Vec<_> = (0..streams)
                        .map(|stream| {
                            let attacker = attacker.clone();
                            let own = Attacker(requests.clone());
                            let first = numbers(connection, streams, stream, round);
                            tokio::spawn(async move {
                                let mut tally = Tally::default();
                                for number in first.. {
                                    let sent = attacker(own.clone(), number);
                                    match tokio::time::timeout_at(end, sent).await {
                                        Ok(Ok(status)) => tally.count(&status.to_string()),
                                        // The connection is closed: the next round opens another.
                                        Ok(Err(_)) => {
                                            tally.count("broken");
                                            break;
                                        }
                                        Err(_) => break,
                                    }
                                }
                                tally
                            })
                        })
                        .collect();
                    for attacker in attackers {
                        tally.add(attacker.await.unwrap_or_default());
                    }
                    round += 1;
                }
                tally
            })
        });
        let tallies: Vec<_> = tallies.collect();
        runtime.block_on(async {
            let mut total = Tally::default();
            for tally in tallies {
                total.add(tally.await?);
            }
            Ok(total)
        })
    }
}

const RECONNECT: Duration = Duration::from_millis(100);

/// Numbers that are unique to this stream.
const fn numbers(connection: usize, streams: usize, stream: usize, round: u64) -> u64 {
    ((connection * streams + stream) as u64 * 1_000 + round) * 1_000_000
}

/// One of many concurrent attackers.
#[derive(Clone)]
pub(crate) struct Attacker(Requests);

impl Attacker {
    /// Sends a request.
    pub(crate) async fn send(&self, request: Builder, body: &str) -> Result<Answer> {
        http2::exchange(&self.0, request.body(())?, body).await
    }

    /// Posts a form.
    pub(crate) async fn post(
        &self,
        url: &str,
        headers: &[(&str, &str)],
        form: &str,
    ) -> Result<Answer> {
        let mut request =
            Request::post(url).header("content-type", "application/x-www-form-urlencoded");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request, form).await
    }
}
