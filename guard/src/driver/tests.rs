use keys::algorithm::Algorithm;
use keys::signature::NoHostVerifier;
use keys::testing::Issuer;
use serde_json::{Value, json};

use super::*;
use crate::Fate;
use crate::config::Config;
use crate::fixtures::{self, NOW, Store, claims, with};
use crate::shared_data::NoSharedData;
use crate::waiting::MAX_WAITING;

/// Both clocks. The monotonic clock differs from the wall clock, as in real hosts.
#[derive(Debug, Clone, Copy)]
struct Clocks {
    wall: u64,
    monotonic: Option<u64>,
}

impl HostClock for Clocks {
    fn wall(&self) -> u64 {
        self.wall
    }

    fn monotonic(&self) -> Option<u64> {
        self.monotonic
    }
}

/// A host that sends, answers and tells the time.
struct Host {
    driver: Driver,
    clocks: Clocks,
    sent: Vec<Fetch>,
    /// Requests that have waited, and their statuses, in the order in which they went on.
    answered: Vec<(u32, u32)>,
    log: Vec<String>,
    requests: u32,
}

const KEYS: FetchKind = FetchKind::Keys;
const FEED: FetchKind = FetchKind::Revocations;

fn config() -> Value {
    let mut config = fixtures::config();
    config["issuers"][0]["revocations"] =
        json!({"cluster": "internal", "path": "/revocations", "poll_seconds": 2});
    config
}

impl Host {
    fn of(guard: impl FnOnce(Guard) -> Guard, monotonic: Option<u64>) -> Self {
        Self::start(&config(), guard, monotonic)
    }

    fn start(config: &Value, guard: impl FnOnce(Guard) -> Guard, monotonic: Option<u64>) -> Self {
        let config = Config::parse(config.to_string().as_bytes(), &NoHostVerifier).unwrap();
        let wall = NOW;
        let clocks = Clocks { wall, monotonic };
        let driver = Driver::new(guard(Guard::new(config)), &clocks).in_batches();
        let mut host = Self::with(driver, clocks);
        assert_eq!(host.driver.next_tick(), SOON);
        host.tick_after(0);
        host
    }

    fn with(driver: Driver, clocks: Clocks) -> Self {
        Self {
            driver,
            clocks,
            sent: Vec::new(),
            answered: Vec::new(),
            log: Vec::new(),
            requests: 0,
        }
    }

    /// Another thread of the same process.
    fn sibling(&self) -> Self {
        let host = Box::new(NoHostVerifier);
        let driver = self
            .driver
            .sibling(host, Box::new(NoSharedData), &self.clocks);
        Self::with(driver, self.clocks)
    }

    /// A host that has sent its first fetches.
    fn new() -> Self {
        Self::of(|guard| guard, Some(1000))
    }

    /// A host that has read these keys and an empty feed.
    fn ready(jwks: &[u8]) -> Self {
        let mut host = Self::new();
        host.answer(KEYS, jwks);
        host.answer(FEED, &page(0, &[], false));
        host
    }

    /// Advances the time and ticks.
    fn tick_after(&mut self, seconds: u64) {
        self.clocks.wall += seconds;
        self.clocks.monotonic = self.clocks.monotonic.map(|time| time + seconds);
        self.driver.tick(&self.clocks);
        self.work();
    }

    fn work(&mut self) {
        while let Some(task) = self.driver.next_task() {
            match task {
                Task::Log(remark) => self.log.push(format!("{:?} {remark}", remark.severity)),
                Task::Send(fetch) => self.sent.push(fetch),
                Task::Answer { id, effect, .. } => self.answered.push((id, status(&effect))),
            }
        }
    }

    fn sends(&self, kind: FetchKind) -> bool {
        self.sent.iter().any(|fetch| fetch.kind == kind)
    }

    #[track_caller]
    fn take(&mut self, kind: FetchKind) -> Fetch {
        let place = self.sent.iter().position(|fetch| fetch.kind == kind);
        self.sent.remove(place.unwrap())
    }

    fn end(&mut self, fetch: &Fetch, result: Result<Vec<u8>, Failure>) {
        self.driver.fetched(fetch, result, &self.clocks);
        self.work();
    }

    /// Ticks until a fetch of this kind is sent.
    fn tick_until(&mut self, kind: FetchKind) {
        while !self.sends(kind) {
            self.tick_after(1);
        }
    }

