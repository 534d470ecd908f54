//! Rotation of the encryption key while the service runs.

use serde_json::Value;

use crate::support::{
    Browser, Form, Instance, LEGACY, OwnPair, WEB, answer, database, get, lasting_code,
};

/// The keys of the file, the current one first, each with the number of values that it seals.
fn keys(pair: &OwnPair) -> Vec<(String, u64)> {
    let listed = pair.json("encryption-key list");
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
    let browser = Browser::new(&pair.lobby());
    let page = browser.authorize(&WEB.request(&[]));
    let page = browser.sign_in(&page, "joan@example.com", "demo-password-of-joan");
    let code = lasting_code("JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP");
    let reply = browser.submit(&Form::of(&page), &[("code", &code)]);
    answer(&browser.follow(&reply), WEB.redirect_uri);
}

/// After a rotation, all sealed values and all earlier tags still work. `restart` restarts the services one after the
/// other.
fn rotates(mut pair: OwnPair, restart: impl Fn(&mut OwnPair)) {
    let file = pair.state().join("encryption-key");
    let registrations = pair.registrations();
    let us1 = Instance::of(&pair.pair);
    let legacy = us1.exchange(&LEGACY, &us1.code(&LEGACY));
    let web = Browser::new(&pair.lobby()).code_for(&WEB, None);
    let web = WEB
        .exchange(&pair.lobby(), &web, None)
        .text("refresh_token");
    let jwks = |pair: &OwnPair| get(&format!("{}/auth/jwks", pair.lobby()), &[]).body;
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
    let code = Browser::new(&pair.lobby()).code_for(&WEB, None);
    std::fs::write(&file, format!("# the new one\n{new}\n{old}")).unwrap();
    restart(&mut pair);
    let both = keys(&pair);
    let [(new_id, 0), (still, count)] = both.as_slice() else {
        panic!("{both:?}");
    };
    assert_eq!((still, count), (old_id, sealed));
    WEB.exchange(&pair.lobby(), &code, None).done();
    let resealed = pair.done("encryption-key reseal");
    assert!(
        resealed.starts_with(&format!("{sealed} values sealed again")),
        "{resealed}"
    );
    assert_eq!(
        keys(&pair),
        [(new_id.clone(), *sealed), (old_id.clone(), 0)]
    );
    let again = pair.done("encryption-key reseal");
    assert!(again.starts_with("0 values"), "{again}");
    std::fs::write(&file, &new).unwrap();
    restart(&mut pair);

    assert_eq!(keys(&pair), [(new_id.clone(), *sealed)]);
    assert_eq!(jwks(&pair), published);
    WEB.refresh(&pair.lobby(), &web).done();
    joan_signs_in(&pair);
    us1.refresh(&LEGACY, &legacy.text("refresh_token")).done();
    let differences = pair.done(&format!("apply {registrations} --dry-run"));
    assert!(
        differences.contains("Nothing differs"),
        "the hashes of the file's secrets stay: {differences}"
    );
    let log = pair.done("audit --action store_resealed");
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
    // A code outlasts the restarts, on a busy machine too.
    let lasting = ("TOKEN_SERVICE__LIFETIMES__AUTHORIZATION_CODE", "10m");
    rotates(OwnPair::start(&[lasting]), OwnPair::restart);
}

#[test]
fn the_encryption_key_is_rotated_under_two_replicas_on_postgresql() {
    let database = database();
    rotates(OwnPair::replicated(database.url()), |pair| {
        pair.restart();
        pair.pair.kill_replica().unwrap();
        pair.pair.start_replica().unwrap();
    });
}
