use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use super::*;
use claims::Thumbprint;
use claims::revocation::EntryKind;
use domain::clock::Timestamp;
use domain::{ClientId, Extent, FeedId, GrantId, Revoked, TokenId, Username};
use store::redb::RedbStore;
use system::OsRandom;

const HOUR: Duration = Duration::from_secs(3600);
const ISSUER: &str = "https://lobby.example.com";

struct Fixture {
    _folder: TempDir,
    store: Arc<dyn Store>,
    feed: Arc<RevocationFeed>,
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_seconds(1_800_000_000 + seconds)
}

fn extent(seconds: u64) -> Extent {
    Extent::of(at(seconds), HOUR)
}

fn store_in(folder: &Path) -> Arc<dyn Store> {
    Arc::new(RedbStore::open(&folder.join("store.redb"), HOUR).unwrap())
}

impl Fixture {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let store = store_in(folder.path());
        let feed = RevocationFeed::new(
            Arc::clone(&store),
            ISSUER.to_owned(),
            FeedMetrics::default(),
        );
        let feed = Arc::new(feed);
        let following = Arc::clone(&feed);
        tokio::spawn(async move { following.follow().await });
        Self {
            _folder: folder,
            store,
            feed,
        }
    }

    async fn revoke(&self) -> String {
        let id = TokenId::generate(&OsRandom).unwrap();
        let revoked = Revoked::Token(id);
        assert!(
            self.store
                .announce(revoked, extent(0), Arc::default())
                .await
                .unwrap()
        );
        id.to_string()
    }

    async fn page(&self, feed: Option<&str>, since: u64, wait: u64) -> Page {
        let reader = Reader {
            feed: feed.map(str::to_owned),
            since,
            wait: Duration::from_secs(wait),
        };
        serde_json::from_slice(&self.feed.page(&reader).await.unwrap()).unwrap()
    }

    /// Starts a request that is held.
    async fn held(&self, since: u64) -> tokio::task::JoinHandle<Page> {
        let before = self.feed.metrics.held.get();
        let feed = Arc::clone(&self.feed);
        let held = tokio::spawn(async move {
            let reader = Reader {
                feed: None,
                since,
                wait: Duration::from_secs(MAX_WAIT_SECONDS),
            };
            serde_json::from_slice(&feed.page(&reader).await.unwrap()).unwrap()
        });
        while self.feed.metrics.held.get() == before {
            tokio::task::yield_now().await;
        }
        held
    }
}

fn ids(page: &Page) -> Vec<&str> {
    page.revocations
        .iter()
        .map(|entry| entry.id.as_str())
        .collect()
}

#[tokio::test]
async fn a_reader_gets_what_is_behind_its_position() {
    let subject = Fixture::new();
    let empty = subject.page(None, 0, 0).await;
    assert_eq!((empty.since, empty.position), (0, 0));
    assert!(!empty.more && empty.holds && empty.revocations.is_empty());
    let (first, second) = (subject.revoke().await, subject.revoke().await);
    let both = subject.page(Some(&empty.feed), 0, 0).await;
    assert_eq!(ids(&both), [&first, &second]);
    assert_eq!((both.since, both.position, both.more), (0, 2, false));
    let one = subject.page(Some(&both.feed), 1, 20).await;
    assert_eq!((one.since, one.position), (1, 2));
    assert_eq!(ids(&one), [&second]);
    let none = subject.page(Some(&both.feed), 2, 0).await;
    assert_eq!((none.since, none.position), (2, 2));
    assert_eq!(ids(&none), [""; 0]);
}

#[tokio::test]
async fn a_reader_of_another_feed_or_of_a_position_that_never_was_starts_over_at_once() {
    let subject = Fixture::new();
    let id = subject.revoke().await;
    let feed = subject.page(None, 0, 0).await.feed;
    for (named, since) in [(Some("another"), 1), (Some(feed.as_str()), 7), (None, 7)] {
        let page = subject.page(named, since, 20).await;
        assert_eq!((page.since, page.position), (0, 1));
        assert_eq!(ids(&page), [&id]);
    }
    // The same for an empty feed: the response contains only its identity.
    let empty = Fixture::new();
    let page = empty.page(Some("another"), 0, 20).await;
    assert_eq!((page.since, page.position), (0, 0));
}