    #[track_caller]
    fn fail(&mut self, kind: FetchKind) {
        let fetch = self.take(kind);
        self.end(&fetch, Err(Failure::without_response("no connection")));
    }

    #[track_caller]
    fn answer(&mut self, kind: FetchKind, body: &[u8]) {
        let fetch = self.take(kind);
        self.end(&fetch, Ok(body.to_vec()));
    }

    /// Sends a request. Returns its number, and its effect unless it waits.
    fn arrive(&mut self, token: &str) -> (u32, Option<Effect>) {
        self.requests += 1;
        let authorization = format!("Bearer {token}");
        let request = Request {
            method: b"GET",
            target: b"/api/x",
            authorization: &[authorization.as_bytes()],
            dpop: &[],
            connection: &None,
        };
        let denied = Denied::default();
        let id = self.requests;
        let effect = self.driver.arrived(id, request, &denied, &self.clocks);
        (id, effect)
    }

    fn decide(&mut self, token: &str) -> Option<u32> {
        self.arrive(token).1.map(|effect| status(&effect))
    }

    #[track_caller]
    fn hold(&mut self, token: &str) -> u32 {
        let (id, effect) = self.arrive(token);
        assert_eq!(effect, None);
        assert_eq!(self.driver.next_tick(), SOON);
        id
    }

    /// The status of a request that has waited; `None` while it waits.
    fn status(&self, id: u32) -> Option<u32> {
        let mut answered = self.answered.iter();
        answered.find_map(|(other, status)| (*other == id).then_some(*status))
    }

    fn metric(&mut self, name: &str) -> u64 {
        let Metrics { ages, sums, .. } = self.driver.metrics();
        let mut all = ages.into_iter().chain(sums);
        all.find(|(other, _)| *other == name).unwrap().1
    }
}

/// 200 if the request passes.
fn status(effect: &Effect) -> u32 {
    match &effect.fate {
        Fate::Pass { .. } => 200,
        Fate::Answer(answer) => answer.status,
    }
}

fn page(since: u64, tokens: &[&str], more: bool) -> Vec<u8> {
    let entry = |id| json!({"kind": "token", "id": id, "at": NOW, "exp": NOW + 3600});
    let entries: Vec<Value> = tokens.iter().map(entry).collect();
    let position = since + tokens.len() as u64;
    json!({"feed": "A", "since": since, "position": position, "more": more, "holds": true, "revocations": entries})
        .to_string()
        .into_bytes()
}

fn token(issuer: &Issuer, jti: &str) -> String {
    issuer.token(&with(claims(), "jti", json!(jti)))
}

/// A rotation of keys refuses no request: a fetch that started before the request arrived may lack the new key.
/// Whatever clients send, there is at most one fetch in two seconds.
#[test]
fn an_unknown_key_is_looked_for_by_a_fetch_that_starts_after_the_request() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let before = json!({"keys": [issuer.jwk("another")]}).to_string();
    let mut host = Host::ready(before.as_bytes());
    let token = token(&issuer, "one");
    let early = host.hold(&token);
    host.tick_after(0);
    let hurried = host.take(KEYS);
    let late = host.hold(&token);
    host.end(&hurried, Ok(before.into_bytes()));
    assert_eq!(host.status(early), Some(401));
    assert_eq!(host.status(late), None);

    for _ in 0..2 {
        assert!(!host.sends(KEYS));
        host.tick_after(1);
    }
    host.answer(KEYS, &issuer.jwks());
    assert_eq!(host.status(late), Some(200));
}

/// Lets 200 requests wait, and then calls `release`. That and each later tick decide about at most [`BATCH`] requests.
fn assert_in_batches(host: &mut Host, token: &str, expected: u32, release: impl Fn(&mut Host)) {
    let waiting: Vec<u32> = (0..200).map(|_| host.hold(token)).collect();
    host.tick_after(0);
    let mut decided = host.answered.len();
    assert_eq!(decided, 0);
    release(host);
    while host.answered.len() < waiting.len() {
        assert_eq!(host.answered.len() - decided, BATCH);
        assert_eq!(host.driver.next_tick(), SOON);
        decided = host.answered.len();
        host.tick_after(0);
    }
    let answers: Vec<_> = waiting.into_iter().map(|id| (id, expected)).collect();
    assert_eq!(host.answered, answers, "first come, first served");
    assert_eq!(host.driver.next_tick(), TICK, "nobody is in a hurry");
}

