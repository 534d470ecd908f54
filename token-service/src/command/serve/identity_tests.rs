//! An identity belongs to at most one user, in whatever way it was linked.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::planning_tests::{KEEP, PRUNE, Site, apply, create, object, operate};
use super::*;
use crate::http::admin::objects::ChangeQuery;
use crate::http::admin::registrations::ApplyQuery;
use domain::audit_entry::Entry;
use domain::testing::{identity, username};
use domain::{AuditAction, Identity, LinkedIdentity, Managed, RegistryOutcome, User, Username};
use protocol::identity_provider::IdentityProvider;
use protocol::settings::Settings;
use registry::change::{Edit, Registry as _};
use registry::identities::{self, Unlinking, link_by_email};

const ISSUER: &str = "https://sso.example.com";

async fn site() -> Site {
    Site::new(|config| {
        config.registrations = None;
        config.legacy_instances.clear();
    })
    .await
}

fn person(name: &str, subjects: &[&str]) -> Value {
    let identities = subjects.iter();
    let identities: Vec<Value> = identities
        .map(|subject| json!({"issuer": ISSUER, "subject": subject}))
        .collect();
    json!({"username": name, "email": format!("{name}@example.com"), "identities": identities})
}

async fn subjects(service: &Service, name: &str) -> Vec<(String, bool)> {
    let user = service.store.user(username(name)).await.unwrap().unwrap();
    let identities = user.identities.into_iter();
    identities
        .map(|linked| (linked.identity.subject, linked.by_email))
        .collect()
}

fn registered(subjects: &[&str]) -> Vec<(String, bool)> {
    let subjects = subjects.iter();
    subjects
        .map(|subject| ((*subject).to_owned(), false))
        .collect()
}

async fn link(
    service: &Arc<Service>,
    name: &str,
    subject: &str,
    move_identities: bool,
) -> Result<Value, String> {
    operate(service, async |admin| {
        let how = ChangeQuery {
            move_identities,
            ..ChangeQuery::default()
        };
        let linked = json!({"issuer": ISSUER, "subject": subject});
        let view = admin.link_identity(name, object(linked), how).await?;
        Ok(serde_json::to_value(view).unwrap())
    })
    .await
}

async fn unlink(service: &Arc<Service>, name: &str, subject: &str) -> Result<Value, String> {
    operate(service, async |admin| {
        let view = admin.unlink_identity(name, &identity(subject)).await?;
        Ok(serde_json::to_value(view).unwrap())
    })
    .await
}

async fn planned(service: &Service, subject: &str, email: &str) -> Option<Edit<Username>> {
    let tell = |user: &User| {
        let entry = Entry::new(AuditAction::IdentityLinked);
        (entry.by_user(user.username.as_str()), None)
    };
    let (provider, identity) = (provider(true), identity(subject));
    let planned = link_by_email(&provider, &identity, email, &*service.store, tell);
    planned.await.unwrap()
}

/// Links the identity by e-mail, as a first sign-in does.
async fn first_sign_in(service: &Arc<Service>, subject: &str, email: &str) -> Option<String> {
    let Edit {
        change, outcome, ..
    } = planned(service, subject, email).await?;
    assert_eq!(service.make(change).await, Ok(RegistryOutcome::Changed));
    Some(outcome.to_string())
}

fn provider(link_by_email: bool) -> IdentityProvider {
    IdentityProvider {
        id: "example".to_owned(),
        issuer: ISSUER.to_owned(),
        name: "Example".to_owned(),
        algorithms: Default::default(),
        email_domains: vec!["example.com".to_owned()],
        link_by_email,
        client_id: Some("gatepass".to_owned()),
    }
}

