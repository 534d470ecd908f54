//! Revocations and refreshes at the same time, while the database is far away: a proxy delays all bytes between service and database.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use claims::revocation::Page;
use tests::browsing::form_body;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::http::{Connection, Load, get, post, scripts};
use super::scripts::{Refreshes, Web, client_credentials, demo_client};
use super::seed::{Size, seed};
use super::server::{Demo, Postgres, Server};
use super::subject::Subject;
use crate::measure::{Bound, ratios};
use crate::short;

/// A round trip to the database.
const ROUND_TRIP: Duration = Duration::from_millis(70);
const ROUNDS: usize = 3;
const TIME: Duration = Duration::from_secs(6);

/// Revocations per second. The store must reach [`WANTED`].
const OFFERED: f64 = 1100.0;
const WANTED: f64 = 1000.0;
/// Clients that revoke. Each waits for its answer before its next request.
const REVOKING: usize = 512;

/// Refreshes per second, and clients that refresh.
const REFRESHES: f64 = 40.0;
const REFRESHING: usize = 16;

pub(crate) async fn measure(postgres: &Postgres) {
    let demo = Demo::on(Some(postgres), "far");
    let revoked = short::count(ROUNDS * 7000);
    let size = Size {
        registered: short::count(1000),
        grants: revoked / 2 + REFRESHING,
    };
    let mut refresh_tokens = seed(&demo, size).await;
    // The first start also writes the demo's registrations.
    demo.serve().stop();
    let port = delayed(postgres.socket()).await;
    let demo = demo.moved_to(format!(
        "postgres://postgres@127.0.0.1:{port}/far?sslmode=disable"
    ));
    let server = demo.serve();
    let own = refresh_tokens.split_off(refresh_tokens.len() - REFRESHING);
    let refresh = |number: usize| Refreshes::new(Web::DEMO, vec![own[number].clone()]);
    let far = "PostgreSQL 70 ms away";
    let mut refreshes = Subject::new(
        &format!("{far}: refresh, {REFRESHES} per second"),
        server.address,
        scripts(REFRESHING, refresh),
        Load::paced(TIME, REFRESHES),
    );
    let requests = revocations(&server, refresh_tokens).await;
    let all = requests.len();
    let left = Arc::new(Mutex::new(requests));
    let revoke = |_| {
        let left = Arc::clone(&left);
        move || left.lock().unwrap().pop()
    };
    let mut revocations = Subject::new(
        &format!("{far}: revocations, {OFFERED} offered"),
        server.address,
        scripts(REVOKING, revoke),
        Load::paced(TIME, OFFERED),
    );
    let (told, mut entries) = watch::channel(0);
    let gateway = tokio::spawn(follow(server.internal, move |page: Page| {
        told.send_modify(|entries| *entries += page.revocations.len());
        true
    }));
    // The service opens its connections.
    let second = Duration::from_secs(1);
    tokio::join!(refreshes.warm_up(second), revocations.warm_up(second));
    for _ in 0..short::count(ROUNDS) {
        refreshes.run().await;
        tokio::join!(refreshes.run(), revocations.run());
    }
    // The feed has an entry for each revocation.
    let announced = all - left.lock().unwrap().len();
    entries
        .wait_for(|entries| *entries == announced)
        .await
        .unwrap();
    gateway.abort();
    revocations.print_rates(Some(Bound::AtLeast(WANTED)));
    revocations.print_latencies();
    let p99 = refreshes.each(|block| block.percentile(990));
    let alone: Vec<f64> = p99.iter().step_by(2).copied().collect();
    let beside: Vec<f64> = p99.iter().skip(1).step_by(2).copied().collect();
    refreshes.row("p99 alone", &alone, "ms", None);
    refreshes.row("p99 beside them", &beside, "ms", None);
    let bound = Some(Bound::AtMost(1.5));
    refreshes.row("p99, ratio", &ratios(&beside, &alone), "", bound);
}

/// Requests that revoke the grants of `refresh_tokens` and as many access tokens, in turn.
async fn revocations(server: &Server, refresh_tokens: Vec<String>) -> Vec<Vec<u8>> {
    let mut client = Connection::open(server.address).await;
    let mut requests = Vec::new();
    for token in refresh_tokens {
        requests.push(revocation("web-demo", &token));
        requests.push(revocation_of_new_token(&mut client).await);
    }
    requests
}

fn revocation(client_id: &str, token: &str) -> Vec<u8> {
    let headers = demo_client(client_id);
    post("/auth/revoke", &headers, &form_body(&[("token", token)]))
}

/// A request that revokes a new access token.
pub(super) async fn revocation_of_new_token(client: &mut Connection) -> Vec<u8> {
    let reply = client.ask(&client_credentials()).await;
    revocation("user-bound-demo", &reply.text("access_token"))
}

/// Reads the feed as a gateway does, until `told` returns false.
pub(super) async fn follow(internal: SocketAddr, told: impl Fn(Page) -> bool) {
    let mut connection = Connection::open(internal).await;
    let (mut feed, mut since) = (String::new(), 0);
    loop {
        let path = format!("/revocations?version=1&feed={feed}&since={since}&wait=20");
        let reply = connection.ask(&get(&path, "")).await;
        let page: Page = serde_json::from_slice(&reply.body).unwrap();
        (feed, since) = (page.feed.clone(), page.position);
        if !told(page) {
            return;
        }
    }
}

/// Listens for the service, and passes all bytes on to the socket of the database and back, half a round trip later.
/// Returns the port.
async fn delayed(socket: PathBuf) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((service, _)) = listener.accept().await {
            service.set_nodelay(true).unwrap();
            let database = UnixStream::connect(&socket).await.unwrap();
            let (from_service, to_service) = service.into_split();
            let (from_database, to_database) = database.into_split();
            tokio::spawn(pass_on(from_service, to_database));
            tokio::spawn(pass_on(from_database, to_service));
        }
    });
    port
}

async fn pass_on(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    let (sender, mut late) = mpsc::unbounded_channel();
    let read = async move {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            let bytes = buffer[..length].to_vec();
            if sender
                .send((Instant::now() + ROUND_TRIP / 2, bytes))
                .is_err()
            {
                break;
            }
        }
    };
    let write = async move {
        while let Some((due, bytes)) = late.recv().await {
            sleep_until(due).await;
            if to.write_all(&bytes).await.is_err() {
                break;
            }
        }
    };
    tokio::join!(read, write);
}
