//! Guesses at client secrets.

use crate::api::until;
use crate::support::{CREDENTIALS as FORM, Client, OwnPair, USER_BOUND, WEB, get};

#[test]
fn rfc6749_s10_10_guesses_at_a_client_secret_are_named_counted_and_slowed_down() {
    let pair = OwnPair::start(&[]);
    let lobby = pair.pair.lobby_url();
    let guess = Client {
        secret: Some("a guess at the secret of web-demo"),
        ..WEB
    };
    for _ in 0..21 {
        guess
            .token(&lobby, &FORM)
            .assert_error(401, "invalid_client");
    }
    until("guesses have to wait", || {
        let reply = guess.token(&lobby, &FORM);
        reply.status == 429 && reply.wait() > Some(0)
    });
    let right = || {
        WEB.post(&lobby, "/auth/introspect", &[("token", "x")])
            .done();
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..16).for_each(|_| right()));
        }
        // One worker of the client still has the old secret.
        scope.spawn(|| {
            for _ in 0..16 {
                guess.token(&lobby, &FORM);
            }
        });
    });
    for path in ["/auth/introspect", "/auth/revoke"] {
        until("other endpoints are slowed down too", || {
            guess.post(&lobby, path, &[("token", "x")]).status == 429
        });
    }
    let other = USER_BOUND.token(&lobby, &FORM);
    assert_eq!(other.status, 200, "other clients at this address go on");

    let refused = format!("audit --client {} --action token_request_refused", WEB.id);
    let entries = pair.json(&refused)["items"].clone();
    let entries = entries.as_array().unwrap();
    let guesses: Vec<_> = entries
        .iter()
        .filter(|entry| entry["detail"] == "Client ID or Client Secret is wrong")
        .collect();
    assert!(guesses.len() >= 21, "{entries:?}");
    assert!(
        guesses.iter().all(|entry| entry["actor"].is_null()),
        "nobody proved to be the client: {entries:?}"
    );
    let metrics = get(&format!("{}/metrics", pair.pair.internal_url()), &[]).body;
    for reason in ["wrong_secret", "too_many_guesses"] {
        let counted = format!("token_service_refused_clients_total{{reason=\"{reason}\"}}");
        assert!(metrics.contains(&counted), "{metrics}");
    }
    for word in ["claimed_client=\"web-demo\"", "reason=\"wrong_secret\""] {
        pair.pair.log().until_it_says(word).unwrap();
    }
}
