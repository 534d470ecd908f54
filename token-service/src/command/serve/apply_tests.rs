//! What applying a document reports and does not change.

use actix_web::http::header::HeaderName;
use serde_json::{Value, json};

use super::planning_tests::{KEEP, PRUNE, Site, create, object, operate, secret, update};
use super::*;
use crate::config::MutualTls;
use crate::http::admin::AdminError;
use crate::http::admin::objects::{Administered, ChangeQuery};
use crate::http::admin::registrations::{Applied, ApplyQuery};
use domain::client::ClientSecret;
use domain::testing::client_id;
use domain::{Client, User, Username};
use registry::planning;
use store::{FeedStore as _, RegistrationStore as _};

const CERTIFICATE: &str = include_str!("../../../../demo/non-interactive-demo.cert.pem");

async fn site() -> Site {
    Site::new(|config| {
        config.registrations = None;
        config.legacy_instances.truncate(1);
    })
    .await
}

async fn apply(service: &Arc<Service>, document: Value, query: ApplyQuery) -> Applied {
    let applied = operate(service, async |admin| {
        admin.apply(object(document), query).await
    });
    applied.await.unwrap()
}

#[tokio::test]
async fn pruning_keeps_a_user_to_whom_a_listed_client_is_bound() {
    let site = site().await;
    let service = site.start().await;
    let bound = |client_id: &str, user: &str| {
        json!({"client_id": client_id, "type": "user_bound", "client_secret": secret(),
            "bound_user": user})
    };
    let users = ["ada", "grace", "hedy"].map(|name| json!({"username": name}));
    let document = json!({"users": users, "clients": [bound("other", "grace")]});
    assert_eq!(apply(&service, document, KEEP).await.differences.len(), 4);
    // A command binds a client to a user whom the file defines.
    assert_eq!(
        create::<Client>(&service, bound("mine", "hedy")).await,
        Ok(())
    );
    let document = json!({"clients": [bound("batch", "ada")]});
    // Also when the client is already registered.
    for differences in [
        &["+ client batch", "- client other", "- user grace"][..],
        &[],
    ] {
        let applied = apply(&service, document.clone(), PRUNE).await;
        assert_eq!(applied.differences, differences);
        let kept = [("ada", "batch"), ("hedy", "mine")];
        let kept = kept.map(|(user, client)| {
            format!("! user {user}: stays; the client {client} is bound to the user")
        });
        assert_eq!(applied.kept, kept);
        let ada = site.store.user(Username::parse("ada").unwrap()).await;
        assert!(ada.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_legacy_client_without_an_instance_is_warned_of() {
    let site = site().await;
    let service = site.start().await;
    let host = site
        .config
        .legacy_instances
        .first()
        .unwrap()
        .hostname
        .clone();
    let legacy = |client_id: &str, host: &str| {
        json!({"client_id": client_id, "type": "legacy", "hostname": host,
            "redirect_uris": ["https://a.example/cb"]})
    };
    let document = json!({"clients": [legacy("known", &host), legacy("lost", "us9.example")]});
    for _ in 0..2 {
        let applied = apply(&service, document.clone(), KEEP).await;
        let warning = "clients[1].client_id: lost is for the hostname us9.example, which no legacy \
                       instance has";
        assert_eq!(applied.warnings, [warning]);
    }
    let mut everywhere = legacy("everywhere", &host);
    everywhere["hostname"] = Value::Null;
    for (client, warnings) in [
        (legacy("new", &host), Value::Null),
        (
            legacy("lost-too", "us9.example"),
            json!([
                "client_id: lost-too is for the hostname us9.example, which no legacy instance has"
            ]),
        ),
        (
            everywhere,
            json!(["everywhere: without a hostname, every legacy instance knows the client"]),
        ),
    ] {
        let created = operate(&service, async |admin| {
            admin.create::<Client>(object(client)).await
        });
        let created = serde_json::to_value(created.await.unwrap()).unwrap();
        assert_eq!(created["client"]["warnings"], warnings);
    }
}

#[tokio::test]
async fn a_client_with_certificates_is_warned_of_without_a_listener() {
    let client = json!({"client_id": "tls", "type": "user_bound", "bound_user": "grace",
        "tls_client_certificates": ["00".repeat(32)]});
    let document = json!({"users": [{"username": "grace"}], "clients": [client]});
    for (has_listener, warnings) in [
        (
            false,
            &[
                "clients[0].client_id: tls is registered with a certificate, for which there is no mutual_tls.listen",
            ][..],
        ),
        (true, &[]),
    ] {
        let site = Site::new(|config| {
            config.registrations = None;
            config.mutual_tls = has_listener.then(|| MutualTls {
                listen: config.internal_listen,
                url: "https://mtls.example.com".to_owned(),
                gateways: config.trusted_proxies.clone(),
                certificate_header: HeaderName::from_static("x-certificate"),
            });
        });
        let site = site.await;
        let service = site.start().await;
        let applied = apply(&service, document.clone(), KEEP).await;
        assert_eq!(applied.warnings, warnings);
    }
}

/// The answer has the only copy of a new secret.
#[tokio::test]
async fn what_follows_a_change_cannot_deny_it() {
    let site = site().await;
    let service = site.start().await;
    let web = json!({"client_id": "web", "type": "web_server", "client_secret": secret(),
        "redirect_uris": ["https://a.example/cb"]});
    assert_eq!(create::<Client>(&service, web).await, Ok(()));
    site.store.fail(&["registry_version", "secret_times"]);
    let added = operate(&service, async |admin| admin.add_secret("web").await).await;
    site.store.fail(&[]);
    let secret = added.unwrap().client_secret.unwrap();
    let client = site.store.client(client_id("web")).await.unwrap();
    let secrets = client.unwrap().secrets().to_vec();
    assert!(secrets.contains(&ClientSecret::of(&secret)));
}

#[tokio::test]
async fn a_refusal_has_a_thousand_problems_at_most() {
    let site = site().await;
    let service = site.start().await;
    let document = json!({"clients": vec![json!({"nonsense": 1}); 5000]});
    let refused = operate(&service, async |admin| {
        match admin.apply(object(document.clone()), KEEP).await {
            Err(AdminError::Invalid(invalid)) => Ok(invalid.problems),
            Err(error) => Err(error),
            Ok(_) => Ok(Vec::new()),
        }
    });
    let problems = refused.await.unwrap();
    assert_eq!(problems.len(), 1000);
    let last = problems.last().unwrap().message.clone();
    assert_eq!(last, "these are the first 999 problems; there are more");
}

/// D-52.
#[tokio::test]
async fn an_import_adds_and_changes_only_what_it_may_overwrite() {
    let site = site().await;
    let service = site.start().await;
    let person = |name: &str, password: &str, email: &str| json!({"username": name, "email": email, "password": password});
    let web = |client_id: &str, secret: &str| {
        json!({"client_id": client_id, "type": "web_server", "client_secret": secret,
            "redirect_uris": ["https://a.example/cb"]})
    };
    let mut boss = person("boss", "password of the boss", "boss@a.example");
    // Suspended, and stays suspended.
    boss["enabled"] = json!(false);
    assert_eq!(create::<User>(&service, boss).await, Ok(()));
    assert_eq!(
        create::<Client>(&service, web("shop", secret())).await,
        Ok(())
    );
    let file = json!({"users": [person("ada", "password of ada", "ada@a.example")]});
    apply(&service, file, KEEP).await;
    let managed = planning::managed(&*site.store).await.unwrap();

    let document = json!({
        "users": [
            person("ada", "password of another ada", "ada@a.example"),
            person("boss", "password of another boss", "boss@b.example"),
            person("new", "password of somebody", "new@b.example"),
        ],
        "clients": [web("shop", "another secret of 32 bytes, or more"), web("other", secret())],
    });
    let import = |dry_run, overwrite| ApplyQuery {
        dry_run,
        overwrite,
        import: true,
        ..KEEP
    };
    let ada = "! user ada: stays, because a registrations file lists it; other password";
    let kept = [
        "! client shop: stays, because it is registered; other client_secret",
        ada,
        "! user boss: stays, because it is registered; other email, password",
    ];
    let before = boss_and_shop(&site).await;
    for dry_run in [true, false] {
        let applied = apply(&service, document.clone(), import(dry_run, false)).await;
        assert_eq!(applied.differences, ["+ client other", "+ user new"]);
        assert_eq!(applied.kept, kept);
        assert_eq!(boss_and_shop(&site).await, before);
    }
    let changes = [
        "~ client shop: client_secret",
        "~ user boss: email, password\n    email: \"boss@a.example\" -> \"boss@b.example\"",
    ];
    for dry_run in [true, false] {
        assert_eq!(boss_and_shop(&site).await, before);
        let applied = apply(&service, document.clone(), import(dry_run, true)).await;
        assert_eq!(applied.differences, changes);
        assert_eq!(applied.kept, [ada]);
    }
    assert_ne!(boss_and_shop(&site).await, before);
    let again = apply(&service, document.clone(), import(false, false)).await;
    assert_eq!(again.differences, [""; 0]);
    assert_eq!(again.kept, [ada]);
    // No file manages what an import added.
    assert_eq!(planning::managed(&*site.store).await.unwrap(), managed);
    for (import, overwrite, refusal) in [(true, false, "prune: "), (false, true, "overwrite: ")] {
        let query = ApplyQuery {
            prune: true,
            import,
            overwrite,
            ..KEEP
        };
        let refused = operate(&service, async |admin| {
            admin.apply(object(document.clone()), query).await
        });
        assert!(refused.await.unwrap_err().starts_with(refusal));
    }
}

/// D-52: a new object gets neither the account nor the address of a registered person, nor does it act for one.
#[tokio::test]
async fn an_import_gives_nobody_what_others_have() {
    let site = site().await;
    let service = site.start().await;
    let account =
        |user_id: &str, site: &str| json!({"user_id": user_id, "username": "hat", "site": site});
    let person = |name: &str, account: Value| json!({"username": name, "email": format!("{name}@a.example"), "accounts": [account]});
    let one = "https://us1.example.com";
    let mut boss = person("boss", account("42", one));
    boss["single_sign_on"] = json!(true);
    assert_eq!(create::<User>(&service, boss.clone()).await, Ok(()));
    let mut twin = person("twin", account("7", one));
    twin["email"] = json!("Boss@a.example");
    twin["single_sign_on"] = json!(true);
    let robot = |client_id: &str, user: &str| json!({"client_id": client_id, "type": "user_bound", "client_secret": secret(), "bound_user": user});
    let batch = json!({"client_id": "batch", "type": "non_interactive", "client_secret": secret(),
        "certificates": [{"alias": "batch", "pem": CERTIFICATE}], "organization": "majestic"});
    let import = |document: Value, dry_run| {
        operate(&service, async move |admin| {
            let query = ApplyQuery {
                dry_run,
                import: true,
                ..KEEP
            };
            admin.apply(object(document), query).await
        })
    };
    let document = json!({
        "users": [
            person("first", account("43", one)),
            person("mallory", account("42", "https://US1.example.com:443/")),
            twin,
        ],
        "clients": [robot("robot", "BOSS"), robot("good", "first"), batch],
    });
    let lines = [
        "client robot: could act for boss without a sign-in: register the client with a command",
        "client batch: could act for registered users without a sign-in: register the client with a command",
        "user mallory: boss has the account 42 at https://US1.example.com:443/",
        "user twin: boss has the single-sign-on address boss@a.example",
    ];
    let both = ["first", "second"].map(|name| person(name, account("43", one)));
    let refused = import(json!({"users": both}), true).await.unwrap_err();
    let line = "users[1].accounts[0]: linked account: 43 at https://us1.example.com is already at users[0].accounts[0]";
    assert_eq!(refused, line);
    for dry_run in [true, false] {
        let refused = import(document.clone(), dry_run).await.unwrap_err();
        assert_eq!(refused.lines().collect::<Vec<_>>(), lines);
    }
    let left = json!({
        "users": [boss, person("first", account("43", one)), person("mallory", account("42", "https://us2.example.com"))],
        "clients": [robot("good", "first")],
    });
    for changes in [3, 0] {
        let applied = import(left.clone(), false).await.unwrap();
        assert_eq!(applied.differences.len(), changes);
        assert_eq!(applied.kept, [""; 0]);
    }
    // A command and a registrations file say what an operator means.
    assert_eq!(
        create::<Client>(&service, robot("robot", "boss")).await,
        Ok(())
    );
}

/// The passwords of an import are hashed between its turns.
#[tokio::test]
async fn nobody_who_suspends_a_user_waits_for_password_hashes() {
    let site = site().await;
    let service = site.start().await;
    let boss = json!({"username": "boss", "password": "password of the boss"});
    assert_eq!(create::<User>(&service, boss).await, Ok(()));
    let document = json!({"users": [
        {"username": "boss", "password": "another password"},
        {"username": "one", "password": "password of both"},
        {"username": "two", "password": "password of both"},
    ]});
    let order = std::sync::Mutex::new(Vec::new());
    let import = async {
        let query = ApplyQuery {
            import: true,
            overwrite: true,
            ..KEEP
        };
        let applied = apply(&service, document, query).await;
        assert_eq!(applied.differences.len(), 3, "{applied:?}");
        order.lock().unwrap().push("import");
    };
    let suspend = async {
        let suspended = update::<User>(&service, "ada", json!({"enabled": false}));
        assert_eq!(suspended.await, Ok(()));
        order.lock().unwrap().push("suspend");
    };
    assert_eq!(
        create::<User>(&service, json!({"username": "ada"})).await,
        Ok(())
    );
    tokio::join!(import, suspend);
    assert_eq!(*order.lock().unwrap(), ["suspend", "import"]);
    let hash = async |name: &str| {
        let user = site.store.user(Username::parse(name).unwrap()).await;
        user.unwrap().unwrap().password_hash.unwrap()
    };
    assert_ne!(hash("one").await, hash("two").await, "each has a salt");
    let verify = secrets::password::verify;
    assert_eq!(verify("another password", &hash("boss").await), Ok(true));
    assert_eq!(verify("password of both", &hash("two").await), Ok(true));
}

/// Everything of an imported object that a takeover would change.
async fn boss_and_shop(site: &Site) -> (Option<String>, Option<String>, Vec<ClientSecret>) {
    let boss = site.store.user(Username::parse("boss").unwrap()).await;
    let boss = boss.unwrap().unwrap();
    let shop = site.store.client(client_id("shop")).await.unwrap();
    (
        boss.email,
        boss.password_hash,
        shop.unwrap().secrets().to_vec(),
    )
}

/// The answer to a change.
async fn change<T: Administered>(
    service: &Arc<Service>,
    name: &str,
    patch: Value,
    how: ChangeQuery,
) -> Result<Value, String> {
    operate(service, async |admin| {
        let view = admin.update::<T>(name, object(patch.clone()), how).await?;
        Ok(serde_json::to_value(view).unwrap())
    })
    .await
}

const DRY_RUN: ChangeQuery = ChangeQuery {
    dry_run: true,
    ..NOW
};
const NOW: ChangeQuery = ChangeQuery {
    dry_run: false,
    revoke: false,
    move_identities: false,
};
const REVOKE: ChangeQuery = ChangeQuery {
    revoke: true,
    ..NOW
};

#[tokio::test]
async fn single_values_of_lists_are_added_and_removed() {
    let site = site().await;
    let service = site.start().await;
    let uris = ["https://a.example/cb", "https://b.example/cb"];
    let web = json!({"client_id": "web", "type": "web_server", "scopes": ["a", "b"], "redirect_uris": uris});
    assert_eq!(create::<Client>(&service, web).await, Ok(()));
    let scopes = async || {
        let client = site.store.client(client_id("web")).await.unwrap();
        client.unwrap().scopes.to_string()
    };
    let patch = json!({"add": {"scopes": ["c", "a"]}, "remove": {"scopes": ["b"], "redirect_uris": [uris[0]]}});
    for (how, after) in [(DRY_RUN, "a b"), (NOW, "a c")] {
        let changed = change::<Client>(&service, "web", patch.clone(), how)
            .await
            .unwrap();
        let changes = ["scopes: -b +c", "redirect_uris: -https://a.example/cb"];
        assert_eq!(changed["changes"], json!(changes));
        assert_eq!(changed["scopes"], json!(["a", "c"]));
        assert_eq!(changed["redirect_uris"], json!([uris[1]]));
        assert_eq!(changed.get("warnings"), None);
        assert_eq!(scopes().await, after);
    }
    let key = include_str!("../../../../demo/key-demo.pub.pem");
    let added = json!({"add": {"keys": [{"kid": "1", "public_key": key}]}});
    let changed = change::<Client>(&service, "web", added, NOW).await.unwrap();
    assert_eq!(changed["credentials"], 2);
    let removed = json!({"remove": {"keys": ["1"]}});
    let changed = change::<Client>(&service, "web", removed, NOW)
        .await
        .unwrap();
    let warning = changed["warnings"][0].as_str().unwrap();
    assert!(warning.contains("the removed key stay valid"), "{warning}");
    for (patch, problem) in [
        (
            json!({"remove": {"scopes": ["x"]}}),
            "remove: scopes: there is no \"x\"; there are: \"a\", \"c\"",
        ),
        (
            json!({"add": {"name": ["x"]}}),
            "add: name: expected a list, of a client",
        ),
        (json!({"add": ["x"]}), "add: expected an object with lists"),
    ] {
        let refused = change::<Client>(&service, "web", patch, NOW).await;
        assert_eq!(refused.unwrap_err(), problem);
    }
}

#[tokio::test]
async fn a_change_can_end_what_a_client_got_before() {
    let site = site().await;
    let service = site.start().await;
    let web = json!({"client_id": "web", "type": "web_server", "redirect_uris": ["https://a.example/cb"]});
    assert_eq!(create::<Client>(&service, web).await, Ok(()));
    let feed = async || site.store.feed_state().await.unwrap().last;
    for how in [DRY_RUN, NOW] {
        change::<Client>(&service, "web", json!({"name": "A"}), how)
            .await
            .unwrap();
        assert_eq!(feed().await, 0);
    }
    let unchanged = change::<Client>(&service, "web", json!({"name": "A"}), REVOKE).await;
    assert!(
        unchanged
            .unwrap_err()
            .starts_with("revoke: no client changes")
    );
    let covered = store::issued_until(SystemClock.now());
    change::<Client>(&service, "web", json!({"name": "B"}), REVOKE)
        .await
        .unwrap();
    assert_eq!(feed().await, 1);
    let ended = change::<Client>(&service, "web", json!({"client_secret": secret()}), REVOKE).await;
    assert_eq!(ended.unwrap().get("warnings"), None);
    // No token is issued that the revocation covers.
    let web = site.store.client(client_id("web")).await.unwrap().unwrap();
    assert!(web.tokens_from > covered, "{web:?}");
}

/// A document says what its clients lack once, with the place.
#[tokio::test]
async fn a_document_warns_once_of_each_client() {
    let site = site().await;
    let service = site.start().await;
    let pem = include_str!("../../../../demo/non-interactive-demo.cert.pem");
    let sync = json!({"client_id": "sync", "type": "non_interactive", "client_secret": secret(),
        "certificates": [{"alias": "a", "pem": pem}]});
    let applied = apply(&service, json!({"clients": [sync]}), KEEP).await;
    let warning = "clients[0]: organization: is absent: without an organization, assertions of the client may name every user";
    assert_eq!(applied.warnings, [warning]);
    let batch = json!({"client_id": "batch", "type": "non_interactive"});
    let created = operate(&service, async |admin| {
        admin.create::<Client>(object(batch)).await
    });
    let created = serde_json::to_value(created.await.unwrap()).unwrap();
    let warning = "batch: without an organization, assertions of the client may name every user";
    assert_eq!(created["client"]["warnings"], json!([warning]));
}

#[tokio::test]
async fn a_change_that_widens_or_breaks_something_says_so() {
    let site = site().await;
    let service = site.start().await;
    let account =
        |user_id: &str, site: &str| json!({"user_id": user_id, "username": "a", "site": site});
    let user = json!({"username": "ada", "accounts": [account("1", "https://a.example")]});
    assert_eq!(create::<User>(&service, user).await, Ok(()));
    for client in [
        json!({"client_id": "batch", "type": "user_bound", "bound_user": "ada"}),
        json!({"client_id": "sync", "type": "non_interactive", "organization": "majestic"}),
    ] {
        assert_eq!(create::<Client>(&service, client).await, Ok(()));
    }
    let warning = "sync: without an organization, assertions of the client may name every user";
    for (patch, warnings) in [
        (json!({"organization": null}), json!([warning])),
        (json!({"name": "Sync"}), Value::Null),
        (json!({"organization": "majestic"}), Value::Null),
    ] {
        let changed = change::<Client>(&service, "sync", patch, NOW)
            .await
            .unwrap();
        assert_eq!(changed["warnings"], warnings);
    }
    let link = async |site: &str| {
        operate(&service, async |admin| {
            let view = admin
                .link_account("ada", object(account("2", site)))
                .await?;
            Ok(serde_json::to_value(view).unwrap())
        })
        .await
    };
    let slash = link("https://a.example/").await.unwrap_err();
    assert!(
        slash.ends_with("only by a slash: write https://a.example"),
        "{slash}"
    );
    let linked = link("https://b.example").await.unwrap();
    let warning = linked["warnings"][0].as_str().unwrap();
    assert!(
        warning.ends_with("get invalid_request without them: batch"),
        "{warning}"
    );
}

/// Ids of other servers are longer than legacy tokens have room for.
#[tokio::test]
async fn the_length_of_user_ids_counts_only_beside_the_legacy_flow() {
    let site = Site::new(|config| {
        config.registrations = None;
        config.legacy_instances.clear();
    })
    .await;
    let service = site.start().await;
    let user = |name: &str| json!({"username": name, "accounts": [{"user_id": "1".repeat(36), "username": "a", "site": "https://a.example"}]});
    assert_eq!(create::<User>(&service, user("ada")).await, Ok(()));
    let document = json!({"users": [user("grace")], "clients": [{"client_id": "old", "type": "legacy",
        "redirect_uris": ["https://a.example/cb"]}]});
    let refused = operate(&service, async |admin| {
        admin.apply(object(document), KEEP).await
    })
    .await;
    assert!(refused.unwrap_err().contains("legacy_user_id_max is 24"));
    let instance = json!({"auth_server_hostname": "sso.example"});
    for (hostname, problem) in [
        ("us1.legacy.example", None),
        (
            "us1.legacy.example:8443",
            Some(
                "hostname: us1.legacy.example:8443 differs from the instance us1.legacy.example only in the port",
            ),
        ),
    ] {
        let put = operate(&service, async |admin| {
            admin
                .put_legacy_instance(hostname, object(instance.clone()))
                .await
        });
        match put.await {
            Ok(view) => assert_eq!(
                serde_json::to_value(view).unwrap()["warnings"],
                json!([
                    "users with a user_id longer than legacy_user_id_max (24), for whom the legacy flow may have no \
                     tokens: 1 (ada)"
                ])
            ),
            Err(refused) => assert_eq!(Some(&*refused), problem),
        }
    }
    let refused = create::<User>(&service, user("hedy")).await.unwrap_err();
    assert!(refused.contains("legacy_user_id_max is 24"), "{refused}");
}

/// Every object that a file manages stores the name of the file.
#[tokio::test]
async fn the_name_of_a_file_is_bounded() {
    let site = site().await;
    let service = site.start().await;
    for (length, is_taken) in [(4096, true), (4097, false)] {
        let query = ApplyQuery {
            file: Some("x".repeat(length)),
            ..KEEP
        };
        let applied = operate(&service, async |admin| {
            admin.apply(object(json!({})), query.clone()).await
        });
        assert_eq!(applied.await.is_ok(), is_taken);
    }
}
