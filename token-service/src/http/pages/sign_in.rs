//! The forms of the sign-in: password and one-time code.

use actix_web::HttpResponse;

use super::browser::Browser;
use super::confirm;
use super::cookies::with_cookie;
use super::failure::PageFailure;
use super::form::Form;
use super::offer::Offer;
use super::problem::Problem;
use super::purpose::Purpose;
use super::templates::{PasswordAlonePage, RecoveryCodeUsedPage, SecondFactorPage, SignInPage};
use crate::config::SignInForm;
use crate::telemetry::audit_log::Entry;
use domain::{AuditAction, SessionStage, UnfinishedSignIns, User};
use protocol::sign_in::{self, Begun, CodeRefusal, SecondFactorOutcome, SessionId, SignInOutcome};

/// `POST /auth/sign-in`.
pub(super) async fn password(form: Form<Purpose>) -> Result<HttpResponse, PageFailure> {
    let (purpose, browser) = (&form.of, form.of.browser());
    // If the request names a user, no other user can sign in, whatever the form contains.
    let username = match purpose.expected_user() {
        Some(expected) => expected.username.as_str(),
        None => form.field("username"),
    };
    let password = form.field("password").to_owned().into();
    let replaces = browser.session_id();
    let context = browser.context();
    let (replaces, place) = (replaces.as_ref(), browser.place());
    let outcome = sign_in::with_password(&context, username, password, replaces, &place).await?;
    record(browser, &outcome, None);
    let problem = match outcome {
        SignInOutcome::Begun(begun) => {
            let response = next(purpose, &begun.unfinished, None)?;
            return Ok(signed_in(response, purpose, &begun));
        }
        SignInOutcome::Refused(_) | SignInOutcome::TooOld(_) | SignInOutcome::SignedOut(_) => {
            Problem::PasswordRefused
        }
        SignInOutcome::Wait(_, wait) => Problem::Wait(wait),
    };
    ask(purpose, username, Some(problem))
}

/// The page that asks for the password, or for a provider. `username`: suggestion for the field.
pub(super) fn ask(
    purpose: &Purpose,
    username: &str,
    problem: Option<Problem<'_>>,
) -> Result<HttpResponse, PageFailure> {
    show_form(purpose, purpose.sign_in_form(), username, problem)
}

/// The page that asks a person who is signed in to prove it again: with the form if the person has a password, whatever the page
/// offers others.
pub(super) fn ask_again(purpose: &Purpose, user: &User) -> Result<HttpResponse, PageFailure> {
    let form = match (purpose.sign_in_form(), &user.password_hash) {
        (_, None) => SignInForm::ProvidersOnly,
        (SignInForm::ProvidersOnly, Some(_)) => SignInForm::ProvidersFirst,
        (form, Some(_)) => form,
    };
    show_form(purpose, form, user.username.as_str(), None)
}

fn show_form(
    purpose: &Purpose,
    form: SignInForm,
    username: &str,
    problem: Option<Problem<'_>>,
) -> Result<HttpResponse, PageFailure> {
    let is_refused = problem == Some(Problem::PasswordRefused);
    let providers: Vec<_> = purpose.providers().collect();
    purpose.show(problem, |flow| SignInPage {
        frame: flow.frame,
        offer: Offer::of(
            &providers,
            form,
            flow.expected_user.unwrap_or(username),
            is_refused,
        ),
        flow,
        username,
        problem,
    })
}

/// `POST /auth/second-factor`.
pub(super) async fn second_factor(form: Form<Purpose>) -> Result<HttpResponse, PageFailure> {
    let (purpose, browser) = (&form.of, form.of.browser());
    let in_field = form.field("recovery_code");
    let code = match in_field {
        "" => form.field("code"),
        code => code,
    };
    // In whichever field: the codes of an app have no letters.
    let recovery_code = !in_field.is_empty() || code.contains(char::is_alphabetic);
    let context = browser.context();
    let outcome = match browser.session_id() {
        Some(id) => sign_in::with_second_factor(&context, &id, code, &browser.place()).await?,
        None => SecondFactorOutcome::NotOwed,
    };
    let (username, refusal) = match outcome {
        SecondFactorOutcome::SignedIn {
            begun,
            recovery_codes_left,
        } => {
            let entry = Entry::new(AuditAction::SignIn).by_user(begun.username.as_str());
            let settings = &browser.service.config.protocol;
            let first = match &begun.provider {
                None => "password".to_owned(),
                Some(issuer) => match settings.identity_provider(issuer) {
                    Some(provider) => format!("identity provider {}", provider.id),
                    None => format!("identity provider {issuer}"),
                },
            };
            let second = match recovery_codes_left {
                Some(_) => "recovery code",
                None => "one-time code",
            };
            browser.record(entry.detail(format!("{first}, {second}")));
            let response = next(purpose, &begun.unfinished, recovery_codes_left)?;
            return Ok(signed_in(response, purpose, &begun));
        }
        // The user is already signed in, or the time limit is over. The start of the request decides the next step.
        SecondFactorOutcome::NotOwed => return Ok(purpose.go_on()),
        SecondFactorOutcome::Refused(username, refusal) => (username, refusal),
    };
    let entry = |action| Entry::new(action).by_user(username.as_str());
    browser.record(match refusal {
        CodeRefusal::Wrong => entry(AuditAction::SecondFactorRefused),
        CodeRefusal::Used => entry(AuditAction::SecondFactorRefused).detail("used before"),
        CodeRefusal::Wait(_) => entry(AuditAction::SignInThrottled).detail("second factor"),
    });
    let problem = match refusal {
        CodeRefusal::Wrong if recovery_code => Problem::RecoveryCodeWrong,
        refusal => refusal.into(),
    };
    purpose.show(Some(problem), |flow| SecondFactorPage {
        frame: flow.frame,
        flow,
        recovery_code,
        problem: Some(problem),
    })
}

