//! Rows for copies.

use super::*;

/// Fills every table of a store.
pub(crate) async fn fill(store: &dyn Store, seed: u64) {
    let mut dice = Dice(seed);
    apply(store, put(vec![], vec![user("ada")]), 0).await;
    register_at_random(store, 20 + dice.below(20)).await;
    let change = RegistryChange {
        notices: vec![notice("ada", seed), notice("Joan", 2), notice("ada", 3)],
        put_legacy_instances: vec![legacy_instance("us1.example")],
        applied_file: FileChange::Replace {
            before: None,
            after: Some(Digest::of(b"text")),
        },
        ..put(
            vec![web_server("shop", &["one", "two"], &[])],
            vec![user("Joan")],
        )
    };
    apply(store, change, 0).await;
    let used = SecretUse {
        client_id: client_id("shop"),
        secret: ClientSecret::of("one"),
        at: at(9),
    };
    store.note_secret_uses(vec![used]).await.unwrap();
    let set = Some(second_factor(&["a"]));
    let set = store.set_second_factor(username("Joan"), set, None, None, Arc::default(), at(0));
    assert!(set.await.unwrap().is_some());
    for (kid, algorithm) in [("one", Algorithm::EdDsa), ("two", Algorithm::Es256)] {
        let key = signing_key(kid, algorithm, at(1));
        let added = store.add_signing_key(key, None, Arc::default()).await;
        assert_eq!(added, Ok(true));
    }
    let root = store.reseal(SealedValue::Root, None, b"root".to_vec());
    assert_eq!(root.await, Ok(true));
    for number in 0..20 + dice.below(40) {
        let name = format!("user {}", dice.below(9));
        let record = code_of("web", &name);
        let legacy = format!("code {number}");
        issue_legacy(store, &legacy, record.clone()).await;
        if dice.below(2) == 0 {
            redeem_legacy(store, &legacy, fitting(), at(1)).await;
        }
        if number == 0 {
            let key = of_key(Some(Thumbprint::from_bytes([7; 32])));
            grant_with(store, record.clone(), key).await;
        }
        let grant = grant_of(store, record).await;
        if dice.below(2) == 0 {
            let rotation = use_of(&grant, grant.current.refresh_id, at(5));
            refresh(store, rotation).await;
        }
        if dice.below(3) == 0 {
            revoke(store, &grant, at(6)).await;
        }
        let (id, lasting) = (numbered("session", number), session(&name, at(100)));
        start(store, id, lasting, None).await;
        let _ = attempt(store, &[&name, "everybody"], at(number as u64)).await;
        use_id(store, "web", &name, at(number as u64)).await;
        let used = store.use_totp_step(username(&name), number as u64);
        assert_eq!(used.await, Ok(Use::First));
        let mut entry = audit_event(number as u64);
        entry.action = dice.one_of(&[
            AuditAction::SignIn,
            AuditAction::GrantRevoked,
            AuditAction::TokensIssued,
        ]);
        store.append_audit([entry].into()).await.unwrap();
    }
    // A sweep finds codes that have expired, and keeps the used ones.
    start(store, numbered("owed", 0), owed("network", at(9)), None).await;
    store.sweep(at(61), at(61), 10).await.unwrap();
}
