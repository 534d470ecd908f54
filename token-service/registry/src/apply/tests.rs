use std::cell::Cell;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::file;
use crate::registrations::Registrations;
use domain::clock::Timestamp;
use domain::user::Username;
use zeroize::Zeroizing;

/// Marks secrets instead of protecting them, so that tests see which operation was used.
#[derive(Default)]
struct Marking {
    hashed: Cell<usize>,
}

impl Protection for Marking {
    fn hash(&self, _: &Username, password: &str) -> Result<String, ProtectionError> {
        self.hashed.set(self.hashed.get() + 1);
        Ok(format!("hash of {password}"))
    }

    fn is_hash_of(&self, hash: &str, password: &str) -> Result<bool, ProtectionError> {
        Ok(hash.ends_with(&format!("hash of {password}")))
    }

    fn seal(&self, username: &Username, secret: &[u8]) -> Result<Vec<u8>, ProtectionError> {
        Ok([username.as_str().as_bytes(), b"|", secret].concat())
    }

    fn tag(&self, field: &str, username: &Username, secret: &[u8]) -> String {
        format!(
            "tag of {field} {username} {}",
            String::from_utf8_lossy(secret)
        )
    }

    fn unseal(
        &self,
        username: &Username,
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, ProtectionError> {
        let secret = sealed.strip_prefix(format!("{username}|").as_bytes());
        Ok(Zeroizing::new(secret.unwrap().to_vec()))
    }
}

const FILE: &str = r#"
[[users]]
username = "ada"
password = "password of ada"
totp_secret = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"

[[clients]]
client_id = "bound"
type = "user_bound"
client_secret = "a secret of the client, long enough"
bound_user = "ada"
scopes = ["projects"]
"#;

fn load(text: &str, stored: &Excerpt) -> Registrations {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("registrations.toml");
    std::fs::write(&path, text).unwrap();
    read(&path, stored)
}

fn read(path: &Path, stored: &Excerpt) -> Registrations {
    match file::load(path, Timestamp::from_seconds(0)).check(stored) {
        Ok(registrations) => registrations,
        Err(problems) => panic!("{problems}"),
    }
}

fn plan(text: &str, stored: &Excerpt) -> Plan {
    let Registrations { clients, users, .. } = load(text, stored);
    let mut plan = Plan::on(stored);
    for client in clients {
        plan.register(client, stored, &Marking::default()).unwrap();
    }
    for user in users {
        plan.register(user, stored, &Marking::default()).unwrap();
    }
    plan
}

/// The registrations after `plan`.
fn applied(plan: &Plan) -> Excerpt {
    Excerpt::new(
        plan.change.put_clients.clone(),
        plan.change.put_users.clone(),
    )
}

fn lines(plan: &Plan) -> Vec<String> {
    plan.differences.iter().map(ToString::to_string).collect()
}

#[test]
fn a_first_application_adds_everything_protected() {
    let plan = plan(FILE, &Excerpt::default());
    assert_eq!(lines(&plan), ["+ client bound", "+ user ada"]);
    let user = plan.change.put_users.first().unwrap();
    assert_eq!(
        user.password_hash.as_deref(),
        Some("hash of password of ada")
    );
    assert_eq!(
        user.totp_secret_sealed.as_deref(),
        Some(b"ada|12345678901234567890".as_slice())
    );
}

#[test]
fn a_second_application_changes_nothing() {
    let stored = applied(&plan(FILE, &Excerpt::default()));
    assert_eq!(plan(FILE, &stored), Plan::on(&stored));
}

#[test]
fn secrets_that_did_not_change_keep_their_stored_form() {
    let first = plan(FILE, &Excerpt::default());
    let mut user = first.change.put_users.first().unwrap().clone();
    user.password_hash = Some("another hash of password of ada".into());
    let stored = Excerpt::new(first.change.put_clients.clone(), [user]);
    assert_eq!(plan(FILE, &stored), Plan::on(&stored));
}

#[test]
fn a_stronger_hash_of_a_registered_one_stays() {
    let registered = FILE.replace(
        "password = \"password of ada\"",
        "password_hash = \"$argon2id$v=19$m=8192,t=1,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaA\"",
    );
    let first = plan(&registered, &Excerpt::default());
    let mut user = first.change.put_users.first().unwrap().clone();
    let weak = user.password_hash.clone().unwrap();
    assert!(user.rehash(&weak, "stronger".into()));
    assert!(!user.rehash(&weak, "too late".into()));
    let stored = Excerpt::new(first.change.put_clients.clone(), [user]);
    assert_eq!(plan(&registered, &stored), Plan::on(&stored));
    let other = registered.replace("aGFzaGhhc2hoYXNoaGFzaA", "b3RoZXJvdGhlcm90aGVyb3Ro");
    assert_eq!(lines(&plan(&other, &stored)), ["~ user ada: password"]);
}

#[test]
fn differences_name_fields_and_no_values() {
    let stored = applied(&plan(FILE, &Excerpt::default()));
    let changed = FILE
        .replace("password of ada", "another password")
        .replace("secret of the client", "changed secret of the client")
        .replace("\"projects\"", "\"projects\", \"admin\"");
    let plan = plan(&changed, &stored);
    assert_eq!(
        lines(&plan),
        [
            "~ client bound: scopes, client_secret",
            "~ user ada: password"
        ]
    );
    let user = plan.change.put_users.first().unwrap();
    let before = stored.user(&user.username).unwrap();
    assert_eq!(user.totp_secret_sealed, before.totp_secret_sealed);
}

#[test]
fn what_the_file_does_not_say_stays() {
    let stored = applied(&plan(FILE, &Excerpt::default()));
    let shorter = FILE
        .replace("password = \"password of ada\"", "")
        .replace("totp_secret = \"GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ\"", "");
    assert_eq!(plan(&shorter, &stored), Plan::on(&stored));
    assert_eq!(plan("", &stored), Plan::on(&stored));
}

/// D-27.
#[test]
fn a_file_manages_what_it_lists() {
    let apply = |text: &str, stored: &Excerpt| {
        let mut plan = Plan::on(stored);
        let kind = DocumentKind::File("file");
        plan.apply(load(text, stored), kind, stored, &Marking::default())
            .unwrap();
        plan
    };
    let first = apply(FILE, &Excerpt::default());
    let stored = applied(&first);
    let ada = stored.user(&Username::parse("ada").unwrap()).unwrap();
    let managed = ada.managed.as_ref().unwrap();
    assert_eq!(managed.to_string(), "file:2");
    let secrets: Vec<&String> = managed.secrets.keys().collect();
    assert_eq!(secrets, ["password", "totp_secret"]);
    // Also if the entries move.
    for text in [FILE, &format!("\n{FILE}")] {
        assert_eq!(apply(text, &stored), Plan::on(&stored));
    }
    // An operator let the file define the user, who gets the line of the entry, which is nothing to tell.
    let mut adopted = User::clone(ada);
    adopted.managed.as_mut().unwrap().line = None;
    let adopted = Excerpt::new(first.change.put_clients.clone(), [adopted]);
    let with_line = apply(FILE, &adopted);
    assert_eq!(lines(&with_line), [""; 0]);
    assert_eq!(with_line.change.put_users, [User::clone(ada)]);
    // State stays, and a secret that leaves the file stays.
    let mut other = User::clone(ada);
    other.password_hash = Some("hash of a person".to_owned());
    let stored = Excerpt::new(first.change.put_clients.clone(), [other]);
    let without = FILE.replace("totp_secret = ", "email = \"a@b\"\n# ");
    let changed = apply(&without, &stored);
    assert_eq!(lines(&changed), ["~ user ada: email"]);
    let [user] = changed.change.put_users.as_slice() else {
        panic!("one user");
    };
    assert_eq!(user.password_hash.as_deref(), Some("hash of a person"));
    assert!(user.totp_secret_sealed.is_some());
    let unmanaged = Excerpt::new([], [User::new(Username::parse("ada").unwrap())]);
    let kept = apply(FILE, &unmanaged).kept;
    assert_eq!(kept.len(), 1);
}

/// D-27, D-58.
#[test]
fn a_file_asks_once_for_another_password_in_place_of_each_of_its_own() {
    let username = Username::parse("ada").unwrap();
    let ask = |text: &str| {
        let end = "password of ada\"\n";
        let asking = format!("{end}must_change_password = true\n");
        text.replace(end, &asking)
    };
    let must_change = |text: &str, stored: &Excerpt| {
        let kind = DocumentKind::File("file");
        let mut plan = Plan::on(stored);
        plan.apply(load(text, stored), kind, stored, &Marking::default())
            .unwrap();
        let user = plan.change.put_users.first().unwrap().clone();
        (user.must_change_password, Excerpt::new([], [user]))
    };
    let (must, stored) = must_change(&ask(FILE), &Excerpt::default());
    assert!(must);
    // The person has set another password.
    let mut ada = User::clone(stored.user(&username).unwrap());
    ada.password_hash = Some("hash of a person".to_owned());
    ada.must_change_password = false;
    let changed = Excerpt::new([], [ada]);
    let email = FILE.replace("totp_secret", "email = \"a@b\"\ntotp_secret");
    assert!(!must_change(&ask(&email), &changed).0);
    // Another password in the file is known to its author again.
    let other = ask(FILE).replace("password of ada", "other password of ada");
    assert!(must_change(&other, &changed).0);
    // The file asks only later, or no more.
    let (must, without) = must_change(FILE, &Excerpt::default());
    assert!(!must);
    let (must, with) = must_change(&ask(FILE), &without);
    assert!(must);
    let no_more = ask(FILE).replace(
        "must_change_password = true",
        "must_change_password = false",
    );
    assert!(!must_change(&no_more, &with).0);
}

/// D-52. Hashing takes tens of milliseconds and much memory.
#[test]
fn an_import_hashes_no_password_of_a_person_who_stays() {
    let stored = applied(&plan(FILE, &Excerpt::default()));
    let other = FILE
        .replace("password of ada", "another password")
        .replace("GEZDGNBV", "AAAAAAAA");
    for (text, overwrites, kept, hashed) in [
        (FILE, false, &[][..], 0),
        (
            &other,
            false,
            &["! user ada: stays, because it is registered; other password, totp_secret"],
            0,
        ),
        (&other, true, &[], 1),
    ] {
        let (mut plan, protection) = (Plan::on(&stored), Marking::default());
        let kind = DocumentKind::Import { overwrites };
        plan.apply(load(text, &stored), kind, &stored, &protection)
            .unwrap();
        let lines: Vec<String> = plan.kept.iter().map(ToString::to_string).collect();
        assert_eq!(lines, kept);
        assert_eq!(protection.hashed.get(), hashed);
        assert_eq!(plan.change.put_users.len(), hashed);
    }
}

#[test]
fn quotes_in_differences_are_not_escaped() {
    let stored = applied(&plan(FILE, &Excerpt::default()));
    let account = "[[users.accounts]]\nuser_id = 'a\"b'\nusername = 'al'\nsite = 'https://u1.example'\n\n[[clients]]";
    let plan = plan(&FILE.replace("[[clients]]", account), &stored);
    let [difference] = plan.differences.as_slice() else {
        panic!("one difference");
    };
    let expected = r#"accounts: +"al" ("a\"b" at "https://u1.example")"#;
    assert_eq!(difference.lines(), [expected]);
}