/// The response to a right form: a page with what the person should know of, or else the next step.
pub(super) fn next(
    purpose: &Purpose,
    unfinished: &UnfinishedSignIns,
    recovery_codes_left: Option<usize>,
) -> Result<HttpResponse, PageFailure> {
    if !unfinished.is_empty() {
        return purpose.show(None, |flow| PasswordAlonePage {
            frame: flow.frame,
            flow,
            unfinished,
            recovery_codes_left,
        });
    }
    match (recovery_codes_left, purpose) {
        (Some(left), Purpose::Code(_)) => purpose.show(None, |flow| RecoveryCodeUsedPage {
            frame: flow.frame,
            flow,
            left,
        }),
        // The home page always says how many codes are left.
        _ => Ok(purpose.go_on()),
    }
}

/// `provider`: the identity provider, in place of a password.
pub(super) fn record(browser: &Browser, outcome: &SignInOutcome, provider: Option<&str>) {
    let (action, username) = match outcome {
        SignInOutcome::Begun(begun) => {
            let action = match begun.stage {
                SessionStage::SignedIn => AuditAction::SignIn,
                SessionStage::SecondFactorOwed => AuditAction::SecondFactorRequired,
            };
            (action, Some(&begun.username))
        }
        SignInOutcome::Refused(username) => (AuditAction::SignInRefused, username.as_ref()),
        SignInOutcome::TooOld(username) | SignInOutcome::SignedOut(username) => {
            (AuditAction::SignInRefused, Some(username))
        }
        SignInOutcome::Wait(username, _) => (AuditAction::SignInThrottled, username.as_ref()),
    };
    let entry = Entry::new(action);
    let entry = match provider {
        Some(id) => entry.detail(match outcome {
            SignInOutcome::TooOld(_) => format!(
                "identity provider {id}: the sign-in there is older than a sign-out, password or app here; asked again"
            ),
            SignInOutcome::SignedOut(_) => format!(
                "identity provider {id}: the provider signed the person out during the sign-in"
            ),
            _ => format!("identity provider {id}"),
        }),
        None => entry,
    };
    browser.record(match username {
        Some(username) => entry.by_user(username.as_str()),
        // An unregistered username may be a password in the wrong field.
        None => entry.detail("unknown user"),
    });
}

/// Adds the cookies of a session that has begun to the response.
pub(super) fn with_cookies(
    response: HttpResponse,
    browser: &Browser,
    begun: &Begun,
) -> HttpResponse {
    let mut response = with_cookie(response, &browser.cookies.set_session(&begun.id));
    if browser.cookies.is_signed_out(&browser.http) {
        response = with_cookie(response, &browser.cookies.remove_signed_out());
    }
    browser.cookies.with_device(response, begun.device.as_ref())
}

/// Adds the cookies of a sign-in to the response. Typing the password for a client confirms the client: a provider may have signed
/// in the person without a word.
fn signed_in(response: HttpResponse, purpose: &Purpose, begun: &Begun) -> HttpResponse {
    let response = with_cookies(response, purpose.browser(), begun);
    match purpose.journey() {
        Some(journey) => confirm::remember(response, journey, &begun.id),
        None => response,
    }
}

/// Adds the cookies of a session that goes on with the session `from` to the response.
pub(super) fn goes_on(
    response: HttpResponse,
    purpose: &Purpose,
    from: &SessionId,
    begun: &Begun,
) -> HttpResponse {
    let response = with_cookies(response, purpose.browser(), begun);
    match purpose.journey() {
        Some(journey) => confirm::carry_over(response, journey, from, &begun.id),
        None => response,
    }
}
