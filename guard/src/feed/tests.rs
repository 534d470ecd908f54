use claims::revocation::{Entry, EntryKind};
use serde_json::json;

use super::*;
use crate::fixtures::Store;
use crate::verify::{Refusal, TokenReference};

const NOW: u64 = 1_800_000_000;
const ISS: &str = "https://lobby.example.com";

fn at(steady: u64) -> Time {
    Time {
        wall: NOW + steady,
        steady,
    }
}

fn config() -> FeedConfig {
    FeedConfig {
        endpoint: Endpoint {
            cluster: "internal".into(),
            authority: "internal".into(),
            path: "/revocations".into(),
        },
        issuers: vec![ISS.into()],
        poll_seconds: 2,
        max_staleness_seconds: 60,
        max_entries: 100_000,
        skew: 5,
    }
}

/// A token service.
struct Service {
    feed: String,
    entries: Vec<Entry>,
    page: usize,
    holds: bool,
}

impl Service {
    fn new(feed: &str) -> Self {
        Self {
            feed: feed.into(),
            entries: Vec::new(),
            page: 100,
            holds: true,
        }
    }

    fn revoke(&mut self, jti: &str) {
        self.entries.push(Entry {
            kind: EntryKind::Token,
            id: jti.into(),
            iss: None,
            user_id: None,
            user_site: None,
            client_id: None,
            at: NOW,
            exp: NOW + 3600,
        });
    }

    fn answer(&self, path: &str) -> Vec<u8> {
        let parameter = |name: &str| {
            let (_, query) = path.split_once('?').unwrap();
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs
                .find(|(known, _)| *known == name)
                .map(|(_, value)| value.to_owned())
        };
        assert_eq!(parameter("version").as_deref(), Some("2"));
        let since: usize = parameter("since").unwrap().parse().unwrap();
        let is_ours = parameter("feed").is_none_or(|feed| feed == self.feed);
        let since = if is_ours && since <= self.entries.len() {
            since
        } else {
            0
        };
        let end = self.entries.len().min(since + self.page);
        let page = claims::revocation::Page {
            feed: self.feed.clone(),
            since: since as u64,
            position: end as u64,
            more: end < self.entries.len(),
            holds: self.holds,
            revocations: self.entries[since..end].to_vec(),
        };
        serde_json::to_vec(&page).unwrap()
    }
}

fn is_revoked(feed: &Feed, jti: &str) -> bool {
    let token = TokenReference {
        jti: Some(jti.into()),
        grant_id: None,
        client_id: Some("c".into()),
        sub: Some("u".into()),
        user_id: None,
        user_site: None,
        iat: NOW,
        exp: NOW + 3600,
    };
    feed.revocations().refusal(&token, ISS, 0) == Some(Refusal::Revoked)
}

/// Sends requests and applies answers until no request is due. Returns the paths of the requests.
fn read_up(feed: &mut Feed, service: &Service, data: &dyn SharedData, now: u64) -> Vec<String> {
    let mut paths = Vec::new();
    while let Some(request) = feed.due(now) {
        if request.path.contains("wait=")
            && service.answer(&request.path) == service.answer(&end(feed, service))
        {
            // The service holds the request.
            paths.push(request.path);
            break;
        }
        let body = service.answer(&request.path);
        feed.answered(&body, data, at(now)).unwrap();
        paths.push(request.path);
    }
    paths
}

/// The path of a request for entries after the last one.
fn end(feed: &Feed, service: &Service) -> String {
    let identity = feed.identity.clone().unwrap_or_default();
    format!(
        "/revocations?version=2&feed={identity}&since={}",
        service.entries.len()
    )
}

fn alone() -> Feed {
    Feed::new(config())
}

fn sharing() -> Feed {
    let mut feed = Feed::new(config());
    feed.share();
    feed
}

