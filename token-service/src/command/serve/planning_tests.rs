//! A start and a command read the objects that they name, and no more.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::tests::demo;
use super::*;
use crate::http::admin::objects::ChangeQuery;
use crate::http::admin::registrations::ApplyQuery;
use crate::http::admin::{AdminError, Administration, Object};
use crate::telemetry::audit_log::Origin;
use domain::testing::{client_id, user_bound, username};
use domain::{AuditRange, Client, LegacyInstance, RegistryChange, User};
use registry::planning::PAGE;
use store::RegistrationStore as _;
use store::testing::Watched;
use tempfile::TempDir;

/// A service on a store that records its operations.
pub(super) struct Site {
    folder: TempDir,
    pub(super) config: Config,
    pub(super) store: Arc<Watched>,
}

impl Site {
    /// Changes the demo's configuration with `change`.
    pub(super) async fn new(change: impl FnOnce(&mut Config)) -> Self {
        let folder = TempDir::new().unwrap();
        let mut config = demo(&folder);
        change(&mut config);
        let store = Arc::new(Watched::new(open_store(&config).await.unwrap()));
        Self {
            folder,
            config,
            store,
        }
    }

    pub(super) async fn start(&self) -> Arc<Service> {
        let store: Arc<dyn Store> = Arc::clone(&self.store) as _;
        let service = prepare_on(self.config.clone(), store, Arc::new(SystemClock)).await;
        self.store.calls();
        Arc::new(service.unwrap())
    }

    /// The operations of a start on the registrations, and the refusal.
    pub(super) async fn register(&self) -> (Vec<String>, Option<String>) {
        let (calls, outcome) = self.registered().await;
        (calls, outcome.err())
    }

    pub(super) async fn registered(&self) -> (Vec<String>, Result<Applied, String>) {
        let key = encryption_key::open(&self.config.encryption_key_file, &*self.store, &OsRandom);
        let key = key.await.unwrap();
        self.store.calls();
        let outcome = register(&self.config, &*self.store, &key).await;
        let outcome = outcome.map_err(|error| error.to_string());
        (self.store.calls(), outcome)
    }

    pub(super) fn write(&self, registrations: &str) {
        let path = self.config.registrations.as_ref().unwrap();
        std::fs::write(path, registrations).unwrap();
    }

    pub(super) fn at(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }
}

/// How `apply` applies a document.
pub(super) const KEEP: ApplyQuery = ApplyQuery {
    dry_run: false,
    prune: false,
    overwrite: false,
    import: false,
    file: None,
};

/// How `apply --prune` applies a document.
pub(super) const PRUNE: ApplyQuery = ApplyQuery {
    prune: true,
    ..KEEP
};

/// Runs `command` as an operator would.
pub(super) async fn operate<T>(
    service: &Arc<Service>,
    command: impl AsyncFnOnce(Administration) -> Result<T, AdminError>,
) -> Result<T, String> {
    let administration = Administration::new(Arc::clone(service), Origin::default(), None);
    command(administration)
        .await
        .map_err(|error| error.to_string())
}

pub(super) fn object(value: Value) -> Object {
    value.as_object().unwrap().clone()
}

pub(super) async fn create<T: crate::http::admin::objects::Administered>(
    service: &Arc<Service>,
    value: Value,
) -> Result<(), String> {
    operate(service, async |admin| {
        admin.create::<T>(object(value)).await.map(drop)
    })
    .await
}

pub(super) async fn update<T: crate::http::admin::objects::Administered>(
    service: &Arc<Service>,
    name: &str,
    value: Value,
) -> Result<(), String> {
    operate(service, async |admin| {
        let how = ChangeQuery::default();
        admin.update::<T>(name, object(value), how).await.map(drop)
    })
    .await
}

pub(super) async fn delete<T: registry::describe::Registered>(
    service: &Arc<Service>,
    name: &str,
) -> Result<(), String> {
    operate(service, async |admin| admin.delete::<T>(name).await).await
}