/// Whether a person may unlink an own identity.
#[test]
fn a_person_keeps_a_way_to_sign_in() {
    use Unlinking::{OnlyWay, Possible, Returns};
    let unlinking = |user: &User, has_password: bool, provider: IdentityProvider| {
        let settings = Settings {
            identity_providers: [provider].into(),
            ..Config::default().protocol
        };
        identities::unlinking(user, &identity("1"), has_password, &settings)
    };
    let linked = |subject: &str, by_email| LinkedIdentity {
        identity: identity(subject),
        by_email,
    };
    let mut user = User::new(username("ada"));
    user.identities = vec![linked("1", false)];
    assert_eq!(unlinking(&user, true, provider(false)), Possible);
    assert_eq!(unlinking(&user, false, provider(false)), OnlyWay);
    // With this provider nobody signs in, so the person loses no way.
    let mut silent = provider(false);
    silent.client_id = None;
    assert_eq!(unlinking(&user, false, silent), Possible);
    let mut unknown = provider(false);
    unknown.issuer.push('x');
    assert_eq!(unlinking(&user, false, unknown), Possible);
    // Another identity is another way, if its provider is configured.
    user.identities.push(linked("2", true));
    assert_eq!(unlinking(&user, false, provider(false)), Possible);
    user.identities[1].identity.issuer.push('x');
    assert_eq!(unlinking(&user, false, provider(false)), OnlyWay);
    // Linked again at the next sign-in, in whatever way it was linked first.
    user.email = Some("ada@EXAMPLE.com".to_owned());
    assert_eq!(unlinking(&user, true, provider(true)), Returns);
    user.email = Some("ada@other.example".to_owned());
    assert_eq!(unlinking(&user, true, provider(true)), Possible);
    // A file lists what no sign-in linked.
    user.managed = Some(Managed {
        file: "f".to_owned(),
        line: None,
        disables: false,
        suspended: false,
        secrets: BTreeMap::new(),
    });
    assert_eq!(unlinking(&user, true, provider(false)), Unlinking::Managed);
    user.identities[0].by_email = true;
    assert_eq!(unlinking(&user, true, provider(false)), Possible);
}

fn held(name: &str, holder: &str, subject: &str) -> String {
    format!("user {name}: identities: {holder} has {subject} of {ISSUER}: unlink it there first")
}

/// As [`held`], of a command that can move the identity.
fn movable(name: &str, holder: &str, subject: &str) -> String {
    let held = held(name, holder, subject);
    format!("{held}, or add move_identities=true")
}

#[tokio::test]
async fn a_command_moves_an_identity_only_if_it_says_so() {
    let site = site().await;
    let service = site.start().await;
    assert_eq!(
        create::<User>(&service, person("ada", &["1", "2"])).await,
        Ok(())
    );
    let refused = create::<User>(&service, person("bob", &["1"])).await;
    assert_eq!(refused, Err(held("bob", "ada", "1")));
    assert_eq!(create::<User>(&service, person("bob", &[])).await, Ok(()));
    let refused = link(&service, "bob", "1", false).await;
    assert_eq!(refused, Err(movable("bob", "ada", "1")));
    assert_eq!(subjects(&service, "ada").await, registered(&["1", "2"]));
    let moved = link(&service, "bob", "1", true).await.unwrap();
    assert_eq!(
        moved["changes"],
        json!(["identities: +1 of https://sso.example.com"])
    );
    assert_eq!(
        moved["warnings"],
        json!([
            "nobody can sign in as a person of https://sso.example.com: there is no [[identity_providers]] with this issuer",
            "ada changes too: identities: -1 of https://sso.example.com",
        ])
    );
    assert_eq!(subjects(&service, "ada").await, registered(&["2"]));
    assert_eq!(subjects(&service, "bob").await, registered(&["1"]));
    let twice = link(&service, "bob", "1", true).await.unwrap_err();
    assert!(twice.contains("is already at"), "{twice}");
    let none = unlink(&service, "ada", "1").await;
    let none = none.unwrap_err();
    assert_eq!(none, format!("there is no linked identity 1 of {ISSUER}"));
    let unlinked = unlink(&service, "bob", "1").await.unwrap();
    assert_eq!(
        unlinked["changes"],
        json!(["identities: -1 of https://sso.example.com"])
    );
    assert_eq!(subjects(&service, "bob").await, []);
}

