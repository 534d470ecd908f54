//! Wrong passwords, many at once: each costs the service a password hash.

use anyhow::{Context as _, Result};
use tests::browsing::csrf;
use tests::visitor::Visitor;

use super::client::{open_page, sign_in_form};
use super::tally::Tally;
use super::target::Target;

pub(super) fn wrong(target: &Target) -> Result<Tally> {
    guess(target, |_| Vec::new())
}

/// Each with another forged address: does the service count them for different people?
pub(super) fn with_forged_addresses(target: &Target) -> Result<Tally> {
    guess(target, |number| {
        let [a, b] = [number >> 8, number].map(|part| part & 0xff);
        let address = format!("203.0.{a}.{b}");
        vec![
            ("x-forwarded-for", address.clone()),
            ("forwarded", format!("for={address}")),
            ("x-real-ip", address),
        ]
    })
}

/// Sends wrong passwords for users other than the client's, each with the headers for its number.
fn guess(target: &Target, headers: fn(u64) -> Vec<(&'static str, String)>) -> Result<Tally> {
    let page = open_page(&target.world, &Visitor::default())?;
    let cookie = page.header("set-cookie").context("no cookie")?;
    let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
    let csrf = csrf(&page.body).context("the page has no form")?.to_owned();
    let url = format!("{}/auth/sign-in", target.world.lobby);
    target.flood(target.ports.lobby, 1, 64, move |attacker, number| {
        let (url, cookie, csrf) = (url.clone(), cookie.clone(), csrf.clone());
        async move {
            let username = match number % 3 {
                0 => "ada@example.com".to_owned(),
                1 => "mary@example.com".to_owned(),
                _ => format!("nobody-{number}@example.com"),
            };
            let headers = headers(number);
            let mut all = vec![("cookie", cookie.as_str())];
            all.extend(headers.iter().map(|(name, value)| (*name, value.as_str())));
            let form = sign_in_form(&csrf, &username, "wrong");
            Ok(attacker.post(&url, &all, &form).await?.status)
        }
    })
}