pub(super) async fn put_host(
    service: &Arc<Service>,
    hostname: &str,
    value: Value,
) -> Result<(), String> {
    operate(service, async |admin| {
        let put = admin.put_legacy_instance(hostname, object(value)).await;
        put.map(drop)
    })
    .await
}

pub(super) async fn apply(
    service: &Arc<Service>,
    value: Value,
    query: ApplyQuery,
) -> Result<Vec<String>, String> {
    operate(service, async |admin| {
        let applied = admin.apply(object(value), query);
        Ok(applied.await?.differences)
    })
    .await
}

/// True if an operation reads a list of all clients or all users.
fn is_list(call: &str) -> bool {
    let lists = ["clients(", "users("];
    lists.iter().any(|list| call.starts_with(list))
}

fn lists(calls: &[String]) -> Vec<&String> {
    calls.iter().filter(|call| is_list(call)).collect()
}

/// The objects in the excerpts, in the order of their keys, with duplicates of several excerpts.
pub(super) fn excerpts(calls: &[String]) -> Vec<String> {
    let excerpts = calls.iter().filter(|call| call.starts_with("excerpt("));
    let names = excerpts.flat_map(|call| {
        let names = call.split("ObjectName { kind: ").skip(1);
        names.filter_map(|name| {
            let (kind, rest) = name.split_once(", name: \"")?;
            Some(format!("{kind} {}", rest.split('"').next()?))
        })
    });
    names.collect()
}

pub(super) fn secret() -> &'static str {
    "a secret of the client, long enough"
}

#[tokio::test]
async fn a_command_reads_the_objects_that_it_names() {
    let site = Site::new(|_| ()).await;
    let service = site.start().await;
    let bound = |user: &str| json!({"client_id": "batch", "type": "user_bound", "client_secret": secret(), "bound_user": user});
    let account = json!({"user_id": "7", "username": "h", "site": "https://us1.example.com"});
    let host = json!({"auth_server_hostname": "sso.example", "enabled": true});
    let document = json!({"users": [{"username": "hedy", "organization": "majestic"}]});
    let ask = async |command: &str| match command {
        "create user" => create::<User>(&service, json!({"username": "hedy"})).await,
        "create client" => create::<Client>(&service, bound("hedy")).await,
        "update client" => update::<Client>(&service, "batch", json!({"name": "B"})).await,
        "bind client" => {
            let patch = json!({"bound_user": "ada@example.com"});
            update::<Client>(&service, "batch", patch).await
        }
        "add secret" => {
            operate(&service, async |admin| {
                admin.add_secret("batch").await.map(drop)
            })
            .await
        }
        "update user" => update::<User>(&service, "hedy", json!({"email": "h@h.example"})).await,
        "link" => {
            operate(&service, async |admin| {
                let linked = admin.link_account("hedy", object(account.clone())).await;
                linked.map(drop)
            })
            .await
        }
        "remove second factor" => {
            operate(&service, async |admin| {
                admin.remove_second_factor("grace@example.com").await
            })
            .await
        }
        "put host" => put_host(&service, "us9.example", host.clone()).await,
        "delete host" => delete::<LegacyInstance>(&service, "us9.example").await,
        "apply" => {
            let applied = apply(&service, document.clone(), KEEP).await;
            applied.map(drop)
        }
        "delete client" => delete::<Client>(&service, "batch").await,
        "delete user" => delete::<User>(&service, "hedy").await,
        _ => Err(format!("{command} is unknown")),
    };
    let hedy = &["Client hedy", "User hedy"][..];
    let batch = &["Client batch", "User batch"][..];
    for (command, expected) in [
        ("create user", hedy),
        (
            "create client",
            &["Client batch", "User batch", "User hedy"],
        ),
        (
            "update client",
            &[batch, &["Client batch", "User batch", "User hedy"]].concat(),
        ),
        (
            "bind client",
            &[
                batch,
                &["Client batch", "User ada@example.com", "User batch"],
            ]
            .concat(),
        ),
        ("add secret", batch),
        ("update user", hedy),
        ("link", hedy),
        (
            "remove second factor",
            &["Client grace@example.com", "User grace@example.com"],
        ),
        ("delete host", &["LegacyInstance us9.example"]),
        ("apply", hedy),
        ("delete client", batch),
        ("delete user", hedy),
    ] {
        if command == "delete host" {
            assert_eq!(ask("put host").await, Ok(()));
            site.store.calls();
        }
        assert_eq!(ask(command).await, Ok(()), "{command}");
        let calls = site.store.calls();
        assert_eq!(lists(&calls), [""; 0], "{command}");
        assert_eq!(excerpts(&calls), expected, "{command}");
    }
}

