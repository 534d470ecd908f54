//! Shows the pages of a journey.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use askama::Template;

use super::browser_token::page_with_token;
use super::failure::PageFailure;
use super::journey::Journey;
use super::templates::StepView;

/// A page of `journey`, with the browser's CSRF token.
pub(super) fn show<'a, Page: Template>(
    journey: &'a Journey,
    status: StatusCode,
    page: impl FnOnce(StepView<'a>) -> Page,
) -> Result<HttpResponse, PageFailure> {
    page_with_token(&journey.browser, status, |token| {
        page(StepView::of_journey(journey, token))
    })
}
