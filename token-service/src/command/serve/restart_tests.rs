//! A restart does not undo changes by an operator (D-27). Tests each command on both stores, with a file that is
//! unchanged, changed elsewhere, and changed in the same place.

#[path = "../../../store/src/postgres/tests/server.rs"]
#[expect(dead_code, reason = "only the tests of the store break the server")]
mod postgres_server;

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::planning_tests::{KEEP, create, delete, operate, put_host, update};
use super::tests::demo;
use super::*;
use crate::http::admin::registrations::{Applied, ApplyQuery};
use crate::http::admin::users::AccountQuery;
use document::{Problems, Table};
use domain::clock::{ManualClock, Timestamp};
use domain::remembered::{ObjectKind, ObjectName};
use domain::{
    AuditAction, AuditRecord, Client, ClientId, ClientVersion, CredentialsVersion, User, Username,
};
use store::postgres::{PostgresSettings, PostgresUrl};
use store::testing::memory;
use tempfile::TempDir;

/// The file changes at the placeholders.
const FILE: &str = include_str!("restart_tests.toml");

const AS_FIRST_APPLIED: [(&str, &str); 9] = [
    ("EMAIL", "ada@example.com"),
    ("HASH", "aGFzaGhhc2hoYXNoaGFzaA"),
    ("ENABLED", "true"),
    ("LINKED", "ada-at-two"),
    ("ORGANIZATION", "majestic"),
    ("NAME", "Web"),
    ("SECRET", "the first secret"),
    ("URIS", "\"https://app.example/callback\""),
    ("SCOPES", "\"projects\""),
];

/// The file with `changes` in place of the first values.
fn file(changes: &[(&str, &str)]) -> String {
    let mut text = FILE.to_owned();
    for (placeholder, first) in AS_FIRST_APPLIED {
        let changed = changes.iter().find(|(name, _)| *name == placeholder);
        text = text.replace(placeholder, changed.map_or(first, |(_, value)| value));
    }
    text
}

/// A store with its keys and files.
struct Site {
    folder: TempDir,
    config: Config,
}

impl Site {
    async fn new(kind: Kind) -> Self {
        let folder = TempDir::new().unwrap();
        let mut config = demo(&folder);
        config.registrations = Some(folder.path().join("registrations.toml"));
        config.legacy_instances.clear();
        if kind == Kind::Postgres {
            config.store = StoreUrl::Postgres(Box::new(postgres_server::settings(
                &postgres_server::fresh_database().await,
            )));
        }
        Self { folder, config }
    }

    /// Starts a replica with the file content `text`.
    async fn start(&self, text: &str) -> Arc<Service> {
        std::fs::write(self.folder.path().join("registrations.toml"), text).unwrap();
        Arc::new(prepare(self.config.clone()).await.unwrap())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Redb,
    Postgres,
}

const KINDS: [Kind; 2] = [Kind::Redb, Kind::Postgres];

/// How `apply --overwrite` applies a document.
const OVERWRITE: ApplyQuery = ApplyQuery {
    overwrite: true,
    ..KEEP
};

async fn apply(service: &Arc<Service>, text: &str, query: ApplyQuery) -> Applied {
    let problems = Problems::default();
    let document = Table::parse(Path::new("registrations.toml"), text, &problems);
    let document = problems.none_or(document.members().clone()).unwrap();
    let applied = operate(service, async |admin| admin.apply(document, query).await);
    applied.await.unwrap()
}

/// Forgets what the files said, as if commands had registered everything.
async fn forget_files(service: &Service) {
    let known = memory(&*service.store).await.unwrap();
    let change = domain::RegistryChange {
        forget: known.into_iter().map(|one| one.object).collect(),
        ..Default::default()
    };
    let now = SystemClock.now();
    service.store.change_registry(change, now).await.unwrap();
    assert_eq!(memory(&*service.store).await.unwrap(), []);
}

async fn web(service: &Service) -> Option<Client> {
    let web = ClientId::parse("web").unwrap();
    service.store.client(web).await.unwrap()
}

async fn user(service: &Service, name: &str) -> Option<User> {
    let name = Username::parse(name).unwrap();
    service.store.user(name).await.unwrap()
}

/// The objects that a command may change, without what only the store sets.
async fn concerned(service: &Service) -> (Option<Client>, Option<User>) {
    let ada = user(service, "ada").await.map(|ada| User {
        credentials_version: CredentialsVersion::default(),
        tokens_from: Timestamp::default(),
        ..ada
    });
    let web = web(service).await.map(|web| Client {
        version: ClientVersion::default(),
        tokens_from: Timestamp::default(),
        ..web
    });
    (web, ada)
}

/// The audit entries of files and the configuration, including conflicts, oldest first.
async fn audited(service: &Arc<Service>) -> Vec<AuditRecord> {
    let query = crate::http::admin::audit::AuditQuery {
        after: Some(0),
        limit: Some(500),
        ..Default::default()
    };
    let page = operate(service, async |admin| admin.audit(&query).await);
    let page = page.await.unwrap();
    let starts = page.items.into_iter().filter(|entry| {
        let actor = entry.event.actor.as_deref().unwrap_or_default();
        actor.starts_with("file:") || actor == "configuration"
    });
    starts.collect()
}

#[derive(Debug, Clone, Copy)]
enum Command {
    EndOldSecret,
    DisableClient,
    RemoveClient,
    DisableUser,
    RemoveUser,
    Unlink,
    NewPassword,
    NewScope,
    NewRedirectUri,
    Rename,
}

impl Command {
    const ALL: [Self; 10] = [
        Self::EndOldSecret,
        Self::DisableClient,
        Self::RemoveClient,
        Self::DisableUser,
        Self::RemoveUser,
        Self::Unlink,
        Self::NewPassword,
        Self::NewScope,
        Self::NewRedirectUri,
        Self::Rename,
    ];

