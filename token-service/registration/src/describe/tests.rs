//! Every field has a description, and views contain the keys of their schemas.

use std::collections::BTreeSet;
use std::path::Path;

use claims::Thumbprint;
use serde_json::{Map, json};

use super::*;
use crate::file::load;
use crate::registrations::read_entry;
use domain::testing::{client_id, username};
use domain::{Client, LegacyInstance, User};

/// Members that the stored form leaves out if they have no value.
const LEFT_OUT: [&str; 4] = [
    "keys",
    "client_assertion_audience",
    "require_pushed_authorization_requests",
    "tls_client_certificates",
];

/// Members that are not in registrations.
const NOT_REGISTERED: [&str; 4] = ["credentials_version", "managed", "version", "tokens_from"];

fn undescribed<T: Registered>(object: &T) -> Vec<String> {
    let stored = serde_json::to_value(object).unwrap();
    let described: BTreeSet<_> = T::DESCRIPTION
        .fields
        .iter()
        .filter(|field| field.place != In::Views)
        .flat_map(|field| field.stored().iter().copied())
        .collect();
    let members = stored.as_object().unwrap().keys().cloned();
    let is_described =
        |member: &String| described.contains(&**member) || NOT_REGISTERED.contains(&&**member);
    members.filter(|member| !is_described(member)).collect()
}

fn client(kind: IntegrationKind) -> Client {
    Client::new(client_id("client"), kind)
}

fn demo_clients() -> impl Iterator<Item = Client> {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/registrations.toml");
    let now = Timestamp::from_seconds(1_767_225_600);
    let read = load(&demo, now).check(&Excerpt::default()).ok().unwrap();
    read.clients.into_iter().map(|client| client.object)
}

fn instance() -> LegacyInstance {
    LegacyInstance {
        hostname: "us1.legacy.example".to_owned(),
        auth_server_hostname: "sso.legacy.example".to_owned(),
        enabled: true,
        managed: None,
    }
}

/// A member of a domain type without a description could neither be registered nor shown.
#[test]
fn every_member_of_the_domain_types_is_described() {
    for &kind in IntegrationKind::ALL {
        assert_eq!(undescribed(&client(kind)), [""; 0], "{kind:?}");
    }
    let full = demo_clients().find(|client| !client.key_authentication.is_empty());
    let mut full = full.unwrap();
    let certificates = &mut full.key_authentication.tls_client_certificates;
    certificates.push(Thumbprint::from_bytes([7; 32]));
    assert_eq!(undescribed(&full), [""; 0]);
    let user = User::new(username("user"));
    assert_eq!(undescribed(&user), [""; 0]);
    assert_eq!(undescribed(&instance()), [""; 0]);
}

/// The types in a field's description are the types that store the field.
#[test]
fn the_types_of_a_field_are_those_that_store_it() {
    for &kind in IntegrationKind::ALL {
        let stored = serde_json::to_value(client(kind)).unwrap();
        let fields = Client::DESCRIPTION.fields.iter();
        let is_stored = |field: &&Field| field.rule != Rule::None && !LEFT_OUT.contains(&field.key);
        for field in fields.filter(is_stored) {
            let has = field
                .stored()
                .iter()
                .any(|member| stored.get(member).is_some());
            assert_eq!(has, field.is_of(Some(kind)), "{} {kind:?}", field.key);
        }
    }
}

fn check_view<T: Registered>(object: &T, now: Timestamp) {
    let fields = T::DESCRIPTION.fields.iter();
    let viewed = fields.filter_map(|field| Some((field.key, field.viewed()?)));
    let keys: Vec<(&str, bool)> = viewed.collect();
    let view = view(object, now, &[]);
    for key in view.keys() {
        assert!(keys.iter().any(|(described, _)| described == key), "{key}");
    }
    for (key, _) in keys.iter().filter(|(_, required)| *required) {
        assert!(view.contains_key(*key), "{key} of {}", object.name());
    }
}

