//! Messages about changes that the service owes to people.

use std::cell::Cell;

use super::*;
use domain::{ClaimedNotice, Notice};

pub(crate) fn notice(name: &str, number: u64) -> Notice {
    Notice {
        username: username(name),
        email: format!("{name}@example.com"),
        subject: format!("Change {number}"),
        text: "Hello,\n".into(),
        at: at(number),
    }
}

/// What one claim at `now` finds, for 60 seconds: people, changes and attempts.
async fn claim(store: &dyn Store, now: u64, limit: usize) -> Vec<ClaimedNotice> {
    let claimed = patiently(|| store.claim_notices(at(now), at(now + 60), limit));
    let mut claimed = claimed.await.unwrap();
    claimed.sort_by_key(|one| one.notice.username.clone());
    claimed
}

fn owed(name: &str, number: u64, attempt: u64, until: u64) -> ClaimedNotice {
    ClaimedNotice {
        notice: notice(name, number),
        attempt,
        until: at(until),
    }
}

async fn settle(
    store: &dyn Store,
    claimed: &ClaimedNotice,
    again_at: Option<u64>,
    now: u64,
) -> bool {
    let entry = match again_at {
        Some(_) => Arc::default(),
        None => [audit_event(now)].into(),
    };
    let settled = store.settle_notice(claimed.clone(), again_at.map(at), entry, at(now));
    settled.await.unwrap()
}

async fn counted(store: &dyn Store) -> (u64, Option<Timestamp>) {
    let counts = store.counts().await.unwrap();
    (counts.owed_notices, counts.owed_since)
}

/// Every way to change something writes the change and its notice together. The replica that sends the notice may die.
pub(crate) async fn a_change_owes_a_notice_until_it_is_sent(subject: &mut impl Subject) {
    let told = |change: RegistryChange, notice: Notice| RegistryChange {
        notices: vec![notice],
        ..change
    };
    let store = subject.store();
    let people = || put(vec![], vec![user("ada"), user("grace")]);
    assert_eq!(claim(&*store, 1, 9).await, []);
    apply(&*store, told(people(), notice("grace", 1)), 1).await;
    // Nothing changed: nothing is owed.
    let overtaken = RegistryChange {
        credentials: vec![(username("ada"), CredentialsVersion::new(99))],
        ..told(people(), notice("ada", 1))
    };
    let outcome = store.change_registry(overtaken, at(1)).await;
    assert_eq!(outcome, Ok(RegistryOutcome::Overtaken));
    for (rests_on, changes) in [(Some(CredentialsVersion::new(99)), false), (None, true)] {
        let (factor, told) = (Some(second_factor(&["a"])), Some(notice("ada", 2)));
        let set = store.set_second_factor(
            username("ada"),
            factor,
            rests_on,
            told,
            Arc::default(),
            at(2),
        );
        assert_eq!(set.await.unwrap().is_some(), changes);
    }
    let without = RegistryChange {
        remove_users: vec![username("ada")],
        ..RegistryChange::default()
    };
    apply(&*store, without, 2).await;

    let store = subject.again(store).await;
    assert_eq!(counted(&*store).await, (2, Some(at(1))));
    assert_eq!(claim(&*store, 0, 9).await, [], "not yet");
    let [ada, grace] = [owed("ada", 2, 1, 62), owed("grace", 1, 1, 62)];
    assert_eq!(claim(&*store, 2, 9).await, [ada, grace.clone()]);
    apply(&*store, told(people(), notice("grace", 3)), 3).await;
    let store = subject.again(store).await;
    assert_eq!(claim(&*store, 61, 9).await, [], "claimed");
    let first = claim(&*store, 62, 1).await;
    let second = claim(&*store, 62, 1).await;
    let mut names = [first, second].concat();
    names.sort_by_key(|one| one.notice.username.clone());
    let [ada, again] = [owed("ada", 2, 2, 122), owed("grace", 1, 2, 122)];
    assert_eq!(names, [ada.clone(), again.clone()]);

    // The former claim is over.
    assert!(!settle(&*store, &grace, None, 63).await);
    assert!(settle(&*store, &ada, Some(90), 63).await);
    assert!(settle(&*store, &again, None, 64).await);
    assert!(!settle(&*store, &again, None, 64).await);
    let store = subject.again(store).await;
    assert_eq!(counted(&*store).await, (2, Some(at(2))));
    let next = owed("grace", 3, 1, 124);
    assert_eq!(claim(&*store, 64, 9).await, std::slice::from_ref(&next));
    let late = owed("ada", 2, 3, 150);
    assert_eq!(claim(&*store, 90, 9).await, std::slice::from_ref(&late));
    for claimed in [next, late] {
        assert!(settle(&*store, &claimed, None, 91).await);
    }
    let store = subject.again(store).await;
    assert_eq!(counted(&*store).await, (0, None));
    assert_eq!(claim(&*store, 9999, 9).await, []);
    let entries = store.audit(AuditRange::After(0), 100).await.unwrap();
    let times = entries.into_iter().map(|entry| entry.event.at);
    assert_eq!(times.collect::<Vec<_>>(), [at(64), at(91), at(91)]);
}