#[test]
fn no_callback_answers_more_requests_than_the_stack_holds() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let good = token(&issuer, "one");
    let empty = page(0, &[], false);

    let mut host = Host::new();
    host.answer(FEED, &empty);
    assert_in_batches(&mut host, &good, 200, |host| {
        host.answer(KEYS, &issuer.jwks());
    });

    let mut host = Host::new();
    host.answer(KEYS, &issuer.jwks());
    assert_in_batches(&mut host, &good, 200, |host| host.answer(FEED, &empty));

    // Nothing arrives in time.
    let mut host = Host::new();
    assert_in_batches(&mut host, &good, 503, |host| host.tick_after(5));

    let others = json!({"keys": [issuer.jwk("another")]}).to_string();
    let mut host = Host::ready(others.as_bytes());
    assert_in_batches(&mut host, &good, 401, |host| {
        host.answer(KEYS, others.as_bytes());
    });

    // The first failure is repeated at once, because another replica may know the key.
    let mut host = Host::ready(others.as_bytes());
    assert_in_batches(&mut host, &good, 503, |host| {
        host.answer(KEYS, b"<html>");
        assert_eq!(host.answered, []);
        host.answer(KEYS, b"<html>");
    });
}

#[test]
fn a_host_whose_answers_do_not_nest_answers_all_at_once() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut host = Host::new();
    host.driver.batch = usize::MAX;
    host.answer(FEED, &page(0, &[], false));
    for _ in 0..200 {
        host.hold(&token(&issuer, "one"));
    }
    host.tick_after(0);
    host.answer(KEYS, &issuer.jwks());
    assert_eq!(host.answered.len(), 200);
}

#[test]
fn a_fetch_that_the_host_refuses_is_sent_again_and_not_for_ever() {
    let mut host = Host::new();
    let id = host.hold(&token(&Issuer::new(Algorithm::EdDsa), "one"));
    for expected in [true, false] {
        let fetch = host.take(KEYS);
        host.driver.not_sent(&fetch, "no such cluster");
        host.work();
        assert_eq!(host.sends(KEYS), expected);
    }
    let line = "Warning keys of https://lobby.example.com from cluster token-service at /auth/jwks: no such cluster";
    assert_eq!(host.log, [line]);
    assert_eq!(host.status(id), None, "it waits for the next attempt");
    assert_eq!(host.driver.metrics().counters[7], ("fetches", 0));
}

/// Gateways may start before the token service. A failing fetch is then a warning at first, and an error if it
/// persists. The log has each reason once, however often clients cause a new fetch.
#[test]
fn a_failing_fetch_is_logged_once_and_as_an_error_only_when_it_persists() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut host = Host::new();
    let fail_for = |host: &mut Host, seconds| {
        for _ in 0..seconds {
            while host.sends(KEYS) {
                host.fail(KEYS);
            }
            host.tick_after(1);
        }
    };
    let keys = "keys of https://lobby.example.com from cluster token-service at /auth/jwks:";
    let mut expected = vec![format!("Warning {keys} no connection")];
    fail_for(&mut host, 9);
    assert_eq!(host.log, expected);
    expected.push(format!("Error {keys} no connection"));
    fail_for(&mut host, 60);
    assert_eq!(host.log, expected);
    host.tick_until(KEYS);
    host.answer(KEYS, &issuer.jwks());
    expected.push(format!("Info {keys} fetched, after failures"));
    assert_eq!(host.log, expected);
    // From now on keys are known, and the first failure is an error.
    host.tick_until(KEYS);
    fail_for(&mut host, 60);
    expected.push(format!("Error {keys} no connection"));
    assert_eq!(host.log, expected);
}

