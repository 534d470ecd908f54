//! Which sign-ins a request accepts (OpenID Connect Core §3.1.2.1).

use super::*;

/// The request with `parameters`, as it begins at [`NOW`].
fn begun(parameters: &str) -> AuthorizationRequest {
    validate(&format!("{WEB}&response_type=code&{parameters}")).unwrap()
}

/// The request of the next page after `request`, which the browser sends at `now`.
fn next(request: &AuthorizationRequest, now: u64) -> AuthorizationRequest {
    validate_at(Timestamp::from_seconds(now), request.continuation()).unwrap()
}

fn accepts(request: &AuthorizationRequest, signed_in_at: u64, now: u64) -> bool {
    let session = Session {
        authenticated_at: Timestamp::from_seconds(signed_in_at),
        ..session("ada", SessionStage::SignedIn)
    };
    request.accepts(&session, Timestamp::from_seconds(now))
}

#[test]
fn after_a_demand_for_a_sign_in_no_earlier_one_counts() {
    for demand in [
        "prompt=login",
        "max_age=0",
        "max_age=00",
        "prompt=login&max_age=300",
    ] {
        let page = next(&begun(demand), 1100);
        for request in [&page, &next(&page, 1200)] {
            assert!(!accepts(request, 999, 1200), "{demand}");
            for signed_in_at in [1000, 1100] {
                assert!(accepts(request, signed_in_at, 9000), "{demand}");
            }
        }
    }
    assert!(!accepts(&begun("max_age=0"), 1000, 1000));
}

#[test]
fn an_earlier_sign_in_gets_too_old_at_every_step() {
    let first = begun("max_age=300");
    let page = next(&first, 1010);
    for request in [&first, &page, &next(&page, 1020)] {
        assert!(accepts(request, 750, 1050));
        assert!(!accepts(request, 750, 1051));
    }
    assert!(accepts(&page, 1000, 9000), "signed in for the request");
}

#[test]
fn the_wish_for_another_user_is_a_new_demand() {
    let page = next(&begun("max_age=300"), 1010);
    let again = validate_at(Timestamp::from_seconds(1500), &page.sign_in_again()).unwrap();
    let page = next(&again, 1510);
    assert!(!accepts(&page, 1499, 1510));
    assert!(accepts(&page, 1500, 9000));
}

#[test]
fn without_a_demand_every_sign_in_counts() {
    let request = begun("state=1");
    assert!(accepts(&request, 0, 9000));
    assert!(accepts(&next(&request, 1010), 0, 9000));
}