#[test]
fn a_feed_is_read_page_by_page_and_then_held() {
    let mut service = Service::new("A");
    for number in 0..250 {
        service.revoke(&format!("t{number}"));
    }
    let mut feed = alone();
    let paths = read_up(&mut feed, &service, &NoSharedData, 0);
    assert_eq!(
        paths,
        [
            "/revocations?version=2&since=0",
            "/revocations?version=2&feed=A&since=100",
            "/revocations?version=2&feed=A&since=200",
            "/revocations?version=2&feed=A&since=250&wait=20",
        ]
    );
    assert!(is_revoked(&feed, "t0") && is_revoked(&feed, "t249"));
    assert_eq!(feed.completed_at(), Some(0));
    // The service answers the held request as soon as something is revoked, and the next request follows at
    // once.
    assert_eq!(feed.due(9), None);
    service.revoke("now");
    let body = service.answer("/revocations?version=2&feed=A&since=250&wait=20");
    feed.answered(&body, &NoSharedData, at(9)).unwrap();
    assert!(is_revoked(&feed, "now"));
    let next = feed.due(9).unwrap();
    assert_eq!(next.path, "/revocations?version=2&feed=A&since=251&wait=20");
    assert!(next.timeout > 20);
}

#[test]
fn a_service_that_does_not_hold_is_polled() {
    let mut service = Service::new("A");
    service.holds = false;
    let mut feed = alone();
    assert_eq!(read_up(&mut feed, &service, &NoSharedData, 0).len(), 1);
    assert_eq!(feed.due(1), None);
    let next = feed.due(2).unwrap();
    assert_eq!(next.path, "/revocations?version=2&feed=A&since=0");
}

/// The service announces that it holds requests, but answers at once.
#[test]
fn a_service_that_only_says_that_it_holds_is_not_asked_without_end() {
    let service = Service::new("A");
    let mut feed = alone();
    let mut asked = 0;
    for now in 0..10 {
        while let Some(request) = feed.due(now) {
            asked += 1;
            let body = service.answer(&request.path);
            feed.answered(&body, &NoSharedData, at(now)).unwrap();
        }
    }
    assert!(asked <= 12, "{asked}");
}

/// The number of requests that a reader sends in a minute to feeds that answer at once. `answer` gets the number and
/// the path of each request.
fn asked_in_a_minute(answer: impl Fn(usize, &str) -> Vec<u8>) -> usize {
    let mut feed = alone();
    let mut asked = 0;
    for now in 0..60 {
        while let Some(request) = feed.due(now) {
            let body = answer(asked, &request.path);
            feed.answered(&body, &NoSharedData, at(now)).unwrap();
            asked += 1;
            assert!(asked < 1000, "without end");
        }
    }
    asked
}

#[test]
fn a_feed_that_never_settles_is_asked_with_pauses() {
    let service = |identity: &str, entries: usize, page: usize| {
        let mut service = Service::new(identity);
        service.page = page;
        (0..entries).for_each(|number| service.revoke(&format!("{identity} {number}")));
        service
    };
    for page in [3, 100] {
        let one = service("A", 10, page);
        let stores = [&one, &service("B", 7, page), &service("C", 0, page)];
        // A cache drops the query.
        let first = one.answer("/revocations?version=2&since=0");
        let of_cache = asked_in_a_minute(|_, _| first.clone());
        // A cache answers every request behind the start with the same page.
        let cached = one.answer("/revocations?version=2&feed=A&since=3");
        let of_middle = asked_in_a_minute(|number, path| match number {
            0 => one.answer(path),
            _ => cached.clone(),
        });
        // Several stores share an address.
        let of_stores = asked_in_a_minute(|number, path| stores[number % 3].answer(path));
        let of_empty = asked_in_a_minute(|number, path| stores[1 + number % 2].answer(path));
        let all = [of_cache, of_middle, of_stores, of_empty];
        assert!(all.iter().all(|asked| (25..=40).contains(asked)), "{all:?}");
    }
}

/// After pauses, the next restore is read at once again.
#[test]
fn a_feed_that_settles_is_read_at_once_again() {
    let mut feed = alone();
    for (now, identity) in [(0, "A"), (100, "B"), (200, "C")] {
        let mut service = Service::new(identity);
        service.page = 1;
        (0..5).for_each(|number| service.revoke(&format!("{identity} {number}")));
        if now > 0 {
            let body = service.answer("/revocations?version=2&feed=Z&since=5&wait=20");
            feed.answered(&body, &NoSharedData, at(now)).unwrap();
        }
        let paths = read_up(&mut feed, &service, &NoSharedData, now);
        assert!(paths.last().unwrap().contains("wait=20"), "{paths:?}");
        assert!(is_revoked(&feed, &format!("{identity} 4")));
        let nothing = service.answer("/revocations?version=2&since=5&wait=20");
        feed.answered(&nothing, &NoSharedData, at(now + 20))
            .unwrap();
        feed.due(now + 20).unwrap();
    }
}

