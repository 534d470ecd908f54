//! From a validated request and a session to a code.

use super::super::issue::code_record;
use super::*;
use crate::settings::Settings;
use domain::amr;

#[test]
fn the_next_step_follows_from_prompt_and_session() {
    use SessionStage::{SecondFactorOwed, SignedIn as Complete};
    let complete = |accounts| Some(live(accounts, Complete));
    let owing = || Some(live(1, SecondFactorOwed));

    for (parameters, live, expected) in [
        ("", None, "sign in"),
        (LOGIN, None, "sign in"),
        (LOGIN, complete(1), "sign in"),
        ("", owing(), "SecondFactor"),
        ("", complete(0), "no account"),
        ("", complete(1), "issue for 1"),
        (NEVER, complete(1), "issue for 1"),
        ("", complete(3), "select"),
        (NEVER, None, "login_required"),
        (NEVER, owing(), "login_required"),
        (NEVER, complete(0), "access_denied"),
        (NEVER, complete(3), "account_selection_required"),
    ] {
        let found = step(parameters, live, ClientConfirmation::NotNeeded);
        assert_eq!(found, expected, "{parameters:?}");
    }
}

const LOGIN: &str = "&prompt=login";
const NEVER: &str = "&prompt=none";

/// The next step of a request with these `parameters`.
fn step(parameters: &str, live: Option<LiveSession>, confirmation: ClientConfirmation) -> String {
    let request = validate(&format!("{WEB}&response_type=code{parameters}")).unwrap();
    let goal = Goal::Code(&request, confirmation);
    in_words(&next_step(goal, live, &Settings::default(), NOW))
}

fn in_words(step: &Step) -> String {
    match step {
        Step::SignIn { .. } => "sign in".to_owned(),
        Step::SignInAgain(_) => "sign in again".to_owned(),
        Step::Due(due, _) => format!("{due:?}"),
        Step::OwnPage(_) => "own page".to_owned(),
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
    let one = [amr::PASSWORD].as_slice();
    let app = [amr::PASSWORD, amr::TOTP].as_slice();
    let recovery = [amr::PASSWORD, amr::RECOVERY_CODE].as_slice();
    let second_factor = format!("&acr_values={}", amr::MULTI_FACTOR);
    for (prompt, used, must_change_password, needs_second_factor, expected) in [
        ("", one, false, true, "SetUpSecondFactor"),
        ("", one, true, true, "NewPassword"),
        ("", one, true, false, "NewPassword"),
        ("", app, true, true, "NewPassword"),
        ("", app, false, true, "issue for 1"),
        ("", recovery, false, true, "issue for 1"),
        (LOGIN, one, true, true, "sign in"),
        (NEVER, one, false, true, "interaction_required"),
        (NEVER, one, true, false, "interaction_required"),
        (NEVER, app, false, true, "issue for 1"),
    ] {
        let mut live = live(1, SessionStage::SignedIn);
        live.session.amr = used.iter().map(|&method| method.to_owned()).collect();
        Arc::make_mut(&mut live.user).must_change_password = must_change_password;
        let parameters = match needs_second_factor {
            true => format!("{prompt}{second_factor}"),
            false => prompt.to_owned(),
        };
        let found = step(&parameters, Some(live), ClientConfirmation::NotNeeded);
        assert_eq!(found, expected, "{prompt:?} {used:?}");
    }
    for accounts in [0, 1, 3] {
        let live = live(accounts, SessionStage::SignedIn);
        let found = step(&second_factor, Some(live), ClientConfirmation::Needed);
        assert_eq!(found, "SetUpSecondFactor", "{accounts}");
    }
    let owing = live(1, SessionStage::SecondFactorOwed);
    let found = step(&second_factor, Some(owing), ClientConfirmation::NotNeeded);
    assert_eq!(found, "SecondFactor");
}

/// D-56: also where no application asks for anything.
#[test]
fn an_own_page_needs_a_sign_in_and_a_change_a_recent_one() {
    use SessionStage::{SecondFactorOwed, SignedIn as Complete};
    let page = Goal::OwnPage { other_user: false };
    let other_user = Goal::OwnPage { other_user: true };
    for (goal, stage, now, expected) in [
        (page, None, 1, "sign in"),
        (page, Some(SecondFactorOwed), 1, "SecondFactor"),
        (page, Some(Complete), 1_000_000, "own page"),
        (other_user, Some(SecondFactorOwed), 1, "sign in"),
        (other_user, Some(Complete), 1, "own page"),
        (Goal::OwnChange, None, 1, "sign in"),
        (Goal::OwnChange, Some(SecondFactorOwed), 601, "SecondFactor"),
        (Goal::OwnChange, Some(Complete), 600, "own page"),
        (Goal::OwnChange, Some(Complete), 601, "sign in again"),
    ] {
        let live = stage.map(|stage| live(0, stage));
        let now = Timestamp::from_seconds(now);
        let found = in_words(&next_step(goal, live, &Settings::default(), now));
        assert_eq!(found, expected, "{now:?}");
    }
}

/// D-34, RFC 8252 §8.6.
#[test]
fn a_live_session_alone_gives_no_code_to_a_native_client() {
    use ClientConfirmation::{Given, Needed};
    for (prompt, confirmation, accounts, expected) in [
        ("", Needed, 1, "confirm for 1"),
        ("", Given, 1, "issue for 1"),
        (NEVER, Needed, 1, "interaction_required"),
        (NEVER, Given, 1, "interaction_required"),
        // Choosing an account counts as confirmation.
        ("", Needed, 3, "select"),
        ("", Given, 3, "select"),
    ] {
        let live = live(accounts, SessionStage::SignedIn);
        let found = step(prompt, Some(live), confirmation);
        assert_eq!(found, expected, "{prompt:?} {confirmation:?}");
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
    let goal = Goal::Code(&request, ClientConfirmation::Given);
    let step = next_step(goal, Some(live), &Settings::default(), NOW);
    let signed_in = step.signed_in().unwrap();
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
