//! Caps per user.

use super::*;

pub(crate) fn numbered(name: &str, number: usize) -> Digest {
    Digest::of(format!("{name} {number}").as_bytes())
}

/// The numbers of the live sessions with this name.
pub(crate) async fn alive(
    store: &dyn Store,
    name: &str,
    numbers: std::ops::Range<usize>,
) -> Vec<usize> {
    let mut alive = Vec::new();
    for number in numbers {
        let session = store.session(numbered(name, number), at(1)).await.unwrap();
        alive.extend(session.map(|_| number));
    }
    alive
}

pub(crate) async fn a_person_has_so_many_sessions_of_a_stage(subject: &mut impl Subject) {
    const MOST: usize = cap::SESSIONS.most();
    let store = subject.store();
    for number in 0..MOST {
        let expires_at = at(100 + number as u64);
        let signed_in = session("ada", expires_at);
        let owed = Session {
            stage: SessionStage::SecondFactorOwed,
            ..signed_in.clone()
        };
        start(&*store, numbered("signed in", number), signed_in, None).await;
        start(&*store, numbered("owed", number), owed, None).await;
    }
    let graces = Digest::of(b"another person");
    start(&*store, graces, session("grace", at(50)), None).await;
    assert_eq!(alive(&*store, "signed in", 0..MOST).await.len(), MOST);
    // Sessions in use stay.
    let used = numbered("signed in", 0);
    store.extend_session(used, at(500), at(2)).await.unwrap();
    let store = subject.again(store).await;
    let one_more = numbered("signed in", MOST);
    start(&*store, one_more, session("ada", at(600)), None).await;
    let left: Vec<usize> = (0..=MOST).filter(|number| *number != 1).collect();
    assert_eq!(alive(&*store, "signed in", 0..MOST + 1).await, left);
    assert_eq!(alive(&*store, "owed", 0..MOST).await.len(), MOST);
    assert!(store.session(graces, at(1)).await.unwrap().is_some());
    // The replaced session makes room for its successor.
    let successor = numbered("signed in", MOST + 1);
    let signed_in = session("ada", at(700));
    start(&*store, successor, signed_in, Some(one_more)).await;
    let left = alive(&*store, "signed in", 0..MOST + 2).await;
    assert_eq!((left.len(), left[1]), (MOST, 2));
}

pub(crate) async fn sessions_that_owe_the_second_factor_end_first_where_they_came_from(
    subject: &mut impl Subject,
) {
    const MOST: usize = cap::SESSIONS.most();
    let store = subject.store();
    let owners = numbered("owed", 0);
    start(&*store, owners, owed("192.0.2.1", at(0)), None).await;
    for number in 1..MOST * 2 {
        let attacker = owed("198.51.100.1", at(number as u64));
        start(&*store, numbered("owed", number), attacker, None).await;
    }
    let mut left = vec![0];
    left.extend(MOST + 1..MOST * 2);
    assert_eq!(alive(&*store, "owed", 0..MOST * 2).await, left);
    // A password from elsewhere ends what would expire first.
    let elsewhere = owed("203.0.113.1", at(100));
    start(&*store, numbered("elsewhere", 0), elsewhere, None).await;
    assert_eq!(alive(&*store, "owed", 0..MOST * 2).await, left[1..]);
}

pub(crate) async fn sessions_that_start_in_parallel_are_no_more_than_one_person_has(
    subject: &mut impl Subject,
) {
    const MOST: usize = cap::SESSIONS.most();
    version_of(&*subject.store(), &username("ada")).await;
    let started = in_parallel(subject, MOST * 2, |store, number| async move {
        let id = numbered("session", number);
        start(&*store, id, session("ada", at(100)), None).await;
    });
    started.await;
    subject.restart().await;
    let alive = alive(&*subject.store(), "session", 0..MOST * 2).await;
    assert_eq!(alive.len(), MOST);
}

pub(crate) async fn a_person_has_so_many_unused_legacy_codes_for_a_client(
    subject: &mut impl Subject,
) {
    const MOST: usize = cap::CODES.most();
    let until = |seconds: usize| CodeRecord {
        expires_at: at(seconds as u64),
        ..code()
    };
    let store = subject.store();
    let of_others = [
        CodeRecord {
            client_id: client_id("other"),
            ..until(50)
        },
        CodeRecord {
            username: username("grace"),
            ..until(50)
        },
    ];
    for (name, record) in ["other", "grace's"].into_iter().zip(of_others) {
        issue_legacy(&*store, name, record).await;
    }
    // Used codes do not count.
    issue_legacy(&*store, "used", until(59)).await;
    redeemed_of(redeem_legacy(&*store, "used", fitting(), at(1)).await);
    for number in 0..MOST {
        issue_legacy(&*store, &number.to_string(), until(60 + number)).await;
    }
    let store = subject.again(store).await;
    issue_legacy(&*store, "one more", until(90)).await;
    let store = subject.again(store).await;
    let first = redeem_legacy(&*store, "0", fitting(), at(1)).await;
    assert_eq!(first, Redemption::Unknown);
    let used = redeem_legacy(&*store, "used", fitting(), at(1)).await;
    assert!(matches!(used, Redemption::Replayed(_)), "{used:?}");
    for name in ["1", "one more", "grace's", "other"] {
        let presented = PresentedCode {
            client_id: client_id(if name == "other" { "other" } else { "web" }),
            ..fitting()
        };
        redeemed_of(redeem_legacy(&*store, name, presented, at(1)).await);
    }
    // Two codes were redeemed and the sweep removed the others, so there is room.
    sweep(&*store, at(200)).await;
    for number in 0..MOST {
        issue_legacy(&*store, &format!("late {number}"), until(300 + number)).await;
    }
    redeemed_of(redeem_legacy(&*store, "late 0", fitting(), at(201)).await);
}

