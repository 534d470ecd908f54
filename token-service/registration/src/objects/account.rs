//! The linked accounts of users.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use url::Url;

use crate::describe::Field;
use crate::describe::checks::{MAX_CLAIM_LENGTH, unique};
use crate::describe::member::member;
use crate::describe::reading::{Entry, Registration, required_claim};
use crate::describe::shape::{Record, Shape};
use crate::describe::value::Item;
use crate::describe::view;
use document::Located;
use domain::LinkedAccount;

const FIELDS: &[Field<LinkedAccount>] = &[
    Field {
        required: true,
        members: &[&member!(LinkedAccount, user_id, required_claim)],
        ..Field::new("user_id", "User ID", "User ID of the account.")
    },
    Field {
        required: true,
        members: &[&member!(LinkedAccount, username, required_claim)],
        ..Field::new("username", "Username", "Username of the account.")
    },
    Field {
        required: true,
        members: &[&member!(LinkedAccount, site, |entry, key| entry.required(key, site))],
        ..Field::new(
            "site",
            "Site",
            "URL of the instance on which the account is located.",
        )
    },
];

/// A linked account in registrations and views.
pub fn record() -> Record {
    view::record(FIELDS, "AccountView", "A linked account.")
}

impl Item for LinkedAccount {
    const SHAPE: Shape = Shape::Record(record);

    fn text(&self) -> String {
        // The quotes separate the two texts.
        format!("{:?} ({})", self.username, self.key())
    }

    fn key(&self) -> String {
        format!("{:?} at {:?}", self.user_id, self.site)
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

pub(super) fn read(entry: &mut Entry<'_, '_>, key: &'static str) -> Option<Vec<LinkedAccount>> {
    let mut seen = BTreeMap::new();
    let mut accounts = Vec::new();
    for section in entry.section.sections(key) {
        let mut account = Entry::new(FIELDS, section, &mut *entry.reading);
        let place = account.section.place().clone();
        let mut read = Registration::of(LinkedAccount {
            user_id: String::new(),
            username: String::new(),
            site: String::new(),
        });
        account.fields(FIELDS, Some(&mut read));
        let LinkedAccount { user_id, site, .. } = &read.object;
        if !user_id.is_empty() && !site.is_empty() {
            let value = format!("{user_id} at {site}");
            let named = Located { value, place };
            unique(&account.section, "linked account", &named, &mut seen);
        }
        account.section.finish();
        accounts.push(read.object);
    }
    Some(accounts)
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
