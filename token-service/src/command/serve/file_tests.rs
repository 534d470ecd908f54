//! A start applies its file, unless it is the one that a start applied last.

use std::fmt::Write as _;

use serde_json::json;

use super::planning_tests::{PRUNE, Site, apply, create, delete, excerpts, operations};
use domain::digest::Digest;
use domain::{FileChange, RegistryChange, User, Username};
use store::RegistrationStore as _;

/// A site with its own registrations file, and without legacy instances.
async fn with_file() -> Site {
    let mut site = Site::new(|config| config.legacy_instances.clear()).await;
    site.config.registrations = Some(site.at("registrations.toml"));
    site
}

fn people(numbers: std::ops::Range<usize>) -> String {
    let mut text = String::new();
    for number in numbers {
        writeln!(text, "[[users]]\nusername = \"person-{number:04}\"").unwrap();
    }
    text
}

/// More than a start lists one by one.
const PEOPLE: usize = 110;

/// The operations of a start that reads no entry.
const UNREAD: [&str; 2] = ["excerpt", "applied_file"];

#[tokio::test]
async fn a_file_is_applied_once_and_as_a_whole_or_not_at_all() {
    let site = with_file().await;
    let text = people(0..PEOPLE);
    for wrong in [
        "[[users]]\nusername = \"Person-0001\"\n",
        "[[users]]\nusername = \"x\"\nemail = oops\n",
        "[[clients]]\nclient_id = \"other\"\ntype = \"nonsense\"\n",
    ] {
        site.write(&format!("{text}{wrong}"));
        let (calls, refusal) = site.register().await;
        assert!(refusal.is_some(), "{wrong}");
        assert!(!operations(&calls).contains(&"change_registry"), "{wrong}");
    }
    site.write(&text);
    let (calls, applied) = site.registered().await;
    let changes = operations(&calls).into_iter();
    assert_eq!(changes.filter(|call| *call == "change_registry").count(), 1);
    // The audit log has all entries; the output has the first ones.
    let applied = applied.unwrap();
    assert_eq!(applied.events.len(), 100);
    let more: u64 = applied.more.values().sum();
    assert_eq!(more as usize, PEOPLE - 100);
    let users = site.store.users(String::new(), 1000).await.unwrap();
    assert_eq!(users.len(), PEOPLE);
    let (calls, refusal) = site.register().await;
    assert_eq!(refusal, None);
    assert_eq!(operations(&calls), UNREAD);
    // A comment changes nothing but the text.
    site.write(&format!("# A comment.\n{text}"));
    for expected in [
        &["excerpt", "applied_file", "excerpt", "change_registry"][..],
        &UNREAD,
    ] {
        let (calls, refusal) = site.register().await;
        assert_eq!(refusal, None);
        assert_eq!(operations(&calls), expected);
    }
    assert_eq!(site.store.users(String::new(), 1000).await.unwrap(), users);
}

/// Another replica applies another file while a start applies its own.
#[tokio::test]
async fn the_file_that_is_applied_last_counts() {
    let site = with_file().await;
    site.write(&people(0..1));
    let theirs = RegistryChange {
        put_users: vec![User::new(Username::parse("theirs").unwrap())],
        applied_file: FileChange::Forget(Digest::of(b"random")),
        ..RegistryChange::default()
    };
    site.store.change_before("change_registry", 1, theirs);
    let (calls, refusal) = site.register().await;
    assert_eq!(refusal, None);
    let compared = operations(&calls).into_iter();
    assert_eq!(compared.filter(|call| *call == "applied_file").count(), 2);
    let users = site.store.users(String::new(), 1000).await.unwrap();
    assert_eq!(users.len(), 2);
    assert_eq!(operations(&site.register().await.0), UNREAD);
}

/// The text of a file does not say everything.
#[tokio::test]
async fn an_unchanged_file_is_applied_again_where_more_decides() {
    let site = with_file().await;
    let certificate = include_str!("../../../../demo/non-interactive-demo.cert.pem");
    std::fs::write(site.at("cert.pem"), certificate).unwrap();
    let integration = "[[clients]]\nclient_id = \"nightly\"\ntype = \"non_interactive\"\n\
        client_secret = \"a secret of the client, long enough\"\nscopes = [\"projects\"]\n\
        certificates = [{ alias = \"a\", file = \"cert.pem\" }]\n";
    let text = people(0..1) + integration;
    site.write(&text);
    assert_eq!(site.register().await.1, None);
    std::fs::write(site.at("cert.pem"), "no certificate").unwrap();
    assert!(site.register().await.1.is_some());
    std::fs::write(site.at("cert.pem"), certificate).unwrap();
    // An object that the file lists and does not manage is told of at each start.
    let service = site.start().await;
    assert_eq!(
        create::<User>(&service, json!({"username": "theirs"})).await,
        Ok(())
    );
    site.write(&(people(0..1) + "[[users]]\nusername = \"theirs\"\n"));
    for _ in 0..2 {
        let (calls, refusal) = site.register().await;
        assert_eq!(refusal, None);
        assert!(
            excerpts(&calls).contains(&"User theirs".to_owned()),
            "{calls:?}"
        );
    }
    // After a prune, the next start applies its file again.
    site.write(&people(0..1));
    assert_eq!(site.register().await.1, None);
    let pruned = apply(&service, json!({"users": []}), PRUNE).await;
    assert_eq!(pruned.unwrap(), ["- client nightly", "- user person-0000"]);
    assert_eq!(site.register().await.1, None);
    let person = site
        .store
        .user(Username::parse("person-0000").unwrap())
        .await;
    assert!(person.unwrap().is_some());
}

#[tokio::test]
async fn a_start_moves_identities_within_its_file_alone() {
    let site = with_file().await;
    let linked = |number: usize, subject: &str| {
        format!(
            "[[users]]\nusername = \"linked-{number}\"\n[[users.identities]]\nissuer = \"https://sso.example.com\"\n\
             subject = \"{subject}\"\n"
        )
    };
    let file = |first: &str, last: &str| linked(1, first) + &linked(2, last);
    let subjects = async |name: &str| {
        let user = site.store.user(Username::parse(name).unwrap()).await;
        let identities = user.unwrap().unwrap().identities.into_iter();
        let subjects = identities.map(|linked| linked.identity.subject);
        subjects.collect::<Vec<_>>()
    };
    for (first, last) in [("a", "b"), ("b", "a")] {
        site.write(&file(first, last));
        assert_eq!(site.register().await.1, None);
        assert_eq!(subjects("linked-1").await, [first]);
        assert_eq!(subjects("linked-2").await, [last]);
    }
    // A user who is not in the file keeps an identity, as with a name, and the start goes on.
    let service = site.start().await;
    let other = json!({"username": "other", "identities": [{"issuer": "https://sso.example.com", "subject": "d"}]});
    assert_eq!(create::<User>(&service, other).await, Ok(()));
    drop(service);
    site.write(&file("b", "d"));
    for _ in 0..2 {
        assert_eq!(site.register().await.1, None);
        assert_eq!(subjects("other").await, ["d"]);
        assert_eq!(subjects("linked-2").await, [""; 0]);
    }
    let service = site.start().await;
    assert_eq!(delete::<User>(&service, "other").await, Ok(()));
    drop(service);
    assert_eq!(site.register().await.1, None);
    assert_eq!(subjects("linked-2").await, ["d"]);
}
