//! From a validated request and a session to a code.

use super::super::issue::code_record;
use super::*;

#[test]
fn the_next_step_follows_from_prompt_and_session() {
    use SessionStage::{SecondFactorOwed, SignedIn as Complete};
    let step = |prompt, live| next_step(prompt, live, Confirmation::NotNeeded);
    let complete = |accounts| Some(live(accounts, Complete));
    let owing = || Some(live(1, SecondFactorOwed));

    for prompt in [Prompt::WhenNeeded, Prompt::Login] {
        assert_eq!(step(prompt, None), Step::SignIn);
    }
    assert_eq!(step(Prompt::Login, complete(1)), Step::SignIn);
    assert_eq!(step(Prompt::WhenNeeded, owing()), Step::SecondFactor);
    assert!(matches!(
        step(Prompt::WhenNeeded, complete(0)),
        Step::NoAccount(_)
    ));
    assert_eq!(
        step(Prompt::Never, complete(0)),
        Step::Refuse(RedirectError::NoLinkedAccount)
    );
    for prompt in [Prompt::WhenNeeded, Prompt::Never] {
        assert!(
            matches!(step(prompt, complete(1)), Step::Issue(_, account) if account.user_id == "1")
        );
    }
    assert!(matches!(
        step(Prompt::WhenNeeded, complete(3)),
        Step::SelectAccount(_)
    ));
    for owing in [None, owing()] {
        assert_eq!(
            step(Prompt::Never, owing),
            Step::Refuse(RedirectError::LoginRequired)
        );
    }
    assert_eq!(
        step(Prompt::Never, complete(3)),
        Step::Refuse(RedirectError::AccountSelectionRequired)
    );
}

/// D-34, RFC 8252 §8.6.
#[test]
fn a_live_session_alone_gives_no_code_to_a_native_client() {
    let step = |prompt, confirmation, accounts| {
        let live = live(accounts, SessionStage::SignedIn);
        next_step(prompt, Some(live), confirmation)
    };
    let when_needed = |confirmation| step(Prompt::WhenNeeded, confirmation, 1);
    assert!(matches!(
        when_needed(Confirmation::Needed),
        Step::Confirm(..)
    ));
    assert!(matches!(when_needed(Confirmation::Given), Step::Issue(..)));
    for confirmation in [Confirmation::Needed, Confirmation::Given] {
        assert_eq!(
            step(Prompt::Never, confirmation, 1),
            Step::Refuse(RedirectError::InteractionRequired)
        );
        // Choosing an account counts as confirmation.
        assert!(matches!(
            step(Prompt::WhenNeeded, confirmation, 3),
            Step::SelectAccount(_)
        ));
    }
}

#[test]
fn a_code_stands_for_request_session_and_account() {
    let request = validate(&format!(
        "response_type=code&{APP}&code_challenge={CHALLENGE}&code_challenge_method=S256"
    ))
    .unwrap();
    let live = live(3, SessionStage::SignedIn);
    let session = live.session.clone();
    let signed_in = SignedIn::of(live).unwrap();
    assert_eq!(signed_in.account("2", "https://us2.example.com"), None);
    let account = signed_in.account("2", "https://us1.example.com").unwrap();
    let record = code_record(&request, &signed_in, account, Timestamp::from_seconds(60));
    assert_eq!(record.client_id.as_str(), "app");
    assert_eq!(record.redirect_uri, "http://127.0.0.1:8000/cb");
    assert_eq!(record.code_challenge, Digest::from_base64url(CHALLENGE));
    assert_eq!(record.username.as_str(), "ada");
    assert_eq!(record.account.user_id, "2");
    assert_eq!(record.amr, session.amr);
    assert_eq!(record.authenticated_at, session.authenticated_at);
    assert_eq!(record.expires_at, Timestamp::from_seconds(60));
}

/// OpenID Connect Core §3.1.2.1.
#[test]
fn max_age_bounds_how_long_ago_the_sign_in_was() {
    let request = |extra: &str| validate(&format!("{WEB}&response_type=code{extra}")).unwrap();
    let signed_in = session("one", SessionStage::SignedIn);
    let later = |seconds| signed_in.authenticated_at + std::time::Duration::from_secs(seconds);
    let accepts = |extra: &str, seconds| request(extra).accepts(&signed_in, later(seconds));
    assert!(accepts("", 1_000_000));
    assert!(accepts("&max_age=60", 60));
    assert!(!accepts("&max_age=60", 61));
    assert!(!accepts("&max_age=0", 0), "asks again, as prompt=login");
    assert!(request("&max_age=60").continuation().contains("max_age=60"));
    assert!(!request("&max_age=0").continuation().contains("max_age"));
    for malformed in ["-1", "+1", "1.5", "x", "99999999999999999999"] {
        let query = format!("{WEB}&response_type=code&max_age={malformed}").replace("=+", "=%2B");
        assert!(
            matches!(
                validate(&query),
                Err(AuthorizeError::Redirect(_, RedirectError::MaxAgeMalformed))
            ),
            "{malformed}"
        );
    }
}
