//! A start and a command read the objects that they name, and no more.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::register::Applied;
use super::tests::demo;
use super::*;
use crate::audit_log::Origin;
use crate::http::admin::registrations::ApplyQuery;
use crate::http::admin::{AdminError, Administration, Object};
use crate::planning::PAGE;
use domain::{Client, ClientId, LegacyInstance, RegistryChange, User, Username};
use store::RegistrationStore as _;
use store::testing::{Watched, memory};
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
    let administration = Administration {
        service: Arc::clone(service),
        origin: Origin::default(),
        name: None,
    };
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

async fn update<T: crate::http::admin::objects::Administered>(
    service: &Arc<Service>,
    name: &str,
    value: Value,
) -> Result<(), String> {
    operate(service, async |admin| {
        admin.update::<T>(name, object(value)).await.map(drop)
    })
    .await
}

pub(super) async fn delete<T: crate::http::admin::objects::Administered>(
    service: &Arc<Service>,
    name: &str,
) -> Result<(), String> {
    operate(service, async |admin| admin.delete::<T>(name).await).await
}

async fn put_host(service: &Arc<Service>, hostname: &str, value: Value) -> Result<(), String> {
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

/// True if an operation reads a list of all clients, all users or all remembered objects.
fn is_list(call: &str) -> bool {
    let lists = [
        "clients(",
        "users(",
        "legacy_clients(",
        "remembered_objects(",
    ];
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
        // A new host is compared with all legacy clients.
        if command == "delete host" {
            assert_eq!(ask("put host").await, Ok(()));
            let calls = site.store.calls();
            assert_eq!(lists(&calls), [&legacy_clients("", PAGE)]);
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

fn legacy_clients(after: &str, limit: usize) -> String {
    format!("legacy_clients({after:?}, {limit})")
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
    // Nothing has changed. The certificates of two clients are in other files, and are read again.
    let (calls, refusal) = site.register().await;
    assert_eq!(refusal, None);
    // The file has legacy clients, which are compared with the longest User ID.
    let expected = [
        "applied_file",
        "excerpt",
        "excerpt",
        "remembered_objects",
        "registry_summary",
    ];
    assert_eq!(operations(&calls), expected);
    assert!(!excerpts(&calls).contains(&"Client web-demo".to_owned()));
    // Without a registrations file.
    let mut alone = site;
    alone.config.registrations = None;
    let hostname = &alone.config.legacy_instances.first().unwrap().hostname;
    let (calls, refusal) = alone.register().await;
    assert_eq!(refusal, None);
    let instance = |name: &str| format!("ObjectName {{ kind: LegacyInstance, name: {name:?} }}");
    let expected = [
        "applied_file()".to_owned(),
        format!("excerpt([{}])", instance(hostname)),
        format!("remembered_objects(true, Some({}), {PAGE})", instance("")),
        // The longest names, because the audience may be another.
        "registry_summary()".to_owned(),
    ];
    assert_eq!(calls, expected);
}

fn keys(memory: Vec<domain::Remembered>) -> Vec<String> {
    let memory = memory.into_iter();
    memory.map(|one| one.object.key()).collect()
}

/// An object that left a file can return to the file as a new object, even if a command removed it meanwhile.
#[tokio::test]
async fn what_left_the_files_is_forgotten() {
    let mut site = Site::new(|config| config.legacy_instances.truncate(2)).await;
    site.config.registrations = Some(site.at("registrations.toml"));
    let many = |count: usize| {
        let mut text = String::new();
        for number in 0..count {
            writeln!(text, "[[users]]\nusername = \"person-{number:04}\"").unwrap();
        }
        text
    };
    let count = PAGE + 10;
    site.write(&many(count));
    assert_eq!(site.register().await.1, None);
    let all = async || keys(memory(&*site.store).await.unwrap());
    assert_eq!(all().await.len(), count + 2);
    site.write(&many(1));
    let [stays, leaves] = site.config.legacy_instances.as_slice() else {
        panic!("two instances");
    };
    let (stays, leaves) = (
        format!("l:{}", stays.hostname),
        format!("l:{}", leaves.hostname),
    );
    assert_eq!(site.register().await.1, None);
    let person = "u:person-0000".to_owned();
    let mut expected = vec![leaves, stays.clone(), person.clone()];
    expected.sort();
    assert_eq!(all().await, expected);
    // A start without a registrations file forgets only legacy instances.
    site.config.legacy_instances.truncate(1);
    site.config.registrations = None;
    assert_eq!(site.register().await.1, None);
    let all = keys(memory(&*site.store).await.unwrap());
    assert_eq!(all, [stays, person]);
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
    let read = |list: &str| calls.iter().filter(|call| call.starts_with(list)).count();
    assert_eq!((read("clients("), read("users(")), (2, 2));
    let left = site.store.clients(String::new(), PAGE).await.unwrap();
    assert_eq!(left.len(), 1);
    let left = site.store.users(String::new(), PAGE).await.unwrap();
    assert_eq!(left.len(), 1);
    let kept = keys(memory(&*site.store).await.unwrap());
    let kept: Vec<&String> = kept.iter().filter(|key| !key.starts_with("l:")).collect();
    assert_eq!(kept, ["c:app-0", "u:person-0"]);
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
async fn legacy_clients_are_read_only_for_a_longer_user_id_or_a_new_host() {
    let site = Site::new(|config| {
        config.registrations = None;
        config.legacy_instances.truncate(1);
        let instance = config.legacy_instances.first_mut().unwrap();
        instance.hostname = "us1.example".to_owned();
        config.protocol.api_audience = "https://api.example".to_owned();
    })
    .await;
    let service = site.start().await;
    let ok = Ok::<(), String>(());
    assert_eq!(create::<Client>(&service, legacy("old")).await, ok);
    assert_eq!(
        create::<User>(&service, person("ada", &"1".repeat(20))).await,
        ok
    );
    let calls = site.store.calls();
    assert_eq!(lists(&calls), [&legacy_clients("", PAGE)]);
    // As long as the longest.
    let same = create::<User>(&service, person("grace", &"2".repeat(20))).await;
    assert_eq!(same, ok);
    assert_eq!(lists(&site.store.calls()), [""; 0]);
    // The longest User ID of the store is known only by its length.
    let refused = create::<Client>(&service, legacy(&"c".repeat(60))).await;
    let refused = refused.unwrap_err();
    assert!(
        refused.ends_with("+ longest registered user_id (20) = 110"),
        "{refused}"
    );
    assert_eq!(lists(&site.store.calls()), [""; 0]);
    // A longer one is in the plan.
    let long = "3".repeat(80);
    let refused = create::<User>(&service, person("joan", &long)).await;
    let refused = refused.unwrap_err();
    let expected = format!("+ client_id old (3) + user_id {long} (80) = 113");
    assert!(refused.ends_with(&expected), "{refused}");
    assert_eq!(lists(&site.store.calls()), [&legacy_clients("", PAGE)]);
    // A host that exists.
    let disabled = json!({"auth_server_hostname": "sso.example", "enabled": false});
    assert_eq!(
        put_host(&service, "us1.example", disabled.clone()).await,
        ok
    );
    assert_eq!(lists(&site.store.calls()), [""; 0]);
    let host = format!("{}.example", "h".repeat(60));
    let refused = put_host(&service, &host, disabled).await.unwrap_err();
    assert!(refused.contains(&host) && refused.contains("client_id old (3)"));
    assert_eq!(lists(&site.store.calls()), [&legacy_clients("", PAGE)]);
    // The plan replaces or removes the client that would not fit.
    let document = json!({"users": [person("joan", &long)]});
    let applied = apply(&service, document, PRUNE).await;
    assert_eq!(
        applied.unwrap(),
        ["- client old", "- user ada", "- user grace", "+ user joan"]
    );
}

/// Legacy clients that only commands know are compared with a longer `api_audience` too.
#[tokio::test]
async fn a_start_refuses_an_audience_that_does_not_fit() {
    let mut site = Site::new(|config| {
        config.registrations = None;
        config.legacy_instances.truncate(1);
        let instance = config.legacy_instances.first_mut().unwrap();
        instance.hostname = "us1.example".to_owned();
        config.protocol.api_audience = "https://api.example".to_owned();
    })
    .await;
    let service = site.start().await;
    let ok = Ok::<(), String>(());
    assert_eq!(create::<Client>(&service, legacy("old")).await, ok);
    assert_eq!(create::<Client>(&service, legacy("older")).await, ok);
    drop(service);
    let (calls, refusal) = site.register().await;
    assert_eq!(refusal, None);
    let read = |calls: &[String]| calls.contains(&legacy_clients("", PAGE));
    assert!(!read(&calls), "everything fits: {calls:?}");
    site.config.protocol.api_audience = format!("https://{}.example", "a".repeat(100));
    let (calls, refusal) = site.register().await;
    assert!(read(&calls), "{calls:?}");
    let refusal = refusal.unwrap();
    for client in ["client_id old (3)", "client_id older (5)"] {
        assert!(refusal.contains(client), "{refusal}");
    }
}

#[tokio::test]
async fn a_refusal_names_a_hundred_clients_at_most() {
    let site = Site::new(|config| {
        config.registrations = None;
        config.legacy_instances.truncate(1);
    })
    .await;
    let service = site.start().await;
    let clients = (0..150).map(|number| legacy(&format!("old-{number}")));
    let document = json!({"clients": clients.collect::<Vec<_>>()});
    apply(&service, document, KEEP).await.unwrap();
    let refused = create::<User>(&service, person("joan", &"3".repeat(99))).await;
    let refused = refused.unwrap_err();
    let lines: Vec<&str> = refused.lines().collect();
    assert_eq!(lines.len(), 101);
    assert!(lines.last().unwrap().starts_with("more legacy clients"));
}

#[tokio::test]
async fn a_start_compares_the_clients_of_its_file_with_a_new_audience() {
    let mut site = Site::new(|_| ()).await;
    assert_eq!(site.register().await.1, None);
    site.config.protocol.api_audience = format!("https://{}.example", "a".repeat(90));
    let refusal = site.register().await.1.unwrap();
    let file = Path::new("demo/registrations.toml").display().to_string();
    for line in refusal.lines() {
        assert!(line.contains(&file), "{line}");
    }
    assert!(refusal.contains("client_id legacy-demo (11)"), "{refusal}");
}

fn user_bound(name: &str, to: &str) -> Client {
    let kind = domain::IntegrationKind::UserBound;
    let mut client = Client::new(ClientId::parse(name).unwrap(), kind);
    client.integration = domain::IntegrationType::UserBound {
        secrets: Vec::new(),
        bound_user: Username::parse(to).unwrap(),
    };
    client
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
    let client = user_bound("batch", "ada");
    let change = put(client.clone());
    let now = SystemClock.now();
    site.store.change_registry(change, now).await.unwrap();
    let disabled = Client {
        enabled: false,
        ..client
    };
    site.store.change_before("excerpt", 2, put(disabled));
    let renamed = update::<Client>(&service, "batch", json!({"name": "Batch"})).await;
    assert_eq!(renamed, Ok(()));
    let found = site.store.client(ClientId::parse("batch").unwrap()).await;
    let found = found.unwrap().unwrap();
    assert_eq!((found.enabled, found.name.as_str()), (false, "Batch"));
}

/// Another replica binds a client to a user just before the user is removed.
#[tokio::test]
async fn a_user_who_is_bound_meanwhile_stays() {
    let site = Site::new(|config| config.registrations = None).await;
    let service = site.start().await;
    let created = create::<User>(&service, json!({"username": "ada"})).await;
    assert_eq!(created, Ok(()));
    let bind = RegistryChange {
        put_clients: vec![user_bound("batch", "ada")],
        ..RegistryChange::default()
    };
    site.store.change_before("change_registry", 1, bind);
    let refused = delete::<User>(&service, "ada").await.unwrap_err();
    assert!(refused.starts_with("the client batch is bound to ada"));
    let ada = site.store.user(Username::parse("ada").unwrap()).await;
    assert!(ada.unwrap().is_some());
}
