//! Signing in with an identity provider: the way there, and back.

use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::web::Path;
use actix_web::{HttpMessage as _, HttpRequest, HttpResponse};
use tokio::time::timeout_at;

use super::browser::Browser;
use super::browser_token::with_token;
use super::carried;
use super::failure::PageFailure;
use super::form::{Carried as _, Form};
use super::looks::only_looks;
use super::notice::{self, Changed};
use super::problem::{Problem, ProviderProblem};
use super::purpose::Purpose;
use super::response;
use super::sign_in;
use super::templates::NotLinkedPage;
use crate::http::origin::{self, RequestId};
use crate::providers::{RedeemError, deadline};
use crate::telemetry::audit_log::Entry;
use domain::clock::Timestamp;
use domain::{AuditAction, Identity, Session, User};
use protocol::identity_provider::IdentityProvider;
use protocol::oauth::parameters::Parameters;
use protocol::provider_sign_in::id_token::{IdToken, TokenRefusal};
use protocol::provider_sign_in::{
    Arrival, Departure, DepartureError, Wish, arrive, count_answer, depart,
};
use protocol::sign_in::SignInOutcome;
use registry::change::Edit;
use registry::identities;
use store::Use;

/// `POST /auth/provider`: the button of a provider.
pub(super) async fn begin(form: Form<Purpose>) -> Result<HttpResponse, PageFailure> {
    let purpose = &form.of;
    let wanted = form.field("provider");
    let provider = purpose.providers().find(|provider| provider.id == wanted);
    let provider = provider.ok_or(PageFailure::NothingHere(None))?;
    leave(
        purpose,
        provider,
        StatusCode::SEE_OTHER,
        purpose.oldest_sign_in(),
    )
    .await
}

/// Sends the browser to the provider. If that is not possible, the sign-in page says why.
pub(super) async fn leave(
    purpose: &Purpose,
    provider: &IdentityProvider,
    status: StatusCode,
    oldest: Option<Timestamp>,
) -> Result<HttpResponse, PageFailure> {
    let browser = purpose.browser();
    let endpoints = match browser.service.providers.endpoints(provider).await {
        Ok(endpoints) => endpoints,
        Err(_) => return sign_in_page(purpose, provider, ProviderProblem::Unavailable),
    };
    let journey = purpose.journey();
    let expected = purpose.expected_user().map(|user| user.email.as_str());
    let continuation = purpose.continuation();
    let context = browser.context();
    let legacy = context.summary.legacy_instance(origin::host(&browser.http));
    let left = with_token(browser, |secret| {
        let wish = Wish {
            continuation: &continuation,
            oldest,
            host: legacy.map(|instance| instance.hostname.as_str()),
            login_hint: expected.or(journey.and_then(|journey| journey.request.login_hint())),
            browser: secret,
        };
        let endpoint = &endpoints.authorization_endpoint;
        let address = depart(&context, provider, endpoint, wish)?;
        Ok(response::redirect(status, address.as_str()))
    });
    match left {
        Err(DepartureError::TooLong) => sign_in_page(purpose, provider, ProviderProblem::TooLong),
        left => Ok(left?),
    }
}

/// Before a sensitive change, sends a person whom a provider has signed in back to the provider to sign in again. Other people give
/// their password. `None` if the sign-in is at most this old, or was with a password.
pub(super) async fn again(
    purpose: &Purpose,
    session: &Session,
    most: Duration,
    status: StatusCode,
) -> Result<Option<HttpResponse>, PageFailure> {
    let now = purpose.browser().context().now;
    let Some(sign_in) = &session.provider else {
        return Ok(None);
    };
    if now.since(session.authenticated_at) <= most {
        return Ok(None);
    }
    let issuer = &sign_in.identity.issuer;
    let mut providers = purpose.providers();
    if let Some(provider) = providers.find(|provider| provider.issuer == *issuer) {
        return leave(purpose, provider, status, Some(now)).await.map(Some);
    }
    sign_in::ask(purpose, session.username.as_str(), None).map(Some)
}

/// The sign-in page, with what went wrong at the provider.
fn sign_in_page(
    purpose: &Purpose,
    provider: &IdentityProvider,
    problem: ProviderProblem,
) -> Result<HttpResponse, PageFailure> {
    show(purpose, Problem::Provider(problem, &provider.name))
}

fn show(purpose: &Purpose, problem: Problem<'_>) -> Result<HttpResponse, PageFailure> {
    let hint = purpose
        .journey()
        .and_then(|journey| journey.request.login_hint());
    sign_in::ask(purpose, hint.unwrap_or_default(), Some(problem))
}

