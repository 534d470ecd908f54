use claims::Thumbprint;

use super::*;
use crate::{CredentialsVersion, amr, testing};

const GRACE: Duration = Duration::from_secs(10);
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

fn id(number: u8) -> TokenId {
    TokenId::from_bytes([number; 16])
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_seconds(1_000_000 + seconds)
}

fn grant() -> Grant {
    testing::grant("a b", at(0), at(0) + WEEK)
}

fn client() -> Client {
    testing::web_server("web", &[], &[]).with_scopes("a b")
}

fn user() -> User {
    testing::user("ada", &["1"])
}

/// Uses a token of a client and user that have not changed since the sign-in.
fn rotate(grant: &mut Grant, rotation: &RefreshRotation) -> RotationDecision {
    grant.rotate(rotation, Some(&client()), Some(&user()))
}

/// A rotation to the current step, which has the requested scope.
fn rotated(grant: &Grant) -> RotationDecision {
    RotationDecision::Rotate {
        step: grant.current.clone(),
        asked: grant.current.scope.clone(),
    }
}

fn repeats(step: &RefreshStep) -> RotationDecision {
    RotationDecision::Repeat {
        step: step.clone(),
        asked: step.scope.clone(),
    }
}

fn reused() -> RotationDecision {
    RotationDecision::Revoke(Rotation::Reused(grant().grant_id))
}

fn use_of(token: u8, next: u8, now: Timestamp) -> RefreshRotation {
    RefreshRotation {
        grant_id: GrantId::from_bytes([7; 16]),
        refresh_id: id(token),
        client_id: ClientId::parse("web").unwrap(),
        username: None,
        proven: Confirmation::default(),
        scope: None,
        second_factor: Arc::default(),
        next_refresh_id: id(next),
        next_access_id: id(100 + next),
        now,
        lifetime: WEEK,
        grace: GRACE,
    }
}

/// What a use of a token leads to.
#[derive(Clone, Copy)]
enum Leads {
    Rotates,
    /// To the step with this refresh token again.
    Repeats(u8),
    Ends,
    Refused,
}

#[test]
fn a_spent_token_is_repeated_within_its_grace_and_ends_the_grant_after_it() {
    use Leads::*;
    let uses_in_a_row = |count: u8| (1..=count).map(|token| (token, token + 1, 0, Rotates));
    let after = |uses: u8, last| uses_in_a_row(uses).chain([last]).collect::<Vec<_>>();
    for (why, uses) in [
        (
            "an answer was lost, and the grace never restarts",
            vec![
                (1, 2, 5, Rotates),
                (1, 3, 10, Repeats(2)),
                (1, 3, 15, Repeats(2)),
                (1, 3, 16, Ends),
                (2, 3, 16, Refused),
            ],
        ),
        (
            "a retry arrives after its successor was used",
            after(2, (1, 4, 2, Repeats(2))),
        ),
        (
            "a token is long gone",
            vec![(1, 2, 0, Rotates), (2, 3, 100, Rotates), (1, 4, 101, Ends)],
        ),
        (
            "the steps within the grace are bounded",
            after(8, (1, 10, 1, Repeats(2))),
        ),
        ("one more", after(9, (1, 11, 1, Ends))),
    ] {
        let (mut grant, mut steps) = (grant(), Vec::new());
        for (token, next, second, leads) in uses {
            let before = grant.clone();
            let decision = rotate(&mut grant, &use_of(token, next, at(second)));
            let expected = match leads {
                Rotates => {
                    steps.push(grant.current.clone());
                    assert!(grant.spent.len() <= MAX_SPENT_STEPS);
                    rotated(&grant)
                }
                Repeats(number) => {
                    let mut steps = steps.iter();
                    repeats(steps.find(|step| step.refresh_id == id(number)).unwrap())
                }
                Ends => reused(),
                Refused => RotationDecision::Refuse(RotationRefusal::Revoked),
            };
            assert_eq!(decision, expected, "{why}: {token} at {second}");
            match leads {
                Rotates => assert_eq!(grant.current.refresh_id, id(next)),
                Repeats(_) | Refused => assert_eq!(grant, before, "{why}"),
                Ends => assert_eq!(grant.revoked_at, Some(at(second))),
            }
            let is_spent = |step: &SpentStep| at(second).since(step.first_used_at) <= GRACE;
            assert!(!matches!(leads, Rotates) || grant.spent.iter().all(is_spent));
        }
    }
}

