//! The cache in front of a real redb file.

use tempfile::TempDir;

use super::*;
use domain::RegistryChange;
use domain::clock::Timestamp;
use domain::registry_change::CHANGES_KEPT;
use domain::testing::{client_id, installed, legacy, user_bound, username};
use domain::{Identity, LinkedIdentity};
use store::RegistrationStore as _;
use store::redb::RedbStore;

const ACCESS: Duration = Duration::from_secs(3600);

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_seconds(1_800_000_000 + seconds)
}

fn client(id: &str) -> Client {
    installed(id, &["https://app.example.com/callback"]).with_scopes("projects")
}

fn bound(id: &str, to: &str) -> Client {
    user_bound(id, &[], to).with_scopes("projects")
}

fn user(name: &str) -> User {
    domain::testing::user(name, &["1", "2"])
}

fn put(clients: Vec<Client>, users: Vec<User>) -> RegistryChange {
    RegistryChange {
        put_clients: clients,
        put_users: users,
        ..RegistryChange::default()
    }
}

const CAPACITY: u64 = 1024 * 1024;

struct Process {
    _folder: Arc<TempDir>,
    store: Arc<RedbStore>,
    directory: Directory,
}

impl Process {
    async fn start(capacity: u64) -> Self {
        let folder = Arc::new(TempDir::new().unwrap());
        let store = RedbStore::open(&folder.path().join("store.redb"), ACCESS).unwrap();
        Self::on(folder, Arc::new(store), capacity).await
    }

    async fn on(folder: Arc<TempDir>, store: Arc<RedbStore>, capacity: u64) -> Self {
        let directory = Directory::open(Arc::clone(&store) as Arc<dyn Store>, capacity);
        Self {
            _folder: folder,
            directory: directory.await.unwrap(),
            store,
        }
    }

    /// Another process with the same store.
    async fn replica(&self) -> Self {
        Self::on(Arc::clone(&self._folder), Arc::clone(&self.store), CAPACITY).await
    }

    async fn change(&self, change: RegistryChange) {
        self.store.change_registry(change, at(0)).await.unwrap();
    }

    async fn has(&self, client_id: &str) -> bool {
        let found = self.directory.client(client_id).await.unwrap();
        found.is_some()
    }

    async fn has_user(&self, username: &str) -> bool {
        let found = self.directory.user(username).await.unwrap();
        found.is_some()
    }

    fn reads(&self) -> u64 {
        self.directory.reads.get()
    }
}

#[tokio::test]
async fn only_the_first_look_up_reads_the_store() {
    let process = Process::start(CAPACITY).await;
    process
        .change(put(vec![client("web")], vec![user("ada")]))
        .await;
    let directory = &process.directory;
    let first = directory.client("web").await.unwrap().unwrap();
    let again = directory.client_of_any_flow("web").await.unwrap();
    assert!(Arc::ptr_eq(&first, &again.unwrap()), "the same object");
    assert_eq!(process.reads(), 1);
    for _ in 0..2 {
        assert!(directory.user("ada").await.unwrap().is_some());
    }
    assert_eq!(process.reads(), 2);
}

#[tokio::test]
async fn an_unknown_name_costs_one_read_and_no_room() {
    let process = Process::start(CAPACITY).await;
    for guess in 0..100 {
        assert!(!process.has(&format!("guess-{guess}")).await);
    }
    assert!(!process.has("guess-0").await);
    assert_eq!(process.reads(), 101);
    assert_eq!(process.directory.clients.0.weight(), 0);
    assert!(!process.has("no client id\u{7}").await);
    assert_eq!(process.reads(), 101, "text that cannot be a Client ID");
}

#[tokio::test]
async fn only_enabled_objects_of_the_right_flow_are_found() {
    let process = Process::start(CAPACITY).await;
    let gone = user("gone").disabled();
    let clients = vec![
        client("web"),
        client("disabled").disabled(),
        legacy("old", &[], None),
        legacy("bound", &[], Some("a.example.com")),
    ];
    process.change(put(clients, vec![gone])).await;
    let directory = &process.directory;
    for (id, current, any, at_a, at_b) in [
        ("web", true, true, false, false),
        ("disabled", false, false, false, false),
        ("old", false, true, true, true),
        ("bound", false, true, true, false),
    ] {
        assert_eq!(process.has(id).await, current, "{id}");
        let found = directory.client_of_any_flow(id).await.unwrap();
        assert_eq!(found.is_some(), any, "{id}");
        for (instance, expected) in [("a.example.com", at_a), ("b.example.com", at_b)] {
            let found = directory.legacy_client(id, instance).await.unwrap();
            assert_eq!(found.is_some(), expected, "{id} at {instance}");
        }
    }
    assert!(directory.user("gone").await.unwrap().is_none());
}

