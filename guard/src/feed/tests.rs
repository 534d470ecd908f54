use claims::revocation::{Entry, EntryKind};
use serde_json::json;

use super::*;
use crate::fixtures::Store;
use crate::shared_data::NoSharedData;
use crate::verify::{Refusal, TokenReference};

mod sharing;
mod vectors;

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

    /// An entry for an issuer that the feed's readers do not know.
    fn revoke_elsewhere(&mut self) {
        self.revoke("");
        if let Some(entry) = self.entries.last_mut() {
            entry.kind = EntryKind::Issuer;
            entry.iss = Some("https://elsewhere.example".to_owned());
            entry.id = "https://elsewhere.example".to_owned();
        }
    }

    fn answer(&self, path: &str) -> Vec<u8> {
        let parameter = |name: &str| {
            let (_, query) = path.split_once('?').unwrap();
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs
                .find(|(known, _)| *known == name)
                .map(|(_, value)| value.to_owned())
        };
        assert_eq!(parameter("version").as_deref(), Some("1"));
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
        client_id: Some("c".into()),
        sub: Some("u".into()),
        iat: NOW,
        exp: NOW + 3600,
        ..TokenReference::default()
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

/// Sends the request that is due, and applies the answer. Returns the path of the request.
#[track_caller]
fn read_page(feed: &mut Feed, service: &Service, now: u64) -> String {
    let request = feed.due(now).unwrap();
    let body = service.answer(&request.path);
    feed.answered(&body, &NoSharedData, at(now)).unwrap();
    request.path
}

/// The path of a request for entries after the last one.
fn end(feed: &Feed, service: &Service) -> String {
    let identity = feed.identity.clone().unwrap_or_default();
    format!(
        "/revocations?version=1&feed={identity}&since={}",
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

/// The service announces that it holds requests, but answers at once.
#[test]
fn a_service_that_only_says_that_it_holds_is_not_asked_without_end() {
    let service = Service::new("A");
    let asked = asked_in(10, |_, path| service.answer(path));
    assert!(asked <= 12, "{asked}");
}

/// The number of requests that a reader sends in so many seconds to feeds that answer at once. `answer` gets the number and
/// the path of each request.
fn asked_in(seconds: u64, answer: impl Fn(usize, &str) -> Vec<u8>) -> usize {
    let mut feed = alone();
    let mut asked = 0;
    for now in 0..seconds {
        while let Some(request) = feed.due(now) {
            let body = answer(asked, &request.path);
            feed.answered(&body, &NoSharedData, at(now)).unwrap();
            asked += 1;
            assert!(asked < 3000, "without end");
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
        let first = one.answer("/revocations?version=1&since=0");
        let of_cache = asked_in(60, |_, _| first.clone());
        // A cache answers every request behind the start with the same page.
        let cached = one.answer("/revocations?version=1&feed=A&since=3");
        let of_middle = asked_in(60, |number, path| match number {
            0 => one.answer(path),
            _ => cached.clone(),
        });
        // Several stores share an address.
        let of_stores = asked_in(60, |number, path| stores[number % 3].answer(path));
        let of_empty = asked_in(60, |number, path| stores[1 + number % 2].answer(path));
        let all = [of_cache, of_middle, of_stores, of_empty];
        assert!(all.iter().all(|asked| (25..=40).contains(asked)), "{all:?}");
    }
}

/// Pages say "more" for ever, each with a new position and an old entry. As many pages as a feed may have are read at once.
#[test]
fn a_feed_that_never_ends_is_asked_with_pauses() {
    for (entries, at_once) in [(1, 2001), (1000, 2010)] {
        let asked = asked_in(60, |number, _| {
            let kept = if number == 0 { 0..entries } else { 0..1 };
            let entry = |id: usize| json!({"kind": "token", "id": id.to_string(), "at": 0, "exp": NOW + 3600});
            let page = json!({
                "feed": "A", "since": number, "position": number + 1, "more": true, "holds": true,
                "revocations": kept.map(entry).collect::<Vec<_>>(),
            });
            page.to_string().into_bytes()
        });
        let pauses = asked - at_once;
        assert!((25..=40).contains(&pauses), "{entries}: {asked}");
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
            let body = service.answer("/revocations?version=1&feed=Z&since=5&wait=20");
            feed.answered(&body, &NoSharedData, at(now)).unwrap();
        }
        let paths = read_up(&mut feed, &service, &NoSharedData, now);
        assert!(paths.last().unwrap().contains("wait=20"), "{paths:?}");
        assert!(is_revoked(&feed, &format!("{identity} 4")));
        let nothing = service.answer("/revocations?version=1&since=5&wait=20");
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
        let path = read_page(&mut feed, &service, now);
        assert_eq!(path, "/revocations?version=1&feed=A&since=0");
        assert_eq!(feed.due(now), None);
    }
    let request = feed.due(75).unwrap();
    assert!(request.path.ends_with("&wait=20"));
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
    assert_eq!(feed.take_counts(), [0, 2]);
    assert!(feed.freshness().suffices(60, 90));
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
    read_page(&mut feed, &service, 0);
    service.page = 1;
    for now in 1..700_u64 {
        service.revoke(&format!("{now}"));
        service.revoke(&format!("{now} and another"));
        read_page(&mut feed, &service, now);
        assert_eq!(feed.freshness().suffices(60, now), now <= 600, "{now}");
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
        assert_eq!(request.path, "/revocations?version=1&feed=A&since=0");
        feed.answered(&service.answer(&request.path), &NoSharedData, time)
            .unwrap();
        // The age follows the steady clock.
        assert!(feed.freshness().suffices(60, 61) && !feed.freshness().suffices(60, 62));

        feed.doubt(2);
        let path = read_page(&mut feed, &service, 2);
        assert_eq!(path, "/revocations?version=1&feed=A&since=0");
        assert!(is_revoked(&feed, "a"), "{step}");
        // The answer to the earlier held request does not count for the new reading.
        assert_eq!(feed.position, 1);
    }
}
