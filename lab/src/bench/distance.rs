//! Revocations while the database is far away, beside refreshes: a proxy delays all bytes between service and database.

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

use super::scripts::{Assertions, Refreshes, Web, client_credentials, demo_client};
use super::seed::{Size, seed};
use super::server::{Demo, Postgres, Server};
use crate::http::{Connection, Load, block, get, post, scripts};
use crate::measure::{Bound, Latencies, percentile, row};
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
    let mut refreshes = scripts(REFRESHING, refresh);
    let requests = revocations(&server, refresh_tokens).await;
    let all = requests.len();
    let left = Arc::new(Mutex::new(requests));
    let mut revocations = scripts(REVOKING, |_| Assertions(Arc::clone(&left)));
    let (told, mut entries) = watch::channel(0);
    let gateway = tokio::spawn(follow(server.internal, move |page: Page| {
        told.send_modify(|entries| *entries += page.revocations.len());
        true
    }));
    let refreshing = Load {
        time: TIME,
        rate: Some(REFRESHES),
    };
    let revoking = Load {
        time: TIME,
        rate: Some(OFFERED),
    };
    // The service opens its connections.
    let warm_up = |load: Load| Load {
        time: Duration::from_secs(1),
        ..load
    };
    tokio::join!(
        block(server.address, &mut refreshes, warm_up(refreshing)),
        block(server.address, &mut revocations, warm_up(revoking))
    );
    let mut all_revoked = Latencies::default();
    let (mut alone, mut beside, mut ratios) = (vec![], vec![], vec![]);
    for _ in 0..short::count(ROUNDS) {
        let quiet = block(server.address, &mut refreshes, refreshing).await;
        let (busy, revoked) = tokio::join!(
            block(server.address, &mut refreshes, refreshing),
            block(server.address, &mut revocations, revoking)
        );
        all_revoked.add(&revoked);
        alone.push(percentile(&quiet.times, 990));
        beside.push(percentile(&busy.times, 990));
        ratios.push(percentile(&busy.times, 990) / percentile(&quiet.times, 990));
    }
    // The feed has an entry for each revocation.
    let announced = all - left.lock().unwrap().len();
    entries
        .wait_for(|entries| *entries == announced)
        .await
        .unwrap();
    gateway.abort();
    let what = "PostgreSQL 70 ms away";
    let named = format!("{what}: revocations, {OFFERED} offered");
    let bound = Some(Bound::AtLeast(WANTED));
    row(&named, &all_revoked.rates, "1/s", bound);
    all_revoked.print(&format!("{what}: revocation"));
    let what = format!("{what}: refresh, {REFRESHES} per second");
    row(&format!("{what}: p99 alone"), &alone, "ms", None);
    row(&format!("{what}: p99 beside them"), &beside, "ms", None);
    let bound = Some(Bound::AtMost(1.5));
    row(&format!("{what}: p99, ratio"), &ratios, "", bound);
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