#[tokio::test]
async fn a_change_takes_effect_when_the_process_follows() {
    let one = Process::start(CAPACITY).await;
    one.change(put(vec![client("web")], vec![user("ada")]))
        .await;
    one.directory.follow().await.unwrap();
    let other = one.replica().await;
    for process in [&one, &other] {
        assert!(process.has("web").await);
    }
    let gone = user("ada").disabled();
    one.change(put(
        vec![client("web").disabled(), client("new")],
        vec![gone],
    ))
    .await;
    assert!(other.has("web").await, "not followed yet");
    for process in [&one, &other] {
        process.directory.follow().await.unwrap();
        assert!(!process.has("web").await);
        assert!(process.has("new").await);
        assert!(process.directory.user("ada").await.unwrap().is_none());
    }
    let without = RegistryChange {
        remove_clients: vec![client_id("new")],
        ..RegistryChange::default()
    };
    one.change(without).await;
    other.directory.follow().await.unwrap();
    assert!(!other.has("new").await);
}

#[tokio::test]
async fn who_missed_too_many_changes_forgets_everything() {
    let process = Process::start(CAPACITY).await;
    process.change(put(vec![client("web")], vec![])).await;
    assert!(process.has("web").await);
    let many = (0..CHANGES_KEPT).map(|number| user(&format!("user-{number}")));
    process
        .change(put(vec![client("web").disabled()], many.collect()))
        .await;
    process.directory.follow().await.unwrap();
    assert!(!process.has("web").await);
}

/// A slow reader must not put back what it read before a change.
#[tokio::test]
async fn what_was_read_before_a_change_is_not_kept() {
    let process = Process::start(CAPACITY).await;
    process.change(put(vec![client("web")], vec![])).await;
    let directory = &process.directory;
    let slow = async |client_id: ClientId| {
        let read = client(client_id.as_str());
        process
            .change(put(vec![client("web").disabled()], vec![]))
            .await;
        directory.follow().await.unwrap();
        Ok(Some((read, None)))
    };
    let found = directory.find(&directory.clients, client_id("web"), slow, |client| {
        client.client_id.clone()
    });
    assert!(
        found.await.unwrap().is_some(),
        "the answer as of the time of the question"
    );
    assert!(!process.has("web").await);
}

#[tokio::test]
async fn a_client_and_its_bound_user_cost_one_read() {
    let process = Process::start(CAPACITY).await;
    let clients = vec![bound("batch", "ada"), bound("other", "ada"), client("web")];
    process.change(put(clients, vec![user("ada")])).await;
    for (id, reads) in [("batch", 1), ("batch", 1), ("other", 2), ("web", 3)] {
        assert!(process.has(id).await);
        assert!(process.has_user("ada").await);
        assert_eq!(process.reads(), reads, "{id}");
    }
}

#[tokio::test]
async fn a_bound_user_that_left_the_cache_is_read_alone() {
    let process = Process::start(CAPACITY).await;
    let change = put(vec![bound("batch", "ada")], vec![user("ada")]);
    process.change(change).await;
    assert!(process.has("batch").await);
    process.directory.users.0.clear();
    assert!(process.has("batch").await && process.has_user("ada").await);
    assert_eq!(process.reads(), 2);
}

#[tokio::test]
async fn a_cache_without_room_finds_a_bound_user() {
    let process = Process::start(0).await;
    let change = put(vec![bound("batch", "ada")], vec![user("ada")]);
    process.change(change).await;
    assert!(process.has("batch").await && process.has_user("ada").await);
    assert_eq!(process.reads(), 2);
}

#[tokio::test]
async fn a_bound_user_that_the_store_lacks_is_not_found() {
    let process = Process::start(CAPACITY).await;
    process
        .change(put(vec![bound("batch", "ada")], vec![]))
        .await;
    assert!(process.has("batch").await);
    assert!(!process.has_user("ada").await);
    process.change(put(vec![], vec![user("ada")])).await;
    assert!(process.has_user("ada").await, "absence is not kept");
}

#[tokio::test]
async fn a_bound_user_leaves_the_cache_when_the_user_changes() {
    let gone = user("ada").disabled();
    let removed = RegistryChange {
        remove_users: vec![username("ada")],
        ..RegistryChange::default()
    };
    for change in [put(vec![], vec![gone]), removed] {
        let process = Process::start(CAPACITY).await;
        let registered = put(vec![bound("batch", "ada")], vec![user("ada")]);
        process.change(registered).await;
        let replica = process.replica().await;
        for process in [&process, &replica] {
            assert!(process.has("batch").await && process.has_user("ada").await);
        }
        process.change(change).await;
        for process in [&process, &replica] {
            process.directory.follow().await.unwrap();
            assert!(process.has("batch").await);
            assert!(!process.has_user("ada").await);
        }
    }
}

