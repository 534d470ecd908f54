//! When client secrets were added and last used.

use super::*;

pub(crate) async fn client_secrets_have_times(subject: &mut impl Subject) {
    let change = async |store: Arc<dyn Store>, change: RegistryChange, now| {
        store.change_registry(change, now).await.unwrap();
    };
    let clients = |secrets: &[&str]| put(vec![web_server("web", secrets, &[])], vec![]);
    let times = async |store: Arc<dyn Store>| {
        let client_ids = vec![client_id("web"), client_id("nobody")];
        let mut times: Vec<_> = store.secret_times(client_ids).await.unwrap();
        times.sort_by_key(|times| times.added_at);
        let known = |times: SecretTimes| (times.secret, times.added_at, times.last_used_at);
        times.into_iter().map(known).collect::<Vec<_>>()
    };
    let use_of = |id: &str, secret: &str, now| SecretUse {
        client_id: client_id(id),
        secret: ClientSecret::of(secret),
        at: now,
    };
    change(subject.store(), clients(&["one"]), at(0)).await;
    let other = put(vec![web_server("other", &["one"], &[])], vec![]);
    change(subject.store(), other, at(1)).await;
    change(subject.store(), clients(&["one", "two"]), at(2)).await;
    subject.restart().await;
    let (one, two) = (ClientSecret::of("one"), ClientSecret::of("two"));
    let mut expected = vec![(one, at(0), None), (two, at(2), None)];
    assert_eq!(times(subject.store()).await, expected);

    let uses = vec![
        use_of("web", "one", at(9)),
        use_of("web", "three", at(9)),
        use_of("nobody", "one", at(9)),
    ];
    subject.store().note_secret_uses(uses).await.unwrap();
    // Another replica writes an earlier use later.
    let earlier = vec![use_of("web", "one", at(8))];
    subject.store().note_secret_uses(earlier).await.unwrap();
    expected[0].2 = Some(at(9));
    subject.restart().await;
    assert_eq!(times(subject.store()).await, expected);

    change(subject.store(), clients(&["two"]), at(10)).await;
    let late = vec![use_of("web", "one", at(11))];
    subject.store().note_secret_uses(late).await.unwrap();
    assert_eq!(times(subject.store()).await, expected[1..]);
    change(subject.store(), clients(&["one"]), at(12)).await;
    let again = (ClientSecret::of("one"), at(12), None);
    assert_eq!(times(subject.store()).await, [again]);
    let removed = remove(&["web"], &[]);
    change(subject.store(), removed, at(13)).await;
    assert_eq!(times(subject.store()).await, []);
}
