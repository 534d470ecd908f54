//! The audit log.

use super::*;

const SIGN_INS: AuditKind = AuditKind::SignIn;

pub(crate) fn audit_event(number: u64) -> AuditEvent {
    AuditEvent {
        at: at(number),
        action: AuditAction::SignIn,
        actor: Some("ada".into()),
        client_id: None,
        username: Some("ada".into()),
        grant_id: None,
        detail: Some(number.to_string()),
        address: Some("192.0.2.1".into()),
        request_id: None,
        expires_at: at(number + 100),
    }
}

pub(crate) async fn a_change_of_the_registry_has_its_entries(subject: &mut impl Subject) {
    let change = |name: &str, number| RegistryChange {
        planned_on: Some(0),
        audit: [audit_event(number)].into(),
        ..put(vec![client(name)], vec![])
    };
    let store = subject.store();
    let made = store.change_registry(change("one", 1), at(0));
    assert_eq!(made.await, Ok(RegistryOutcome::Changed));
    let overtaken = store.change_registry(change("one", 2), at(0));
    assert_eq!(overtaken.await, Ok(RegistryOutcome::Overtaken));
    let store = subject.again(store).await;
    let all = store.audit(AuditRange::After(0), 100);
    let events = all.await.unwrap().into_iter().map(|record| record.event);
    assert_eq!(events.collect::<Vec<_>>(), [audit_event(1)]);
}

/// Each change twice: the second time, there is nothing to change.
pub(crate) async fn changes_outside_the_registry_have_their_entries(subject: &mut impl Subject) {
    let entry = |number| Arc::from([audit_event(number)]);
    let store = subject.store();
    let grant = grant_of(&*store, code()).await;
    let ada = || username("ada");
    let key = signing_key("one", Algorithm::EdDsa, at(1));
    let extent = Extent::of(at(5), ACCESS);
    for first in [true, false] {
        let revoked = store.revoke_grant(grant.grant_id, entry(1), at(5)).await;
        assert_eq!(revoked, Ok(first));
        let client = Revoked::Client(client_id("web"));
        assert_eq!(store.announce(client, extent, entry(2)).await, Ok(first));
        let after = Some(at(0));
        let added = store.add_signing_key(key.clone(), after, entry(3)).await;
        assert_eq!(added, Ok(first));
    }
    for first in [true, false] {
        let forgotten = store.forget_signing_key("one".into(), entry(4)).await;
        assert_eq!(forgotten, Ok(first));
    }
    let version = version_of(&*store, &ada()).await;
    for first in [true, false] {
        let factor = Some(second_factor(&["a"]));
        let set = store.set_second_factor(ada(), factor, Some(version), None, entry(5), at(6));
        assert_eq!(set.await.unwrap().is_some(), first);
    }
    let feed = FeedId::generate(&OsRandom).unwrap();
    store.renew_feed(feed, entry(6)).await.unwrap();
    let store = subject.again(store).await;
    let all = store.audit(AuditRange::After(0), 100).await.unwrap();
    let times: Vec<Timestamp> = all.into_iter().map(|record| record.event.at).collect();
    assert_eq!(times, (1..=6).map(at).collect::<Vec<_>>());
}