pub(super) fn operations(calls: &[String]) -> Vec<&str> {
    let operations = calls.iter().map(|call| call.split('(').next().unwrap());
    operations.collect()
}

#[tokio::test]
async fn a_start_reads_the_objects_of_its_files() {
    let site = Site::new(|config| {
        config.legacy_instances.truncate(1);
    })
    .await;
    let hostname = &site.config.legacy_instances.first().unwrap().hostname;
    let (calls, refusal) = site.register().await;
    assert_eq!(refusal, None);
    let names = excerpts(&calls);
    assert!(names.contains(&format!("LegacyInstance {hostname}")));
    assert!(names.contains(&"Client web-demo".to_owned()));
    // Nothing has changed. The certificates of two clients are in other files, so the file is read again.
    let (calls, refusal) = site.register().await;
    assert_eq!(refusal, None);
    let expected = ["excerpt", "applied_file", "excerpt"];
    assert_eq!(operations(&calls), expected);
    // Without a registrations file.
    let mut alone = site;
    alone.config.registrations = None;
    let hostname = &alone.config.legacy_instances.first().unwrap().hostname;
    let (calls, refusal) = alone.register().await;
    assert_eq!(refusal, None);
    let instance = format!("ObjectName {{ kind: LegacyInstance, name: {hostname:?} }}");
    assert_eq!(calls, [format!("excerpt([{instance}])")]);
}

#[tokio::test]
async fn pruning_reads_page_by_page() {
    let site = Site::new(|config| config.registrations = None).await;
    let service = site.start().await;
    let clients: Vec<Value> = (0..PAGE + 5)
        .map(|number| {
            json!({"client_id": format!("app-{number}"), "type": "installed",
                "redirect_uris": ["http://127.0.0.1/cb"]})
        })
        .collect();
    let users: Vec<Value> = (0..PAGE + 5)
        .map(|number| json!({"username": format!("person-{number}")}))
        .collect();
    let document = json!({"clients": clients, "users": users});
    let applied = apply(&service, document, KEEP).await.unwrap();
    assert_eq!(applied.len(), 2 * (PAGE + 5));
    assert_eq!(lists(&site.store.calls()), [""; 0]);
    let (client, user) = (clients.first().unwrap(), users.first().unwrap());
    let document = json!({"clients": [client], "users": [user]});
    let removed = apply(&service, document, PRUNE).await.unwrap();
    assert_eq!(removed.len(), 2 * (PAGE + 4));
    assert!(removed.is_sorted());
    let calls = site.store.calls();
    let page = |list: &str, after: &str| format!("{list}({after:?}, {PAGE})");
    let pages = [
        page("clients", ""),
        page("clients", "app-994"),
        page("users", ""),
        page("users", "person-994"),
    ];
    assert_eq!(lists(&calls), pages.each_ref());
    let left = site.store.clients(String::new(), PAGE).await.unwrap();
    assert_eq!(left.len(), 1);
    let left = site.store.users(String::new(), PAGE).await.unwrap();
    assert_eq!(left.len(), 1);
}

fn person(name: &str, user_id: &str) -> Value {
    let account = json!({"user_id": user_id, "username": "p", "site": "https://us1.example.com"});
    json!({"username": name, "accounts": [account]})
}

fn legacy(client_id: &str) -> Value {
    json!({"client_id": client_id, "type": "legacy", "redirect_uris": ["https://a.example/cb"]})
}

