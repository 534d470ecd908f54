//! Names of people are compared without case (D-43).

use super::*;

/// The name of the user whom the store finds by `name`, by both look-ups.
async fn found(store: &dyn Store, name: &str) -> Option<String> {
    let user = store.user(username(name)).await.unwrap();
    let user = user.map(|user| user.username.to_string());
    let credentials = store.credentials(username(name)).await.unwrap();
    let by_credentials = credentials.map(|credentials| credentials.username.to_string());
    assert_eq!(by_credentials, user, "{name}");
    let object = ObjectName::new(ObjectKind::User, name);
    let excerpt = store.excerpt(vec![object]).await.unwrap();
    let in_excerpt = excerpt.user(&username(name));
    let in_excerpt = in_excerpt.map(|user| user.username.to_string());
    assert_eq!(in_excerpt, user, "{name}");
    user
}

async fn assert_found(store: &dyn Store, expected: &[(&str, Option<&str>)]) {
    for (name, expected) in expected {
        assert_eq!(found(store, name).await.as_deref(), *expected, "{name}");
    }
}

pub(crate) async fn a_user_is_found_in_any_case(subject: &mut impl Subject) {
    let (ada, zoe) = ("Ada@Example.com", "ZO\u{cb}");
    let users = [ada, zoe, "grace"].map(user).to_vec();
    apply(&*subject.store(), put(vec![], users), 0).await;
    subject.restart().await;
    let all = [
        (ada, Some(ada)),
        ("ada@example.com", Some(ada)),
        ("ADA@EXAMPLE.COM", Some(ada)),
        ("zoe\u{308}", Some(zoe)),
        ("GRACE", Some("grace")),
        ("grac", None),
        ("ada", None),
    ];
    assert_found(&*subject.store(), &all).await;
    // In the registered spelling, everything else has its place.
    let own = second_factor(&["recovery"]);
    let store = subject.store();
    set_factor(&*store, ada, Some(own), at(0)).await;
    let credentials = store.credentials(username("ADA@example.com")).await;
    assert!(credentials.unwrap().unwrap().totp_secret_sealed.is_some());
    let change = RegistryChange {
        remove_users: vec![username(ada)],
        ..put(vec![], vec![user("ADA@EXAMPLE.COM"), user("GRACE2")])
    };
    apply(&*store, change, 1).await;
    let store = subject.again(store).await;
    let respelt = Some("ADA@EXAMPLE.COM");
    let all = [(ada, respelt), ("ada@example.com", respelt)];
    assert_found(&*store, &all).await;
    assert_found(&*store, &[("grace2", Some("GRACE2"))]).await;
}
