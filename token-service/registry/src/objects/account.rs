//! The linked accounts of users.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use url::Url;
use utoipa::ToSchema;

use crate::describe::checks::{MAX_CLAIM_LENGTH, claim_text, compared_text, unique, unique_in};
use crate::describe::reading::{Entry, required};
use document::Located;
use domain::LinkedAccount;
use domain::registry_index::account_value;

/// A linked account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountView {
    /// User ID of the account.
    pub user_id: String,
    /// Username of the account.
    pub username: String,
    /// URL of the instance on which the account is located.
    pub site: String,
}

impl From<&LinkedAccount> for AccountView {
    fn from(account: &LinkedAccount) -> Self {
        let LinkedAccount {
            user_id,
            username,
            site,
        } = account.clone();
        Self {
            user_id,
            username,
            site,
        }
    }
}

pub(super) fn text(account: &LinkedAccount) -> String {
    let LinkedAccount {
        user_id,
        username,
        site,
    } = account;
    format!("{username:?} ({user_id:?} at {site:?})")
}

pub(super) fn read(entry: &mut Entry<'_, '_>) -> Vec<LinkedAccount> {
    let (mut seen, mut own) = (BTreeMap::new(), BTreeSet::new());
    let mut accounts = Vec::new();
    for mut section in entry.section.sections("accounts") {
        let user_id = required(&mut section, "user_id", compared_text);
        let username = required(&mut section, "username", claim_text);
        let site = required(&mut section, "site", site);
        if let (Some(user_id), Some(site)) = (user_id, site) {
            let value = format!("{user_id} at {site}");
            let place = section.place().clone();
            let mut sites = accounts.iter().map(|known: &LinkedAccount| &known.site);
            let of = |site: &str| site.trim_end_matches('/').to_owned();
            if let Some(known) = sites.find(|known| **known != site && of(known) == of(&site)) {
                let message = format!(
                    "site: {site} differs from the site {known} of another account only by a slash: write {known}"
                );
                section.report(&place, message);
            }
            let named = Located { value, place };
            let is_new = !seen.contains_key(&named.value);
            unique(&section, "linked account", &named, &mut seen);
            let account = LinkedAccount {
                user_id,
                username: username.unwrap_or_default(),
                site,
            };
            // No two users of a document have it, however they spell the site.
            let value = account_value(&account).filter(|value| is_new && own.insert(value.clone()));
            if let Some((site, user_id)) = value.as_deref().and_then(|value| value.split_once(' '))
            {
                let value = format!("linked account: {user_id} at {site}");
                let place = named.place;
                unique_in(
                    &section,
                    &Located { value, place },
                    &mut entry.reading.owned,
                );
            }
            accounts.push(account);
        }
        section.finish();
    }
    accounts
}

/// The URL of an instance. Clients send it back as `user_site`, so it is stored and compared as text.
fn site(text: &str) -> Result<String, &'static str> {
    const EXPECTED: &str =
        "expected an http or https URL of at most 255 characters of printable ASCII";
    let url = Url::parse(text).map_err(|_| EXPECTED)?;
    let legal = matches!(url.scheme(), "https" | "http")
        && text.len() <= MAX_CLAIM_LENGTH
        && text.bytes().all(|byte| byte.is_ascii_graphic());
    if legal {
        Ok(text.to_owned())
    } else {
        Err(EXPECTED)
    }
}
