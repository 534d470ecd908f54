//! The index of clients and users. A store keeps it in its own tables, so that a question about all registrations
//! reads few rows, however many registrations there are.
//!
//! The stores write the index in the same transaction as the row of the client or user. Each change adds only the
//! [difference](IndexDifference) that it makes. If a damaged row can no longer be read, its values stay in the index.

use std::borrow::Cow;
use std::collections::BTreeMap;

use strum::{FromRepr, IntoStaticStr};
use url::Url;

use crate::certificate::Certificate;
use crate::client::{Client, ClientId, IntegrationType};
use crate::clock::Timestamp;
use crate::identity::Identity;
use crate::password_scheme;
use crate::redirect_uri::without_port;
use crate::registry_summary::CertificateExpiry;
use crate::user::{LinkedAccount, User};

/// Maximum length of an indexed value, in bytes. PostgreSQL refuses a key of more than some 2,700 bytes. Only a scope
/// can be longer, and a summary does not list such a scope.
const MAX_LENGTH: usize = 1024;

/// A kind of values that objects share. The stores contain the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, FromRepr, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
#[repr(u8)]
pub enum CountedKind {
    /// A scope of enabled clients.
    Scope = 1,
    /// The [web origin](crate::RedirectUriPattern::web_origin) of redirect URIs of enabled installed clients.
    AppOrigin = 2,
    /// The [origin with any port](crate::RedirectUriPattern::any_port_origin) of redirect URIs of enabled installed
    /// clients.
    AppLoopback = 3,
    /// A scheme of password hashes.
    PasswordScheme = 4,
}

/// A value that objects share. The index contains how often the objects have it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counted {
    pub kind: CountedKind,
    pub value: String,
}

/// A kind of values by which objects are found. The stores contain the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, FromRepr, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
#[repr(u8)]
pub enum NamedKind {
    /// The bound user of a client, enabled or not. The name is the Client ID.
    BoundUser = 1,
    /// The [lower-case](email_value) e-mail address of an enabled single-sign-on user. The name is the username.
    SingleSignOn = 2,
    /// The [expiry](expiry_of) of a certificate of a client, enabled or not. The name is the Client ID.
    Certificate = 3,
    /// The [folded](crate::Username::folded) name of a user, enabled or not, whose username has another spelling. The
    /// name is the username.
    Username = 4,
    /// A [linked account](account_value) of a user, enabled or not. The name is the username.
    Account = 5,
    /// The digest of the [link](crate::user::PasswordLink) with which a user may set a password. The name is the username.
    PasswordLink = 7,
    /// A [linked identity](identity_value) of a user, enabled or not. The name is the username.
    Identity = 8,
    /// The [lower-case](email_value) e-mail address of an enabled user. The name is the username.
    Email = 9,
}

/// A value, and the name of an object that has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    pub kind: NamedKind,
    pub value: String,
    pub name: String,
}

/// The value of [`NamedKind::SingleSignOn`] and [`NamedKind::Email`] for an e-mail address: case does not matter (protocol.md §4.5). `None` if no
/// user can have this address.
pub fn email_value(email: &str) -> Option<String> {
    let value = email.to_lowercase();
    is_indexable(&value).then_some(value)
}

/// The value of [`NamedKind::SingleSignOn`] for a user who is found by e-mail address.
pub fn single_sign_on_value(user: &User) -> Option<String> {
    let email = user.email.as_deref();
    let found_by = email.filter(|_| user.enabled && user.single_sign_on);
    found_by.and_then(email_value)
}

/// The value of [`NamedKind::Account`]. Spellings of the URL that name the same instance have one value.
pub fn account_value(account: &LinkedAccount) -> Option<String> {
    let site = Url::parse(&account.site);
    let site = site.as_ref().map_or(&*account.site, Url::as_str);
    let value = format!("{} {}", site.trim_end_matches('/'), account.user_id);
    is_indexable(&value).then_some(value)
}

/// The value of [`NamedKind::Identity`]. No issuer contains a space. `None` if no user can have this identity.
pub fn identity_value(identity: &Identity) -> Option<String> {
    let value = format!("{} {}", identity.issuer, identity.subject);
    is_indexable(&value).then_some(value)
}

/// Seconds since 1970-01-01 UTC with leading zeros, so that values are in the order of time, and the alias.
fn expiry_value(certificate: &Certificate) -> String {
    let (not_after, alias) = (certificate.not_after.seconds(), &certificate.alias);
    format!("{not_after:020} {alias}")
}