/// protocol.md §2.5.
#[tokio::test]
async fn a_name_without_room_in_a_legacy_token_is_refused_where_it_is_registered() {
    let site = Site::new(|config| config.registrations = None).await;
    let service = site.start().await;
    let ok = Ok::<(), String>(());
    assert_eq!(
        create::<Client>(&service, legacy(&"c".repeat(22))).await,
        ok
    );
    assert_eq!(
        create::<User>(&service, person("ada", &"1".repeat(24))).await,
        ok
    );
    let host = |length: usize| format!("{}.example", "h".repeat(length - 8));
    let value = json!({"auth_server_hostname": "sso.example"});
    assert_eq!(put_host(&service, &host(24), value.clone()).await, ok);
    site.store.calls();
    let client = create::<Client>(&service, legacy(&"c".repeat(23))).await;
    let user = create::<User>(&service, person("joan", &"1".repeat(25))).await;
    let host = put_host(&service, &host(25), value).await;
    let document = json!({"users": [person("grace", &"1".repeat(25))]});
    let applied = apply(&service, document, KEEP).await.map(drop);
    for (refused, bound) in [
        (client, "client_id (22)"),
        (user, "legacy_user_id_max is 24"),
        (host, "legacy_hostname_max is 24"),
        (applied, "legacy_user_id_max is 24"),
    ] {
        let refused = refused.unwrap_err();
        assert!(refused.contains(bound), "{refused}");
    }
    assert_eq!(lists(&site.store.calls()), [""; 0]);
}

#[tokio::test]
async fn a_start_refuses_a_name_without_room_in_a_legacy_token() {
    let mut site = Site::new(|_| ()).await;
    let file = site.at("registrations.toml");
    site.config.registrations = Some(file.clone());
    let mut text = String::new();
    for number in 0..100 {
        writeln!(text, "[[users]]\nusername = \"person-{number}\"").unwrap();
    }
    let client = "c".repeat(23);
    write!(
        text,
        "[[clients]]\nclient_id = \"{client}\"\ntype = \"legacy\"\nredirect_uris = [\"https://a.example/cb\"]\n"
    )
    .unwrap();
    let user_id = "1".repeat(25);
    write!(
        text,
        "[[users]]\nusername = \"ada\"\n[[users.accounts]]\nuser_id = \"{user_id}\"\nusername = \"a\"\nsite = \"https://a.example\"\n"
    )
    .unwrap();
    std::fs::write(&file, text).unwrap();
    let (_, refusal) = site.register().await;
    let refusal = refusal.unwrap();
    for expected in [
        format!("registrations.toml:202: client_id: {client} has 23 characters"),
        format!("registrations.toml:206: user ada: user_id {user_id} has 25 characters"),
    ] {
        assert!(refusal.contains(&expected), "{refusal}");
    }
    let users = site.store.users(String::new(), 1).await.unwrap();
    assert_eq!(users, []);
}

/// A command registered the other instance, or the configuration named it before.
#[tokio::test]
async fn a_start_refuses_an_instance_that_differs_in_the_port_alone() {
    let mut site = Site::new(|config| config.registrations = None).await;
    let known = site.config.legacy_instances[0].hostname.clone();
    assert_eq!(site.register().await.1, None);
    site.config.legacy_instances[0].hostname.push_str(":8443");
    let refusal = site.register().await.1.unwrap();
    let expected = format!(
        "hostname: {known}:8443 differs from the instance {known} only in the port: remove that instance first"
    );
    assert!(refusal.starts_with(&expected), "{refusal}");
}

/// The file is unchanged, but its names have less room.
#[tokio::test]
async fn a_start_with_another_audience_checks_the_file_again() {
    let mut site = Site::new(|_| ()).await;
    let file = site.at("registrations.toml");
    site.config.registrations = Some(file.clone());
    let client = "c".repeat(22);
    let text = format!(
        "[[clients]]\nclient_id = \"{client}\"\ntype = \"legacy\"\nredirect_uris = [\"https://a.example/cb\"]\n"
    );
    std::fs::write(&file, text).unwrap();
    for _ in 0..2 {
        let (_, refusal) = site.register().await;
        assert_eq!(refusal, None);
    }
    site.config.protocol.api_audience.push('x');
    let (_, refusal) = site.register().await;
    let refusal = refusal.unwrap();
    let expected = format!("registrations.toml:2: client_id: {client} has 22 characters");
    assert!(refusal.contains(&expected), "{refusal}");
}