    async fn run(self, service: &Arc<Service>) {
        let client = async |patch| update::<Client>(service, "web", patch).await;
        let user = async |patch| update::<User>(service, "ada", patch).await;
        let done = match self {
            Self::EndOldSecret => {
                let rotated = operate(service, async |admin| {
                    admin.add_secret("web").await?;
                    admin.end_old_secrets("web", &Default::default()).await
                });
                rotated.await.map(drop)
            }
            Self::DisableClient => client(json!({"enabled": false})).await,
            Self::RemoveClient => delete::<Client>(service, "web").await,
            Self::DisableUser => user(json!({"enabled": false})).await,
            Self::RemoveUser => delete::<User>(service, "ada").await,
            Self::Unlink => {
                let account = AccountQuery {
                    user_id: "2".to_owned(),
                    site: "https://two.example".to_owned(),
                };
                let unlinked = operate(service, async |admin| {
                    admin.unlink_account("ada", &account).await
                });
                unlinked.await.map(drop)
            }
            Self::NewPassword => user(json!({"password": "correct horse battery"})).await,
            Self::NewScope => client(json!({"scopes": ["projects", "admin"]})).await,
            Self::NewRedirectUri => {
                let uris = [
                    "https://app.example/callback",
                    "https://new.example/callback",
                ];
                client(json!({"redirect_uris": uris})).await
            }
            Self::Rename => client(json!({"name": "By command"})).await,
        };
        assert_eq!(done, Ok(()), "{self:?}");
    }