pub(crate) async fn the_audit_log_is_appended_listed_and_swept(subject: &mut impl Subject) {
    let events = |numbers: std::ops::Range<u64>| numbers.map(audit_event).collect::<Vec<_>>();
    subject
        .store()
        .append_audit(events(0..3).into())
        .await
        .unwrap();
    subject.restart().await;
    subject
        .store()
        .append_audit(events(3..5).into())
        .await
        .unwrap();
    let store = subject.store();
    let numbers = async |range, limit| {
        let records = store.audit(range, limit).await.unwrap();
        records
            .into_iter()
            .map(|record| (record.sequence, record.event.at))
            .collect::<Vec<_>>()
    };
    let all = numbers(AuditRange::After(0), 100).await;
    assert_eq!(
        all.iter().map(|(_, at)| *at).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4].map(at)
    );
    assert!(all.is_sorted_by(|one, other| one.0 < other.0));
    let mut newest_first = all.clone();
    newest_first.reverse();
    assert_eq!(numbers(AuditRange::Before(None), 100).await, newest_first);
    assert_eq!(
        numbers(AuditRange::Before(None), 2).await,
        newest_first[..2]
    );
    let second = newest_first[1].0;
    assert_eq!(
        numbers(AuditRange::Before(Some(second)), 2).await,
        newest_first[2..4]
    );
    assert_eq!(numbers(AuditRange::After(all[1].0), 2).await, all[2..4]);
    let forgotten = store.forget_audit(SIGN_INS, 5, 100).await.unwrap();
    assert_eq!(forgotten, Swept::default());
    sweep(&*store, at(102)).await;
    assert_eq!(
        numbers(AuditRange::After(0), 100).await,
        all[2..],
        "kept up to its last second"
    );
    let one = Swept {
        removed: 1,
        more: true,
    };
    assert_eq!(store.forget_audit(SIGN_INS, 2, 1).await.unwrap(), one);
    assert_eq!(numbers(AuditRange::After(0), 100).await, all[3..]);
    sweep(&*store, at(500)).await;
    store.append_audit(events(5..6).into()).await.unwrap();
    let rest = numbers(AuditRange::After(0), 100).await;
    assert_eq!(rest.len(), 1);
    assert!(all[4].0 < rest[0].0, "a sequence is never used again");

    // Many entries at once.
    store.append_audit(events(6..206).into()).await.unwrap();
    let all = numbers(AuditRange::After(0), 1000).await;
    assert_eq!(all.len(), 201);
    assert_eq!(store.counts().await.unwrap().audit_entries, 201);
    for start in [0, 1, 64, 65, 100, 199] {
        let after = AuditRange::After(all[start].0);
        assert_eq!(
            numbers(after, 2).await,
            all[start + 1..(start + 3).min(201)]
        );
        let mut before = all[start.saturating_sub(2)..start].to_vec();
        before.reverse();
        assert_eq!(
            numbers(AuditRange::Before(Some(all[start].0)), 2).await,
            before
        );
    }
    let swept = store.forget_audit(SIGN_INS, 101, 70).await.unwrap();
    assert_eq!(swept.removed, 70);
    let swept = store.forget_audit(SIGN_INS, 101, 70).await.unwrap();
    assert_eq!((swept.removed, swept.more), (30, false));
    assert_eq!(numbers(AuditRange::After(0), 1000).await, all[100..]);
    assert_eq!(store.counts().await.unwrap().audit_entries, 101);
}

pub(crate) async fn each_kind_of_audit_entry_has_a_bound_of_its_own(subject: &mut impl Subject) {
    const ENTRIES: u64 = 300;
    let action = |number| match number % 10 {
        0 => AuditAction::ClientUpdated,
        1 => AuditAction::SignInRefused,
        _ => AuditAction::TokensIssued,
    };
    let events = |numbers: std::ops::Range<u64>| -> Vec<AuditEvent> {
        let event = |number| AuditEvent {
            action: action(number),
            ..audit_event(number)
        };
        numbers.map(event).collect()
    };
    let half = ENTRIES / 2;
    for numbers in [0..half, half..ENTRIES] {
        let store = subject.store();
        store.append_audit(events(numbers).into()).await.unwrap();
        drop(store);
        subject.restart().await;
    }
    let store = subject.store();
    let all = store.audit(AuditRange::After(0), 1000).await.unwrap();
    let listed: Vec<AuditEvent> = all.iter().map(|record| record.event.clone()).collect();
    assert_eq!(listed, events(0..ENTRIES), "in the order of their arrival");
    for start in [0, 63, 64, 149, 150, 290] {
        let sequence = all[start].sequence;
        let after = store.audit(AuditRange::After(sequence), 7).await.unwrap();
        assert_eq!(after, all[start + 1..start + 8]);
        let range = AuditRange::Before(Some(sequence));
        let mut before = store.audit(range, 7).await.unwrap();
        before.reverse();
        assert_eq!(before, all[start.saturating_sub(7)..start]);
    }

    let forgotten = store.forget_audit(AuditKind::Token, 20, 1000).await;
    assert_eq!(forgotten.unwrap().removed, 220);
    let forgotten = store.forget_audit(AuditKind::Operation, 30, 1000).await;
    assert_eq!(forgotten.unwrap().removed, 0);
    store.append_audit(events(0..3).into()).await.unwrap();
    let forgotten = store.forget_audit(AuditKind::Operation, 30, 1000).await;
    assert_eq!(forgotten.unwrap().removed, 1);
    let store = subject.again(store).await;
    let left = store.audit(AuditRange::After(0), 1000).await.unwrap();
    let kept = |kind| {
        let of_kind = left.iter().filter(|one| one.event.action.kind() == kind);
        let times: Vec<Timestamp> = of_kind.map(|one| one.event.at).collect();
        (times.len(), times[0])
    };
    assert_eq!(kept(AuditKind::Operation), (30, at(10)));
    assert_eq!(kept(AuditKind::Refusal), (31, at(1)));
    assert_eq!(kept(AuditKind::Token), (21, at(276)));
    assert_eq!(store.counts().await.unwrap().audit_entries, 82);
    assert!(left.is_sorted_by(|one, other| one.sequence < other.sequence));
}
