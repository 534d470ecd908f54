//! Wrong passwords, many at once: each costs the service a password hash.

use anyhow::{Context as _, Result};
use tests::browsing::csrf;
use tests::visitor::Visitor;

use super::Attack;
use super::client::{AUTHORIZE, Operation, sign_in_form};
use super::tally::Tally;
use super::target::Target;

pub(crate) const ATTACK: Attack = Attack {
    name: "wrong-passwords",
    about: "64 wrong passwords at once, for people who exist and people who do not",
    // Envoy reports the same address for the attacker and the client, because both run on this machine. The service
    // therefore delays an unknown browser together with the attacker, and has no hashing place for it. A known device
    // has its own delays and places.
    outage: None,
    explains: &[(Operation::SignIn, 429), (Operation::SignIn, 503)],
    run: |target| guess(target, |_| Vec::new()),
};

/// Sends wrong passwords for users other than the client's, each with the headers for its number.
pub(crate) fn guess(
    target: &Target,
    headers: fn(u64) -> Vec<(&'static str, String)>,
) -> Result<Tally> {
    let page = Visitor::default().get(&format!("{}{AUTHORIZE}", target.lobby), &[])?;
    let cookie = page.header("set-cookie").context("no cookie")?;
    let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
    let csrf = csrf(&page.body).context("the page has no form")?.to_owned();
    let lobby = target.lobby.clone();
    target.flood(target.ports.lobby, 1, 64, move |attacker, number| {
        let username = match number % 3 {
            0 => "ada@example.com".to_owned(),
            1 => "mary@example.com".to_owned(),
            _ => format!("nobody-{number}@example.com"),
        };
        let form = sign_in_form(&csrf, &username, "wrong");
        let (url, cookie) = (format!("{lobby}/auth/sign-in"), cookie.clone());
        async move {
            let headers = headers(number);
            let mut all = vec![("cookie", cookie.as_str())];
            all.extend(headers.iter().map(|(name, value)| (*name, value.as_str())));
            Ok(attacker.post(&url, &all, &form).await?.status)
        }
    })
}