/// Whatever is sent meanwhile: the transactions of changes wait for each other, and lose nothing.
pub(crate) async fn no_notice_is_lost_while_others_are_sent(subject: &mut impl Subject) {
    const CHANGES: u64 = 12;
    let told = |number| RegistryChange {
        notices: vec![notice("ada", number)],
        ..put(vec![], vec![user("ada")])
    };
    apply(&*subject.store(), told(0), 1).await;
    let store = subject.store();
    let is_over = Cell::new(false);
    let sending = async {
        let mut sent = Vec::new();
        while !is_over.get() || counted(&*store).await.0 > 0 {
            for claimed in claim(&*store, 1, 9).await {
                assert!(settle(&*store, &claimed, None, 1).await);
                sent.push(claimed.notice.at);
            }
            tokio::task::yield_now().await;
        }
        sent
    };
    let changing = async {
        for number in 1..=CHANGES {
            apply(&*store, told(number), 1).await;
        }
        is_over.set(true);
    };
    let (sent, ()) = futures_util::future::join(sending, changing).await;
    assert_eq!(sent, (0..=CHANGES).map(at).collect::<Vec<_>>());
    assert_eq!(counted(&*store).await, (0, None));
}

/// An address that takes no messages holds back none to its successor.
pub(crate) async fn the_present_address_does_not_wait_for_an_earlier_one(
    subject: &mut impl Subject,
) {
    let told = |notice| RegistryChange {
        notices: vec![notice],
        ..put(vec![], vec![user("ada")])
    };
    let store = subject.store();
    apply(&*store, told(notice("ada", 1)), 1).await;
    let former = claim(&*store, 1, 9).await;
    assert!(settle(&*store, &former[0], Some(900), 2).await);
    let corrected = Notice {
        email: "ada@new.example".to_owned(),
        ..notice("ada", 3)
    };
    apply(&*store, told(corrected.clone()), 3).await;
    let store = subject.again(store).await;
    assert_eq!(counted(&*store).await, (1, Some(at(1))));
    let found = claim(&*store, 3, 9).await;
    assert_eq!((&found[0].notice, found[0].attempt), (&corrected, 1));
    assert!(settle(&*store, &found[0], None, 4).await);
    assert_eq!(claim(&*store, 4, 9).await, [owed("ada", 1, 1, 64)]);
}

/// A restart during an outage of the mail server is no reason to send twice.
pub(crate) async fn of_parallel_claims_one_has_the_notice(subject: &mut impl Subject) {
    let change = RegistryChange {
        notices: vec![notice("ada", 1)],
        ..put(vec![], vec![user("ada")])
    };
    apply(&*subject.store(), change, 1).await;
    let claims = in_parallel(subject, PARALLEL, |store, _| async move {
        claim(&*store, 1, 9).await
    });
    let found: Vec<ClaimedNotice> = claims.await.into_iter().flatten().collect();
    assert_eq!(found, [owed("ada", 1, 1, 61)]);
}
