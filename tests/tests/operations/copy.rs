//! Copies of the store from redb to PostgreSQL and back.

use crate::support::{
    Assertion, Browser, JWT_BEARER, NON_INTERACTIVE, OwnPair, Reply, WEB, database, get,
};

fn assert_refused(reply: &Reply) {
    reply.assert_error(400, "invalid_grant");
}

#[test]
fn what_was_issued_before_a_copy_is_worth_the_same_after() {
    let database = database();
    let mut pair = OwnPair::start(&[]);
    let lobby = pair.pair.lobby_url();
    let api = format!("{}/api/projects", pair.pair.api_url());
    let call = |token: &str| get(&api, &[("authorization", &format!("Bearer {token}"))]).status;
    let browser = Browser::new(&lobby);
    let grant = || WEB.exchange(&lobby, &browser.code_for(&WEB, None), None);
    let (live, revoked) = (grant(), grant());
    let [live_token, revoked_token] = [&live, &revoked].map(|grant| grant.text("access_token"));
    let mut refresh_token = live.text("refresh_token");
    let revoked_refresh = revoked.text("refresh_token");
    let end = WEB.post(&lobby, "/auth/revoke", &[("token", &revoked_refresh)]);
    assert_eq!(end.status, 200);
    let assertion = Assertion::of("ada@example.com").sign();
    let jwt_bearer = || {
        let form = [("grant_type", JWT_BEARER), ("assertion", &assertion)];
        NON_INTERACTIVE.token(&lobby, &form)
    };
    assert_eq!(jwt_bearer().status, 200);
    let redb = |name: &str| format!("redb:{}", pair.state().join(name).display());
    let url = pair.state().join("database-url");
    std::fs::write(&url, format!("{}\n", database.url())).unwrap();
    let places = [
        redb("token-service.redb"),
        format!("@{}", url.display()),
        redb("back.redb"),
    ];
    for (from, to) in places.iter().zip(&places[1..]) {
        let copy = ["copy", "--from", from, "--to", to];
        let error = pair.operate(&copy, "").failed(1);
        assert!(error.contains("use"), "{error}");
        pair.pair.stop_token_service();
        let report = pair.operate(&copy, "").done();
        assert!(report.contains("copied and verified"), "{report}");
        let store = if to.starts_with('@') {
            database.url()
        } else {
            to
        };
        pair.pair
            .set_environment("TOKEN_SERVICE__STORE__URL", store);
        pair.pair.start_token_service().unwrap();
        // The guard forgets which tokens are revoked.
        pair.pair.restart_envoy().unwrap();

        assert_eq!(
            [&live_token, &revoked_token].map(|token| call(token)),
            [200, 401]
        );
        for (token, active) in [(&live_token, true), (&revoked_token, false)] {
            let known = WEB.post(&lobby, "/auth/introspect", &[("token", token)]);
            assert_eq!(known.json()["active"], active, "{}", known.body);
        }
        let refreshed = WEB.refresh(&lobby, &refresh_token).done();
        refresh_token = refreshed.text("refresh_token");
        assert_refused(&WEB.refresh(&lobby, &revoked_refresh));
        assert_refused(&jwt_bearer());
        let signed_in = browser.authorize(&[
            ("response_type", "code"),
            ("client_id", WEB.id),
            ("redirect_uri", WEB.redirect_uri),
            ("prompt", "none"),
        ]);
        let location = signed_in.header("location").unwrap_or_default();
        assert!(location.contains("code="), "{location}");
        let log = pair.operate(&["audit", "--limit", "1000"], "").done();
        assert!(log.contains("sign_in"), "{log}");
    }
}
