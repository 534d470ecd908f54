//! Values that are sealed with the encryption key.

use super::*;

pub(crate) async fn what_is_sealed_is_sealed_anew(subject: &mut impl Subject) {
    let joan = User {
        totp_secret_sealed: Some(b"registered".to_vec()),
        ..user("joan")
    };
    let change = put(vec![], vec![joan, user("ada")]);
    let store = subject.store();
    apply(&*store, change, 0).await;
    set_factor(&*store, "ada", Some(second_factor(&["a"])), at(0)).await;
    let key = signing_key("kid", Algorithm::EdDsa, at(0));
    assert!(add_key(&*store, &key, None).await);
    assert_eq!(store.sealed_root().await.unwrap(), None);
    let start = async |root: &[u8]| {
        let root = root.to_vec();
        store.reseal(SealedValue::Root, None, root).await.unwrap()
    };
    assert_eq!(
        (start(b"root").await, start(b"of a replica").await),
        (true, false)
    );
    let credentials = store.credentials(username("ada")).await.unwrap().unwrap();
    let store = subject.again(store).await;
    let version = store.registry_version().await.unwrap();
    let all = [
        (SealedValue::Root, b"root".to_vec()),
        (SealedValue::SigningKey("kid".to_owned()), key.sealed_pkcs8),
        (
            SealedValue::RegisteredTotpSecret(username("joan")),
            b"registered".to_vec(),
        ),
        (
            SealedValue::OwnTotpSecret(username("ada")),
            b"sealed".to_vec(),
        ),
    ];
    assert_eq!(sealed_values(&*store).await, all);
    for (value, before) in &all {
        let reseal = async |before: Option<&[u8]>, after: &[u8]| {
            let before = before.map(<[u8]>::to_vec);
            store
                .reseal(value.clone(), before, after.to_vec())
                .await
                .unwrap()
        };
        assert!(!reseal(Some(b"something else"), b"lost").await);
        assert!(!reseal(None, b"lost").await);
        assert!(reseal(Some(before), b"anew").await);
        assert!(!reseal(Some(before), b"lost").await);
    }
    for unknown in [
        SealedValue::SigningKey("unknown".to_owned()),
        SealedValue::RegisteredTotpSecret(username("ada")),
        SealedValue::OwnTotpSecret(username("joan")),
        SealedValue::RegisteredTotpSecret(username("nobody")),
    ] {
        for before in [None, Some(Vec::new())] {
            let lost = b"lost".to_vec();
            assert!(!store.reseal(unknown.clone(), before, lost).await.unwrap());
        }
    }
    let store = subject.again(store).await;
    let anew = all.map(|(value, _)| (value, b"anew".to_vec()));
    assert_eq!(sealed_values(&*store).await, anew);
    assert!(store.registry_version().await.unwrap() > version);
    let after = store.credentials(username("ada")).await.unwrap().unwrap();
    assert!(after.version == credentials.version, "nothing ends");
    let second_factor = store.second_factor(username("ada")).await.unwrap().unwrap();
    assert_eq!(second_factor.recovery_codes, [Digest::of(b"a")]);
}

async fn sealed_values(store: &dyn Store) -> Vec<(SealedValue, Vec<u8>)> {
    let (mut walk, mut values) = (SealedValues::default(), Vec::new());
    while let Some(page) = walk.page(store).await.unwrap() {
        values.extend(page);
    }
    values
}