/// A proxy in between cuts long requests, but short requests succeed.
#[test]
fn where_held_requests_fail_short_ones_follow() {
    let service = Service::new("A");
    let mut feed = alone();
    read_up(&mut feed, &service, &NoSharedData, 0);
    feed.failed(15);
    assert_eq!(feed.due(15), None);
    for now in [16, 18, 20] {
        let request = feed.due(now).unwrap();
        assert_eq!(request.path, "/revocations?version=2&feed=A&since=0");
        let body = service.answer(&request.path);
        feed.answered(&body, &NoSharedData, at(now)).unwrap();
        assert_eq!(feed.due(now), None);
    }
    let request = feed.due(75).unwrap();
    assert!(request.path.ends_with("&wait=20"));
}

/// A backup is restored, so positions have a new meaning. Revoked tokens stay revoked, and the reader reads the
/// whole new feed.
#[test]
fn another_feed_is_read_from_its_start() {
    let mut service = Service::new("A");
    for number in 0..5 {
        service.revoke(&format!("a{number}"));
    }
    let mut feed = alone();
    read_up(&mut feed, &service, &NoSharedData, 0);
    let generation = feed.revocations().generation();
    let mut restored = Service::new("B");
    restored.page = 3;
    for number in 0..7 {
        restored.revoke(&format!("b{number}"));
    }
    feed.failed(1);
    read_up(&mut feed, &restored, &NoSharedData, 2);
    assert!((0..5).all(|number| is_revoked(&feed, &format!("a{number}"))));
    assert!((0..7).all(|number| is_revoked(&feed, &format!("b{number}"))));
    assert!(feed.revocations().generation() > generation);
    assert_eq!(feed.position, 7);
}

/// The same feed has fewer entries than the reader has read: its positions went back.
#[test]
fn a_position_that_goes_back_is_read_from_its_start() {
    let mut service = Service::new("A");
    for number in 0..5 {
        service.revoke(&format!("a{number}"));
    }
    let mut feed = alone();
    read_up(&mut feed, &service, &NoSharedData, 0);
    service.entries.clear();
    service.revoke("b");
    feed.failed(1);
    read_up(&mut feed, &service, &NoSharedData, 2);
    assert!(is_revoked(&feed, "a4") && is_revoked(&feed, "b"));
    assert_eq!(feed.position, 1);
}

/// A newer token service sends unknown kinds. They are logged once, and all other entries count.
#[test]
fn unknown_kinds_leave_the_feed_open() {
    let mut feed = alone();
    for (now, id, expected) in [(0, "a", 1), (30, "b", 0)] {
        feed.due(now).unwrap();
        let page = json!({
            "feed": "A", "since": now, "position": now + 2, "more": false, "holds": false,
            "revocations": [
                {"kind": "planet", "id": "earth", "at": 0, "exp": NOW + 3600},
                {"kind": "token", "id": id, "at": 0, "exp": NOW + 3600},
            ],
        });
        feed.position = now;
        feed.answered(page.to_string().as_bytes(), &NoSharedData, at(now))
            .unwrap();
        assert!(is_revoked(&feed, id));
        assert_eq!(feed.take_remarks().len(), expected);
    }
    assert_eq!(feed.skipped(), 2);
    assert!(feed.is_fresh(60, 90));
}

#[test]
fn a_bad_page_changes_nothing() {
    let mut service = Service::new("A");
    service.revoke("a");
    let mut feed = alone();
    read_up(&mut feed, &service, &NoSharedData, 0);
    let page = |since: u64, position: u64, more: bool, feed: &str| {
        json!({"feed": feed, "since": since, "position": position, "more": more, "holds": true,
            "revocations": [{"kind": "token", "id": "b", "at": 0, "exp": NOW + 3600}]})
        .to_string()
    };
    for bad in [
        page(1, 0, false, "A"),
        page(1, 1, true, "A"),
        page(1, 2, false, "A&since=0"),
        page(1, 2, false, ""),
    ] {
        assert!(feed.answered(bad.as_bytes(), &NoSharedData, at(9)).is_err());
        assert_eq!((feed.position, feed.completed_at()), (1, Some(0)));
        assert!(!is_revoked(&feed, "b"));
    }
}

