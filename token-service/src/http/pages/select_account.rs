//! The choice among several linked accounts (protocol.md §1, §4.1).
//!
//! A cookie keeps the order: one unforgeable tag for each account that was chosen last in this browser. The cookie
//! names neither the user nor the account.

use actix_web::HttpResponse;

use super::browser::Browser;
use super::browser_token::page_with_token;
use super::cookies::with_cookie;
use super::failure::PageFailure;
use super::form::Form;
use super::journey::Journey;
use super::tags;
use super::templates::{OfferedAccount, SelectAccountPage, StepView};
use domain::digest::Digest;
use domain::{LinkedAccount, User};
use protocol::oauth::authorize::SignedIn;

/// Maximum number of accounts whose last use a browser keeps.
const MAX_REMEMBERED: usize = 8;

/// `POST /auth/select-account`: issues a code for the chosen account, or shows the accounts that fit the filter.
pub(super) async fn select(form: Form<Journey>) -> Result<HttpResponse, PageFailure> {
    let journey = &form.of;
    let Some(signed_in) = journey.signed_in().await? else {
        return Ok(journey.go_on());
    };
    // The button of the filter.
    if !form.field("show").is_empty() {
        return show_choice(journey, &signed_in, form.field("filter"));
    }
    let chosen = form.field("account").split_once(' ');
    let account = chosen
        .and_then(|(site, user_id)| signed_in.account(user_id, site))
        .ok_or(PageFailure::Account)?;
    let location = journey.issue(&signed_in, account).await?;
    let response = journey.redirect(&location);
    let browser = &journey.browser;
    let newest = tag(browser, signed_in.user(), account);
    let earlier = browser.cookies.accounts(&browser.http);
    let remembered = tags::with_newest(newest, earlier, MAX_REMEMBERED);
    let cookie = browser.cookies.set_accounts(remembered);
    Ok(with_cookie(response, &cookie))
}

/// The page with the accounts that fit `filter`, the last used first.
pub(super) fn show_choice(
    journey: &Journey,
    signed_in: &SignedIn,
    filter: &str,
) -> Result<HttpResponse, PageFailure> {
    let (browser, user) = (&journey.browser, signed_in.user());
    let words: Vec<String> = filter.split_whitespace().map(str::to_lowercase).collect();
    let accounts = last_used_first(browser, user).into_iter();
    let accounts = accounts.map(|account| OfferedAccount {
        account,
        label: browser.site_label(&account.site),
    });
    let accounts = accounts.filter(|offered| fits(offered, &words)).collect();
    page_with_token(browser, None, |token| SelectAccountPage {
        frame: browser.frame(),
        flow: StepView::of_journey(journey, token),
        username: user.username.as_str(),
        accounts,
        linked: user.accounts.len(),
        filter,
    })
}

fn tag(browser: &Browser, user: &User, account: &LinkedAccount) -> Digest {
    let parts = [
        b"chosen account".as_slice(),
        user.username.as_str().as_bytes(),
        account.site.as_bytes(),
        account.user_id.as_bytes(),
    ];
    Digest::from_bytes(browser.service.encryption_key.tag(&parts))
}

/// The accounts that were chosen last in this browser, then the others as they are registered.
fn last_used_first<'a>(browser: &Browser, user: &'a User) -> Vec<&'a LinkedAccount> {
    let used: Vec<Digest> = tags::read(browser.cookies.accounts(&browser.http)).collect();
    let mut accounts: Vec<&LinkedAccount> = user.accounts.iter().collect();
    if !used.is_empty() {
        accounts.sort_by_cached_key(|account| {
            let tag = tag(browser, user, account);
            used.iter()
                .position(|used| *used == tag)
                .unwrap_or(used.len())
        });
    }
    accounts
}

/// True if the account contains each of `words`, which are in lower case, in its name, User ID, site or label.
fn fits(offered: &OfferedAccount<'_>, words: &[String]) -> bool {
    let account = offered.account;
    let texts = [
        account.username.as_str(),
        account.user_id.as_str(),
        account.site.as_str(),
        offered.label,
    ];
    let texts = texts.map(str::to_lowercase);
    let is_contained = |word: &String| texts.iter().any(|text| text.contains(word.as_str()));
    words.iter().all(is_contained)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_a_filter_must_fit_whatever_its_case() {
        let account = LinkedAccount {
            user_id: "1879048401".into(),
            username: "Übersee-Grace".into(),
            site: "https://eu1.example.com".into(),
        };
        let offered = OfferedAccount {
            account: &account,
            label: "Bridge at Ulm",
        };
        let fits = |filter: &str| {
            let words: Vec<String> = filter.split_whitespace().map(str::to_lowercase).collect();
            super::fits(&offered, &words)
        };
        for filter in ["", " ", "über", "GRACE ulm", "8401", "eu1", "bridge grace"] {
            assert!(fits(filter), "{filter}");
        }
        for filter in ["ada", "grace ada", "eu2", "bridge-grace"] {
            assert!(!fits(filter), "{filter}");
        }
    }
}