#[tokio::test]
async fn held_requests_are_answered_together_when_something_is_revoked() {
    let subject = Fixture::new();
    let first = subject.revoke().await;
    let mut held = Vec::new();
    for _ in 0..50 {
        held.push(subject.held(1).await);
    }
    let late = subject.page(None, 0, 20).await;
    assert_eq!(ids(&late), [&first], "who is behind does not wait");
    let id = subject.revoke().await;
    for held in held {
        let page = held.await.unwrap();
        assert_eq!((page.since, page.position), (1, 2));
        assert_eq!(ids(&page), [&id]);
    }
    assert_eq!(subject.feed.metrics.held.get(), 0);
    assert_eq!(subject.feed.metrics.wake_ups.get(), 1);
}

#[tokio::test]
async fn a_request_is_held_no_longer_than_it_waits() {
    let subject = Fixture::new();
    subject.revoke().await;
    let page = subject.page(None, 1, 1).await;
    assert_eq!((page.since, page.position, page.holds), (1, 1, true));
}

#[tokio::test]
async fn a_service_that_stops_lets_readers_go() {
    let subject = Fixture::new();
    subject.revoke().await;
    let held = subject.held(1).await;
    subject.feed.end();
    let page = held.await.unwrap();
    assert!(!page.holds && page.revocations.is_empty());
    let page = subject.page(None, 1, 20).await;
    assert!(!page.holds, "nor does it hold others");
}

