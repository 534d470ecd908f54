//! The target of an attack, and ways to send it many concurrent requests.

use std::future::Future;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use http::Request;
use http::request::Builder;
use tests::browsing::FORM;
use tests::http2::{self, Requests};
use tests::load::World;
use tests::{Answer, Ports};
use tokio::task::JoinSet;
use tokio::time::{timeout, timeout_at};

use super::tally::Tally;

/// The address from which attackers connect; the client connects from 127.0.0.1. Envoy reports the machine's address for both.
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

const RECONNECT: Duration = Duration::from_millis(100);

/// A running pair and the time at which the attack ends.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) ports: Ports,
    pub(crate) world: Arc<World>,
    pub(crate) end: Instant,
}

impl Target {
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
    /// until the end time. `attacker` gets a number that comes once, and returns the outcome.
    pub(crate) fn flood<F, Fut>(
        &self,
        port: u16,
        connections: usize,
        streams: usize,
        attacker: F,
    ) -> Result<Tally>
    where
        F: Fn(Attacker, u64) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<u16>> + Send + 'static,
    {
        let flood = Arc::new(Flood {
            port,
            streams,
            end: tokio::time::Instant::from_std(self.end),
            attacker,
            numbers: AtomicU64::default(),
            tally: Mutex::default(),
        });
        http2::runtime()?.block_on(async {
            let all = (0..connections).map(|_| Arc::clone(&flood).connection());
            all.collect::<JoinSet<()>>().join_all().await;
        });
        Ok(std::mem::take(&mut flood.tally()))
    }
}

struct Flood<F> {
    port: u16,
    streams: usize,
    end: tokio::time::Instant,
    attacker: F,
    numbers: AtomicU64,
    tally: Mutex<Tally>,
}

impl<F, Fut> Flood<F>
where
    F: Fn(Attacker, u64) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<u16>> + Send + 'static,
{
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attacks over one connection at a time.
    async fn connection(self: Arc<Self>) {
        while tokio::time::Instant::now() < self.end {
            let Ok(requests) = http2::connect(ATTACKER, self.port).await else {
                self.tally().count("no connection");
                let _pause = timeout(RECONNECT, std::future::pending::<()>()).await;
                continue;
            };
            let attacker = |_| Arc::clone(&self).stream(Attacker(requests.clone()));
            let streams = (0..self.streams).map(attacker);
            streams.collect::<JoinSet<()>>().join_all().await;
        }
    }

    async fn stream(self: Arc<Self>, attacker: Attacker) {
        loop {
            let number = self.numbers.fetch_add(1, Ordering::Relaxed);
            let sent = (self.attacker)(attacker.clone(), number);
            match timeout_at(self.end, sent).await {
                Ok(Ok(status)) => self.tally().count(&status.to_string()),
                // The connection is closed: another one follows.
                Ok(Err(_)) => return self.tally().count("broken"),
                Err(_) => return,
            }
        }
    }
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
        let mut request = Request::post(url).header("content-type", FORM);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request, form).await
    }
}