/// The certificate that value and name of [`NamedKind::Certificate`] describe.
pub fn expiry_of(value: &str, name: &str) -> Option<CertificateExpiry> {
    let (not_after, alias) = value.split_once(' ')?;
    Some(CertificateExpiry {
        client_id: ClientId::parse(name)?,
        alias: alias.to_owned(),
        not_after: Timestamp::from_seconds(not_after.parse().ok()?),
    })
}

/// The values that answer whether pages of `origin` may call the token endpoint: they may if the index contains one of
/// the values. Agrees with [`RedirectUriPattern::allows_origin`](crate::RedirectUriPattern::allows_origin).
pub fn origin_values(origin: &str) -> Vec<Counted> {
    let found = [
        (CountedKind::AppOrigin, origin),
        (CountedKind::AppLoopback, without_port(origin)),
    ];
    let indexable = found.into_iter().filter(|(_, value)| is_indexable(value));
    indexable
        .map(|(kind, value)| Counted {
            kind,
            value: value.to_owned(),
        })
        .collect()
}

/// PostgreSQL cannot store the character U+0000.
fn is_indexable(value: &str) -> bool {
    value.len() <= MAX_LENGTH && !value.contains('\0')
}

/// What changes of clients and users add to the index and remove from it.
#[derive(Debug, Default)]
pub struct IndexDifference {
    counts: BTreeMap<Counted, i64>,
    names: BTreeMap<Named, i64>,
}

impl IndexDifference {
    pub const fn new() -> Self {
        Self {
            counts: BTreeMap::new(),
            names: BTreeMap::new(),
        }
    }