/// A reader that receives page after page is behind, but not stale. Without an end of the feed, it becomes
/// stale in the end.
#[test]
fn pages_in_order_keep_the_feed_fresh_for_a_while() {
    let mut service = Service::new("A");
    let mut feed = alone();
    service.revoke("0");
    feed.due(0).unwrap();
    let body = service.answer("/revocations?version=2&since=0");
    feed.answered(&body, &NoSharedData, at(0)).unwrap();
    service.page = 1;
    for now in 1..700_u64 {
        service.revoke(&format!("{now}"));
        service.revoke(&format!("{now} and another"));
        let request = feed.due(now).unwrap();
        let body = service.answer(&request.path);
        feed.answered(&body, &NoSharedData, at(now)).unwrap();
        assert_eq!(feed.is_fresh(60, now), now <= 600, "{now}");
    }
    assert_eq!(feed.completed_at(), Some(0), "the age says the truth");
}

/// The wall clock goes an hour ahead and comes back, and the other way round.
#[test]
fn steps_of_the_clock_bring_back_what_was_forgotten() {
    for step in [7200_i64, -7200] {
        let mut service = Service::new("A");
        service.revoke("a");
        let mut feed = alone();
        read_up(&mut feed, &service, &NoSharedData, 0);
        let wrong = (NOW + 1).checked_add_signed(step).unwrap();
        feed.doubt(1);
        for _ in 0..100 {
            feed.sweep(wrong);
        }
        let time = Time {
            wall: wrong,
            steady: 1,
        };
        let request = feed.due(1).unwrap();
        assert_eq!(request.path, "/revocations?version=2&feed=A&since=0");
        feed.answered(&service.answer(&request.path), &NoSharedData, time)
            .unwrap();
        // The age follows the steady clock.
        assert!(feed.is_fresh(60, 61) && !feed.is_fresh(60, 62));

        feed.doubt(2);
        let token = |feed: &Feed| is_revoked(feed, "a");
        let request = feed.due(2).unwrap();
        assert_eq!(request.path, "/revocations?version=2&feed=A&since=0");
        feed.answered(&service.answer(&request.path), &NoSharedData, at(2))
            .unwrap();
        assert!(token(&feed), "{step}");
        // The answer to the earlier held request does not count for the new reading.
        assert_eq!(feed.position, 1);
    }
}

/// The VMs of a gateway, and a service. A held request stays with its VM until there is an answer.
struct Gateway {
    vms: Vec<(Feed, Option<String>)>,
    store: Store,
    service: Service,
    now: u64,
    /// All requests so far.
    requests: Vec<(usize, String)>,
}

impl Gateway {
    fn new(vms: usize) -> Self {
        Self {
            vms: (0..vms).map(|_| (sharing(), None)).collect(),
            store: Store::default(),
            service: Service::new("A"),
            now: 0,
            requests: Vec::new(),
        }
    }

    /// Runs one tick of all VMs.
    fn tick(&mut self) {
        for (number, (feed, held)) in self.vms.iter_mut().enumerate() {
            let time = at(self.now);
            feed.keep_in_step(&self.store, time);
            loop {
                if held.is_none() {
                    let Some(request) = feed.due(self.now) else {
                        break;
                    };
                    self.requests.push((number, request.path.clone()));
                    *held = Some(request.path);
                }
                let path = held.clone().unwrap();
                if path.is_empty() {
                    // The service never answers.
                    break;
                }
                let since = path
                    .split("since=")
                    .nth(1)
                    .unwrap()
                    .split('&')
                    .next()
                    .unwrap();
                let is_at_end = since == self.service.entries.len().to_string()
                    && path.contains(&format!("feed={}&", self.service.feed));
                if path.contains("wait=") && is_at_end && !self.now.is_multiple_of(20) {
                    break;
                }
                *held = None;
                feed.answered(&self.service.answer(&path), &self.store, time)
                    .unwrap();
                if path.contains("wait=") {
                    break;
                }
            }
        }
    }

    fn seconds(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += 1;
            for _ in 0..3 {
                self.tick();
            }
        }
    }

    fn leaders(&self) -> Vec<usize> {
        let vms = self.vms.iter().enumerate();
        vms.filter(|(_, (feed, _))| feed.sharing.role == Role::Leader)
            .map(|(number, _)| number)
            .collect()
    }

    #[track_caller]
    fn assert_all_know(&self, jti: &str) {
        for (number, (feed, _)) in self.vms.iter().enumerate() {
            assert!(is_revoked(feed, jti), "{jti} in {number}");
        }
    }
}