#[tokio::test]
async fn a_bound_user_that_was_read_before_a_change_is_not_kept() {
    let process = Process::start(CAPACITY).await;
    let unlinked = user("ada").with_accounts(&["2"]);
    let registered = put(vec![bound("batch", "ada")], vec![user("ada")]);
    process.change(registered).await;
    let directory = &process.directory;
    let slow = async |client_id| {
        let read = process.store.client_with_bound_user(client_id).await;
        process.change(put(vec![], vec![unlinked.clone()])).await;
        directory.follow().await.unwrap();
        read
    };
    let found = directory.find(&directory.clients, client_id("batch"), slow, |client| {
        client.client_id.clone()
    });
    assert!(found.await.unwrap().is_some());
    let user = directory.user("ada").await.unwrap().unwrap();
    assert_eq!(user.accounts, unlinked.accounts);
}

#[tokio::test]
async fn the_cache_keeps_to_its_size() {
    let capacity = 64 * 1024;
    let process = Process::start(capacity).await;
    let ids: Vec<String> = (0..500).map(|number| format!("client-{number}")).collect();
    let clients = ids.iter().map(|id| client(id)).collect();
    process.change(put(clients, vec![])).await;
    for id in &ids {
        assert!(process.has(id).await);
    }
    let weight = process.directory.clients.0.weight();
    assert!(weight > 0 && weight <= capacity / 2, "{weight}");
    assert_eq!(process.reads(), 500);
}

#[tokio::test]
async fn origins_follow_the_clients() {
    let uris = ["https://app.example.com/cb", "http://127.0.0.1:*/cb"];
    let app = installed("app", &uris);
    let process = Process::start(CAPACITY).await;
    process.change(put(vec![app.clone()], vec![])).await;
    process.directory.follow().await.unwrap();
    let allows = async |origin: &str| process.directory.allows_origin(origin).await.unwrap();
    for origin in ["https://app.example.com", "http://127.0.0.1:8000"] {
        assert!(allows(origin).await && allows(origin).await, "{origin}");
    }
    assert_eq!(process.reads(), 2);
    assert!(!allows("https://other.example.com").await);
    process.change(put(vec![app.disabled()], vec![])).await;
    process.directory.follow().await.unwrap();
    assert!(!allows("https://app.example.com").await);
}

#[tokio::test]
async fn the_summary_follows_too() {
    let process = Process::start(CAPACITY).await;
    assert!(process.directory.summary().scopes.is_empty());
    process.change(put(vec![client("web")], vec![])).await;
    process.directory.follow().await.unwrap();
    assert_eq!(process.directory.summary().scopes, ["projects"]);
    assert!(process.directory.are_recent(Instant::now()));
}

#[test]
fn age_counts_from_the_last_time_that_the_store_answered() {
    let first = Instant::now();
    let after = |seconds| first + Duration::from_secs(seconds);
    let confirmed = Confirmed::at(first);
    assert_eq!(confirmed.age(after(7)), Duration::from_secs(7));
    confirmed.confirm(after(5));
    confirmed.confirm(after(3));
    assert_eq!(confirmed.age(after(7)), Duration::from_secs(2));
    assert_eq!(confirmed.age(after(4)), Duration::ZERO);
}

#[tokio::test]
async fn a_user_is_found_by_an_identity() {
    let process = Process::start(CAPACITY).await;
    let identity = |issuer: &str, subject: &str| Identity {
        issuer: issuer.to_owned(),
        subject: subject.to_owned(),
    };
    let linked = |name: &str, subject: &str| User {
        identities: vec![LinkedIdentity {
            identity: identity("https://sso.example.com", subject),
            by_email: false,
        }],
        ..user(name)
    };
    let users = vec![
        linked("ada", "1"),
        linked("eve", "2").disabled(),
        user("bob"),
    ];
    process.change(put(vec![], users)).await;
    for (issuer, subject, expected) in [
        ("https://sso.example.com", "1", Some("ada")),
        ("https://sso.example.com", "2", None),
        ("https://sso.example.com", "3", None),
        ("https://sso.example.com/", "1", None),
        ("https://other.example.com", "1", None),
        ("https://sso.example.com", "ada", None),
    ] {
        let asked = identity(issuer, subject);
        let found = process.directory.user_of_identity(&asked);
        let found = found.await.unwrap();
        let name = found.as_ref().map(|user| user.username.as_str());
        assert_eq!(name, expected, "{issuer} {subject}");
    }
    // Unlinked by another replica, whose change this process has not followed yet.
    let change = process
        .store
        .change_registry(put(vec![], vec![linked("ada", "4")]), at(1));
    change.await.unwrap();
    let moved = identity("https://sso.example.com", "4");
    let unfollowed = process.directory.user_of_identity(&moved).await.unwrap();
    assert!(unfollowed.is_none());
    process.directory.follow().await.unwrap();
    let followed = process.directory.user_of_identity(&moved).await.unwrap();
    assert_eq!(followed.unwrap().username, username("ada"));
}
