use super::*;

const POLICY: Policy = Policy {
    algorithm: Algorithm::EdDsa,
    legacy: false,
    rotate_every: Duration::from_secs(1000),
    announce_for: Duration::from_secs(100),
    longest_token: Duration::from_secs(500),
};

const fn at(seconds: u64) -> Timestamp {
    Timestamp::from_seconds(1_800_000_000 + seconds)
}

fn key(kid: &str, algorithm: Algorithm, created_at: u64, signs_from: u64) -> SealedSigningKey {
    SealedSigningKey {
        kid: kid.into(),
        algorithm,
        sealed_pkcs8: vec![],
        created_at: at(created_at),
        signs_from: at(signs_from),
        number: 0,
        retired_at: None,
    }
}

/// Carries out steps like the store, with the names `k0`, `k1`, ... for new keys.
fn carry_out(keys: &mut Vec<SealedSigningKey>, steps: Vec<Step>, now: Timestamp) {
    for step in steps {
        match step {
            Step::Add {
                algorithm,
                signs_from,
                number,
                ..
            } => keys.push(SealedSigningKey {
                created_at: now,
                signs_from,
                number,
                ..key(&format!("k{}", now.seconds()), algorithm, 0, 0)
            }),
            Step::Retire { kid } => set_retired(keys, &kid, Some(now)),
            Step::Resume { kid } => set_retired(keys, &kid, None),
            Step::Forget { kid } => keys.retain(|key| key.kid != kid),
        }
    }
}

fn set_retired(keys: &mut [SealedSigningKey], kid: &str, at: Option<Timestamp>) {
    let key = keys.iter_mut().find(|key| key.kid == kid).unwrap();
    key.retired_at = at;
}

#[test]
fn the_first_key_signs_at_once() {
    let steps = due(&[], &POLICY, at(0));
    let first = Step::Add {
        algorithm: Algorithm::EdDsa,
        signs_from: at(0),
        number: 0,
        unless_after: None,
    };
    assert_eq!(steps, [first]);
}

#[test]
fn a_successor_is_announced_in_time_and_takes_over_at_the_second() {
    let mut keys = vec![key("old", Algorithm::EdDsa, 0, 0)];
    assert_eq!(due(&keys, &POLICY, at(899)), []);
    let steps = due(&keys, &POLICY, at(900));
    let successor = Step::Add {
        algorithm: Algorithm::EdDsa,
        signs_from: at(1000),
        number: 1,
        unless_after: Some(at(0)),
    };
    assert_eq!(steps, [successor]);
    carry_out(&mut keys, steps, at(900));
    use KeyState::{Announced, Retired, Signing};
    let new = format!("k{}", at(900));
    for (now, signer, states) in [
        (at(999), "old", [Signing, Announced]),
        (at(1000), &new, [Retired, Signing]),
    ] {
        let signers = Signers::at(&keys, &POLICY, now);
        assert_eq!(signers.current.unwrap().kid, signer);
        let found: Vec<_> = keys.iter().map(|key| signers.state(key, now)).collect();
        assert_eq!(found, states);
    }
}

#[test]
fn a_retired_key_is_forgotten_when_its_last_token_has_expired() {
    let mut keys = vec![
        key("old", Algorithm::EdDsa, 0, 0),
        key("new", Algorithm::EdDsa, 900, 1000),
    ];
    let steps = due(&keys, &POLICY, at(1000));
    assert_eq!(steps, [Step::Retire { kid: "old".into() }]);
    carry_out(&mut keys, steps, at(1000));
    assert_eq!(due(&keys, &POLICY, at(1499)), []);
    assert_eq!(
        due(&keys, &POLICY, at(1500)),
        [Step::Forget { kid: "old".into() }]
    );
}