    /// True if no change was added. Changes that cancel each other out count as changes.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.names.is_empty()
    }

    /// Adds a change of a client. `None`: the client is new, or it is removed.
    pub fn change_client(&mut self, before: Option<&Client>, after: Option<&Client>) {
        for (client, by) in [(before, -1), (after, 1)] {
            if let Some(client) = client {
                self.add_client(client, by);
            }
        }
    }

    /// Adds a change of a user. `None`: the user is new, or it is removed.
    pub fn change_user(&mut self, before: Option<&User>, after: Option<&User>) {
        for (user, by) in [(before, -1), (after, 1)] {
            if let Some(user) = user {
                self.add_user(user, by);
            }
        }
    }

    /// The values whose counts change, in ascending order, and by how much.
    pub fn counts(&self) -> impl Iterator<Item = (&Counted, i64)> {
        let counts = self.counts.iter().map(|(counted, by)| (counted, *by));
        counts.filter(|(_, by)| *by != 0)
    }

    /// The names that the index gets (`true`) or loses (`false`), in ascending order.
    pub fn names(&self) -> impl Iterator<Item = (&Named, bool)> {
        let names = self.names.iter().filter(|(_, by)| **by != 0);
        names.map(|(named, by)| (named, *by > 0))
    }

    fn add_client(&mut self, client: &Client, by: i64) {
        let Client {
            client_id,
            integration,
            scopes,
            enabled,
            ..
        } = client;
        match integration {
            IntegrationType::UserBound { bound_user, .. } => {
                let (value, name) = (bound_user.to_string(), client_id.to_string());
                self.name(NamedKind::BoundUser, value, name, by);
            }
            IntegrationType::Installed { redirect_uris } if *enabled => {
                for uri in redirect_uris {
                    if let Some(origin) = uri.web_origin() {
                        self.count(CountedKind::AppOrigin, &origin, by);
                    }
                    if let Some(origin) = uri.any_port_origin() {
                        self.count(CountedKind::AppLoopback, origin, by);
                    }
                }
            }
            IntegrationType::NonInteractive { certificates, .. } => {
                for certificate in certificates {
                    let value = expiry_value(certificate);
                    if is_indexable(&value) {
                        self.name(NamedKind::Certificate, value, client_id.to_string(), by);
                    }
                }
            }
            IntegrationType::Installed { .. }
            | IntegrationType::WebServer { .. }
            | IntegrationType::Legacy { .. } => {}
        }
        if *enabled {
            for scope in scopes.tokens() {
                self.count(CountedKind::Scope, scope, by);
            }
        }
    }

    fn add_user(&mut self, user: &User, by: i64) {
        let hash = user.password_hash.as_deref();
        if let Some(scheme) = hash.and_then(password_scheme::scheme) {
            self.count(CountedKind::PasswordScheme, scheme, by);
        }
        if let Cow::Owned(folded) = user.username.folded() {
            self.name(NamedKind::Username, folded, user.username.to_string(), by);
        }
        for value in user.accounts.iter().filter_map(account_value) {
            self.name(NamedKind::Account, value, user.username.to_string(), by);
        }
        let identities = user.identities.iter().map(|linked| &linked.identity);
        for value in identities.filter_map(identity_value) {
            self.name(NamedKind::Identity, value, user.username.to_string(), by);
        }
        if let Some(link) = &user.password_link {
            let (value, name) = (link.digest.to_base64url(), user.username.to_string());
            self.name(NamedKind::PasswordLink, value, name, by);
        }
        let email = user.email.as_deref().filter(|_| user.enabled);
        if let Some(email) = email.and_then(email_value) {
            self.name(NamedKind::Email, email, user.username.to_string(), by);
        }
        if let Some(email) = single_sign_on_value(user) {
            self.name(
                NamedKind::SingleSignOn,
                email,
                user.username.to_string(),
                by,
            );
        }
    }

    fn count(&mut self, kind: CountedKind, value: &str, by: i64) {
        if is_indexable(value) {
            let value = value.to_owned();
            let counted = Counted { kind, value };
            *self.counts.entry(counted).or_default() += by;
        }
    }

    fn name(&mut self, kind: NamedKind, value: String, name: String, by: i64) {
        *self.names.entry(Named { kind, value, name }).or_default() += by;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::installed;

    fn contains(index: &IndexDifference, counted: &Counted) -> bool {
        index.counts().any(|(known, _)| known == counted)
    }

    /// Every pattern, alone and together with every other, against every origin.
    #[test]
    fn an_origin_is_found_exactly_if_a_pattern_allows_it() {
        let patterns: Vec<&str> = "com.example.app:/callback
            http://127.0.0.1/callback http://127.0.0.1:80/callback http://127.0.0.1:8000/callback
            http://127.0.0.1:*/callback
            http://[::1]/callback http://[::1]:8000/callback http://[::1]:*/callback
            https://app.example.com/callback?tenant=1 https://app.example.com:443/callback
            https://app.example.com:8443/callback https://b%C3%BCcher.example/"
            .split_whitespace()
            .collect();
        let bases = "null http: http://127.0.0.1 http://127.0.0.2 http://[::1] http://[: http://[::1
            https://127.0.0.1 https://app.example.com https://app.example.com.evil.example com.example.app";
        let ends =
            ": :0 :1 :1] :80 :080 :443 :8000 :8443 :65535 :65536 :* :8000:8000 :+80 / /callback \0";
        let [bases, ends] = [bases, ends].map(|texts| {
            [""].into_iter()
                .chain(texts.split_whitespace())
                .collect::<Vec<_>>()
        });
        let (mut allowed, mut refused) = (0, 0);
        for (one, other) in patterns
            .iter()
            .flat_map(|one| patterns.iter().map(move |other| (one, other)))
        {
            let mut index = IndexDifference::new();
            let app = installed("app", &[one, other]);
            index.change_client(None, Some(&app));
            for origin in bases
                .iter()
                .flat_map(|base| ends.iter().map(move |end| format!("{base}{end}")))
            {
                let mut uris = app.redirect_uris().iter();
                let allows = uris.any(|uri| uri.allows_origin(&origin));
                let mut values = origin_values(&origin).into_iter();
                let is_found = values.any(|counted| contains(&index, &counted));
                assert_eq!(is_found, allows, "{one} {other} {origin:?}");
                *(if allows { &mut allowed } else { &mut refused }) += 1;
            }
        }
        assert!(allowed > 100 && refused > 100, "{allowed} {refused}");
    }

    #[test]
    fn a_change_adds_only_its_difference() {
        let [one, other] = ["https://one.example/", "https://other.example/"];
        let before = installed("app", &[one, one]).with_scopes("a b");
        let after = installed("app", &[one, other]).with_scopes("b c");
        let mut difference = IndexDifference::new();
        difference.change_client(Some(&before), Some(&after));
        let counts: Vec<(&str, i64)> = difference
            .counts()
            .map(|(counted, by)| (counted.value.as_str(), by))
            .collect();
        let expected = [
            ("a", -1),
            ("c", 1),
            ("https://one.example", -1),
            ("https://other.example", 1),
        ];
        assert_eq!(counts, expected);
        difference.change_client(Some(&after), Some(&before));
        assert_eq!(difference.counts().count(), 0);
    }

    #[test]
    fn a_value_that_a_store_cannot_index_is_left_out() {
        let long = "s".repeat(MAX_LENGTH + 1);
        let client = installed("app", &[]).with_scopes(&format!("{long} short"));
        let mut index = IndexDifference::new();
        index.change_client(None, Some(&client));
        let values: Vec<&str> = index
            .counts()
            .map(|(counted, _)| counted.value.as_str())
            .collect();
        assert_eq!(values, ["short"]);
        assert_eq!(email_value("a\0@example.com"), None);
        assert_eq!(email_value(&long), None);
        assert_eq!(origin_values(&long), []);
    }
}
