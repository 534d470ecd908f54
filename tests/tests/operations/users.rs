//! Users, their linked accounts and their grants, changed while the service runs. The revocation matrix has what each
//! change ends.

use crate::support::{Browser, OwnPair, Reply, WEB};

fn authorize(browser: &Browser) -> Reply {
    browser.authorize(&WEB.request(&[]))
}

#[test]
fn a_user_lives_from_registration_to_removal() {
    let pair = OwnPair::start(&[]);
    let sign_in = |password: &str| {
        let browser = Browser::new(&pair.lobby());
        let done = browser.sign_in(&authorize(&browser), "isaac@example.com", password);
        assert_eq!(done.status, 302, "{}", done.body);
        browser
    };
    let account = ["--account", "4711,newton,https://us1.example.com"];
    let password = ["--password-file", "-"];
    let add = ["user", "add", "isaac@example.com"];
    let add = [&add[..], &password, &account].concat();
    pair.operate(&add, "an-apple-a-day\n").done();
    let again = pair.operate(&add, "an-apple-a-day\n").failed(1);
    assert!(again.contains("already"), "{again}");
    let before = sign_in("an-apple-a-day");
    let update = ["user", "update", "isaac@example.com"];
    pair.operate(&[&update[..], &password].concat(), "two-apples\n")
        .done();
    assert_eq!(authorize(&before).status, 200, "the session has ended");
    let browser = sign_in("two-apples");

    pair.done("user unlink isaac@example.com --account 4711,newton,https://us1.example.com");
    pair.done("user link isaac@example.com --account 77,isaac,https://eu1.example.com");
    let linked = pair.json("user show isaac@example.com");
    assert_eq!(linked["accounts"][0]["user_id"], "77");
    pair.done("user remove isaac@example.com");
    assert_eq!(authorize(&browser).status, 200, "the session has ended");
    pair.done("release user grace@example.com");
    let bound = pair.failed("user remove grace@example.com");
    assert!(bound.contains("user-bound-demo is bound to"), "{bound}");
    let short = [&["user", "add", "x@example.com"][..], &password].concat();
    let short = pair.operate(&short, "short").failed(1);
    assert!(
        short.contains("--password-file: must have 8 to 1024 bytes") && !short.contains("short\n"),
        "{short}"
    );
}

/// An identity belongs to at most one user.
#[test]
fn identities_are_linked_moved_and_unlinked() {
    let pair = OwnPair::start(&[]);
    let issuer = "https://sso.example.com";
    let of = |command: &str, name: &str| {
        format!("user {command}-identity {name} --issuer {issuer} --subject 00u1")
    };
    let having = || -> Vec<String> {
        let page = pair.json(&format!("user list --identity-provider {issuer}"));
        let items = page["items"].as_array().unwrap().iter();
        items
            .map(|user| user["username"].as_str().unwrap().to_owned())
            .collect()
    };
    let [one, other] = ["one@example.com", "other@example.com"];
    for name in [one, other] {
        pair.done(&format!("user add {name}"));
    }
    assert_eq!(having(), [""; 0]);
    let linked = pair.done(&of("link", one));
    assert!(linked.contains("00u1  https://sso.example.com"), "{linked}");
    assert!(
        linked.contains("there is no [[identity_providers]]"),
        "{linked}"
    );
    let refused = pair.failed(&of("link", other));
    let held =
        "one@example.com has 00u1 of https://sso.example.com: unlink it there first, or add --move";
    assert!(refused.contains(held), "{refused}");
    assert_eq!(having(), [one]);
    let moved = pair.done(&format!("{} --move", of("link", other)));
    assert!(moved.contains("one@example.com changes too"), "{moved}");
    assert_eq!(having(), [other]);
    pair.done(&of("unlink", other));

    let add = "client add apps --type installed --redirect-uri com.example.apps:/callback";
    let added = pair.done(&format!("{add} --identity-provider {issuer}"));
    assert!(
        added.contains("for which there is no [[identity_providers]]"),
        "{added}"
    );
    let client = pair.json("client show apps");
    assert_eq!(client["identity_providers"][0], issuer);
    let removed = pair.done(&format!(
        "client update apps --remove-identity-provider {issuer}"
    ));
    assert!(
        removed.contains("the removed identity provider stay valid"),
        "{removed}"
    );
    assert!(pair.json("client show apps")["identity_providers"].is_null());
    let bound = pair.failed(&format!(
        "client add bound --type user_bound --bound-user {one} --identity-provider {issuer}"
    ));
    assert!(
        bound.contains("not for a client of type user_bound"),
        "{bound}"
    );
}