#[test]
fn one_vm_polls_for_all() {
    let mut gateway = Gateway::new(5);
    gateway.service.revoke("before");
    gateway.seconds(3);
    gateway.assert_all_know("before");
    assert_eq!(gateway.leaders().len(), 1);
    gateway.requests.clear();
    for number in 0..300 {
        gateway.service.revoke(&format!("{number}"));
        gateway.tick();
        gateway.tick();
        gateway.assert_all_know(&format!("{number}"));
    }
    gateway.seconds(100);
    let leader = gateway.leaders()[0];
    for (vm, path) in &gateway.requests {
        assert!(*vm == leader && path.contains("wait=20"), "{vm} {path}");
    }
    for (feed, _) in &gateway.vms {
        assert!(feed.is_fresh(60, gateway.now));
    }
    // The feed stops answering all VMs.
    let now = gateway.now;
    gateway
        .vms
        .iter_mut()
        .for_each(|(_, held)| *held = Some(String::new()));
    for (feed, _) in &mut gateway.vms {
        assert!(!feed.is_fresh(60, now + 100));
    }
}

#[test]
fn another_vm_takes_over_when_the_leader_dies() {
    let mut gateway = Gateway::new(4);
    gateway.seconds(3);
    for round in 0..3 {
        let dead = gateway.leaders()[0];
        gateway.vms[dead] = (sharing(), None);
        gateway.service.revoke(&format!("{round}"));
        gateway.seconds(6);
        gateway.assert_all_know(&format!("{round}"));
        assert_eq!(gateway.leaders().len(), 1);
        assert_ne!(gateway.leaders(), [dead]);
    }
}

/// A VM that ends in order leaves no gap of seconds without a leader.
#[test]
fn another_vm_takes_over_at_once_from_a_leader_that_ends() {
    let mut gateway = Gateway::new(3);
    gateway.seconds(3);
    for _ in 0..3 {
        let ended = gateway.leaders()[0];
        let store = gateway.store.clone();
        gateway.vms[ended].0.resign(&store);
        gateway.vms[ended] = (sharing(), None);
        gateway.seconds(1);
        assert_eq!(gateway.leaders().len(), 1);
        assert_ne!(gateway.leaders(), [ended]);
        // Only the leader gives the lease up.
        let follower = (gateway.leaders()[0] + 1) % 3;
        let leaders = gateway.leaders();
        gateway.vms[follower].0.resign(&store);
        gateway.seconds(2);
        assert_eq!(gateway.leaders(), leaders);
    }
}

#[test]
fn a_vm_that_fell_out_of_the_ring_catches_up_by_itself() {
    let mut gateway = Gateway::new(3);
    gateway.seconds(3);
    let leader = gateway.leaders()[0];
    let slow = (leader + 1) % 3;
    let (feed, _) = std::mem::replace(&mut gateway.vms[slow], (sharing(), None));
    gateway.seconds(2);
    gateway.service.page = 5000;
    for _ in 0..20 {
        for number in 0..1500 {
            gateway.service.revoke(&format!("{} {number}", gateway.now));
        }
        gateway.seconds(1);
    }
    gateway.vms[slow] = (feed, None);
    gateway.requests.clear();
    let last = format!("{} 1499", gateway.now - 1);
    gateway.seconds(1);
    gateway.assert_all_know(&last);
    let own = gateway
        .requests
        .iter()
        .filter(|(vm, _)| *vm == slow)
        .count();
    assert!((1..=7).contains(&own), "{:?}", gateway.requests);
    gateway.requests.clear();
    gateway.service.revoke("next");
    gateway.seconds(1);
    gateway.assert_all_know("next");
    assert!(gateway.requests.iter().all(|(vm, _)| *vm == leader));
}

/// After a restore of the store, every VM reads the new feed from its start, and then one VM polls again.
#[test]
fn all_vms_follow_to_another_feed() {
    let mut gateway = Gateway::new(4);
    for number in 0..10 {
        gateway.service.revoke(&format!("a{number}"));
    }
    gateway.seconds(3);
    gateway.service = Service::new("B");
    for number in 0..30 {
        gateway.service.revoke(&format!("b{number}"));
    }
    gateway.seconds(6);
    for number in 0..10 {
        gateway.assert_all_know(&format!("a{number}"));
        gateway.assert_all_know(&format!("b{number}"));
    }
    gateway.requests.clear();
    gateway.service.revoke("next");
    gateway.seconds(1);
    gateway.assert_all_know("next");
    assert!(gateway.requests.len() <= 2, "{:?}", gateway.requests);
}

