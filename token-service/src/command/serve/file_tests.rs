//! A start reads what changed in its file, in parts.

use std::fmt::Write as _;

use serde_json::json;

use super::PART;
use super::planning_tests::{PRUNE, Site, apply, create, excerpts, operations, secret};
use domain::{ClientId, FileChange, RegistryChange, User, Username};
use store::RegistrationStore as _;

/// A site with a registrations file of its own, and without legacy instances.
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

fn batch(bound_user: &str) -> String {
    format!(
        "[[clients]]\nclient_id = \"batch\"\ntype = \"user_bound\"\nclient_secret = \"{}\"\n\
         bound_user = \"{bound_user}\"\nscopes = [\"projects\"]\n",
        secret()
    )
}

/// The last number of a person who is in the third part.
const PEOPLE: usize = 2 * PART + 10;

#[tokio::test]
async fn an_unchanged_file_is_not_read_and_a_changed_one_only_where_it_changed() {
    let site = with_file().await;
    let text = people(0..PEOPLE) + &batch("person-0000");
    site.write(&text);
    assert_eq!(site.register().await.1, None);
    let (calls, refusal) = site.register().await;
    assert_eq!(refusal, None);
    let unchanged = ["excerpt", "applied_file"];
    assert_eq!(operations(&calls), unchanged);
    assert_eq!(excerpts(&calls), [""; 0]);
    let renamed = text.replace(
        "\"person-0007\"",
        "\"person-0007\"\nemail = \"p@p.example\"",
    );
    site.write(&format!("# Another comment.\n{renamed}"));
    let (calls, refusal) = site.register().await;
    assert_eq!(refusal, None);
    let read = ["Client person-0007", "User person-0007"];
    assert_eq!(excerpts(&calls), [read, read].concat());
    assert_eq!(operations(&calls).last(), Some(&"change_registry"));
    // A problem names the place of an entry that did not change.
    let twice = format!("{renamed}[[users]]\nusername = \"person-0003\"\n");
    site.write(&twice);
    let refusal = site.register().await.1.unwrap();
    let lines = 2 * PEOPLE + 9;
    assert!(
        refusal.contains(&format!("registrations.toml:{lines}: username: ")),
        "{refusal}"
    );
    let first = "registrations.toml:8";
    assert!(
        refusal.ends_with(&format!("{first}\n")) || refusal.ends_with(first),
        "{refusal}"
    );
}

#[tokio::test]
async fn a_large_change_is_applied_in_parts_or_not_at_all() {
    let site = with_file().await;
    // The client stands before its bound user, who is in the last part.
    let last = format!("person-{:04}", PEOPLE - 1);
    let text = batch(&last.replace('p', "P")) + &people(0..PEOPLE);
    for wrong in [
        "[[users]]\nusername = \"person-0001\"\n",
        "[[users]]\nusername = \"Person-0001\"\n",
        "[[users]]\nusername = \"batch\"\n",
        "[[users]]\nusername = \"x\"\nemail = oops\n",
        "[[clients]]\nclient_id = \"other\"\ntype = \"nonsense\"\n",
    ] {
        site.write(&format!("{text}{wrong}"));
        let (calls, refusal) = site.register().await;
        assert!(refusal.is_some(), "{wrong}");
        assert!(!operations(&calls).contains(&"change_registry"), "{wrong}");
    }
    // The first spelling is the one that is not folded.
    let respelt = text.replace("\"person-0001\"", "\"Person-0001\"");
    site.write(&format!("{respelt}[[users]]\nusername = \"person-0001\"\n"));
    let refusal = site.register().await.1.unwrap();
    assert!(refusal.contains("only in letter case"), "{refusal}");
    site.write(&text);
    let (calls, applied) = site.registered().await;
    let applied = applied.unwrap();
    // The audit log has all entries; the output has the first ones.
    assert_eq!(applied.events.len(), 100);
    let more: u64 = applied.more.values().sum();
    assert_eq!(more as usize, PEOPLE + 1 - 100);
    let changes = calls
        .iter()
        .filter(|call| call.starts_with("change_registry("));
    let ends: Vec<bool> = changes.map(|call| call.contains("text: Some(")).collect();
    // A start that stops in between leaves no file, so that the next start compares every entry.
    assert_eq!(ends, [false, false, true]);
    let users = site.store.users(String::new(), 1000).await.unwrap();
    assert_eq!(users.len(), PEOPLE);
    let found = site.store.client(ClientId::parse("batch").unwrap()).await;
    assert_eq!(found.unwrap().unwrap().bound_user().unwrap().as_str(), last);
}

