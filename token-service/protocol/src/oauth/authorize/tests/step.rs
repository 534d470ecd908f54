//! From a validated request and a session to a code.

use super::super::issue::code_record;
use super::*;
use domain::amr;

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
        (WhenNeeded, owing(), "SecondFactor"),
        (WhenNeeded, complete(0), "no account"),
        (WhenNeeded, complete(1), "issue for 1"),
        (Never, complete(1), "issue for 1"),
        (WhenNeeded, complete(3), "select"),
        (Never, None, "login_required"),
        (Never, owing(), "login_required"),
        (Never, complete(0), "access_denied"),
        (Never, complete(3), "account_selection_required"),
    ] {
        let found = in_words(&next_step(
            prompt,
            live,
            false,
            ClientConfirmation::NotNeeded,
        ));
        assert_eq!(found, expected, "{prompt:?}");
    }
}

fn in_words(step: &Step) -> String {
    match step {
        Step::SignIn => "sign in".to_owned(),
        Step::Due(due) => format!("{due:?}"),
        Step::SelectAccount(_) => "select".to_owned(),
        Step::Confirm(_, account) => format!("confirm for {}", account.user_id),
        Step::NoAccount(_) => "no account".to_owned(),
        Step::Issue(_, account) => format!("issue for {}", account.user_id),
        Step::Refuse(error) => error.code().to_owned(),
    }
}

/// D-56. Whatever else the request needs, this comes first.
#[test]
fn what_is_due_comes_before_the_code() {
    use Prompt::{Login, Never, WhenNeeded};
    let one = [amr::PASSWORD].as_slice();
    let app = [amr::PASSWORD, amr::TOTP].as_slice();
    let recovery = [amr::PASSWORD, amr::RECOVERY_CODE].as_slice();
    for (prompt, used, must_change_password, needs_second_factor, expected) in [
        (WhenNeeded, one, false, true, "SetUpSecondFactor"),
        (WhenNeeded, one, true, true, "NewPassword"),
        (WhenNeeded, one, true, false, "NewPassword"),
        (WhenNeeded, app, true, true, "NewPassword"),
        (WhenNeeded, app, false, true, "issue for 1"),
        (WhenNeeded, recovery, false, true, "issue for 1"),
        (Login, one, true, true, "sign in"),
        (Never, one, false, true, "interaction_required"),
        (Never, one, true, false, "interaction_required"),
        (Never, app, false, true, "issue for 1"),
    ] {
        let mut live = live(1, SessionStage::SignedIn);
        live.session.amr = used.iter().map(|&method| method.to_owned()).collect();
        Arc::make_mut(&mut live.user).must_change_password = must_change_password;
        let not_needed = ClientConfirmation::NotNeeded;
        let found = next_step(prompt, Some(live), needs_second_factor, not_needed);
        assert_eq!(in_words(&found), expected, "{prompt:?} {used:?}");
    }
    for accounts in [0, 1, 3] {
        let live = live(accounts, SessionStage::SignedIn);
        let found = next_step(WhenNeeded, Some(live), true, ClientConfirmation::Needed);
        assert_eq!(in_words(&found), "SetUpSecondFactor", "{accounts}");
    }
    let owing = live(1, SessionStage::SecondFactorOwed);
    let found = next_step(WhenNeeded, Some(owing), true, ClientConfirmation::NotNeeded);
    assert_eq!(in_words(&found), "SecondFactor");
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
        let found = next_step(prompt, Some(live), false, confirmation);
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
    let signed_in = SignedIn::of(live, false).unwrap();
    assert_eq!(signed_in.account("2", "https://us2.example.com"), None);
    let account = signed_in.account("2", "https://us1.example.com").unwrap();
    let record = code_record(
        &request,
        &signed_in,
        account,
        Timestamp::from_seconds(0),
        Duration::from_secs(60),
    );
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

/// RFC 9470 §4 and §5.
#[test]
fn a_client_asks_for_a_second_factor() {
    let with = |values: &str| validate(&format!("{WEB}&response_type=code&acr_values={values}"));
    for (values, expected) in [
        ("", false),
        (amr::MULTI_FACTOR, true),
        (
            &format!("silver {}", amr::MULTI_FACTOR).replace(' ', "+"),
            true,
        ),
    ] {
        let request = with(values).unwrap();
        assert_eq!(request.asks_for_second_factor(), expected, "{values}");
        let carried = request.continuation().contains("multi-factor");
        assert_eq!(carried, expected, "later steps ask for it too");
    }
    for values in ["silver", "silver+gold", "+"] {
        let Err(AuthorizeError::Redirect(_, refused)) = with(values) else {
            panic!("{values}");
        };
        assert_eq!(refused.code(), "unmet_authentication_requirements");
    }
}
