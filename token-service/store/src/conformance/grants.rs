//! Grants.

use super::*;

pub(crate) async fn revoking_a_grant(subject: &mut impl Subject) {
    let grant = grant_of(&*subject.store(), code()).await;
    let id = grant.grant_id;
    revoke(&*subject.store(), &grant, at(5)).await;
    let store = subject.restarted().await;
    assert!(!store.revoke_grant(id, Arc::default(), at(6)).await.unwrap());
    assert_eq!(feed(&*store).await, [Revoked::Grant(id)]);
    let never = GrantId::generate(&OsRandom, at(0)).unwrap();
    assert!(
        !store
            .revoke_grant(never, Arc::default(), at(6))
            .await
            .unwrap()
    );
}

pub(crate) async fn grants_are_listed_by_client_and_user_and_paged(subject: &mut impl Subject) {
    let mut ids = Vec::new();
    for number in 0..6_u32 {
        let record = code_of("web", if number % 2 == 0 { "ada" } else { "grace" });
        ids.push(grant_of(&*subject.store(), record).await.grant_id);
    }
    ids.sort();
    let store = subject.restarted().await;
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