/// D-56.
#[test]
fn one_factor_is_not_enough_where_two_are_required() {
    let rules = |everybody| {
        Arc::new(SecondFactorRules {
            everybody,
            ..SecondFactorRules::default()
        })
    };
    let use_of = |token, everybody, second| RefreshRotation {
        second_factor: rules(everybody),
        ..use_of(token, token + 1, at(second))
    };
    let refused = RotationDecision::Refuse(RotationRefusal::SecondFactorMissing);
    let mut grant = grant();
    assert!(matches!(
        rotate(&mut grant, &use_of(1, false, 0)),
        RotationDecision::Rotate { .. }
    ));
    let before = grant.clone();
    // The live token, and the used one within its grace.
    for token in [2, 1] {
        assert_eq!(rotate(&mut grant, &use_of(token, true, 1)), refused);
    }
    assert_eq!(grant, before, "the rule may be a mistake");
    for method in [amr::TOTP, amr::RECOVERY_CODE] {
        let mut grant = before.clone();
        grant.amr = vec![amr::PASSWORD.to_owned(), method.to_owned()];
        let decision = rotate(&mut grant, &use_of(2, true, 1));
        assert!(
            matches!(decision, RotationDecision::Rotate { .. }),
            "{method}"
        );
    }
    // A rule hides no theft.
    assert_eq!(rotate(&mut grant, &use_of(1, true, 1000)), reused());
}

#[test]
fn another_client_changes_nothing() {
    let mut grant = grant();
    let mut stolen = use_of(1, 2, at(0));
    stolen.client_id = ClientId::parse("other").unwrap();
    assert_eq!(
        rotate(&mut grant, &stolen),
        RotationDecision::Refuse(RotationRefusal::OtherClient)
    );
    stolen.refresh_id = id(99);
    assert_eq!(
        rotate(&mut grant, &stolen),
        RotationDecision::Refuse(RotationRefusal::OtherClient)
    );
    assert_eq!(grant.revoked_at, None);
}

#[test]
fn expiry_is_refused_at_its_second() {
    let end = at(0) + WEEK;
    let last = Timestamp::from_seconds(end.seconds() - 1);
    let mut in_time = grant();
    assert_eq!(rotate(&mut in_time, &use_of(1, 2, last)), rotated(&in_time));
    assert_eq!(
        rotate(&mut grant(), &use_of(1, 2, end)),
        RotationDecision::Refuse(RotationRefusal::Expired)
    );
}

#[test]
fn scope_shrinks_for_one_answer_and_never_grows() {
    let mut grant = grant();
    let mut narrow = use_of(1, 2, at(0));
    narrow.scope = Scope::parse("a");
    rotate(&mut grant, &narrow);
    assert_eq!(grant.current.scope, Scope::parse("a").unwrap());
    let mut wide = use_of(2, 3, at(20));
    wide.scope = Scope::parse("a b c");
    assert_eq!(
        rotate(&mut grant, &wide),
        RotationDecision::Refuse(RotationRefusal::ScopeExceeded(Scope::parse("c").unwrap()))
    );
    wide.scope = None;
    assert_eq!(rotate(&mut grant, &wide), rotated(&grant));
    assert_eq!(grant.current.scope, Scope::parse("a b").unwrap());
}