/// The configuration changes while the token service is away: new VMs know what the earlier VMs knew, and not more.
#[test]
fn a_new_vm_takes_over_what_the_others_know() {
    for later in [0, 30, 20_000] {
        let mut gateway = Gateway::new(3);
        (0..30).for_each(|number| gateway.service.revoke(&format!("a{number}")));
        gateway.seconds(25);
        gateway.service.page = 1500;
        for number in 0..later {
            gateway.service.revoke(&format!("b{number}"));
            if number % 1000 == 0 || later < 100 {
                gateway.tick();
            }
        }
        gateway.seconds(30);
        let answered_at = gateway
            .vms
            .iter()
            .filter_map(|(feed, _)| feed.completed_at());
        let answered_at = answered_at.max().unwrap();
        let mut new = sharing();
        let now = answered_at + 60;
        assert!(new.keep_in_step(&gateway.store, at(now)));
        assert_eq!(new.due(now), None);
        assert!((0..30).all(|number| is_revoked(&new, &format!("a{number}"))));
        assert!((0..later).all(|number| is_revoked(&new, &format!("b{number}"))));
        assert!(!is_revoked(&new, "c"));
        assert_eq!(new.completed_at(), Some(answered_at));
        assert!(new.is_fresh(60, answered_at + 60) && !new.is_fresh(60, answered_at + 61));
        // What is stale is read on at once.
        let mut late = sharing();
        assert!(!late.keep_in_step(&gateway.store, at(answered_at + 61)));
        let request = late.due(answered_at + 61).unwrap();
        assert!(request.path.contains("feed=A&since=") && !request.path.contains("since=0"));
        assert!(is_revoked(&late, "a29"));
        // Nothing of another feed.
        let mut other = config();
        other.endpoint.path = "/other".into();
        let mut other = Feed::new(other);
        other.share();
        assert!(!other.keep_in_step(&gateway.store, at(now)));
        assert!(other.due(now).is_some());
    }
}

/// However rarely the VMs would poll for themselves.
#[test]
fn all_vms_read_another_feed_at_once() {
    let mut gateway = Gateway::new(4);
    for (feed, _) in &mut gateway.vms {
        *feed = Feed::new(FeedConfig {
            poll_seconds: 50,
            ..config()
        });
        feed.share();
    }
    gateway.service.revoke("a");
    gateway.seconds(3);
    for (round, identity) in ["B", "C"].into_iter().enumerate() {
        gateway.service = Service::new(identity);
        gateway.service.revoke(identity);
        // The leader's held request ends.
        gateway.now = 100 * (round as u64 + 1);
        for _ in 0..3 {
            gateway.tick();
        }
        gateway.assert_all_know(identity);
        gateway.seconds(30);
    }
}

#[test]
fn a_leader_without_answers_lets_others_try() {
    let mut gateway = Gateway::new(2);
    gateway.seconds(3);
    let cut_off = gateway.leaders()[0];
    // Its requests are never answered, and do not time out.
    for second in 0..60 {
        gateway.vms[cut_off].1 = Some(String::new());
        gateway.seconds(1);
        if second > 45 {
            assert_eq!(gateway.leaders(), [1 - cut_off]);
        }
    }
}

#[test]
fn without_shared_data_every_vm_polls() {
    let forgetful = Store {
        forgets: true,
        ..Store::default()
    };
    for store in [&NoSharedData as &dyn SharedData, &forgetful] {
        let service = Service::new("A");
        let mut feed = sharing();
        read_up(&mut feed, &service, store, 0);
        for now in 0..3 {
            feed.keep_in_step(store, at(now));
        }
        assert_eq!(feed.sharing.role, Role::Alone);
        assert!(feed.due(3).unwrap().path.ends_with("wait=20"));
    }
}

/// Two feeds in one `vm_id`.
#[test]
fn other_issuers_and_endpoints_share_nothing() {
    let mut others = [config(), config(), config()];
    others[0].issuers.push("https://other".into());
    others[1].endpoint.cluster = "other".into();
    others[2].endpoint.path = "/other".into();
    for other in others {
        assert_ne!(prefix(&other), prefix(&config()));
    }
}
