//! Rotation of the encryption key while the service runs.

use serde_json::Value;
use tests::{Artifacts, Postgres};

use super::explain::{legacy_refresh, legacy_tokens};
use crate::support::{Browser, Form, OwnPair, WEB, answer, get, lasting_code};

/// The keys of the file, the current one first, each with the number of values that it seals.
fn keys(pair: &OwnPair) -> Vec<(String, u64)> {
    let listed = pair.operate_json(&["encryption-key", "list"]);
    assert_eq!(listed.get("unreadable"), None, "{listed}");
    let keys = listed["keys"].as_array().unwrap().iter();
    let key = |key: &Value| {
        (
            key["id"].as_str().unwrap().to_owned(),
            key["sealed_values"].as_u64().unwrap(),
        )
    };
    keys.map(key).collect()
}

/// Signs in Joan, who has a sealed TOTP secret.
fn joan_signs_in(pair: &OwnPair) {
    let browser = Browser::new(&pair.pair.lobby_url());
    let page = browser.authorize(&[
        ("response_type", "code"),
        ("client_id", WEB.id),
        ("redirect_uri", WEB.redirect_uri),
    ]);
    let page = browser.sign_in(&page, "joan@example.com", "demo-password-of-joan");
    let code = lasting_code("JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP");
    let reply = browser.submit(&Form::of(&page), &[("code", &code)]);
    answer(&browser.follow(&reply), WEB.redirect_uri);
}

/// After a rotation, all sealed values and all earlier tags still work. `restart` restarts the services one after the
/// other.
fn rotates(mut pair: OwnPair, restart: impl Fn(&mut OwnPair)) {
    let file = pair.state().join("encryption-key");
    let registrations = pair
        .pair
        .artifacts()
        .repository
        .join("demo/registrations.toml");
    let registrations = registrations.to_str().unwrap().to_owned();
    let (_, refresh_token) = legacy_tokens(&pair);
    let web = Browser::new(&pair.pair.lobby_url()).code_for(&WEB, None);
    let web = WEB
        .exchange(&pair.pair.lobby_url(), &web, None)
        .text("refresh_token");
    let jwks = |pair: &OwnPair| get(&format!("{}/auth/jwks", pair.pair.lobby_url()), &[]).body;
    let published = jwks(&pair);
    let (old, new) = (
        std::fs::read_to_string(&file).unwrap(),
        "B".repeat(42) + "A\n",
    );

    let before = keys(&pair);
    let [(old_id, sealed)] = before.as_slice() else {
        panic!("{before:?}");
    };
    assert!(
        *sealed >= 3,
        "root, signing key and the secret of Joan: {before:?}"
    );
    std::fs::write(&file, format!("{old}{new}")).unwrap();
    restart(&mut pair);
    let code = Browser::new(&pair.pair.lobby_url()).code_for(&WEB, None);
    std::fs::write(&file, format!("# the new one\n{new}\n{old}")).unwrap();
    restart(&mut pair);
    let both = keys(&pair);
    let [(new_id, 0), (still, count)] = both.as_slice() else {
        panic!("{both:?}");
    };
    assert_eq!((still, count), (old_id, sealed));
    let exchanged = WEB.exchange(&pair.pair.lobby_url(), &code, None);
    assert_eq!(exchanged.status, 200, "{}", exchanged.body);
    let resealed = pair.operate(&["encryption-key", "reseal"], "").done();
    assert!(
        resealed.starts_with(&format!("{sealed} values sealed anew")),
        "{resealed}"
    );
    assert_eq!(
        keys(&pair),
        [(new_id.clone(), *sealed), (old_id.clone(), 0)]
    );
    let again = pair.operate(&["encryption-key", "reseal"], "").done();
    assert!(again.starts_with("0 values"), "{again}");
    std::fs::write(&file, &new).unwrap();
    restart(&mut pair);

    assert_eq!(keys(&pair), [(new_id.clone(), *sealed)]);
    assert_eq!(jwks(&pair), published);
    let continued = WEB.refresh(&pair.pair.lobby_url(), &web);
    assert_eq!(continued.status, 200, "{}", continued.body);
    joan_signs_in(&pair);
    let refreshed = legacy_refresh(&pair, &refresh_token);
    assert_eq!(refreshed.status, 200, "{}", refreshed.body);
    let differences = pair
        .operate(&["apply", &registrations, "--dry-run"], "")
        .done();
    assert!(
        differences.contains("Nothing differs"),
        "what is remembered of the file: {differences}"
    );
    let log = pair
        .operate(&["audit", "--action", "store_resealed"], "")
        .done();
    assert!(log.contains(new_id), "{log}");

    // The old key unseals nothing any more.
    std::fs::write(&file, &old).unwrap();
    pair.pair.stop_token_service();
    let refused = pair.pair.start_token_service().unwrap_err().to_string();
    for part in [old_id, new_id] {
        assert!(refused.contains(part), "{refused}");
    }
}

#[test]
fn the_encryption_key_is_rotated_on_redb() {
    rotates(OwnPair::start(&[]), |pair| {
        pair.pair.stop_token_service();
        pair.pair.start_token_service().unwrap();
    });
}

#[test]
fn the_encryption_key_is_rotated_under_two_replicas_on_postgresql() {
    let repository = Artifacts::find().unwrap().repository;
    let database = Postgres::start(&repository).unwrap();
    rotates(OwnPair::replicated(database.url()), |pair| {
        pair.pair.stop_token_service();
        pair.pair.start_token_service().unwrap();
        pair.pair.kill_replica().unwrap();
        pair.pair.start_replica().unwrap();
    });
}
