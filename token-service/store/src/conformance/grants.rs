//! Grants.

use super::*;

pub(crate) async fn revoking_a_grant(subject: &mut impl Subject) {
    let grant = grant_of(&*subject.store(), code()).await;
    let id = grant.grant_id;
    revoke(&*subject.store(), &grant, at(5)).await;
    let store = subject.restarted().await;
    let never = GrantId::generate(&OsRandom, at(0)).unwrap();
    for id in [id, never] {
        let revoked = store.revoke_grant(id, [audit_event(6)].into(), at(6));
        assert_eq!(revoked.await, Ok(false));
    }
    assert_eq!(feed(&*store).await, [Revoked::Grant(id)]);
    let audit = store.audit(AuditRange::Before(None), 1).await;
    assert_eq!(audit, Ok(Vec::new()));
}

pub(crate) async fn live_grants_are_sorted_by_client_and_paged(subject: &mut impl Subject) {
    let store = subject.store();
    let mut ended = Vec::new();
    for client in ["b", "a", "c", "d"] {
        for name in ["ada", "grace", "ada"] {
            ended.push(grant_of(&*store, code_of(client, name)).await);
        }
    }
    // The first of each client but c, all of d.
    ended.retain(|grant| grant.username.as_str() == "ada");
    ended.retain(|grant| grant.client_id.as_str() != "c");
    let is_first = |number: usize| number.is_multiple_of(2) || number > 3;
    for (number, grant) in ended.iter().enumerate() {
        if is_first(number) {
            revoke(&*store, grant, at(1)).await;
        }
    }
    let store = subject.again(store).await;
    let list = async |from: Option<&str>, limit| {
        let from = from.map(client_id);
        let grants = store.live_grants(username("ada"), from, limit).await;
        let grants = grants.unwrap().into_iter().inspect(|grant| {
            assert_eq!((grant.username.as_str(), grant.revoked_at), ("ada", None));
        });
        let clients: Vec<String> = grants.map(|grant| grant.client_id.to_string()).collect();
        clients.concat()
    };
    assert_eq!(list(None, 9).await, "abcc");
    assert_eq!(list(None, 3).await, "abc");
    assert_eq!(list(Some("b"), 9).await, "bcc");
    assert_eq!(list(Some("d"), 9).await, "");
    assert_eq!(list(Some("aa"), 1).await, "b");
}

pub(crate) async fn grants_are_listed_by_client_and_user_and_paged(subject: &mut impl Subject) {
    let mut ids = Vec::new();
    for number in 0..6_u32 {
        let record = code_of("web", if number % 2 == 0 { "ada" } else { "grace" });
        ids.push(grant_of(&*subject.store(), record).await.grant_id);
    }
    ids.sort();
    let store = subject.restarted().await;
    // Is listed all the same.
    let revoked = store.revoke_grant(ids[0], Arc::default(), at(1)).await;
    assert_eq!(revoked, Ok(true));
    let list = async |client: Option<&str>, user: Option<&str>, after, limit| {
        let filter = GrantFilter {
            client_id: client.map(client_id),
            username: user.map(username),
        };
        let grants = store.grants(filter, after, limit).await.unwrap();
        grants
            .into_iter()
            .map(|grant| (grant.grant_id, grant.username.to_string()))
            .collect::<Vec<_>>()
    };
    let id = |(id, _): &(GrantId, String)| *id;
    let all = list(None, None, None, 100).await;
    assert_eq!(all.iter().map(id).collect::<Vec<_>>(), ids);
    let adas = list(None, Some("ada"), None, 100).await;
    assert_eq!(adas.len(), 3);
    assert!(adas.iter().all(|(_, username)| username == "ada"));
    assert_eq!(list(Some("web"), Some("ada"), None, 100).await, adas);
    assert_eq!(list(Some("other"), Some("ada"), None, 100).await, []);
    assert_eq!(list(Some("web"), None, None, 100).await, all);
    for (client, user, whole) in [
        (None, None, &all),
        (Some("web"), None, &all),
        (None, Some("ada"), &adas),
    ] {
        let mut paged = Vec::new();
        loop {
            let page = list(client, user, paged.last().map(id), 2).await;
            if page.is_empty() {
                break;
            }
            assert!(page.len() <= 2);
            paged.extend(page);
        }
        assert_eq!(&paged, whole);
    }
}