#[test]
fn views_have_the_keys_of_their_schemas() {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/registrations.toml");
    let now = Timestamp::from_seconds(1_767_225_600);
    let read = load(&demo, now).check(&Excerpt::default()).ok().unwrap();
    for client in &read.clients {
        check_view(&client.object, now);
    }
    for user in &read.users {
        check_view(&user.object, now);
    }
    check_view(&instance(), now);
}

/// The object that a patch is applied to equals the stored object.
#[test]
fn a_registration_of_what_is_stored_is_read_as_it_was() {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/registrations.toml");
    let now = Timestamp::from_seconds(1_767_225_600);
    let read = load(&demo, now).check(&Excerpt::default()).ok().unwrap();
    let users = || read.users.iter().map(|user| user.object.clone());
    let stored = Excerpt::new(std::iter::empty(), users());
    for before in read.clients.iter().map(|client| &client.object) {
        let body = registration(before);
        let again = read_entry::<Client>(body, Completeness::Partial, now).check(&stored);
        let mut again = again.ok().unwrap().object;
        again.complete(before);
        assert_eq!(again, *before);
    }
    for before in users() {
        let body = registration(&before);
        let again = read_entry::<User>(body, Completeness::Partial, now).check(&stored);
        assert_eq!(again.ok().unwrap().object, before);
    }
}

/// The shape in the reader's message about a number at this key.
fn expected(field: &Field) -> &'static str {
    match field.shape {
        Shape::Text => "a string",
        Shape::Flag => "true or false",
        Shape::Records(_) => "a list of objects",
        Shape::Texts => "a list of strings",
        Shape::Count => "nothing",
    }
}

fn check_shapes<T: Registered>(body: &Map<String, Value>, integration: Option<IntegrationKind>) {
    for field in T::DESCRIPTION.fields {
        if !field.is_of(integration) {
            continue;
        }
        if field.registered().is_some() {
            let mut body = body.clone();
            body.insert(field.key.to_owned(), json!(1));
            let now = Timestamp::from_seconds(0);
            let read = read_entry::<T>(body, Completeness::Partial, now).check(&Excerpt::default());
            let problems = read.err().unwrap().to_string();
            let expected = format!("{}: expected {}", field.key, expected(field));
            assert!(problems.contains(&expected), "{expected} in {problems}");
        }
    }
}

#[test]
fn registrations_are_read_in_the_shapes_of_their_schemas() {
    for &kind in IntegrationKind::ALL {
        let body = json!({"client_id": "client", "type": kind.name()});
        check_shapes::<Client>(body.as_object().unwrap(), Some(kind));
    }
    check_shapes::<User>(json!({"username": "user"}).as_object().unwrap(), None);
    let body = json!({"hostname": "us1.legacy.example", "auth_server_hostname": "sso.example"});
    check_shapes::<LegacyInstance>(body.as_object().unwrap(), None);
}

fn documentation<T: Registered>() -> Vec<String> {
    let mut lines = Vec::new();
    for field in T::DESCRIPTION.fields {
        let types: Vec<String> = field
            .types
            .iter()
            .map(|kind| format!("`{}`", kind.name()))
            .collect();
        let types = match types.as_slice() {
            [] => "all".to_owned(),
            types => types.join(", "),
        };
        let of_clients = if T::DESCRIPTION.kind == ObjectKind::Client {
            format!(" {types} |")
        } else {
            String::new()
        };
        if field.registered().is_some() {
            let meaning = [field.help, field.given].join(" ");
            let meaning = meaning.trim();
            lines.push(format!("| `{}` |{of_clients} {meaning} |", field.key));
        }
    }
    lines
}

/// The tables of the documentation match these descriptions.
#[test]
fn the_documentation_has_every_key() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = std::fs::read_to_string(path).unwrap();
    let tables = [
        documentation::<Client>(),
        documentation::<User>(),
        documentation::<LegacyInstance>(),
    ];
    for table in tables {
        let table = table.join("\n");
        assert!(
            text.contains(&table),
            "docs/configuration.md must have:\n{table}"
        );
    }
}