/// A request that arrives before the feed is read waits while pages arrive, until the last page.
#[test]
fn a_request_before_the_feed_waits_for_its_last_page() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut host = Host::new();
    host.answer(KEYS, &issuer.jwks());
    let good = host.hold(&token(&issuer, "one"));
    let revoked = host.hold(&token(&issuer, "t6"));
    for since in 0..8 {
        host.answer(FEED, &page(since, &[&format!("t{since}")], since < 7));
        if since < 7 {
            host.tick_after(3);
            assert_eq!(host.answered, [], "after page {since}");
        }
    }
    assert_eq!(host.answered, [(good, 200), (revoked, 401)]);

    // An endless feed does not hold requests for ever.
    let mut host = Host::new();
    host.answer(KEYS, &issuer.jwks());
    let id = host.hold(&token(&issuer, "one"));
    for since in 0..10 {
        assert_eq!(host.status(id), None);
        host.answer(FEED, &page(since, &["x"], true));
        host.tick_after(3);
    }
    assert_eq!(host.status(id), Some(503));
}

/// A host that has keys but no feed yet, and accepts tokens while the feed is stale.
fn allowing(issuer: &Issuer) -> Host {
    let mut config = config();
    config["issuers"][0]["revocations"]["when_stale"] = json!("allow");
    let mut host = Host::start(&config, |guard| guard, Some(1000));
    host.answer(KEYS, &issuer.jwks());
    host
}

/// Otherwise a restart of the gateway would let revoked tokens pass until the feed is read.
#[test]
fn also_where_a_stale_feed_is_allowed_the_first_requests_wait_for_it() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let start = || allowing(&issuer);
    let [good, revoked] = ["one", "two"].map(|jti| token(&issuer, jti));
    let mut host = start();
    let waiting = [&good, &revoked].map(|token| host.hold(token));
    host.answer(FEED, &page(0, &["two"], false));
    assert_eq!(host.answered, [(waiting[0], 200), (waiting[1], 401)]);

    // A token service that is down holds up no request but the first.
    let mut host = start();
    let first = host.hold(&good);
    host.fail(FEED);
    assert_eq!(host.answered, [(first, 200)]);
    assert_eq!(host.decide(&revoked), Some(200));
    // Its first answer counts for tokens in the cache too.
    host.tick_until(FEED);
    host.answer(FEED, &page(0, &["two"], false));
    assert_eq!(host.decide(&revoked), Some(401));

    // Who finds no place to wait is not refused for that.
    for (mut host, expected) in [(start(), 200), (Host::new(), 503)] {
        if host.sends(KEYS) {
            host.answer(KEYS, &issuer.jwks());
        }
        for _ in 0..MAX_WAITING {
            host.hold(&good);
        }
        assert_eq!(host.decide(&good), Some(expected));
    }
}

#[test]
fn what_waits_for_a_shared_feed_goes_on_when_a_read_fails() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let mut config = config();
    let mut second = config["issuers"][0].clone();
    second["issuer"] = json!("https://us1.legacy.example");
    second["jwks"]["path"] = json!("/keys");
    config["issuers"].as_array_mut().unwrap().push(second);
    let mut host = Host::start(&config, |guard| guard, Some(1000));
    // The keys of the first issuer never arrive.
    let keys = |fetch: &Fetch| fetch.endpoint.path == "/keys";
    let keys = host.sent.remove(host.sent.iter().position(keys).unwrap());
    host.end(&keys, Ok(issuer.jwks()));
    let token = with(claims(), "iss", json!("https://us1.legacy.example"));
    let id = host.hold(&issuer.token(&token));
    host.fail(FEED);
    assert_eq!(host.status(id), Some(503));
}

/// The host's clock is set back and forward by hours: the feed is read on, revoked tokens stay revoked, and the age of the
/// feed is right. The same without a monotonic clock.
#[test]
fn steps_of_the_clock_stop_nothing() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let polled = |since, ids: &[&str]| {
        let page = String::from_utf8(page(since, ids, false)).unwrap();
        page.replace(r#""holds":true"#, r#""holds":false"#)
            .into_bytes()
    };
    for monotonic in [None, Some(1000)] {
        for wrong in [NOW - 7200, NOW + 7200] {
            let mut host = Host::of(|guard| guard, monotonic);
            host.answer(KEYS, &issuer.jwks());
            host.answer(FEED, &polled(0, &["one"]));
            for clock in [wrong, NOW + 20] {
                host.clocks.wall = clock;
                for _ in 0..100 {
                    host.tick_after(1);
                    if host.sends(FEED) {
                        let fetch = host.take(FEED);
                        let body = match fetch.endpoint.path.contains("since=0") {
                            true => polled(0, &["one"]),
                            false => polled(1, &[]),
                        };
                        host.end(&fetch, Ok(body));
                    }
                }
                host.tick_after(1);
                assert!(
                    host.metric("revocations_age_seconds") < 10,
                    "{monotonic:?} {wrong}"
                );
            }
            assert_eq!(host.decide(&token(&issuer, "one")), Some(401));
            assert_eq!(host.decide(&token(&issuer, "two")), Some(200));
            let warning = "Warning the clock stepped: all revocations are read again";
            assert!(
                host.log.iter().any(|line| line == warning),
                "{:?}",
                host.log
            );
            // No more responses arrive, so the age rises, whatever the clock shows.
            host.clocks.wall = wrong;
            for _ in 0..40 {
                host.tick_after(1);
            }
            assert!(host.metric("revocations_age_seconds") >= 30);
        }
    }
}