/// Another replica applies another file between the parts.
#[tokio::test]
async fn the_file_that_is_applied_last_counts() {
    let site = with_file().await;
    site.write(&people(0..PEOPLE));
    let theirs = RegistryChange {
        put_users: vec![User::new(Username::parse("theirs").unwrap())],
        applied_file: FileChange::Forget(domain::digest::Digest::of(b"random")),
        ..RegistryChange::default()
    };
    site.store.change_before("change_registry", 2, theirs);
    let (calls, refusal) = site.register().await;
    assert_eq!(refusal, None);
    let compared = operations(&calls)
        .into_iter()
        .filter(|call| *call == "applied_file");
    // At the beginning, after the refused change, and when all is compared again.
    assert_eq!(compared.count(), 3);
    let users = site.store.users(String::new(), 1000).await.unwrap();
    assert_eq!(users.len(), PEOPLE + 1);
    let left = site.register().await.0;
    assert_eq!(
        operations(&left).len(),
        2,
        "nothing is left to apply: {left:?}"
    );
}

/// The text of a file does not say everything.
#[tokio::test]
async fn an_unchanged_file_is_compared_again_where_more_decides() {
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
    // Pruning lets the next start compare every entry.
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

/// A list in another form cannot be read entry by entry.
#[tokio::test]
async fn a_file_in_another_form_is_read_as_a_whole() {
    let site = with_file().await;
    let list = |names: &[&str]| {
        let users = names
            .iter()
            .map(|name| format!("{{ username = \"{name}\" }}"));
        format!("users = [{}]\n", users.collect::<Vec<_>>().join(", "))
    };
    site.write(&list(&["ada", "grace"]));
    assert_eq!(site.register().await.1, None);
    let (calls, refusal) = site.register().await;
    assert_eq!(refusal, None);
    assert_eq!(excerpts(&calls), [""; 0]);
}

/// The user who loses the identity may be in a later part than the user who gets it.
#[tokio::test]
async fn identities_move_between_the_parts_of_a_file() {
    let site = with_file().await;
    let linked = |number: usize, subject: &str| {
        format!(
            "[[users]]\nusername = \"linked-{number}\"\n[[users.identities]]\nissuer = \"https://sso.example.com\"\n\
             subject = \"{subject}\"\n"
        )
    };
    let file = |first: &str, last: &str| {
        // Every entry of the first part changes, so that both users are in different parts.
        let others =
            people(0..PEOPLE).replace("\"\n", &format!("\"\nemail = \"{first}@a.example\"\n"));
        linked(1, first) + &others + &linked(2, last)
    };
    site.write(&file("a", "b"));
    assert_eq!(site.register().await.1, None);
    site.write(&file("b", "a"));
    assert_eq!(site.register().await.1, None);
    let subject_of = async |name: &str| {
        let user = site.store.user(Username::parse(name).unwrap()).await;
        let user = user.unwrap().unwrap();
        user.identities[0].identity.subject.clone()
    };
    assert_eq!(subject_of("linked-1").await, "b");
    assert_eq!(subject_of("linked-2").await, "a");
    site.write(&file("c", "c"));
    let refusal = site.register().await.1.unwrap();
    let twice = "linked identity: c of https://sso.example.com is already at";
    assert!(refusal.contains(twice), "{refusal}");
    // A user who is not in the file.
    site.write(&file("b", "a"));
    let service = site.start().await;
    let other = json!({"username": "other", "identities": [{"issuer": "https://sso.example.com", "subject": "d"}]});
    assert_eq!(create::<User>(&service, other).await, Ok(()));
    drop(service);
    site.write(&file("b", "d"));
    let refusal = site.register().await.1.unwrap();
    let held =
        "user linked-2: identities: other has d of https://sso.example.com: unlink it there first";
    assert_eq!(refusal, held);
    assert_eq!(subject_of("linked-2").await, "a");
}