/// D-42.
#[test]
fn a_scope_leaves_the_tokens_of_a_grant_while_the_client_lacks_it() {
    let mut grant = grant();
    let without_b = client().with_scopes("a c");
    let [both, only_a] = ["a b", "a"].map(|text| Scope::parse(text).unwrap());
    let refresh = |grant: &mut Grant, rotation: &RefreshRotation, scope: &Scope| {
        let step = RefreshStep {
            refresh_id: rotation.next_refresh_id,
            access_id: rotation.next_access_id,
            scope: scope.clone(),
            issued_at: rotation.now,
            refresh_expires_at: rotation.now + WEEK,
        };
        let asked = both.clone();
        let client = if *scope == both {
            client()
        } else {
            without_b.clone()
        };
        let decision = grant.rotate(rotation, Some(&client), Some(&user()));
        assert_eq!(decision, RotationDecision::Rotate { step, asked });
    };
    let asking = RefreshRotation {
        scope: Some(both.clone()),
        ..use_of(1, 2, at(0))
    };
    let exceeded = RotationRefusal::ScopeExceeded(Scope::parse("b").unwrap());
    let decision = grant.rotate(&asking, Some(&without_b), Some(&user()));
    assert_eq!(decision, RotationDecision::Refuse(exceeded));
    refresh(&mut grant, &use_of(1, 2, at(0)), &only_a);
    refresh(&mut grant, &use_of(2, 3, at(1)), &only_a);
    assert_eq!(grant.scope, both);
    // The scope returns. A repeat of a use before gets what the client may have now.
    let repeated = rotate(&mut grant, &use_of(2, 9, at(2)));
    assert_eq!(repeated, repeats(&grant.current));
    refresh(&mut grant, &use_of(3, 4, at(3)), &both);
    // Scopes that the user did not authorize stay away.
    assert_eq!(grant.scope, both);
}

/// D-42.
#[test]
fn a_repeat_asks_for_the_scope_of_the_first_use() {
    let asking = |scope| RefreshRotation {
        scope: Scope::parse(scope),
        ..use_of(1, 2, at(0))
    };
    for (first, again, is_repeated) in [
        ("a", "a", true),
        ("a", "a b", false),
        ("a", "", false),
        ("", "", true),
        ("", "a b", true),
        ("", "a", false),
    ] {
        let mut grant = grant();
        rotate(&mut grant, &asking(first));
        let step = grant.current.clone();
        let expected = if is_repeated {
            repeats(&step)
        } else {
            RotationDecision::Refuse(RotationRefusal::ScopeDiffers)
        };
        assert_eq!(
            rotate(&mut grant, &asking(again)),
            expected,
            "{first}, {again}"
        );
        assert_eq!(grant.current, step);
    }
    let mut grant = grant();
    rotate(&mut grant, &asking(""));
    let without_b = client().with_scopes("a");
    let repeated = grant.rotate(&asking(""), Some(&without_b), Some(&user()));
    let step = RefreshStep {
        scope: Scope::parse("a").unwrap(),
        ..grant.current.clone()
    };
    let asked = Scope::parse("a b").unwrap();
    assert_eq!(repeated, RotationDecision::Repeat { step, asked });
}

#[test]
fn a_grant_ends_with_what_it_rests_on() {
    let disabled = client().disabled();
    let unlinked = user().with_accounts(&[]);
    let other_password = User {
        credentials_version: CredentialsVersion::new(1),
        ..user()
    };
    for (client, user) in [
        (None, Some(user())),
        (Some(disabled), Some(user())),
        (Some(client()), None),
        (Some(client()), Some(unlinked)),
        (Some(client()), Some(other_password)),
    ] {
        let mut grant = grant();
        let decision = grant.rotate(&use_of(1, 2, at(5)), client.as_ref(), user.as_ref());
        let revoked = Rotation::Refused(RotationRefusal::Revoked);
        assert_eq!(decision, RotationDecision::Revoke(revoked));
        assert_eq!(grant.revoked_at, Some(at(5)));
    }
}

/// What a client proves, by a text.
type ProofOf = fn(&[u8]) -> Confirmation;

/// What each test of bindings proves, and how other proofs are refused.
const PROVEN: [(ProofOf, RotationRefusal); 2] = [
    (key, RotationRefusal::OtherKey),
    (certificate, RotationRefusal::OtherCertificate),
];

fn key(text: &[u8]) -> Confirmation {
    Confirmation {
        jkt: Some(Thumbprint::of(text)),
        certificate: None,
    }
}

fn certificate(text: &[u8]) -> Confirmation {
    Confirmation {
        jkt: None,
        certificate: Some(Thumbprint::of(text)),
    }
}

const NOTHING: Confirmation = Confirmation {
    jkt: None,
    certificate: None,
};

/// A public client whose tokens are bound to certificates.
fn public() -> Client {
    Client {
        tls_client_certificate_bound_access_tokens: true,
        ..testing::installed("web", &[]).with_scopes("a b")
    }
}