/// One VM has a held request. All VMs read its response at their next tick.
#[test]
fn one_vm_reads_the_feed_for_all() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let store = Store::default();
    let host = |_| {
        let shares = |guard: Guard| guard.with_shared_data(Box::new(store.clone()));
        let mut host = Host::of(shares, Some(1000));
        host.answer(KEYS, &issuer.jwks());
        host.answer(FEED, &page(0, &[], false));
        assert!(host.sent.is_empty(), "no VM has taken over the feed yet");
        host
    };
    let mut hosts: Vec<Host> = (0..3).map(host).collect();
    for _ in 0..3 {
        hosts.iter_mut().for_each(|host| host.tick_after(1));
    }
    let token = token(&issuer, "one");
    for host in &mut hosts {
        assert_eq!(host.decide(&token), Some(200));
        let leads = host.sends(FEED);
        let expected = if leads { TICK } else { FOLLOWING_TICK };
        assert_eq!(host.driver.next_tick(), expected);
    }
    let mut leaders = hosts.iter_mut().filter(|host| host.sends(FEED));
    leaders
        .next()
        .unwrap()
        .answer(FEED, &page(0, &["one"], false));
    assert!(leaders.next().is_none());
    for host in &mut hosts {
        host.tick_after(0);
        assert_eq!(host.decide(&token), Some(401));
    }
}

/// A VM that starts during an outage, long after the others, must not take what they know for fresh.
#[test]
fn a_new_vm_does_not_renew_a_stale_feed() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let store = Store::default();
    let start = |monotonic| {
        let shares = |guard: Guard| guard.with_shared_data(Box::new(store.clone()));
        Host::of(shares, Some(monotonic))
    };
    let token = token(&issuer, "one");
    let mut first = start(1000);
    first.answer(KEYS, &issuer.jwks());
    first.answer(FEED, &page(0, &[], false));
    for _ in 0..3 {
        first.tick_after(1);
    }
    first.answer(FEED, &page(0, &[], false));
    let mut soon = start(1040);
    soon.tick_after(0);
    assert_eq!(soon.decide(&token), Some(200));
    let mut late = start(2000);
    late.tick_after(0);
    assert_eq!(late.decide(&token), None, "it reads the feed first");
    assert!(late.sends(FEED));
}

/// Sends what `sender` wants, and lets both know of it and of its end.
fn fetch_for_both(sender: &mut Host, other: &mut Host, kind: FetchKind, body: &[u8]) {
    let fetch = sender.take(kind);
    other.driver.joins(&fetch, &sender.driver);
    let end = sender
        .driver
        .fetched(&fetch, Ok(body.to_vec()), &sender.clocks);
    other
        .driver
        .adopts(&fetch, end, &sender.driver, &sender.clocks);
    sender.work();
    other.work();
}

