//! What a person signs in for: an application's request for a code, or an own page.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use askama::Template;

use super::browser::Browser;
use super::browser_token::page_with_token;
use super::confirm;
use super::ending::Ending;
use super::failure::PageFailure;
use super::form::Carried;
use super::journey::Journey;
use super::problem::Problem;
use super::response;
use super::templates::{OTHER_USER, StepView};
use crate::config::SignInForm;
use crate::http::paths;
use domain::clock::Timestamp;
use protocol::identity_provider::IdentityProvider;
use protocol::oauth::authorize::{Due, ExpectedUser, Goal, Step};
use protocol::sign_in::session::LiveSession;

pub(super) enum Purpose {
    /// A code for an application.
    Code(Journey),
    /// The page with the signed-in user.
    Home(Browser),
    /// The page that changes the password.
    Password(Browser),
    /// A change on that page, which needs a recent sign-in.
    End(Browser, Ending),
}

/// A person who may do what a form is for.
pub(super) struct Admitted {
    pub(super) live: LiveSession,
    /// The person must do it first.
    pub(super) is_due: bool,
}

impl Carried for Purpose {
    async fn carried(browser: Browser, request: &str) -> Result<Self, PageFailure> {
        // The forms of the person's own pages name no request.
        if request == paths::HOME || request.is_empty() {
            Ok(Self::Home(browser))
        } else if request == paths::PASSWORD {
            Ok(Self::Password(browser))
        } else if let Some(ending) = Ending::of_address(request) {
            Ok(Self::End(browser, ending))
        } else {
            Journey::carried(browser, request).await.map(Self::Code)
        }
    }
}

impl Purpose {
    pub(super) const fn browser(&self) -> &Browser {
        match self {
            Self::Code(journey) => &journey.browser,
            Self::Home(browser) | Self::Password(browser) | Self::End(browser, _) => browser,
        }
    }

    pub(super) const fn journey(&self) -> Option<&Journey> {
        match self {
            Self::Code(journey) => Some(journey),
            Self::Home(_) | Self::Password(_) | Self::End(..) => None,
        }
    }

    /// The only user who may sign in, if the request names a user.
    pub(super) fn expected_user(&self) -> Option<&ExpectedUser> {
        self.journey()
            .and_then(|journey| journey.request.expected_user())
    }

    /// The URL of the next step.
    pub(super) fn continuation(&self) -> String {
        match self {
            Self::Code(journey) => journey.continuation(),
            Self::Home(_) => paths::HOME.to_owned(),
            Self::Password(_) => paths::PASSWORD.to_owned(),
            Self::End(_, ending) => ending.address(),
        }
    }

    /// What the person has to do next.
    pub(super) async fn next_step(&self) -> Result<Step, PageFailure> {
        let browser = self.browser();
        let live = browser.live_session().await?;
        let goal = match self {
            Self::Code(journey) => {
                let id = live.as_ref().map(|live| &live.id);
                journey.goal(confirm::confirmation(journey, id))
            }
            Self::Home(_) | Self::Password(_) => Goal::OwnPage {
                other_user: browser.http.query_string() == OTHER_USER,
            },
            Self::End(..) => Goal::OwnChange,
        };
        Ok(browser.next_step(goal, live))
    }

    /// Admits the person to `what`: on the own pages if nothing else is due, and for an application only while it is due. While
    /// a page was open, the person may have done it in another tab, or another person may have signed in.
    pub(super) async fn admit(&self, what: Due) -> Result<Option<Admitted>, PageFailure> {
        Ok(match self.next_step().await? {
            Step::Due(due, live) if due == what => Some(Admitted { live, is_due: true }),
            Step::OwnPage(signed_in) => Some(Admitted {
                live: signed_in.live().clone(),
                is_due: false,
            }),
            _ => None,
        })
    }

    /// The time of the oldest sign-in that counts; `None` if any does.
    pub(super) fn oldest_sign_in(&self) -> Option<Timestamp> {
        match self {
            Self::Code(journey) => journey.oldest_sign_in(),
            Self::Home(_) | Self::Password(_) => None,
            Self::End(browser, _) => Some(browser.context().now),
        }
    }

    /// The identity providers by which the person may sign in, in the order of the configuration: the application's, or all.
    pub(super) fn providers(&self) -> impl Iterator<Item = &IdentityProvider> {
        let own = self.journey().map(|journey| journey.request.client());
        let own = own.map(|client| client.identity_providers.as_slice());
        let own = own.filter(|own| !own.is_empty());
        let settings = &self.browser().service.config.protocol;
        settings.identity_providers.iter().filter(move |provider| {
            let is_own = own.is_none_or(|own| own.contains(&provider.issuer));
            is_own && provider.client_id.is_some()
        })
    }

    /// What the sign-in page offers first.
    pub(super) fn sign_in_form(&self) -> SignInForm {
        let client = self
            .journey()
            .map(|journey| &journey.request.client().client_id);
        self.browser().service.config.sign_in_page.of(client)
    }

    /// Redirects the browser after a step.
    pub(super) fn go_on(&self) -> HttpResponse {
        response::redirect(StatusCode::SEE_OTHER, &self.continuation())
    }

    /// A page with the browser's CSRF token. `problem`: what the page says about the form before.
    pub(super) fn show<'a, Page: Template>(
        &'a self,
        problem: Option<Problem<'_>>,
        page: impl FnOnce(StepView<'a>) -> Page,
    ) -> Result<HttpResponse, PageFailure> {
        page_with_token(self.browser(), problem, |token| {
            page(match self {
                Self::Code(journey) => StepView::of_journey(journey, token),
                Self::Home(browser) => StepView::of_home(browser, token),
                Self::Password(browser) => StepView {
                    request: self.continuation(),
                    ..StepView::of_home(browser, token)
                },
                Self::End(browser, ending) => StepView::of_end(browser, token, ending),
            })
        })
    }
}