#[test]
fn another_algorithm_is_a_rotation() {
    let policy = Policy {
        algorithm: Algorithm::Es256,
        ..POLICY
    };
    let mut keys = vec![key("ed", Algorithm::EdDsa, 0, 0)];
    let steps = due(&keys, &policy, at(10));
    carry_out(&mut keys, steps, at(10));
    let signer = |now| Signers::at(&keys, &policy, now).current.unwrap().algorithm;
    assert_eq!(signer(at(109)), Algorithm::EdDsa);
    assert_eq!(signer(at(110)), Algorithm::Es256);
    assert_eq!(
        due(&keys, &policy, at(110)),
        [Step::Retire { kid: "ed".into() }]
    );
}

#[test]
fn changing_the_algorithm_back_resumes_the_old_key() {
    let mut keys = vec![
        key("ed", Algorithm::EdDsa, 0, 0),
        key("es", Algorithm::Es256, 10, 20),
    ];
    set_retired(&mut keys, "ed", Some(at(20)));
    let steps = due(&keys, &POLICY, at(30));
    assert_eq!(
        steps,
        [
            Step::Resume { kid: "ed".into() },
            Step::Retire { kid: "es".into() }
        ]
    );
}

#[test]
fn the_legacy_flow_has_an_ed25519_key_of_its_own() {
    let policy = Policy {
        algorithm: Algorithm::Rs256,
        legacy: true,
        ..POLICY
    };
    let mut keys = vec![key("rs", Algorithm::Rs256, 0, 0)];
    let steps = due(&keys, &policy, at(10));
    carry_out(&mut keys, steps, at(10));
    let signers = Signers::at(&keys, &policy, at(10));
    assert_eq!(signers.current.unwrap().kid, "rs");
    assert_eq!(signers.legacy.unwrap().algorithm, Algorithm::EdDsa);
    assert_eq!(
        due(&keys, &policy, at(10)),
        [],
        "both sign: none is retired"
    );
}

#[test]
fn on_demand_the_next_key_is_announced_or_signs_at_once() {
    let keys = [key("one", Algorithm::EdDsa, 0, 0)];
    let starts = |announced, now| match on_demand(&keys, &POLICY, announced, now).as_slice() {
        [Step::Add { signs_from, .. }] => *signs_from,
        other => panic!("{other:?}"),
    };
    assert_eq!(starts(true, at(50)), at(150));
    assert_eq!(starts(false, at(50)), at(50));
}

#[test]
fn the_key_of_an_immediate_rotation_signs_in_the_second_of_the_key_before() {
    // The names of keys are random: here each new key has a smaller name.
    let mut keys = vec![key("z", Algorithm::EdDsa, 0, 0)];
    for name in ["y", "x"] {
        let steps = on_demand(&keys, &POLICY, false, at(0));
        carry_out(&mut keys, steps, at(0));
        keys.last_mut().unwrap().kid = name.into();
        assert_eq!(
            Signers::at(&keys, &POLICY, at(0)).current.unwrap().kid,
            name
        );
        let steps = due(&keys, &POLICY, at(0));
        carry_out(&mut keys, steps, at(0));
    }
    let retired: Vec<bool> = keys.iter().map(|key| key.retired_at.is_some()).collect();
    assert_eq!(retired, [true, true, false]);
}

#[test]
fn an_emergency_does_not_wait_for_an_announced_key() {
    let keys = [
        key("stolen", Algorithm::EdDsa, 0, 0),
        key("announced", Algorithm::EdDsa, 40, 140),
    ];
    let steps = on_demand(&keys, &POLICY, false, at(50));
    assert_eq!(
        steps,
        [Step::Add {
            algorithm: Algorithm::EdDsa,
            signs_from: at(50),
            number: 1,
            unless_after: Some(at(40)),
        }]
    );
}

/// The clock goes back after the first start, or that of another replica is behind.
#[test]
fn the_first_key_signs_also_before_its_time() {
    let policy = Policy {
        legacy: true,
        ..POLICY
    };
    let keys = [
        key("first", Algorithm::EdDsa, 600, 600),
        key("next", Algorithm::EdDsa, 600, 700),
    ];
    let signers = Signers::at(&keys, &policy, at(0));
    for signer in [signers.current, signers.legacy] {
        assert_eq!(signer.map(|key| &*key.kid), Some("first"));
    }
    assert_eq!(due(&keys, &policy, at(0)), []);
}