#[tokio::test]
async fn another_identity_of_the_feed_reaches_held_readers() {
    let subject = Fixture::new();
    let id = subject.revoke().await;
    let before = subject.page(None, 0, 0).await.feed;
    let reader = Reader {
        feed: Some(before.clone()),
        since: 1,
        wait: Duration::from_secs(MAX_WAIT_SECONDS),
    };
    let feed = Arc::clone(&subject.feed);
    let held = tokio::spawn(async move { feed.page(&reader).await.unwrap() });
    while subject.feed.metrics.held.get() == 0 {
        tokio::task::yield_now().await;
    }
    let fresh = FeedId::generate(&OsRandom).unwrap();
    subject
        .store
        .renew_feed(fresh, Arc::default())
        .await
        .unwrap();
    let page: Page = serde_json::from_slice(&held.await.unwrap()).unwrap();
    assert_eq!(page.feed, fresh.to_string());
    assert_ne!(page.feed, before);
    assert_eq!((page.since, ids(&page)), (0, vec![id.as_str()]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_feed_comes_in_pages() {
    let subject = Fixture::new();
    let number = MAX_PAGE_ENTRIES + 10;
    let mut announced = tokio::task::JoinSet::new();
    for entry in 0..number {
        let store = Arc::clone(&subject.store);
        announced.spawn(async move {
            let revoked = Revoked::Issuer(format!("https://{entry}.example"));
            while store
                .announce(revoked.clone(), extent(0), Arc::default())
                .await
                .is_err()
            {}
        });
    }
    announced.join_all().await;
    let grant = GrantId::generate(&OsRandom, at(0)).unwrap();
    let last = Revoked::Grant(grant);
    subject
        .store
        .announce(last, extent(0), Arc::default())
        .await
        .unwrap();

    let first = subject.page(None, 0, 0).await;
    assert_eq!(first.revocations.len(), MAX_PAGE_ENTRIES);
    assert_eq!(
        (first.position, first.more),
        (MAX_PAGE_ENTRIES as u64, true)
    );
    assert!(
        first.revocations.iter().all(|entry| {
            entry.kind == EntryKind::Issuer && entry.iss.as_ref() == Some(&entry.id)
        })
    );
    let rest = subject.page(Some(&first.feed), first.position, 0).await;
    assert_eq!((rest.revocations.len(), rest.more), (11, false));
    assert_eq!(rest.position, number as u64 + 1);
}

/// Readers accept no longer page, and must not ask for the same page again and again.
#[tokio::test]
async fn a_page_of_long_names_is_cut() {
    let name = "n".repeat(MAX_PAGE_BYTES / 20);
    for from_memory in [false, true] {
        let subject = Fixture::new();
        if from_memory {
            subject.page(None, 0, 0).await;
        }
        for entry in 0..50 {
            let revoked = Revoked::Issuer(format!("https://{entry}.{name}.example"));
            let announced = subject.store.announce(revoked, extent(0), Arc::default());
            assert!(announced.await.unwrap());
        }
        let (mut since, mut pages, mut more) = (0, 0, true);
        while more {
            let reader = Reader {
                since,
                ..Reader::default()
            };
            let text = subject.feed.page(&reader).await.unwrap();
            assert!(text.len() <= MAX_PAGE_BYTES, "{}", text.len());
            let page: Page = serde_json::from_slice(&text).unwrap();
            assert_eq!(page.since, since);
            assert_eq!(page.position, since + page.revocations.len() as u64);
            (since, more) = (page.position, page.more);
            pages += 1;
        }
        assert_eq!(since, 50);
        assert!((5..=12).contains(&pages), "{pages}");
    }
}

/// The writer's side of the test vectors (docs/revocation-feed.md).
#[tokio::test]
async fn the_page_of_the_vectors_is_written() {
    let vectors = |text| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let entries = vectors(include_str!("../../../claims/revocation-feed/entries.json"));
    let expected = &vectors(include_str!("../../../claims/revocation-feed/pages.json"))["page"];
    let username = Username::parse("ada").unwrap();
    let client_id = ClientId::parse("web").unwrap();
    let revoked = |written_for: &str| match written_for {
        "grant" => Revoked::Grant(GrantId::from_bytes(std::array::from_fn(|byte| {
            16 + byte as u8
        }))),
        "token" => Revoked::Token(TokenId::from_bytes(std::array::from_fn(|byte| byte as u8))),
        "client" => Revoked::Client(client_id.clone()),
        "key" => {
            let key = "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs";
            Revoked::Key(Thumbprint::parse(key).unwrap())
        }
        "user" => Revoked::User(username.clone()),
        "user at client" => Revoked::UserAtClient {
            username: username.clone(),
            client_id: client_id.clone(),
        },
        "account" => Revoked::Account {
            username: username.clone(),
            user_id: "1879048401".into(),
            site: "https://us1.example.com".into(),
        },
        "issuer" => Revoked::Issuer(ISSUER.to_owned()),
        other => panic!("{other}"),
    };
    let subject = Fixture::new();
    let identity = [0xab, 0xcd, 0xef, 0x12, 0x34, 0x56, 0x78, 0x90].repeat(2);
    let feed = FeedId::from_bytes(identity.try_into().unwrap());
    subject
        .store
        .renew_feed(feed, Arc::default())
        .await
        .unwrap();
    for vector in entries["entries"].as_array().unwrap() {
        if let Some(written_for) = vector["written_for"].as_str() {
            let announced = subject
                .store
                .announce(revoked(written_for), extent(0), Arc::default());
            assert!(announced.await.unwrap());
        }
    }
    let page = subject.page(None, 0, 0).await;
    assert_eq!(serde_json::to_value(page).unwrap(), *expected);
}

/// A legacy token has a `jti` of another form (legacy.md §3).
#[tokio::test]
async fn a_legacy_token_is_named_by_the_jti_that_it_has() {
    let subject = Fixture::new();
    let token = TokenId::generate(&OsRandom).unwrap();
    let revoked = Revoked::LegacyToken(token);
    let announced = subject.store.announce(revoked, extent(0), Arc::default());
    assert!(announced.await.unwrap());
    let page = subject.page(None, 0, 0).await;
    assert_eq!(page.revocations[0].kind, EntryKind::Token);
    assert_eq!(ids(&page), [token.legacy()]);
}