/// The drivers of the threads of one process: one of them reads the feed, and any of them may fetch keys.
#[test]
fn drivers_of_one_process_share_keys_and_revocations() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let (good, revoked) = (token(&issuer, "one"), token(&issuer, "two"));
    let mut main = Host::new();
    let mut worker = main.sibling();
    worker.tick_after(0);
    assert!(
        worker.sent.is_empty(),
        "the first driver has asked for both"
    );
    let waiting = worker.hold(&good);
    fetch_for_both(&mut main, &mut worker, KEYS, &issuer.jwks());
    assert_eq!(worker.status(waiting), None);
    fetch_for_both(&mut main, &mut worker, FEED, &page(0, &["other"], true));
    worker.tick_after(0);
    assert_eq!(worker.status(waiting), None, "this is not the last page");
    fetch_for_both(&mut main, &mut worker, FEED, &page(1, &[], false));
    assert_eq!(worker.status(waiting), Some(200));
    for host in [&mut main, &mut worker] {
        assert_eq!(host.decide(&revoked), Some(200));
    }

    // A cached token is refused as soon as one of them has read that it is revoked.
    main.tick_after(1);
    main.answer(FEED, &page(1, &["two"], false));
    for host in [&mut main, &mut worker] {
        assert_eq!(host.decide(&revoked), Some(401));
        assert_eq!(host.decide(&good), Some(200));
    }

    // A new key that a request to the worker needs first.
    let before = json!({"keys": [issuer.jwk("another")]}).to_string();
    let mut main = Host::ready(before.as_bytes());
    let mut worker = main.sibling();
    let waiting = worker.hold(&good);
    worker.tick_after(0);
    fetch_for_both(&mut worker, &mut main, KEYS, &issuer.jwks());
    assert_eq!(worker.status(waiting), Some(200));
    assert_eq!(main.decide(&good), Some(200));

    // A page of the feed takes no wish for keys away.
    let header = with(issuer.header(), "kid", json!("newer"));
    let newer = issuer.sign(&header.to_string(), &claims().to_string());
    let waiting = worker.hold(&newer);
    main.tick_after(1);
    fetch_for_both(&mut main, &mut worker, FEED, &page(0, &[], false));
    worker.tick_after(2);
    assert!(worker.sends(KEYS));
    assert_eq!(worker.status(waiting), None);
}

#[test]
fn ten_lines_in_a_second_and_the_number_of_those_left_out() {
    let mut host = Host::new();
    let mut lines = |count: usize| -> Vec<u64> {
        let denied = Denied::default();
        let lines = (0..count).map(|_| host.driver.denial_line("peer", 403, false, &denied));
        let lines = lines.flatten().map(|line| line.left_out).collect();
        host.tick_after(1);
        lines
    };
    assert_eq!(lines(25), [0; 10]);
    assert_eq!(lines(2), [15, 0]);
}

/// A request whose headers a host may fail to change.
struct Fragile {
    is_removed: bool,
    is_added: bool,
}

impl Passing for Fragile {
    fn remove(&mut self, _: &str) -> bool {
        self.is_removed
    }

    fn add(&mut self, _: &str, _: &str) -> bool {
        self.is_added
    }

    fn tell_access_log(&mut self, _: &str) {}
}

/// The metrics count what the host did, and not what the guard wanted.
#[test]
fn a_request_whose_headers_the_host_cannot_change_is_refused() {
    let issuer = Issuer::new(Algorithm::EdDsa);
    let good = token(&issuer, "one");
    for (report_only, token, is_removed, is_added, expected, counted) in [
        (false, good.as_str(), true, true, 200, "allowed"),
        (false, &good, true, false, 503, "host"),
        (false, &good, false, true, 503, "host"),
        (true, &good, false, true, 503, "host"),
        (true, "nonsense", true, true, 200, "malformed"),
        (true, "nonsense", false, true, 503, "host"),
    ] {
        let mut config = config();
        config["report_only"] = json!(report_only);
        config["forward_authorization"] = json!(false);
        let mut host = Host::start(&config, |guard| guard, Some(1000));
        host.answer(KEYS, &issuer.jwks());
        host.answer(FEED, &page(0, &[], false));
        let mut effect = host.arrive(token).1.unwrap();
        let mut request = Fragile {
            is_removed,
            is_added,
        };
        let denied = Denied::default();
        let line = host.driver.carry_out(&mut effect, &denied, &mut request);
        assert_eq!(status(&effect), expected, "{report_only} {token}");
        let told = line.map(|line| line.json().contains(&format!(r#""reason":"{counted}""#)));
        assert_eq!(told, (counted != "allowed").then_some(true));
        let Metrics {
            counters, denied, ..
        } = host.driver.metrics();
        let is_allowed = u64::from(counted == "allowed");
        let is_reported = u64::from(counted == "malformed");
        assert_eq!(counters[0], ("allowed", is_allowed));
        assert_eq!(counters[2], ("reported", is_reported));
        let expected = (is_allowed == 0).then_some((counted, 1));
        assert!(denied.into_iter().eq(expected), "{report_only} {token}");
    }
}
