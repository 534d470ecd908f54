//! Two token services on one PostgreSQL database, behind a gateway that alternates between them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tests::proofs::ProofKey;
use tests::{Postgres, response};

use crate::api::until;
use crate::support::{
    ADA, Assertion, Browser, CREDENTIALS as FORM, Client, Form, INSTALLED, Load, NON_INTERACTIVE,
    OwnPair, Pkce, Reply, USER_BOUND, WEB, answered, database, get, signal,
};

struct Replicated {
    pair: OwnPair,
    _database: Postgres,
}

impl Replicated {
    fn start() -> Self {
        let database = database();
        Self {
            pair: OwnPair::replicated(database.url()),
            _database: database,
        }
    }

    /// The addresses of the two token services, without the gateway.
    fn services(&self) -> [String; 2] {
        let ports = self.pair.pair.ports();
        [ports.public, ports.public_replica].map(|port| format!("http://127.0.0.1:{port}"))
    }

    fn internal(&self) -> [String; 2] {
        let ports = self.pair.pair.ports();
        [ports.internal, ports.internal_replica].map(|port| format!("http://127.0.0.1:{port}"))
    }

    /// Enables or disables the web server application.
    fn enable(&self, enabled: bool) {
        let body = format!(r#"{{"enabled": {enabled}}}"#);
        let path = format!("/clients/{}", WEB.id);
        self.pair.change("PATCH", &path, &body);
    }
}

/// With `dpop.single_use = "store"`. Nonces of one replica are good at the other.
#[test]
fn a_proof_works_once_at_all_replicas() {
    let set = Replicated::start();
    let url = format!("{}/auth/token", set.pair.lobby());
    let key = ProofKey::new("ES256").unwrap();
    let [one, other] = set.services();
    let wrong_clock = |nonce: &str| {
        let proof = key.proof("POST", &url, None).unwrap().later(-3600);
        vec![key.sign(&proof.claim("nonce", json!(nonce))).unwrap()]
    };
    let proof = vec![key.prove("POST", &url, None).unwrap()];
    let first = USER_BOUND.proven(&one, &FORM, &proof).done();
    for service in [&one, &other] {
        USER_BOUND
            .proven(service, &FORM, &proof)
            .assert_error(400, "invalid_dpop_proof");
    }
    let nonce = first.header("dpop-nonce").unwrap();
    USER_BOUND.proven(&other, &FORM, &wrong_clock(nonce)).done();
}

/// Each token service continues from the responses of the other.
#[test]
fn every_flow_hops_between_replicas() {
    let set = Replicated::start();
    let lobby = set.pair.lobby();
    for [one, other] in {
        let [one, other] = set.services();
        [[one.clone(), other.clone()], [other, one]]
    } {
        // The pages go through the gateway, which sends requests to both replicas in turn.
        let pkce = Pkce::of(&"p".repeat(64));
        let code = Browser::new(&lobby).code_for(&INSTALLED, Some(&pkce));
        let tokens = INSTALLED.exchange(&one, &code, Some(&pkce)).done();
        let first = tokens.text("refresh_token");
        let refreshed = INSTALLED.refresh(&other, &first).done();
        let repeated = INSTALLED.refresh(&one, &first);
        let next = INSTALLED.refresh(&one, &refreshed.text("refresh_token"));
        assert_eq!((repeated.status, next.status), (200, 200));
        assert_eq!(set.pair.call(&next.text("access_token")), 200);
        INSTALLED
            .exchange(&other, &code, Some(&pkce))
            .assert_error(400, "invalid_grant");
        INSTALLED
            .refresh(&one, &next.text("refresh_token"))
            .assert_error(400, "invalid_grant");
        set.pair.until_refused(&next.text("access_token"));

        let code = Browser::new(&lobby).code_for(&WEB, None);
        let tokens = WEB.exchange(&other, &code, None).done();
        let token = tokens.text("refresh_token");
        WEB.post(&one, "/auth/revoke", &[("token", &token)]).done();
        WEB.refresh(&other, &token)
            .assert_error(400, "invalid_grant");

        let assertion = Assertion::of("ada@example.com").sign();
        let issued = NON_INTERACTIVE.assert(&one, &assertion, &[]).done();
        assert_eq!(set.pair.call(&issued.text("access_token")), 200);
        NON_INTERACTIVE
            .assert(&other, &assertion, &[])
            .assert_error(400, "invalid_grant");

        assert_eq!(USER_BOUND.token(&one, &FORM).status, 200);
    }
    let [one, other] = set
        .services()
        .map(|service| get(&format!("{service}/auth/jwks"), &[]).body);
    assert_eq!(one, other, "they publish the same keys");
}

#[test]
fn a_rotation_at_one_replica_is_noticed_by_the_other() {
    let set = Replicated::start();
    set.pair
        .change("POST", "/keys/rotate", r#"{"immediate": true}"#);
    until("both publish the new key", || {
        let [one, other] = set
            .services()
            .map(|service| get(&format!("{service}/auth/jwks"), &[]).json());
        one == other && one["keys"].as_array().is_some_and(|keys| keys.len() > 1)
    });
}

#[test]
fn wrong_secrets_are_counted_at_all_replicas_and_the_right_one_passes() {
    let set = Replicated::start();
    let services = set.services();
    let guess = Client {
        secret: Some("the secret before the rotation"),
        ..USER_BOUND
    };
    for service in services.iter().cycle().take(21) {
        guess
            .token(service, &FORM)
            .assert_error(401, "invalid_client");
    }
    for service in &services {
        until("wrong secrets have to wait", || {
            guess.token(service, &FORM).status == 429
        });
        assert_eq!(USER_BOUND.token(service, &FORM).status, 200);
    }
}

/// D-2. Issuing a code writes nothing that the replicas could agree on; its redemption does.
#[test]
fn a_code_works_once_also_at_two_replicas_in_parallel() {
    let set = Replicated::start();
    let [one, other] = set.services();
    for _ in 0..5 {
        let code = Browser::new(&one).code_for(&WEB, None);
        let replies: Vec<Reply> = std::thread::scope(|scope| {
            let exchanges: Vec<_> = [&one, &other]
                .into_iter()
                .cycle()
                .take(10)
                .map(|service| scope.spawn(|| WEB.exchange(service, &code, None)))
                .collect();
            let exchanges = exchanges.into_iter();
            exchanges.map(|reply| reply.join().unwrap()).collect()
        });
        let (tokens, refused): (Vec<_>, Vec<_>) =
            replies.iter().partition(|reply| reply.status == 200);
        let [tokens] = tokens.as_slice() else {
            panic!("{} exchanges succeeded", tokens.len());
        };
        for reply in refused {
            reply.assert_error(400, "invalid_grant");
        }
        WEB.refresh(&other, &tokens.text("refresh_token"))
            .assert_error(400, "invalid_grant");
    }
}

/// RFC 9700 §4.14.2, D-35: codes and sign-ins that one replica began end when the password changes at the other.
#[test]
fn a_new_password_ends_codes_and_sign_ins_at_every_replica() {
    let set = Replicated::start();
    let lobby = set.pair.lobby();
    let [one, other] = set.services();
    let codes = [(); 2].map(|()| Browser::new(&lobby).code_for(&WEB, None));
    let tokens = {
        let code = Browser::new(&lobby).code_for(&WEB, None);
        WEB.exchange(&one, &code, None)
    };
    let change = ["user", "update", "ada@example.com", "--password-file", "-"];
    set.pair.operate(&change, "another-password\n").done();
    for (service, code) in [one, other].iter().zip(&codes) {
        WEB.exchange(service, code, None)
            .assert_error(400, "invalid_grant");
        WEB.refresh(service, &tokens.text("refresh_token"))
            .assert_error(400, "invalid_grant");
        // No replica accepts the old password, not even for a second.
        let browser = Browser::new(service);
        let page = browser.authorize(&WEB.request(&[]));
        let form = Form::of(&page);
        let sign_in = |password| {
            let fields = [ADA[0], ("password", password)];
            browser.submit(&form, &fields).status
        };
        assert_eq!(sign_in("demo-password-of-ada"), 403);
        assert_eq!(sign_in("another-password"), 303);
    }
}

/// D-58. The replica that the browser reaches next has the user in memory as of before the new password.
#[test]
fn another_password_is_asked_for_once_at_all_replicas() {
    let set = Replicated::start();
    let [one, other] = set.services();
    set.pair.done("release user ada@example.com");
    let mut present = ADA[1].1.to_owned();
    for number in 0..3 {
        set.pair
            .done("user update ada@example.com --must-change-password");
        let browser = Browser::new(&one);
        let page = browser.authorize(&WEB.request(&[]));
        let fields = [ADA[0], ("password", present.as_str())];
        let next = browser.submit(&Form::of(&page), &fields);
        let next = next.header("location").unwrap();
        for service in [&one, &other] {
            until("the replica asks", || {
                let page = browser.open(&format!("{service}{next}"));
                page.body.contains("choose another password")
            });
        }
        let form = Form::of(&browser.open(next));
        let chosen = format!("apples fall down, not up: {number}");
        let fields = [("password", present.as_str()), ("new_password", &chosen)];
        let done = browser.submit(&form, &fields);
        assert_eq!(done.status, 303, "{}", done.body);
        let next = done.header("location").unwrap();
        let done = browser.open(&format!("{other}{next}"));
        assert!(answered(&done, WEB.redirect_uri, "code").is_some());
        present = chosen;
    }
}

/// The other replica does not know yet that the client was disabled. The transaction that redeems the code does.
#[test]
fn codes_of_a_disabled_client_end_at_every_replica() {
    let set = Replicated::start();
    let [one, other] = set.services();
    for _ in 0..3 {
        let kept = Browser::new(&one).code_for(&WEB, None);
        let code = Browser::new(&one).code_for(&WEB, None);
        assert_eq!(
            WEB.exchange(&other, "none", None).status,
            400,
            "it is in memory"
        );
        set.enable(false);
        let late = WEB.exchange(&other, &code, None);
        assert!(matches!(late.status, 400 | 401), "{}", late.body);
        set.enable(true);
        until("the other replica knows", || {
            WEB.exchange(&other, "none", None).status == 400
        });
        for code in [&code, &kept] {
            WEB.exchange(&other, code, None)
                .assert_error(400, "invalid_grant");
        }
        // Codes from now on wait until their tokens are valid.
        until("a new code is redeemed", || {
            let code = Browser::new(&one).code_for(&WEB, None);
            let reply = WEB.exchange(&other, &code, None);
            let is_live = reply.status == 200;
            if !is_live {
                reply.assert_error(503, "temporarily_unavailable");
            }
            is_live
        });
    }
}

/// Only the transaction knows the account yet: it decides, not the memory of the replica.
#[test]
fn a_replica_that_does_not_know_an_account_yet_revokes_nothing() {
    let set = Replicated::start();
    let [one, other] = set.services();
    set.pair.done("release user ada@example.com");
    for number in 0..4 {
        let hat = format!("ada-{number}");
        let assertion = Assertion::of("ada@example.com").sign();
        let account = [
            ("user_id", "1879048401"),
            ("user_site", "https://us1.example.com"),
        ];
        NON_INTERACTIVE.assert(&other, &assertion, &account).done();
        let account = format!(
            r#"{{"user_id": "{number}", "username": "{hat}", "site": "https://us1.example.com"}}"#
        );
        let path = "/users/ada@example.com/accounts";
        set.pair.change("POST", path, &account);
        let browser = Browser::new(&one);
        let page = browser.authorize(&WEB.request(&[]));
        let selector = browser.sign_in(&page, "ada@example.com", "demo-password-of-ada");
        let form = Form::of(&selector);
        let (name, value) = &form.buttons[number + 1];
        let done = browser.submit(&form, &[(name, value)]);
        let code = answered(&done, WEB.redirect_uri, "code").unwrap();
        let tokens = WEB.exchange(&other, &code, None).done();
        let claims = crate::token::claims(&tokens.text("access_token"));
        assert_eq!(claims["user_hat"], *hat);
    }
}

/// Even if a replica still issues tokens by older registrations, no token survives the disabling of its client.
#[test]
fn no_token_of_a_disabled_client_survives_at_any_replica() {
    let set = Replicated::start();
    let tokens = Arc::new(std::sync::Mutex::new(Vec::new()));
    let loads = set.services().map(|service| {
        let tokens = Arc::clone(&tokens);
        Load::start(1, move || {
            let reply = USER_BOUND.token(&service, &FORM);
            if reply.status == 200 {
                tokens.lock().unwrap().push(reply.text("access_token"));
            }
        })
    });
    let issued = || tokens.lock().unwrap().len();
    until("tokens are issued", || issued() > 20);
    set.pair
        .done(&format!("client update {} --disable", USER_BOUND.id));
    until("both refuse the client", || {
        let refuses = |service: &String| USER_BOUND.token(service, &FORM).status == 401;
        set.services().iter().all(refuses)
    });
    for load in loads {
        load.stop();
    }
    let tokens = tokens.lock().unwrap().clone();
    set.pair.until_refused(&tokens[0]);
    let accepted = tokens.iter().filter(|token| set.pair.call(token) == 200);
    assert_eq!(accepted.count(), 0, "of {} tokens", tokens.len());
}

/// Without the database the service does not know whether a client is disabled: so it stops issuing tokens after a
/// bounded time.
#[test]
fn nothing_is_issued_by_registrations_that_cannot_be_confirmed() {
    let set = Replicated::start();
    let [one, _] = set.services();
    assert_eq!(USER_BOUND.token(&one, &FORM).status, 200);
    let Replicated {
        pair,
        _database: database,
    } = set;
    drop(database);
    until("nothing is issued any more", || {
        let refused = USER_BOUND.token(&one, &FORM);
        refused.status == 503 && refused.header("retry-after").is_some()
    });
    drop(pair);
}

/// Each client continues from its last response. Requests that the dead replica was processing may fail, at most one
/// for each connection of the gateway, and repeating them must work.
#[test]
fn a_replica_that_dies_under_load_fails_what_it_was_doing_and_nothing_else() {
    const CLIENTS: usize = 4;
    /// Upper bound of the gateway's connections for these clients.
    const CONNECTIONS: usize = 2 * CLIENTS;
    let mut set = Replicated::start();
    let lobby = set.pair.lobby();
    let answered: Vec<Arc<AtomicUsize>> = (0..CLIENTS).map(|_| Arc::default()).collect();
    let failed = Arc::new(AtomicUsize::new(0));
    let clients: Vec<Load> = answered
        .iter()
        .map(|answered| {
            let tokens = WEB.grant(&lobby);
            let live = std::sync::Mutex::new(tokens.text("refresh_token"));
            let (lobby, live) = (lobby.clone(), Arc::new(live));
            let (answered, failed) = (Arc::clone(answered), Arc::clone(&failed));
            Load::start(1, move || {
                let mut live = live.lock().unwrap();
                let reply = WEB.refresh(&lobby, &live);
                if reply.status == 503 {
                    // On a busy machine a service that lives may say 503 too.
                    if reply.body.contains("behind this gateway") {
                        failed.fetch_add(1, Ordering::SeqCst);
                    }
                    return;
                }
                assert_eq!(reply.status, 200, "{}", reply.body);
                *live = reply.text("refresh_token");
                answered.fetch_add(1, Ordering::SeqCst);
            })
        })
        .collect();
    // Waits for a new response of each client, so that earlier requests have ended.
    let more = |count: usize| {
        let so_far = || {
            answered
                .iter()
                .map(|answered| answered.load(Ordering::SeqCst))
        };
        let goals: Vec<usize> = so_far().map(|answers| answers + count).collect();
        until("the load goes on", || {
            so_far().zip(&goals).all(|(answers, goal)| answers >= *goal)
        });
    };
    more(15);
    for service in set.internal() {
        let metrics = get(&format!("{service}/metrics"), &[]).body;
        assert!(
            metrics.contains("tokens_refreshed"),
            "both are asked: {metrics}"
        );
    }
    set.pair.pair.kill_replica().unwrap();
    more(12);
    let in_flight = failed.load(Ordering::SeqCst);
    assert!(in_flight <= CONNECTIONS, "{in_flight} requests failed");
    more(25);
    set.pair.pair.start_replica().unwrap();
    more(25);
    for client in clients {
        client.stop();
    }
    let later = failed.load(Ordering::SeqCst) - in_flight;
    assert_eq!(later, 0, "requests that failed when it was dead already");
}

/// The gateway learns from `/readyz` that a replica is about to stop, before the replica closes connections.
#[test]
fn a_replica_that_is_about_to_stop_gets_no_more_requests() {
    let mut set = Replicated::start();
    let pair = &mut set.pair.pair;
    pair.stop_replica();
    pair.set_environment("TOKEN_SERVICE__DRAIN_FOR", "10m");
    pair.start_replica().unwrap();
    let pair = &set.pair.pair;
    until("the gateway sends requests to the replica", || {
        !pair.gateway_avoids_a_service().unwrap()
    });
    signal(pair.replica_pid().unwrap(), "TERM");
    let [_, internal] = set.internal();
    let answered = || {
        let metrics = get(&format!("{internal}/metrics"), &[]).body;
        let lines = metrics.lines().filter(|line| {
            line.starts_with("token_service_http_requests_total{")
                && line.contains(r#"route="/auth/token""#)
        });
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    until("the other replica gets all requests", || {
        let before = answered();
        for _ in 0..10 {
            assert_eq!(USER_BOUND.token(&pair.lobby_url(), &FORM).status, 200);
        }
        answered() == before
    });
    assert_eq!(get(&format!("{internal}/readyz"), &[]).status, 503);
}

/// A replica that is ready, and dies over each request.
struct DyingReplica {
    reads: Arc<AtomicUsize>,
    posts: Arc<AtomicUsize>,
}

impl DyingReplica {
    fn start(public: u16, internal: u16) -> Self {
        let dying = Self {
            reads: Arc::default(),
            posts: Arc::default(),
        };
        let (reads, posts) = (Arc::clone(&dying.reads), Arc::clone(&dying.posts));
        let public = tests::serve("127.0.0.1", public, move |request| {
            if request.target.starts_with("/auth/authorize") {
                reads.fetch_add(1, Ordering::SeqCst);
            } else if request.target.starts_with("/auth/token") {
                posts.fetch_add(1, Ordering::SeqCst);
            }
            String::new()
        });
        let internal = tests::serve("127.0.0.1", internal, |_| response("200 OK", "", "{}"));
        assert!(public.is_ok() && internal.is_ok());
        dying
    }
}

/// RFC 9110 §9.2.2: a proxy may repeat a request that only reads. A POST may have had its effect already.
#[test]
fn the_gateway_repeats_a_read_that_a_dying_replica_left_and_no_post() {
    let mut set = Replicated::start();
    let ports = set.pair.pair.ports();
    let lobby = set.pair.lobby();
    set.pair.pair.stop_replica();
    let dying = DyingReplica::start(ports.public_replica, ports.internal_replica);
    let refused = AtomicUsize::new(0);
    let seen = |count: &AtomicUsize| count.load(Ordering::SeqCst);
    until("the dying replica got both", || {
        // An odd number of requests, so that the gateway's turns change.
        for _ in 0..2 {
            assert_eq!(
                Browser::new(&lobby).authorize(&WEB.request(&[])).status,
                200
            );
        }
        match USER_BOUND.token(&lobby, &FORM).status {
            200 => {}
            503 => {
                refused.fetch_add(1, Ordering::SeqCst);
            }
            other => panic!("{other}"),
        }
        seen(&dying.reads) > 0 && seen(&dying.posts) > 0
    });
    assert_eq!(seen(&refused), seen(&dying.posts));
}
