//! What is stored, registered, shown and documented has the same keys.

use std::collections::BTreeSet;
use std::path::Path;

use claims::Thumbprint;
use serde_json::json;
use utoipa::PartialSchema as _;

use super::reading::Reading;
use super::*;
use crate::file::load;
use crate::registrations::{Registrations, read_entry};
use document::{Problems, Section, Table};
use domain::client::IntegrationKind;
use domain::testing::{client_id, username};
use domain::{Client, LegacyInstance, User};

const NOW: Timestamp = Timestamp::from_seconds(1_767_225_600);

/// Members that only the store sets.
const NOT_REGISTERED: [&str; 6] = [
    "accounts_from",
    "credentials_version",
    "managed",
    "sign_ins_from",
    "tokens_from",
    "version",
];

/// The names of members that are stored in another form, each with the key of the registration.
const STORED_AS: [(&str, &str); 5] = [
    ("secrets", "client_secret"),
    ("redirect_templates", "redirect_uris"),
    ("password_hash", "password"),
    ("registered_password_digest", "password"),
    ("totp_secret_sealed", "totp_secret"),
];

fn client(kind: IntegrationKind) -> Client {
    Client::new(client_id("client"), kind)
}

fn demo() -> Registrations {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/registrations.toml");
    load(&demo, NOW).check(&Excerpt::default()).ok().unwrap()
}

fn instance() -> LegacyInstance {
    LegacyInstance {
        hostname: "us1.legacy.example".to_owned(),
        auth_server_hostname: "sso.legacy.example".to_owned(),
        enabled: true,
        managed: None,
    }
}

/// The keys of registrations with their schemas.
fn schemas<T: Registered>() -> Map<String, Value> {
    let schema = serde_json::to_value(T::Keys::schema()).unwrap();
    schema["properties"].as_object().unwrap().clone()
}

fn check_members<T: Registered + Serialize>(object: &T) {
    let stored = serde_json::to_value(object).unwrap();
    let compared: Vec<&str> = values(object).iter().map(|values| values.key).collect();
    for member in stored.as_object().unwrap().keys() {
        let key = STORED_AS.iter().find(|(stored, _)| stored == member);
        let key = key.map_or(&**member, |(_, key)| key);
        if !NOT_REGISTERED.contains(&key) && key != T::NAME_KEY {
            assert!(schemas::<T>().contains_key(key), "{key} in registrations");
            assert!(compared.contains(&key), "{key} in comparisons");
        }
    }
}

/// A member of a domain type that is not described could neither be registered nor would its change be noticed.
#[test]
fn every_member_of_the_domain_types_is_registered_and_compared() {
    for &kind in IntegrationKind::ALL {
        check_members(&client(kind));
    }
    let mut clients = demo().clients.into_iter().map(|client| client.object);
    let mut full = clients
        .find(|one| !one.key_authentication.is_empty())
        .unwrap();
    let certificates = &mut full.key_authentication.tls_client_certificates;
    certificates.push(Thumbprint::from_bytes([7; 32]));
    check_members(&full);
    check_members(&User::new(username("user")));
    check_members(&instance());
}

/// The object that a patch is applied to equals the stored object.
#[test]
fn a_registration_of_what_is_stored_is_read_as_it_was() {
    let read = demo();
    let users = || read.users.iter().map(|user| user.object.clone());
    let stored = Excerpt::new(std::iter::empty(), users());
    for before in read.clients.iter().map(|client| &client.object) {
        let body = registration(before);
        let again = read_entry::<Client>(body, Completeness::Partial, NOW).check(&stored);
        let mut again = again.ok().unwrap().object;
        again.complete(before);
        assert_eq!(again, *before);
    }
    for before in users() {
        let body = registration(&before);
        let again = read_entry::<User>(body, Completeness::Partial, NOW).check(&stored);
        assert_eq!(again.ok().unwrap().object, before);
    }
}

/// The description of a key, and the integration types that it names at its end.
fn described(schema: &Value) -> (String, Option<String>) {
    let description = schema["description"].as_str().unwrap();
    let description = description.replace('\n', " ");
    match description.split_once(" For `") {
        Some((meaning, types)) => {
            let types = format!("`{}", types.trim_end_matches('.'));
            (meaning.to_owned(), Some(types))
        }
        None => (description, None),
    }
}

/// The message of the reader about a number where a value of the schema belongs.
fn expected(schema: &Value) -> &'static str {
    let kind = schema["type"].to_string();
    match (&schema["items"]["$ref"], &*kind) {
        (Value::String(_), _) => "expected a list of objects",
        (_, kind) if kind.contains("array") => "expected a list of strings",
        (_, kind) if kind.contains("boolean") => "expected true or false",
        _ => "expected a string",
    }
}

/// The schemas of registrations, which are in OpenAPI and in the documentation, have the keys, shapes and types of the reader.
fn check_keys<T: Registered>(body: &Value, integration: Option<IntegrationKind>) {
    let schemas = schemas::<T>();
    for (key, schema) in &schemas {
        let mut body = body.as_object().unwrap().clone();
        body.insert(key.clone(), json!(1));
        let read = read_entry::<T>(body, Completeness::Partial, NOW).check(&Excerpt::default());
        let problems = read.err().unwrap().to_string();
        let types = described(schema).1;
        let expected = match integration.map(IntegrationKind::name) {
            Some(name) if types.is_some_and(|types| !types.contains(&format!("`{name}`"))) => {
                format!("not for a client of type {name}")
            }
            _ => expected(schema).to_owned(),
        };
        let expected = format!("{key}: {expected}");
        assert!(problems.contains(&expected), "{expected} in {problems}");
    }
    let problems = Problems::with_schema();
    let table = Table::from_json(body.as_object().unwrap().clone());
    let mut reading = Reading::new(Completeness::Partial, NOW);
    let _ = reading.object::<T>(Section::root(table, &problems));
    let read = problems.schema()["properties"].as_object().unwrap().clone();
    let read: BTreeSet<&String> = read.keys().collect();
    let name = T::NAME_KEY.to_owned();
    let described: BTreeSet<&String> = schemas.keys().chain([&name]).collect();
    assert_eq!(read, described);
}

#[test]
fn registrations_are_read_as_their_schemas_say() {
    for &kind in IntegrationKind::ALL {
        let body = json!({"client_id": "client", "type": kind.name()});
        check_keys::<Client>(&body, Some(kind));
    }
    check_keys::<User>(&json!({"username": "user"}), None);
    let body = json!({"hostname": "us1.legacy.example", "auth_server_hostname": "sso.example"});
    check_keys::<LegacyInstance>(&body, None);
}

/// The tables of the documentation match the schemas.
#[test]
fn the_documentation_has_every_key() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = std::fs::read_to_string(path).unwrap();
    let kinds = [
        schemas::<Client>(),
        schemas::<User>(),
        schemas::<LegacyInstance>(),
    ];
    for (number, keys) in kinds.iter().enumerate() {
        for (key, schema) in keys {
            let (meaning, types) = described(schema);
            let types = match (number, types) {
                (0, types) => format!(" {} |", types.as_deref().unwrap_or("all")),
                _ => String::new(),
            };
            let row = format!("| `{key}` |{types} {meaning} |");
            assert!(
                text.contains(&row),
                "docs/configuration.md must have: {row}"
            );
        }
    }
}