/// Two commands at two replicas.
#[tokio::test]
async fn an_identity_that_two_users_are_to_get_at_once_goes_to_one() {
    let site = site().await;
    let services = [site.start().await, site.start().await];
    for name in ["ada", "bob"] {
        assert_eq!(
            create::<User>(&services[0], person(name, &[])).await,
            Ok(())
        );
    }
    let (one, other) = tokio::join!(
        link(&services[0], "ada", "1", false),
        link(&services[1], "bob", "1", false)
    );
    let refused = one.and(other).unwrap_err();
    assert!(
        [movable("ada", "bob", "1"), movable("bob", "ada", "1")].contains(&refused),
        "{refused}"
    );
}

#[tokio::test]
async fn a_document_moves_identities_within_itself_alone() {
    let site = site().await;
    let service = site.start().await;
    let document = |users: &[Value]| json!({ "users": users });
    let both = document(&[person("ada", &["1"]), person("bob", &["2"])]);
    apply(&service, both.clone(), KEEP).await.unwrap();
    let swapped = document(&[person("ada", &["2"]), person("bob", &["1"])]);
    apply(&service, swapped, KEEP).await.unwrap();
    assert_eq!(subjects(&service, "ada").await, registered(&["2"]));
    assert_eq!(subjects(&service, "bob").await, registered(&["1"]));
    let twice = document(&[person("ada", &["1"]), person("bob", &["1"])]);
    let refused = apply(&service, twice, KEEP).await.unwrap_err();
    assert!(refused.contains("linked identity: 1 of"), "{refused}");
    let new = document(&[person("carl", &["1"])]);
    let import = ApplyQuery {
        import: true,
        ..KEEP
    };
    for query in [KEEP, import] {
        let refused = apply(&service, new.clone(), query).await;
        assert_eq!(refused, Err(held("carl", "bob", "1")));
    }
    // Commands do not take from users whom a file defines.
    assert_eq!(create::<User>(&service, person("dora", &[])).await, Ok(()));
    let refused = link(&service, "dora", "1", true).await;
    assert_eq!(refused, Err(held("dora", "bob", "1")));
    let refused = unlink(&service, "bob", "1").await.unwrap_err();
    assert!(
        refused.contains("defines the user bob (identities)"),
        "{refused}"
    );
    // A user who is removed has none.
    apply(&service, new, PRUNE).await.unwrap();
    assert_eq!(subjects(&service, "carl").await, registered(&["1"]));
}

