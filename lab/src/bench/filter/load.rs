//! The client: a few persistent connections. It sends a request on each before it reads the first response.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;

use super::gateway::Gateway;
use crate::bench::http::{Connection, assert_ok};
use crate::measure::{cpu, microseconds};
use crate::short;

/// Number of concurrent requests.
pub(crate) const CONNECTIONS: usize = 4;

/// Requests to one listener before requests to the next.
pub(crate) fn block() -> usize {
    short::count(250)
}

/// A request with these headers, which end with a line end.
pub(crate) fn request(headers: &str) -> Vec<u8> {
    let request = format!(
        "GET /api/projects HTTP/1.1\r\nhost: api.example.com\r\naccept: application/json\r\n\
         user-agent: bench\r\n{headers}\r\n"
    );
    request.into_bytes()
}

/// The requests with these tokens.
pub(crate) fn with_tokens(tokens: &[String]) -> Vec<Vec<u8>> {
    let headers = tokens
        .iter()
        .map(|token| format!("authorization: Bearer {token}\r\n"));
    headers.map(|headers| request(&headers)).collect()
}

/// Sends the requests in turn to one listener.
pub(crate) struct Client {
    connections: Vec<Connection>,
    requests: Vec<Vec<u8>>,
    next: usize,
}

impl Client {
    /// `requests`: of [`request`].
    pub(crate) async fn connect(port: u16, requests: Vec<Vec<u8>>) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(Connection::open(address).await);
        }
        let next = 0;
        Self {
            connections,
            requests,
            next,
        }
    }

    /// Sends at least this number of requests, and waits for the responses.
    pub(crate) async fn send(&mut self, count: usize) {
        for _ in 0..count.div_ceil(CONNECTIONS) {
            for connection in &mut self.connections {
                connection.send(&self.requests[self.next]).await;
                self.next = (self.next + 1) % self.requests.len();
            }
            for connection in &mut self.connections {
                assert_ok(&connection.receive().await);
            }
        }
    }
}

/// Sends a block of each client in each of `count` rounds. Returns Envoy's CPU time for a request of each client in each round,
/// in microseconds.
pub(crate) async fn rounds(
    gateway: &Gateway,
    clients: &mut [Client],
    count: usize,
) -> Result<Vec<Vec<f64>>> {
    let pid = gateway.pid()?;
    let mut rounds = Vec::with_capacity(count);
    for round in 0..count {
        let mut costs = vec![0.0; clients.len()];
        for turn in 0..clients.len() {
            // Each round begins with another client and alternates the direction, so that no client always follows the same
            // other one.
            let step = (turn + round / 2) % clients.len();
            let place = if round % 2 == 0 {
                step
            } else {
                clients.len() - 1 - step
            };
            let before = cpu(pid);
            clients[place].send(block()).await;
            costs[place] = microseconds(before, cpu(pid), block());
        }
        rounds.push(costs);
    }
    Ok(rounds)
}