/// `GET /auth/provider/{id}`: the browser comes back (OpenID Connect Core 1.0 §3.1.2.5).
pub(super) async fn back(
    http: HttpRequest,
    browser: Browser,
    id: Path<String>,
) -> Result<HttpResponse, PageFailure> {
    // Nobody has opened the address: the sign-in would be used up.
    if let Some(status) = only_looks(&http) {
        return Ok(HttpResponse::build(status).finish());
    }
    let query = http.query_string().to_owned();
    let parameters = Parameters::parse(query.as_bytes())?;
    let state = parameters.get("state").unwrap_or_default();
    let departure = Departure::of(&browser.context(), state).ok_or(PageFailure::ProviderAnswer)?;
    if let Some(address) = elsewhere(&browser, &departure) {
        return Ok(response::redirect(StatusCode::FOUND, &address));
    }
    let secret = browser.cookies.csrf(&http).ok_or(PageFailure::NoCookies)?;
    if !departure.is_of(secret.as_str()) {
        return Err(PageFailure::ProviderAnswer);
    }
    carried::keep(&http, &departure.continuation);
    // Another provider answers in place of the one to which the browser was sent (RFC 9700 §4.4).
    if departure.provider != *id {
        return Err(PageFailure::ProviderAnswer);
    }
    let purpose = Purpose::carried(browser, &departure.continuation).await?;
    // The configuration, or the client's providers, may have changed meanwhile.
    let provider = purpose.providers().find(|provider| provider.id == *id);
    let provider = provider.ok_or(PageFailure::ProviderAnswer)?;
    let context = purpose.browser().context();
    let place = purpose.browser().place();
    let attempt = match count_answer(&context, provider, &place).await? {
        Ok(attempt) => attempt,
        Err(wait) => return show(&purpose, Problem::Wait(wait)),
    };
    // After the throttle: a browser that has to wait writes nothing, and may come back with the same address.
    if departure.come_back(&context).await? == Use::Again {
        return Err(PageFailure::ProviderAnswer);
    }
    match answered(purpose.browser(), provider, &departure, &parameters).await {
        Ok(token) => {
            attempt.forgive().await?;
            receive(&purpose, provider, &departure, token).await
        }
        Err((problem, why)) => {
            refused(purpose.browser(), provider, None, &why);
            if problem != ProviderProblem::Failed {
                attempt.take_back().await?;
            }
            sign_in_page(&purpose, provider, problem)
        }
    }
}

/// The address of this request at the host of the legacy flow from which the browser left, if this is another one. The service sends
/// browsers only to registered hosts, whatever `Host` a request had.
fn elsewhere(browser: &Browser, departure: &Departure) -> Option<String> {
    let http = &browser.http;
    let mut instances = browser.context().summary.legacy_instances.iter();
    let left = departure.host.as_ref()?;
    let instance = instances.find(|instance| instance.hostname == *left)?;
    let (scheme, _) = browser.issuer().split_once("://")?;
    let (path, query) = (http.path(), http.query_string());
    (!instance.is_at(origin::host(http))).then(|| format!("{scheme}://{left}{path}?{query}"))
}

/// The ID token that the provider answered with.
///
/// # Errors
/// What the page says, and why for the audit log.
async fn answered(
    browser: &Browser,
    provider: &IdentityProvider,
    departure: &Departure,
    parameters: &Parameters<'_>,
) -> Result<IdToken, (ProviderProblem, String)> {
    use ProviderProblem::{Cancelled, Failed, Unavailable};
    let unavailable = |why: &str| (Unavailable, why.to_owned());
    let providers = &browser.service.providers;
    // For all requests together. Each says in the log that it ended there.
    let until = deadline();
    let endpoints = providers.endpoints(provider).await;
    let endpoints = endpoints.map_err(|_| unavailable("it does not answer"))?;
    // RFC 9207 §2.4.
    let is_same = match parameters.get("iss") {
        Some(issuer) => issuer == provider.issuer,
        None => !endpoints.iss_parameter_supported,
    };
    if !is_same {
        let why = "iss of the response is missing or of another provider";
        return Err((Failed, why.to_owned()));
    }
    let code = match (parameters.get("error"), parameters.get("code")) {
        (None, Some(code)) => code,
        (None, None) => return Err((Failed, "no code in the response".to_owned())),
        (Some(error), _) => {
            let description = parameters.get("error_description").unwrap_or_default();
            let problem = match error {
                "access_denied" => Cancelled,
                _ => Failed,
            };
            return Err((problem, printable(&format!("{error} {description}"))));
        }
    };
    let context = browser.context();
    let redirect_uri = provider.redirect_uri(&context.settings.issuer);
    let verifier = &departure.code_verifier;
    let redeemed = providers.redeem(provider, code, &redirect_uri, verifier, until);
    let token = redeemed.await.map_err(|error| match error {
        RedeemError::Unavailable(_) => unavailable("its token endpoint does not answer"),
        error => (Failed, printable(&error.to_string())),
    })?;
    let verified = IdToken::verify(&context, provider, &token, &departure.nonce);
    match timeout_at(until, verified).await {
        Ok(Ok(token)) => Ok(token),
        Ok(Err(TokenRefusal::Unavailable(_))) | Err(_) => {
            Err(unavailable("its keys cannot be fetched"))
        }
        Ok(Err(error)) => Err((Failed, printable(&format!("ID token: {error}")))),
    }
}

