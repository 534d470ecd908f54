//! Each object has one owner (D-27): a file defines what it lists, commands define the rest, and no file touches state.

#[path = "../../../store/src/postgres/tests/server.rs"]
#[expect(dead_code, reason = "only the tests of the store break the server")]
mod postgres_server;

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::planning_tests::{KEEP, PRUNE, create, delete, operate, put_host, update};
use super::tests::demo;
use super::*;
use crate::http::admin::registrations::{Applied, ApplyQuery};
use crate::http::admin::users::AccountQuery;
use document::{Problems, Table};
use domain::clock::{ManualClock, Timestamp};
use domain::{
    AuditAction, AuditRecord, Client, ClientId, ClientVersion, CredentialsVersion, LegacyInstance,
    User, Username,
};
use store::postgres::{PostgresSettings, PostgresUrl};
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
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let mut config = demo(&folder);
        config.registrations = Some(folder.path().join("registrations.toml"));
        config.legacy_instances.clear();
        Self { folder, config }
    }

    async fn on_postgres() -> Self {
        let mut site = Self::new();
        let database = postgres_server::fresh_database().await;
        site.config.store = StoreUrl::Postgres(Box::new(postgres_server::settings(&database)));
        site
    }

    /// Starts a replica with the file content `text`.
    async fn start(&self, text: &str) -> Arc<Service> {
        std::fs::write(self.folder.path().join("registrations.toml"), text).unwrap();
        Arc::new(prepare(self.config.clone()).await.unwrap())
    }
}

async fn apply(service: &Arc<Service>, text: &str, query: ApplyQuery) -> Applied {
    let problems = Problems::default();
    let document = Table::parse(Path::new("registrations.toml"), text, &problems);
    let document = problems.none_or(document.members().clone()).unwrap();
    let applied = operate(service, async |admin| admin.apply(document, query).await);
    applied.await.unwrap()
}

async fn hand_over<T: registry::describe::Registered>(
    service: &Arc<Service>,
    name: &str,
    file: Option<&str>,
) -> Result<(), String> {
    let file = file.map(str::to_owned);
    operate(service, async |admin| {
        admin.hand_over::<T>(name, file).await.map(drop)
    })
    .await
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
        accounts_from: Vec::new(),
        sign_ins_from: Timestamp::default(),
        ..ada
    });
    let web = web(service).await.map(|web| Client {
        version: ClientVersion::default(),
        tokens_from: Timestamp::default(),
        ..web
    });
    (web, ada)
}

/// The audit entries of files and the configuration, oldest first.
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

/// What a command changes of the client `web` or the user `ada`.
#[derive(Debug, Clone, Copy)]
enum Command {
    EndOldSecret,
    DisableClient,
    DisableUser,
    NewPassword,
    RemoveClient,
    RemoveUser,
    Unlink,
    NewScope,
    NewRedirectUri,
    Rename,
}

impl Command {
    const OF_STATE: [Self; 4] = [
        Self::EndOldSecret,
        Self::DisableClient,
        Self::DisableUser,
        Self::NewPassword,
    ];

    const OF_DEFINITION: [Self; 6] = [
        Self::RemoveClient,
        Self::RemoveUser,
        Self::Unlink,
        Self::NewScope,
        Self::NewRedirectUri,
        Self::Rename,
    ];

    async fn run(self, service: &Arc<Service>) -> Result<(), String> {
        let client = async |patch| update::<Client>(service, "web", patch).await;
        let user = async |patch| update::<User>(service, "ada", patch).await;
        match self {
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
        }
    }
}