fn with(
    grant: &mut Grant,
    client: &Client,
    proven: Confirmation,
    (token, next): (u8, u8),
) -> RotationDecision {
    let rotation = RefreshRotation {
        proven,
        ..use_of(token, next, at(5))
    };
    grant.rotate(&rotation, Some(client), Some(&user()))
}

/// A grant whose code was exchanged with `proven`.
fn bound_to(proven: Confirmation) -> Grant {
    Grant {
        bound: proven,
        ..grant()
    }
}

#[test]
fn rfc9449_s5_rfc8705_s4_a_leaked_refresh_token_of_a_bound_grant_changes_nothing() {
    for (proof_of, refusal) in PROVEN {
        let (app, proof) = (public(), proof_of(b"own"));
        let mut grant = bound_to(proof);
        assert_eq!(with(&mut grant, &app, proof, (1, 2)), rotated(&grant));
        let before = grant.clone();
        for wrong in [NOTHING, proof_of(b"other")] {
            for token in [1, 2, 9] {
                let refused = with(&mut grant, &app, wrong, (token, 4));
                let expected = RotationDecision::Refuse(refusal.clone());
                assert_eq!(refused, expected, "{token} {wrong:?}");
            }
        }
        assert_eq!(
            grant, before,
            "a leaked token without its key changes nothing"
        );
        assert_eq!(with(&mut grant, &app, proof, (2, 3)), rotated(&grant));
        assert_eq!(grant.bound, proof);
    }
}

/// D-50. The second use of a token after the grace ends the grant, no matter which refresh came first, and with which key.
#[test]
fn rfc9700_s4_14_a_refresh_binds_nothing_and_reuse_ends_an_unbound_grant() {
    for (proof_of, _) in PROVEN {
        let proofs = [NOTHING, proof_of(b"owner"), proof_of(b"thief")];
        for first in proofs {
            for second in proofs {
                let (mut grant, app) = (grant(), public());
                assert_eq!(with(&mut grant, &app, first, (1, 2)), rotated(&grant));
                let answered = grant.current.clone();
                assert_eq!(grant.bound, NOTHING);
                // Within the grace, as with bearer tokens: the successor, which one of the two will use second.
                assert_eq!(with(&mut grant, &app, second, (1, 3)), repeats(&answered));
                assert_eq!(with(&mut grant, &app, second, (2, 3)), rotated(&grant));
                assert_eq!(grant.bound, NOTHING);
                let late = RefreshRotation {
                    proven: first,
                    ..use_of(2, 4, at(5) + GRACE + Duration::from_secs(1))
                };
                let reused = grant.rotate(&late, Some(&app), Some(&user()));
                let expected = RotationDecision::Revoke(Rotation::Reused(grant.grant_id));
                assert_eq!(reused, expected, "{first:?} {second:?}");
            }
        }
    }
}

#[test]
fn a_grant_that_is_bound_to_both_needs_both() {
    let both = Confirmation {
        certificate: certificate(b"own").certificate,
        ..key(b"own")
    };
    let (mut grant, app) = (bound_to(both), public());
    assert_eq!(with(&mut grant, &app, both, (1, 2)), rotated(&grant));
    for (one, refusal) in [
        (key(b"own"), RotationRefusal::OtherCertificate),
        (certificate(b"own"), RotationRefusal::OtherKey),
    ] {
        let refused = with(&mut grant, &app, one, (2, 3));
        assert_eq!(refused, RotationDecision::Refuse(refusal));
    }
    assert_eq!(with(&mut grant, &app, both, (2, 3)), rotated(&grant));
}

/// RFC 8705 §3.4: the registration says that tokens are bound to certificates, not the connection.
#[test]
fn rfc9449_s5_an_exchange_binds_the_grants_of_public_clients_alone() {
    let both = Confirmation {
        certificate: certificate(b"own").certificate,
        ..key(b"own")
    };
    let optional = Client {
        tls_client_certificate_bound_access_tokens: false,
        ..public()
    };
    let confidential = Client {
        tls_client_certificate_bound_access_tokens: true,
        ..client()
    };
    assert_eq!(public().binds(both), both);
    assert_eq!(optional.binds(both), key(b"own"));
    assert_eq!(confidential.binds(both), NOTHING);
}