/// Who lacks something is found, also behind more users than one page of the search reads.
#[test]
fn users_are_found_by_what_they_lack() {
    let pair = OwnPair::start(&[]);
    let names = |command: &str| -> Vec<String> {
        let page = pair.json(command);
        let items = page["items"].as_array().unwrap().iter();
        items
            .map(|user| user["username"].as_str().unwrap().to_owned())
            .collect()
    };
    let many: String = (0..600)
        .map(|n| {
            format!("[[users]]\nusername = \"a{n:03}@example.com\"\norganization = \"Crew\"\n")
        })
        .collect();
    pair.done(&format!("apply --import {}", pair.write("many.toml", many)));
    pair.done("user add new@example.com --organization Newcomers");
    assert_eq!(names("user list --search NEWCOMERS"), ["new@example.com"]);
    let without = names("user list --without password --search new");
    assert_eq!(without, ["new@example.com"]);
    let page = pair.json("user list --without password --limit 500");
    assert_eq!(page["next"], "a499@example.com");
    let rest = names("user list --without password --after a499@example.com --limit 500");
    assert_eq!(rest.len(), 101, "{rest:?}");
    assert!(!names("user list --without second-factor").contains(&"joan@example.com".to_owned()));
    assert!(names("user list --without account --search mary").len() == 1);
    let never = "user list --without sign-in --search ada@example.com";
    assert_eq!(names(never), ["ada@example.com"]);
    WEB.grant(&pair.lobby());
    assert!(names(never).is_empty());
    let ada = pair.json("user show ada@example.com");
    assert!(
        ada["last_sign_in_at"].as_str().unwrap().ends_with('Z'),
        "{ada}"
    );
    pair.done("user remove new@example.com");
    assert!(names("user list --search newcomers").is_empty());
    let refused = pair.administrate("GET", "/clients?without=password", "");
    assert_eq!(refused.status, 400, "{}", refused.body);
}

#[test]
fn grants_are_listed_shown_and_revoked() {
    let pair = OwnPair::start(&[]);
    let lobby = pair.lobby();
    WEB.grant(&lobby);
    let listed = pair.json("grant list --user ada@example.com");
    let [grant] = listed["items"].as_array().unwrap().as_slice() else {
        panic!("{listed}");
    };
    assert_eq!(grant["client_id"], "web-demo");
    let id = grant["grant_id"].as_str().unwrap();
    pair.done(&format!("grant revoke {id}"));
    let shown = pair.json(&format!("grant show {id}"));
    assert!(shown["revoked_at"].is_string());
    let none = pair.json("grant list --client installed-demo");
    assert_eq!(none["items"].as_array().unwrap().len(), 0);
    let unknown = pair.failed("grant list --user nosuch");
    assert!(unknown.contains("there is no user nosuch"), "{unknown}");
    for (command, code) in [
        ("grant list --limit 0", 2),
        ("audit --limit 0", 2),
        ("audit --since 2026-11-27 --action grant_revoked", 0),
        ("user unlink ada@example.com", 2),
        ("user unlink ada@example.com 1", 2),
    ] {
        assert_eq!(pair.run(command).code, code, "{command}");
    }
    pair.run("grant revoke").failed(2);
    let nobody = pair.done("grant revoke --user grace@example.com");
    let expected = "0 grants revoked, and every access token ";
    assert!(nobody.starts_with(expected), "{nobody}");
}