#[tokio::test]
async fn a_first_sign_in_links_the_one_user_with_the_verified_address() {
    let site = site().await;
    let service = site.start().await;
    let document = json!({"users": [person("ada", &[]), person("bob", &[])]});
    apply(&service, document.clone(), KEEP).await.unwrap();
    let kim = person("kim", &[]);
    assert_eq!(create::<User>(&service, kim).await, Ok(()));
    for (email, linked) in [
        ("nobody@example.com", None),
        ("\u{212a}im@example.com", None),
        ("ada@example.org", None),
        ("Ada@Example.com", Some("ada")),
    ] {
        let found = first_sign_in(&service, "1", email).await;
        assert_eq!(found.as_deref(), linked, "{email}");
    }
    let by_email = vec![("1".to_owned(), true)];
    assert_eq!(subjects(&service, "ada").await, by_email);
    // The address went to another person of the company.
    assert_eq!(first_sign_in(&service, "2", "ada@example.com").await, None);
    // An address of two users is nobody's.
    let twin = json!({"username": "twin", "email": "BOB@example.com"});
    assert_eq!(create::<User>(&service, twin).await, Ok(()));
    assert_eq!(first_sign_in(&service, "3", "bob@example.com").await, None);
    let disabled = json!({"enabled": false});
    operate(&service, async |admin| {
        let how = ChangeQuery::default();
        let disabled = object(disabled.clone());
        admin.update::<User>("twin", disabled, how).await.map(drop)
    })
    .await
    .unwrap();
    let found = first_sign_in(&service, "3", "bob@example.com").await;
    assert_eq!(found.as_deref(), Some("bob"));
    // No document and no change of the user takes it.
    assert_eq!(apply(&service, document, KEEP).await, Ok(vec![]));
    assert_eq!(subjects(&service, "ada").await, by_email);
    link(&service, "bob", "4", false).await.unwrap_err();
    let taken = json!({"users": [person("bob", &["1"])]});
    let refused = apply(&service, taken, KEEP).await;
    assert_eq!(refused, Err(held("bob", "ada", "1")));
    // But a command does, although a file defines the user.
    let unlinked = unlink(&service, "ada", "1").await.unwrap();
    assert_eq!(unlinked["identities_by_email"], Value::Null);
    assert_eq!(subjects(&service, "ada").await, []);
    let found = first_sign_in(&service, "2", "ada@example.com").await;
    assert_eq!(found.as_deref(), Some("ada"));
    assert_eq!(create::<User>(&service, person("eve", &[])).await, Ok(()));
    link(&service, "eve", "2", true).await.unwrap();
    assert_eq!(subjects(&service, "ada").await, []);
    // The configuration must allow it, and the identity must be of this provider.
    let other = Identity {
        issuer: "https://other.example.com".to_owned(),
        ..identity("9")
    };
    for (provider, identity) in [(provider(false), identity("9")), (provider(true), other)] {
        let tell = |_: &User| unreachable!();
        let store = &*service.store;
        let refused = link_by_email(&provider, &identity, "ada@example.com", store, tell);
        assert!(refused.await.unwrap().is_none());
    }
}

/// Two replicas at which the same person signs in for the first time, and an address that a second user gets meanwhile.
#[tokio::test]
async fn a_link_by_email_is_overtaken_by_what_it_rests_on() {
    let site = site().await;
    let service = site.start().await;
    assert_eq!(create::<User>(&service, person("ada", &[])).await, Ok(()));
    let plan = async |subject| {
        let planned = planned(&service, subject, "ada@example.com").await;
        planned.unwrap().change
    };
    let planned = plan("1").await;
    let twin = json!({"username": "twin", "email": "ada@example.com"});
    assert_eq!(create::<User>(&service, twin).await, Ok(()));
    let outcome = service.make(planned).await;
    assert_eq!(outcome, Ok(RegistryOutcome::Overtaken));
    operate(&service, async |admin| admin.delete::<User>("twin").await)
        .await
        .unwrap();
    let (one, other) = (plan("1").await, plan("2").await);
    let made = service.make(one).await;
    assert_eq!(made, Ok(RegistryOutcome::Changed));
    let outcome = service.make(other).await;
    assert_eq!(outcome, Ok(RegistryOutcome::Overtaken));
    assert_eq!(subjects(&service, "ada").await, [("1".to_owned(), true)]);
}

/// An identity counts if the configuration has its provider, and so does an address that a first sign-in links.
#[tokio::test]
async fn who_cannot_sign_in_has_neither_a_password_nor_a_provider() {
    for (providers, expected) in [
        (vec![provider(true)], [None, None]),
        (vec![provider(false)], [None, Some("no password")]),
        (
            vec![],
            [
                Some(
                    "no password, and no identity provider of the configuration for the linked identities",
                ),
                Some("no password"),
            ],
        ),
    ] {
        let site = Site::new(|config| {
            config.registrations = None;
            config.legacy_instances.clear();
            config.protocol.identity_providers = providers.into();
        });
        let service = site.await.start().await;
        for (name, subjects, reason) in
            [("ada", &["1"][..], expected[0]), ("bob", &[], expected[1])]
        {
            let added = operate(&service, async |admin| {
                admin.create::<User>(object(person(name, subjects))).await
            });
            assert_eq!(
                added.await.unwrap().cannot_sign_in.as_deref(),
                reason,
                "{name}"
            );
        }
    }
}