pub(crate) async fn legacy_codes_issued_in_parallel_are_no_more_than_one_person_has(
    subject: &mut impl Subject,
) {
    const MOST: usize = cap::CODES.most();
    version_of(&*subject.store(), &username("ada")).await;
    let issued = in_parallel(subject, MOST * 2, |store, number| async move {
        issue_legacy(&*store, &number.to_string(), code()).await;
    });
    issued.await;
    let store = subject.restarted().await;
    let mut redeemed = 0;
    for number in 0..MOST * 2 {
        let outcome = redeem_legacy(&*store, &number.to_string(), fitting(), at(1)).await;
        redeemed += usize::from(matches!(outcome, Redemption::Redeemed { .. }));
    }
    assert_eq!(redeemed, MOST);
}

/// The grants of ada for the client that are not revoked.
pub(crate) async fn live_grants(store: &dyn Store) -> Vec<GrantId> {
    let filter = GrantFilter {
        client_id: Some(client_id("web")),
        username: Some(username("ada")),
    };
    let grants = store.grants(filter, None, 1000).await.unwrap();
    let live = grants.iter().filter(|grant| grant.revoked_at.is_none());
    live.map(|grant| grant.grant_id).collect()
}

/// A grant of ada for the client, created at `now`.
pub(crate) async fn grant_made(store: &dyn Store, now: Timestamp) -> Grant {
    let record = CodeRecord {
        expires_at: now + Duration::from_secs(60),
        ..code()
    };
    let code = self_contained(store, record).await;
    *redeemed_of(redeem(store, &code, fitting(), now).await).0
}

pub(crate) async fn a_person_has_so_many_live_grants_for_a_client(subject: &mut impl Subject) {
    const MOST: usize = cap::GRANTS.most();
    let store = subject.store();
    let of_others = [code_of("other", "ada"), code_of("web", "grace")];
    let mut untouched = Vec::new();
    for record in of_others {
        untouched.push(grant_of(&*store, record).await);
    }
    let mut made = Vec::new();
    for number in 0..MOST as u64 {
        made.push(grant_made(&*store, at(number)).await);
    }
    // Grants in use stay, and revoked grants do not count.
    let used = use_of(&made[0], made[0].current.refresh_id, at(500));
    rotated_of(refresh(&*store, used).await);
    revoke(&*store, &made[50], at(500)).await;
    let store = subject.again(store).await;
    grant_made(&*store, at(501)).await;
    assert_eq!(live_grants(&*store).await.len(), MOST);
    let last = grant_made(&*store, at(502)).await;
    let live = live_grants(&*store).await;
    assert_eq!(live.len(), MOST);
    assert!(!live.contains(&made[1].grant_id), "it would expire first");
    for stays in [&made[0], &made[2], &last] {
        assert!(live.contains(&stays.grant_id));
    }
    for grant in &untouched {
        assert!(!is_revoked(&*store, grant).await);
    }
    let ended = [made[50].grant_id, made[1].grant_id].map(Revoked::Grant);
    assert_eq!(feed(&*store).await, ended);
    let entries = entries_since(&*store, 1, 10).await;
    let extent = (entries[0].at, entries[0].expires_at);
    assert_eq!(extent, (at(502), at(502) + ACCESS));
    let store = subject.again(store).await;
    let late = use_of(&made[1], made[1].current.refresh_id, at(503));
    let refused = refresh(&*store, late).await;
    assert_eq!(refused, Rotation::Refused(RotationRefusal::Revoked));
    // Using a refresh token twice revokes its grant too, which makes room.
    let reused = use_of(&made[0], made[0].current.refresh_id, at(600));
    let reused = refresh(&*store, reused).await;
    assert_eq!(reused, Rotation::Reused(made[0].grant_id));
    grant_made(&*store, at(601)).await;
    assert_eq!(feed(&*store).await.len(), 3);
    // So does a grant that is over.
    sweep(&*store, at(0) + WEEK + WEEK).await;
    for number in 0..MOST as u64 {
        grant_made(&*store, at(number) + WEEK + WEEK).await;
    }
    assert_eq!(live_grants(&*store).await.len(), MOST);
}

pub(crate) async fn grants_made_in_parallel_are_no_more_than_one_person_has(
    subject: &mut impl Subject,
) {
    const MOST: usize = cap::GRANTS.most();
    const MORE: usize = 12;
    let store = subject.store();
    for _ in 0..MOST - 2 {
        grant_made(&*store, at(1)).await;
    }
    let mut codes = Vec::new();
    for _ in 0..MORE {
        codes.push(self_contained(&*store, code()).await);
    }
    drop(store);
    subject.restart().await;
    let mut tasks = JoinSet::new();
    for code in codes {
        let store = subject.store();
        tasks.spawn(async move { redeem(&*store, &code, fitting(), at(2)).await });
    }
    for redeemed in tasks.join_all().await {
        redeemed_of(redeemed);
    }
    let store = subject.restarted().await;
    assert_eq!(live_grants(&*store).await.len(), MOST);
    assert_eq!(feed(&*store).await.len(), MORE - 2);
}