    /// A change of the file in the same place, if it is a conflict, with the field that the audit log names.
    const fn conflict(self) -> Option<((&'static str, &'static str), &'static str)> {
        match self {
            Self::EndOldSecret => Some((("SECRET", "another secret"), "client_secret")),
            Self::RemoveClient => Some((("NAME", "By file"), "removed")),
            Self::RemoveUser => Some((("EMAIL", "new@example.com"), "removed")),
            Self::Unlink => Some((("LINKED", "ada-renamed"), "accounts")),
            Self::NewPassword => Some((("HASH", "b3RoZXJvdGhlcm90aGVyb3Ro"), "password")),
            Self::Rename => Some((("NAME", "By file"), "name")),
            // The file says `true` as before; a list takes both additions.
            Self::DisableClient | Self::DisableUser | Self::NewScope | Self::NewRedirectUri => None,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_command_did_outlives_restarts_with_an_unchanged_file() {
    for kind in KINDS {
        for command in Command::ALL {
            let site = Site::new(kind).await;
            let first = site.start(&file(&[])).await;
            let before = concerned(&first).await;
            command.run(&first).await;
            let after = concerned(&first).await;
            assert_ne!(before, after, "{kind:?} {command:?}");
            let audited_before = audited(&first).await;
            drop(first);
            for _ in 0..2 {
                let restarted = site.start(&file(&[])).await;
                assert_eq!(concerned(&restarted).await, after, "{kind:?} {command:?}");
                assert_eq!(
                    audited(&restarted).await,
                    audited_before,
                    "{kind:?} {command:?}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_command_did_outlives_a_change_elsewhere_in_the_file() {
    for kind in KINDS {
        for command in Command::ALL {
            let site = Site::new(kind).await;
            let first = site.start(&file(&[])).await;
            command.run(&first).await;
            let after = concerned(&first).await;
            drop(first);
            let restarted = site.start(&file(&[("ORGANIZATION", "minor")])).await;
            assert_eq!(concerned(&restarted).await, after, "{kind:?} {command:?}");
            let grace = user(&restarted, "grace").await.unwrap();
            assert_eq!(grace.organization.as_deref(), Some("minor"));
            let entry = audited(&restarted).await.pop().unwrap().event;
            assert_eq!(entry.action, AuditAction::UserUpdated);
            assert_eq!(entry.username.as_deref(), Some("grace"));
            assert_eq!(entry.detail.as_deref(), Some("organization"));
            let path = site.config.registrations.as_ref().unwrap().display();
            assert_eq!(entry.actor, Some(format!("file:{path}")));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conflict_is_audited_once_and_only_overwriting_lets_the_file_count() {
    for kind in KINDS {
        for command in Command::ALL {
            let Some((change, field)) = command.conflict() else {
                continue;
            };
            let text = file(&[change]);
            let expected = {
                let site = Site::new(kind).await;
                concerned(&*site.start(&text).await).await
            };
            let site = Site::new(kind).await;
            let first = site.start(&file(&[])).await;
            command.run(&first).await;
            let after = concerned(&first).await;
            drop(first);
            for _ in 0..2 {
                let restarted = site.start(&text).await;
                assert_eq!(concerned(&restarted).await, after, "{kind:?} {command:?}");
                let mut kept = audited(&restarted).await;
                kept.retain(|entry| entry.event.action == AuditAction::RegistrationKept);
                assert_eq!(kept.len(), 1, "{kind:?} {command:?}");
                assert_eq!(kept[0].event.detail.as_deref(), Some(field));
            }
            let running = site.start(&text).await;
            let applied = apply(&running, &text, KEEP).await;
            assert_eq!(applied.differences, [""; 0], "{kind:?} {command:?}");
            assert_eq!(
                applied.kept.len(),
                1,
                "{kind:?} {command:?}: {:?}",
                applied.kept
            );
            assert_eq!(concerned(&running).await, after, "{kind:?} {command:?}");
            apply(&running, &text, OVERWRITE).await;
            assert_eq!(concerned(&running).await, expected, "{kind:?} {command:?}");
            let applied = apply(&running, &text, KEEP).await;
            assert_eq!((applied.differences, applied.kept), (vec![], vec![]));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_take_what_file_and_command_added() {
    for kind in KINDS {
        let site = Site::new(kind).await;
        let first = site.start(&file(&[])).await;
        Command::NewScope.run(&first).await;
        Command::NewRedirectUri.run(&first).await;
        drop(first);
        let uris = "\"https://app.example/callback\", \"https://file.example/callback\"";
        let text = file(&[("SCOPES", "\"reports\""), ("URIS", uris)]);
        let web = web(&*site.start(&text).await).await.unwrap();
        // The file removed projects and added reports; the command's admin stays.
        assert_eq!(web.scopes.to_string(), "admin reports");
        let uris: Vec<String> = web
            .redirect_uris()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            uris,
            [
                "https://app.example/callback",
                "https://new.example/callback",
                "https://file.example/callback"
            ]
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_nobody_touched_does_not_undo_another_one_that_was_applied() {
    for kind in KINDS {
        let site = Site::new(kind).await;
        let first = site.start(&file(&[])).await;
        let other = file(&[("ENABLED", "false"), ("NAME", "Applied")]);
        let applied = apply(&first, &other, KEEP).await;
        assert_eq!(applied.kept, [""; 0]);
        let after = concerned(&first).await;
        assert!(!after.0.as_ref().unwrap().enabled);
        drop(first);
        let restarted = site.start(&file(&[("ORGANIZATION", "minor")])).await;
        assert_eq!(concerned(&restarted).await, after, "{kind:?}");
        // The file is set to the new state and then changes further.
        drop(restarted);
        let caught_up = site.start(&other).await;
        assert_eq!(concerned(&caught_up).await, after, "{kind:?}");
        drop(caught_up);
        let on = site
            .start(&file(&[("ENABLED", "false"), ("NAME", "Further")]))
            .await;
        assert_eq!(web(&on).await.unwrap().name, "Further");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_remembers_nothing_keeps_what_it_has() {
    for kind in KINDS {
        let site = Site::new(kind).await;
        let first = site.start(&file(&[])).await;
        Command::EndOldSecret.run(&first).await;
        Command::Unlink.run(&first).await;
        let after = concerned(&first).await;
        forget_files(&first).await;
        drop(first);
        let text = file(&[("NAME", "New")]) + "\n[[users]]\nusername = \"hedy\"\n";
        let restarted = site.start(&text).await;
        assert_eq!(concerned(&restarted).await, after, "{kind:?}");
        assert!(
            user(&restarted, "hedy").await.is_some(),
            "what is new is added"
        );
        drop(restarted);
        // Disabled wins because it is the safer state.
        let site = Site::new(kind).await;
        let first = site.start(&file(&[])).await;
        forget_files(&first).await;
        drop(first);
        let disabled = site.start(&file(&[("ENABLED", "false")])).await;
        assert!(!web(&disabled).await.unwrap().enabled);
        assert!(!user(&disabled, "ada").await.unwrap().enabled);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_start_together_apply_a_file_once() {
    let site = Site::new(Kind::Postgres).await;
    let text = file(&[]);
    drop(site.start(&text).await);
    let changed = file(&[("NAME", "Changed"), ("ENABLED", "false")]);
    std::fs::write(site.folder.path().join("registrations.toml"), &changed).unwrap();
    let (one, other) = tokio::join!(prepare(site.config.clone()), prepare(site.config.clone()));
    let (one, other) = (Arc::new(one.unwrap()), Arc::new(other.unwrap()));
    assert_eq!(concerned(&one).await, concerned(&other).await);
    let entries = audited(&one).await;
    let updated = entries
        .iter()
        .filter(|entry| entry.event.action == AuditAction::ClientUpdated);
    assert_eq!(updated.count(), 1);
    // A command at one replica, a restart of the other.
    Command::RemoveUser.run(&one).await;
    drop(other);
    let restarted = site.start(&changed).await;
    assert_eq!(user(&restarted, "ada").await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_do_not_undo_each_others_changes() {
    let site = Site::new(Kind::Postgres).await;
    let text = file(&[]);
    let (one, other) = (site.start(&text).await, site.start(&text).await);
    for round in 0..10 {
        let disabled = round % 2 == 0;
        // The other replica does not know this change yet when it renames the client.
        let enabled = update::<Client>(&one, "web", json!({"enabled": !disabled}));
        enabled.await.unwrap();
        let name = format!("Name {round}");
        let renamed = update::<Client>(&other, "web", json!({"name": name}));
        renamed.await.unwrap();
        let web = web(&other).await.unwrap();
        assert_eq!((web.enabled, &web.name), (!disabled, &name));
    }
}

/// Everybody who reads the store can read the memory, so it contains no secret and nothing that helps to guess a
/// secret.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_holds_no_secret() {
    let site = Site::new(Kind::Redb).await;
    let text = "[[users]]\nusername = \"ada\"\npassword = \"open sesame, please\"\n\
                totp_secret = \"GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ\"\n";
    let service = site.start(text).await;
    let before = memory(&*service.store).await.unwrap();
    let json = serde_json::to_string(&before).unwrap();
    let digest = domain::digest::Digest::of(b"open sesame, please").to_base64url();
    for secret in ["sesame", "GEZDGNBV", "12345678901234567890", &digest] {
        assert!(!json.contains(secret), "{json}");
    }
    let ada = user(&service, "ada").await.unwrap();
    drop(service);
    let restarted = site.start(text).await;
    assert_eq!(user(&restarted, "ada").await.unwrap(), ada);
    assert_eq!(memory(&*restarted.store).await.unwrap(), before);
}

/// The content that decides about requests, as the service sees it.
async fn content(service: &Service) -> impl PartialEq + std::fmt::Debug + use<> {
    let directory = service.directory();
    let mut users = Vec::new();
    for name in ["ada", "grace", "hedy", "person-2", "person-3", "person-19"] {
        users.push(directory.user(name).await.unwrap());
    }
    let web = directory.client("web").await.unwrap();
    let found_by_email = directory.single_sign_on_users("Hedy@example.com");
    let summary = domain::RegistrySummary::clone(&directory.summary());
    (users, web, found_by_email.await.unwrap(), summary)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_takes_up_what_others_change_all_the_time() {
    let site = Site::new(Kind::Postgres).await;
    let text = file(&[]);
    let (one, other) = (site.start(&text).await, site.start(&text).await);
    let load = async {
        for number in 0..20 {
            let name = format!("person-{number}");
            let created = create::<User>(&one, json!({"username": name}));
            created.await.unwrap();
        }
        let hedy = json!({
            "username": "hedy", "email": "hedy@example.com", "single_sign_on": true
        });
        create::<User>(&one, hedy).await.unwrap();
        let instance = json!({"auth_server_hostname": "sso.example", "enabled": true});
        put_host(&one, "us1.example", instance).await.unwrap();
        delete::<User>(&one, "person-3").await.unwrap();
    };
    let renamed = async {
        for number in 0..10 {
            let patch = json!({"name": format!("Name {number}"), "scopes": ["more"]});
            update::<Client>(&other, "web", patch).await.unwrap();
        }
    };
    // Both replicas have everything in memory before it changes.
    let _ = (content(&one).await, content(&other).await);
    tokio::join!(load, renamed);
    let fresh = site.start(&text).await;
    for replica in [&one, &other] {
        replica.follow_registrations().await.unwrap();
        assert_eq!(content(replica).await, content(&fresh).await);
    }
    assert_eq!(web(&one).await.unwrap().name, "Name 9");
    assert_eq!(user(&other, "person-3").await, None);
}

/// The replica is further behind than the change log of the store reaches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_missed_too_much_forgets_everything() {
    let site = Site::new(Kind::Postgres).await;
    let text = file(&[]);
    let (one, other) = (site.start(&text).await, site.start(&text).await);
    let knows = async |name: &str| {
        let found = other.directory().user(name).await.unwrap();
        found.is_some()
    };
    assert!(knows("ada").await);
    Command::RemoveUser.run(&one).await;
    let forget = (0..domain::registry_change::CHANGES_KEPT).map(|number| {
        let name = number.to_string();
        ObjectName::new(ObjectKind::Client, name)
    });
    let change = domain::RegistryChange {
        forget: forget.collect(),
        ..Default::default()
    };
    let now = SystemClock.now();
    one.store.change_registry(change, now).await.unwrap();
    assert!(knows("ada").await);
    other.follow_registrations().await.unwrap();
    assert!(!knows("ada").await);
    assert!(knows("grace").await);
}

/// What one replica takes for expired, another one would still accept.
#[tokio::test]
async fn a_replica_whose_clock_differs_from_the_databases_is_not_ready() {
    let site = Site::new(Kind::Postgres).await;
    std::fs::write(site.folder.path().join("registrations.toml"), "").unwrap();
    let store = open_store(&site.config).await.unwrap();
    let clock = Arc::new(ManualClock::new(SystemClock.now()));
    let service = prepare_on(site.config.clone(), store, Arc::clone(&clock) as _).await;
    let service = service.unwrap();
    let minute = Duration::from_secs(60);
    for ahead in [true, false] {
        let now = SystemClock.now();
        clock.set(match ahead {
            true => now + minute,
            false => Timestamp::from_seconds(now.seconds() - minute.as_secs()),
        });
        let difference = service.ready().await.unwrap().unwrap().to_string();
        assert!(difference.contains(&clock.now().rfc3339()), "{difference}");
        clock.set(SystemClock.now());
        assert_eq!(service.ready().await, Ok(None));
    }
}
