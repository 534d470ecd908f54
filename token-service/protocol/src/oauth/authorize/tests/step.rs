//! From a validated request and a session to a code.

use super::super::issue::code_record;
use super::*;

#[test]
fn the_next_step_follows_from_prompt_and_session() {
    use SessionStage::{SecondFactorOwed, SignedIn as Complete};
    let complete = |accounts| Some(live(accounts, Complete));
    let owing = || Some(live(1, SecondFactorOwed));

    use Prompt::{Login, Never, WhenNeeded};
    for (prompt, live, expected) in [
        (WhenNeeded, None, "sign in"),
        (Login, None, "sign in"),
        (Login, complete(1), "sign in"),
        (WhenNeeded, owing(), "second factor"),
        (WhenNeeded, complete(0), "no account"),
        (WhenNeeded, complete(1), "issue for 1"),
        (Never, complete(1), "issue for 1"),
        (WhenNeeded, complete(3), "select"),
        (Never, None, "login_required"),
        (Never, owing(), "login_required"),
        (Never, complete(0), "access_denied"),
        (Never, complete(3), "account_selection_required"),
    ] {
        let found = in_words(&next_step(prompt, live, ClientConfirmation::NotNeeded));
        assert_eq!(found, expected, "{prompt:?}");
    }
}

fn in_words(step: &Step) -> String {
    match step {
        Step::SignIn => "sign in".to_owned(),
        Step::SecondFactor => "second factor".to_owned(),
        Step::SelectAccount(_) => "select".to_owned(),
        Step::Confirm(_, account) => format!("confirm for {}", account.user_id),
        Step::NoAccount(_) => "no account".to_owned(),
        Step::Issue(_, account) => format!("issue for {}", account.user_id),
        Step::Refuse(error) => error.code().to_owned(),
    }
}

/// D-34, RFC 8252 §8.6.
#[test]
fn a_live_session_alone_gives_no_code_to_a_native_client() {
    use ClientConfirmation::{Given, Needed};
    for (prompt, confirmation, accounts, expected) in [
        (Prompt::WhenNeeded, Needed, 1, "confirm for 1"),
        (Prompt::WhenNeeded, Given, 1, "issue for 1"),
        (Prompt::Never, Needed, 1, "interaction_required"),
        (Prompt::Never, Given, 1, "interaction_required"),
        // Choosing an account counts as confirmation.
        (Prompt::WhenNeeded, Needed, 3, "select"),
        (Prompt::WhenNeeded, Given, 3, "select"),
    ] {
        let live = live(accounts, SessionStage::SignedIn);
        let found = next_step(prompt, Some(live), confirmation);
        assert_eq!(in_words(&found), expected, "{prompt:?} {confirmation:?}");
    }
}

/// A code that an app on the person's device could redeem without a secret or key (D-25, D-34).
#[test]
fn a_native_client_that_proves_nothing_needs_a_confirmation() {
    let pkce = format!("&code_challenge={CHALLENGE}&code_challenge_method=S256");
    for (query, needed) in [
        (format!("{APP}{pkce}"), true),
        (WEB.to_owned(), false),
        (NATIVE_WEB.to_owned(), false),
        (format!("{NATIVE_WEB}{pkce}"), true),
    ] {
        let request = validate(&format!("response_type=code&{query}")).unwrap();
        assert_eq!(request.needs_confirmation(), needed, "{query}");
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
fn max_age_is_a_number_of_seconds() {
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