/// Records a sign-in that stopped, of the user if somebody is linked.
fn refused(browser: &Browser, provider: &IdentityProvider, user: Option<&User>, why: &str) {
    let entry = Entry::new(AuditAction::SignInRefused);
    let entry = entry.detail(format!("identity provider {}: {why}", provider.id));
    browser.record(match user {
        Some(user) => entry.by_user(user.username.as_str()),
        None => entry,
    });
}

/// A text of the provider for the audit log.
fn printable(text: &str) -> String {
    let text: String = text.chars().take(200).collect();
    protocol::oauth::message::printable(&text)
}

/// Signs the person in, if a user is linked to the identity.
async fn receive(
    purpose: &Purpose,
    provider: &IdentityProvider,
    departure: &Departure,
    token: IdToken,
) -> Result<HttpResponse, PageFailure> {
    let browser = purpose.browser();
    let context = browser.context();
    let Some(user) = linked(browser, provider, &token).await? else {
        let subject = printable(&token.identity.subject);
        refused(
            browser,
            provider,
            None,
            &format!("nobody is linked to {subject}"),
        );
        let request_id = browser.http.extensions().get::<RequestId>().cloned();
        return purpose.show(None, |flow| NotLinkedPage {
            frame: flow.frame,
            flow,
            provider: &provider.name,
            request_id: request_id.map(|id| id.0).unwrap_or_default(),
            time: context.now.rfc3339(),
        });
    };
    let expected = purpose.expected_user();
    let refused = |why: &str| refused(browser, provider, Some(&user), why);
    if expected.is_some_and(|expected| expected.username != user.username) {
        refused("the request is for another user");
        return sign_in_page(purpose, provider, ProviderProblem::OtherPerson);
    }
    let skew = context.settings.lifetimes.clock_skew;
    let Some(signed_in_at) = departure.signed_in_at(token.signed_in_at, context.now, skew) else {
        refused("auth_time is older than the request allows");
        return sign_in_page(purpose, provider, ProviderProblem::NotRecent);
    };
    let arrival = Arrival {
        sign_in: departure.answered_by(&token, context.now, browser.service.clock.now(), skew),
        amr: token.amr,
        signed_in_at,
    };
    let (replaces, place) = (browser.session_id(), browser.place());
    let arrived = arrive(&context, &user, arrival, replaces.as_ref(), &place);
    let outcome = arrived.await?;
    sign_in::record(browser, &outcome, Some(&provider.id));
    match outcome {
        SignInOutcome::Begun(begun) => {
            let response = sign_in::next(purpose, &begun.unfinished, None)?;
            Ok(sign_in::with_cookies(response, browser, &begun))
        }
        // The provider, or the browser, did not do what it was asked for.
        SignInOutcome::TooOld(_) if departure.asks_again() => {
            sign_in_page(purpose, provider, ProviderProblem::NotRecent)
        }
        SignInOutcome::TooOld(_) => {
            leave(purpose, provider, StatusCode::FOUND, Some(context.now)).await
        }
        SignInOutcome::SignedOut(_) => sign_in_page(purpose, provider, ProviderProblem::SignedOut),
        SignInOutcome::Refused(_) | SignInOutcome::Wait(..) => {
            sign_in_page(purpose, provider, ProviderProblem::Failed)
        }
    }
}

/// The enabled user to whom the identity is linked. If nobody is, and the provider may link by e-mail, the only enabled user with the
/// verified address is linked now.
async fn linked(
    browser: &Browser,
    provider: &IdentityProvider,
    token: &IdToken,
) -> Result<Option<User>, PageFailure> {
    let service = &browser.service;
    if let Some(user) = service
        .directory()
        .user_of_identity(&token.identity)
        .await?
    {
        return Ok(Some(User::clone(&user)));
    }
    match &token.verified_email {
        Some(email) => linked_by_email(browser, provider, &token.identity, email).await,
        None => Ok(None),
    }
}

/// Links the identity to the user whom the verified address names, if the provider may do that.
async fn linked_by_email(
    browser: &Browser,
    provider: &IdentityProvider,
    identity: &Identity,
    email: &str,
) -> Result<Option<User>, PageFailure> {
    let service = &browser.service;
    if !provider.link_by_email {
        return Ok(None);
    }
    let tell = |user: &User| {
        let entry = Entry::new(AuditAction::IdentityLinked).user(user.username.as_str());
        let entry = entry.detail(format!("{identity}, by e-mail address"));
        let changed = Changed::IdentityLinked(&provider.name);
        (entry, notice::of(browser, user, &changed))
    };
    let store = &*service.store;
    let linked = browser.change(async || {
        let planned = identities::link_by_email(provider, identity, email, store, tell).await?;
        Ok(planned.map_or_else(|| Edit::nothing(None), |edit| edit.map(Some)))
    });
    match linked.await? {
        Some(username) => Ok(store.user(username).await?),
        None => Ok(None),
    }
}