/// Without what moves with a change of the entry.
fn without_owner((web, ada): (Option<Client>, Option<User>)) -> (Option<Client>, Option<User>) {
    let web = web.map(|web| Client {
        managed: None,
        ..web
    });
    let ada = ada.map(|ada| User {
        managed: None,
        ..ada
    });
    (web, ada)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_file_touches_state() {
    for command in Command::OF_STATE {
        let site = Site::new();
        let first = site.start(&file(&[])).await;
        let before = concerned(&first).await;
        assert_eq!(command.run(&first).await, Ok(()), "{command:?}");
        let after = concerned(&first).await;
        assert_ne!(before, after, "{command:?}");
        let audited_before = audited(&first).await;
        drop(first);
        for _ in 0..2 {
            let restarted = site.start(&file(&[])).await;
            assert_eq!(concerned(&restarted).await, after, "{command:?}");
            assert_eq!(audited(&restarted).await, audited_before, "{command:?}");
        }
        // A change of the same entries, by a start and by apply.
        let changed = [("EMAIL", "new@example.com"), ("NAME", "By file")];
        let (web, ada) = without_owner(after);
        let expected = (
            web.map(|web| Client {
                name: "By file".to_owned(),
                ..web
            }),
            ada.map(|ada| User {
                email: Some("new@example.com".to_owned()),
                ..ada
            }),
        );
        let running = site.start(&file(&changed)).await;
        let found = without_owner(concerned(&running).await);
        assert_eq!(found, expected, "{command:?}");
        let more = [changed[0], changed[1], ("SCOPES", "\"reports\"")];
        let applied = apply(&running, &file(&more), KEEP).await;
        assert_eq!(applied.kept, [""; 0]);
        let (web, ada) = without_owner(concerned(&running).await);
        assert_eq!(ada, expected.1, "{command:?}");
        let web = web.unwrap();
        assert_eq!(web.scopes.to_string(), "reports");
        assert_eq!(web.secrets(), expected.0.as_ref().unwrap().secrets());
        assert_eq!(web.enabled, expected.0.unwrap().enabled);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_does_not_redefine_what_a_file_defines() {
    let site = Site::new();
    let path = site
        .config
        .registrations
        .as_ref()
        .unwrap()
        .display()
        .to_string();
    let service = site.start(&file(&[])).await;
    let before = concerned(&service).await;
    for command in Command::OF_DEFINITION {
        let refused = command.run(&service).await.unwrap_err();
        let (line, release) = match command {
            Command::RemoveUser | Command::Unlink => (1, "release user ada"),
            _ => (19, "release client web"),
        };
        for part in [
            &*format!("{path}:{line} "),
            "token-service apply FILE",
            release,
        ] {
            assert!(refused.contains(part), "{part} in {refused}");
        }
        assert_eq!(concerned(&service).await, before, "{command:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_released_belongs_to_commands_until_it_is_adopted() {
    let site = Site::new();
    let hand_over_both = async |service: &Arc<Service>, file: Option<&str>| {
        assert_eq!(hand_over::<Client>(service, "web", file).await, Ok(()));
        assert_eq!(hand_over::<User>(service, "ada", file).await, Ok(()));
    };
    let commands = Command::OF_DEFINITION;
    let (removing, changing) = commands.split_at(2);
    let fresh = async |text: &str| {
        let site = Site::new();
        let service = site.start(text).await;
        without_owner(concerned(&service).await)
    };
    let service = site.start(&file(&[])).await;
    hand_over_both(&service, None).await;
    for command in changing {
        assert_eq!(command.run(&service).await, Ok(()), "{command:?}");
    }
    let after = concerned(&service).await;
    drop(service);
    let changed = file(&[("NAME", "By file"), ("EMAIL", "new@example.com")]);
    let service = site.start(&changed).await;
    assert_eq!(concerned(&service).await, after);
    let kept = apply(&service, &changed, KEEP).await.kept.join("\n");
    for adopt in ["adopt client web", "adopt user ada"] {
        assert!(kept.contains(adopt), "{kept}");
    }
    hand_over_both(&service, Some("f")).await;
    drop(service);
    let service = site.start(&changed).await;
    let found = without_owner(concerned(&service).await);
    assert_eq!(found, fresh(&changed).await, "as the file says");
    hand_over_both(&service, None).await;
    for command in removing {
        assert_eq!(command.run(&service).await, Ok(()), "{command:?}");
    }
    assert_eq!(concerned(&service).await, (None, None));
    drop(service);
    // A listed object that is not registered is added.
    let service = site.start(&file(&[])).await;
    let found = without_owner(concerned(&service).await);
    assert_eq!(found, fresh(&file(&[])).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_secret_in_the_file_replaces_the_live_one() {
    let site = Site::new();
    let first = site.start(&file(&[])).await;
    for command in [Command::EndOldSecret, Command::NewPassword] {
        assert_eq!(command.run(&first).await, Ok(()));
    }
    let (web, ada) = concerned(&first).await;
    drop(first);
    // Passed over the first secrets in the file, and back again.
    let changed = file(&[
        ("SECRET", "another secret"),
        ("HASH", "b3RoZXJvdGhlcm90aGVyb3Ro"),
    ]);
    for text in [changed, file(&[])] {
        let restarted = site.start(&text).await;
        let (new_web, new_ada) = concerned(&restarted).await;
        let (new_web, new_ada) = (new_web.unwrap(), new_ada.unwrap());
        assert_ne!(new_web.secrets(), web.as_ref().unwrap().secrets(),);
        assert_eq!(new_web.secrets().len(), 1);
        assert_ne!(new_ada.password_hash, ada.as_ref().unwrap().password_hash);
        assert!(text.contains(&new_ada.password_hash.unwrap()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_and_commands_disable_independently() {
    let (on, off) = (file(&[]), file(&[("ENABLED", "false")]));
    let enabled = async |service: &Arc<Service>| web(service).await.unwrap().enabled;
    let set = async |service: &Arc<Service>, enabled: bool| {
        let set = update::<Client>(service, "web", json!({"enabled": enabled}));
        assert_eq!(set.await, Ok(()));
    };
    let site = Site::new();
    let service = site.start(&off).await;
    assert!(!enabled(&service).await);
    // The command is no error, and the file still counts.
    set(&service, true).await;
    assert!(!enabled(&service).await);
    set(&service, false).await;
    drop(service);
    let service = site.start(&on).await;
    assert!(!enabled(&service).await);
    set(&service, true).await;
    assert!(enabled(&service).await);
    drop(service);
    assert!(!enabled(&site.start(&off).await).await);
    assert!(enabled(&site.start(&on).await).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_does_not_change_whom_it_does_not_manage() {
    let site = Site::new();
    let service = site.start("").await;
    let ada = json!({"username": "ada", "email": "ada@command.example"});
    assert_eq!(create::<User>(&service, ada).await, Ok(()));
    let before = user(&service, "ada").await;
    drop(service);
    for _ in 0..2 {
        let service = site.start(&file(&[("ENABLED", "false")])).await;
        assert_eq!(user(&service, "ada").await, before);
        assert!(web(&service).await.is_some(), "what is new is added");
        let applied = apply(&service, &file(&[("ENABLED", "false")]), KEEP).await;
        let [kept] = applied.kept.as_slice() else {
            panic!("{:?}", applied.kept);
        };
        assert!(kept.starts_with("! user ada: stays, because no file manages it"));
        assert!(kept.ends_with("token-service adopt user ada"), "{kept}");
        let pruned = apply(
            &service,
            "",
            ApplyQuery {
                dry_run: true,
                ..PRUNE
            },
        )
        .await;
        assert_eq!(pruned.differences, ["- client web", "- user grace"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_left_the_file_stays_until_it_is_pruned() {
    let site = Site::new();
    let first = site.start(&file(&[])).await;
    let (web, ada) = concerned(&first).await;
    let without = "[[users]]\nusername = \"grace\"\n";
    drop(first);
    let restarted = site.start(without).await;
    assert_eq!(concerned(&restarted).await, (web.clone(), ada));
    let refused = Command::Rename.run(&restarted).await.unwrap_err();
    assert!(refused.contains("release client web"), "{refused}");
    assert_eq!(hand_over::<Client>(&restarted, "web", None).await, Ok(()));
    assert_eq!(
        apply(&restarted, without, PRUNE).await.differences,
        ["- user ada"]
    );
    let found = concerned(&restarted).await;
    assert_eq!(without_owner(found), without_owner((web, None)));
}

/// A replica with another file, or an operator who applies one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_that_is_applied_last_counts() {
    let site = Site::new();
    let (own, other) = (file(&[]), file(&[("NAME", "Other"), ("ENABLED", "false")]));
    let first = site.start(&own).await;
    let before = without_owner(concerned(&first).await);
    apply(&first, &other, KEEP).await;
    let applied = without_owner(concerned(&first).await);
    assert_ne!(applied, before);
    drop(first);
    let restarted = site.start(&own).await;
    assert_eq!(without_owner(concerned(&restarted).await), before,);
    drop(restarted);
    let restarted = site.start(&other).await;
    assert_eq!(without_owner(concerned(&restarted).await), applied,);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_configuration_defines_its_legacy_instances() {
    let mut site = Site::new();
    let mut instances = demo(&site.folder).legacy_instances;
    instances.truncate(1);
    let host = instances[0].hostname.clone();
    let put = |server: &str, enabled| json!({"auth_server_hostname": server, "enabled": enabled});
    let server = instances[0].auth_server_hostname.clone();
    let found = async |service: &Arc<Service>| {
        let found = service.store.legacy_instances().await.unwrap();
        let found = found.into_iter().find(|one| one.hostname == host);
        found.map(|one| (one.auth_server_hostname, one.enabled))
    };
    let service = site.start("").await;
    assert_eq!(
        put_host(&service, &host, put("a.example", true)).await,
        Ok(())
    );
    drop(service);
    // A command registered the instance before.
    site.config.legacy_instances = instances.clone();
    let service = site.start("").await;
    assert_eq!(found(&service).await, Some(("a.example".to_owned(), true)));
    assert_eq!(
        hand_over::<LegacyInstance>(&service, &host, Some("f")).await,
        Ok(())
    );
    drop(service);
    let service = site.start("").await;
    assert_eq!(found(&service).await, Some((server.clone(), true)));
    let refused = put_host(&service, &host, put("a.example", true))
        .await
        .unwrap_err();
    for part in ["config.toml:", &*format!("release legacy-instance {host}")] {
        assert!(refused.contains(part), "{part} in {refused}");
    }
    assert!(delete::<LegacyInstance>(&service, &host).await.is_err());
    assert_eq!(put_host(&service, &host, put(&server, false)).await, Ok(()));
    drop(service);
    site.config.legacy_instances[0].auth_server_hostname = "b.example".to_owned();
    let service = site.start("").await;
    assert_eq!(found(&service).await, Some(("b.example".to_owned(), false)));
    drop(service);
    site.config.legacy_instances.clear();
    let service = site.start("").await;
    assert_eq!(found(&service).await, Some(("b.example".to_owned(), false)));
    assert_eq!(
        hand_over::<LegacyInstance>(&service, &host, None).await,
        Ok(())
    );
    assert_eq!(delete::<LegacyInstance>(&service, &host).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_start_together_apply_a_file_once() {
    let site = Site::on_postgres().await;
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
    assert_eq!(Command::NewPassword.run(&one).await, Ok(()));
    let ada = user(&one, "ada").await;
    drop(other);
    let restarted = site.start(&changed).await;
    assert_eq!(user(&restarted, "ada").await, ada);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_do_not_undo_each_others_changes() {
    let site = Site::on_postgres().await;
    let text = file(&[]);
    let (one, other) = (site.start(&text).await, site.start(&text).await);
    assert_eq!(hand_over::<Client>(&one, "web", None).await, Ok(()));
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

/// Everybody who reads the store can read what an object remembers of its entry: no secret, and nothing that helps to guess a
/// secret.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_remembers_no_secret_of_its_entry() {
    let site = Site::new();
    let text = "[[users]]\nusername = \"ada\"\npassword = \"open sesame, please\"\n\
                totp_secret = \"GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ\"\n";
    let service = site.start(text).await;
    let ada = user(&service, "ada").await.unwrap();
    let json = serde_json::to_string(&ada.managed).unwrap();
    assert!(
        json.contains("password") && json.contains("totp_secret"),
        "{json}"
    );
    let digest = domain::digest::Digest::of(b"open sesame, please").to_base64url();
    let of_entry = domain::digest::Digest::of(text.as_bytes()).to_base64url();
    for secret in [
        "sesame",
        "GEZDGNBV",
        "12345678901234567890",
        &digest,
        &of_entry[..16],
    ] {
        assert!(!json.contains(secret), "{json}");
    }
    drop(service);
    let restarted = site.start(text).await;
    assert_eq!(user(&restarted, "ada").await.unwrap(), ada);
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
    let site = Site::on_postgres().await;
    let text = file(&[]);
    let (one, other) = (site.start(&text).await, site.start(&text).await);
    assert_eq!(hand_over::<Client>(&one, "web", None).await, Ok(()));
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
    let site = Site::on_postgres().await;
    let text = file(&[]);
    let (one, other) = (site.start(&text).await, site.start(&text).await);
    let knows = async |name: &str| {
        let found = other.directory().user(name).await.unwrap();
        found.is_some()
    };
    assert!(knows("ada").await);
    assert_eq!(hand_over::<User>(&one, "ada", None).await, Ok(()));
    assert_eq!(Command::RemoveUser.run(&one).await, Ok(()));
    let absent = (0..domain::registry_change::CHANGES_KEPT)
        .map(|number| domain::testing::client_id(&number.to_string()));
    let change = domain::RegistryChange {
        remove_clients: absent.collect(),
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
    let site = Site::on_postgres().await;
    std::fs::write(site.folder.path().join("registrations.toml"), "").unwrap();
    let store = open_store(&site.config).await.unwrap();
    let clock = Arc::new(ManualClock::new(SystemClock.now()));
    let service = prepare_on(site.config.clone(), store, Arc::clone(&clock) as _).await;
    let service = service.unwrap();
    // On a busy machine the database may answer too late.
    let ready = async || loop {
        let ready = service.ready().await;
        let late = "the store failed: no answer within 1500 ms";
        if !ready.as_ref().is_err_and(|error| error.to_string() == late) {
            return ready.unwrap();
        }
    };
    let minute = Duration::from_secs(60);
    for ahead in [true, false] {
        let now = SystemClock.now();
        clock.set(match ahead {
            true => now + minute,
            false => Timestamp::from_seconds(now.seconds() - minute.as_secs()),
        });
        let difference = ready().await.unwrap().to_string();
        assert!(difference.contains(&clock.now().rfc3339()), "{difference}");
        clock.set(SystemClock.now());
        assert_eq!(ready().await, None);
    }
}