/// Another replica disables the client between the two excerpts of a patch.
#[tokio::test]
async fn a_patch_keeps_what_happened_between_its_excerpts() {
    let site = Site::new(|config| config.registrations = None).await;
    let service = site.start().await;
    assert_eq!(
        create::<User>(&service, json!({"username": "ada"})).await,
        Ok(())
    );
    let put = |client: Client| RegistryChange {
        put_clients: vec![client],
        ..RegistryChange::default()
    };
    let client = user_bound("batch", &["secret"], "ada");
    let change = put(client.clone());
    let now = SystemClock.now();
    site.store.change_registry(change, now).await.unwrap();
    let disabled = client.disabled();
    site.store.change_before("excerpt", 2, put(disabled));
    let renamed = update::<Client>(&service, "batch", json!({"name": "Batch"})).await;
    assert_eq!(renamed, Ok(()));
    let found = site.store.client(client_id("batch")).await;
    let found = found.unwrap().unwrap();
    assert_eq!((found.enabled, found.name.as_str()), (false, "Batch"));
}

/// A client without credentials may come from an earlier version. It could otherwise not even be disabled.
#[tokio::test]
async fn a_client_without_credentials_can_be_changed() {
    let site = Site::new(|config| config.registrations = None).await;
    let service = site.start().await;
    let created = create::<User>(&service, json!({"username": "ada"})).await;
    assert_eq!(created, Ok(()));
    let mute = RegistryChange {
        put_clients: vec![user_bound("batch", &[], "ada")],
        ..RegistryChange::default()
    };
    let now = SystemClock.now();
    site.store.change_registry(mute, now).await.unwrap();
    let disabled = update::<Client>(&service, "batch", json!({"enabled": false})).await;
    assert_eq!(disabled, Ok(()));
}

/// Another replica binds a client to a user just before the user is removed.
#[tokio::test]
async fn a_user_who_is_bound_meanwhile_stays() {
    let site = Site::new(|config| config.registrations = None).await;
    let service = site.start().await;
    let created = create::<User>(&service, json!({"username": "ada"})).await;
    assert_eq!(created, Ok(()));
    let bind = RegistryChange {
        put_clients: vec![user_bound("batch", &[], "ada")],
        ..RegistryChange::default()
    };
    site.store.change_before("change_registry", 1, bind);
    let refused = delete::<User>(&service, "ada").await.unwrap_err();
    assert!(refused.starts_with("the client batch is bound to ada"));
    let ada = site.store.user(username("ada")).await;
    assert!(ada.unwrap().is_some());
}

#[tokio::test]
async fn an_object_that_no_file_lists_is_adopted_with_a_warning() {
    let site = Site::new(|_| ()).await;
    let service = site.start().await;
    let added = create::<User>(&service, json!({"username": "bob"}));
    assert_eq!(added.await, Ok(()));
    for (name, file, warns) in [
        ("ada@example.com", None, false),
        ("ada@example.com", Some("f"), false),
        ("bob", Some("f"), true),
    ] {
        let handed_over = operate(&service, async |admin| {
            admin.hand_over::<User>(name, file.map(str::to_owned)).await
        });
        let warnings = handed_over.await.unwrap().warnings.unwrap_or_default();
        let warning = format!("does not list the user {name}: the next apply --prune of a file");
        let is_warned = warnings.iter().any(|one| one.contains(&warning));
        assert_eq!(is_warned, warns, "{name}: {warnings:?}");
    }
    service.audit.write(&service.store).await.unwrap();
    let entries = service
        .store
        .audit(AuditRange::Before(None), 3)
        .await
        .unwrap();
    let details = entries.into_iter().filter_map(|entry| entry.event.detail);
    let details: Vec<String> = details.collect();
    assert_eq!(details[..2], ["managed_by: nothing -> f (adopt)"; 2]);
    assert!(
        details[2].ends_with("/demo/registrations.toml:5 -> nothing (release)"),
        "{details:?}"
    );
}
