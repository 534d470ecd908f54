//! What the own page of a person lists: applications with access, and sessions.

use std::cmp::Reverse;

use super::browser::Browser;
use super::destination::in_words;
use super::ending::{Ending, identity_digest};
use super::failure::PageFailure;
use super::texts::{self, Moment};
use crate::config::SignInForm;
use domain::digest::Digest;
use domain::{
    Client, ClientId, Grant, Identity, IntegrationType, Session, SessionStage, User, amr, cap,
};
use protocol::oauth::authorize::SignedIn;
use registry::identities::{self, Unlinking};

/// Grants of a page. More than one client can have, so that every page makes progress.
const PAGE: usize = 5 * cap::GRANTS.most();

/// Maximum number of places of an application that the page names.
const MOST_PLACES: usize = 3;

/// Maximum number of applications set up by an operator that the page names.
const MOST_BOUND: usize = 20;

/// An application with access, which the person gave.
pub(super) struct Application {
    pub(super) client_id: ClientId,
    pub(super) name: String,
    /// Where it sends people.
    pub(super) places: Vec<String>,
    pub(super) since: Option<Moment>,
    pub(super) last_used: Option<Moment>,
    /// Name and site of each linked account.
    pub(super) accounts: Vec<(String, String)>,
    /// The scopes in words.
    pub(super) may: Vec<String>,
}

pub(super) struct Applications {
    pub(super) listed: Vec<Application>,
    /// The first client of the next page.
    pub(super) next: Option<ClientId>,
    /// The names of those that an operator set up for this person.
    pub(super) bound: Vec<String>,
}

/// The applications from the client `from` on, sorted by name.
pub(super) async fn applications(
    browser: &Browser,
    user: &User,
    from: Option<ClientId>,
) -> Result<Applications, PageFailure> {
    let store = &browser.service.store;
    let mut grants = store
        .live_grants(user.username.clone(), from, PAGE + 1)
        .await?;
    let next = grants.get(PAGE).map(|grant| grant.client_id.clone());
    let (now, lifetime) = (browser.context().now, store.longest_token());
    grants.retain(|grant| Some(&grant.client_id) != next.as_ref() && !grant.is_over(now, lifetime));
    let mut listed = Vec::new();
    for of_client in grants.chunk_by(|one, other| one.client_id == other.client_id) {
        if let [first, ..] = of_client {
            let directory = browser.service.directory();
            let client = directory
                .registered_client(first.client_id.as_str())
                .await?;
            listed.extend(client.map(|client| application(browser, &client, of_client)));
        }
    }
    listed.sort_by_cached_key(|one| one.name.to_lowercase());
    let mut bound = Vec::new();
    for client_id in store
        .clients_bound_to(user.username.clone(), MOST_BOUND)
        .await?
    {
        let directory = browser.service.directory();
        let client = directory.client(client_id.as_str()).await?;
        bound.extend(client.map(|client| client.name.clone()));
    }
    Ok(Applications {
        listed,
        next,
        bound,
    })
}

fn application(browser: &Browser, client: &Client, grants: &[Grant]) -> Application {
    let texts = browser.texts();
    let since = grants.iter().filter_map(|grant| grant.grant_id.made_at());
    let used = grants.iter().map(|grant| grant.current.issued_at);
    let mut read = Application {
        client_id: client.client_id.clone(),
        name: client.name.clone(),
        places: Vec::new(),
        since: since.min().map(|at| texts.moment(at)),
        last_used: used.max().map(|at| texts.moment(at)),
        accounts: Vec::new(),
        may: Vec::new(),
    };
    let templates = match &client.integration {
        IntegrationType::Legacy {
            redirect_templates, ..
        } => redirect_templates.as_slice(),
        _ => &[],
    };
    let patterns = client.redirect_uris().iter().map(ToString::to_string);
    let home = client.home_url.iter().cloned();
    for uri in patterns.chain(templates.iter().cloned()).chain(home) {
        add(&mut read.places, in_words(&uri, client, texts));
    }
    read.places.truncate(MOST_PLACES);
    for grant in grants {
        let site = browser.site_label(&grant.account.site).to_owned();
        add(&mut read.accounts, (grant.account.username.clone(), site));
        for text in browser.scope_in_words(&grant.scope.intersection(&client.scopes)) {
            add(&mut read.may, text.to_owned());
        }
    }
    read
}

/// Adds what the list does not have.
fn add<T: PartialEq>(list: &mut Vec<T>, one: T) {
    if !list.contains(&one) {
        list.push(one);
    }
}

/// The name of a client that has access.
pub(super) async fn name_of_application(
    browser: &Browser,
    user: &User,
    client_id: &ClientId,
) -> Result<Option<String>, PageFailure> {
    let store = &browser.service.store;
    let grants = store.live_grants(user.username.clone(), Some(client_id.clone()), 1);
    if !matches!(grants.await?.as_slice(), [grant] if grant.client_id == *client_id) {
        return Ok(None);
    }
    let directory = browser.service.directory();
    let client = directory.registered_client(client_id.as_str()).await?;
    Ok(client.map(|client| client.name.clone()))
}

/// A browser in which the person is signed in.
pub(super) struct OwnSession {
    pub(super) id: String,
    pub(super) is_own: bool,
    /// The browser in words.
    pub(super) browser: String,
    pub(super) network: String,
    pub(super) since: Moment,
    pub(super) last_used: Moment,
    /// The factors, or the identity provider, in words.
    pub(super) signed_in_with: String,
}

/// Name of the identity provider with which the session began.
pub(super) fn provider<'a>(browser: &'a Browser, session: &'a Session) -> Option<&'a str> {
    let sign_in = session.provider.as_ref()?;
    Some(name_of_provider(browser, &sign_in.identity.issuer))
}

fn signed_in_with(browser: &Browser, session: &Session) -> String {
    let texts = browser.texts();
    let has_second_factor = amr::has_second_factor(&session.amr);
    let Some(name) = provider(browser, session) else {
        let factors = match has_second_factor {
            true => texts.with_second_factor,
            false => texts.with_password,
        };
        return factors.to_owned();
    };
    match has_second_factor {
        true => texts::plain(texts.with_provider_and_code, &[("provider", name)]),
        false => name.to_owned(),
    }
}

/// The name of an identity provider; its issuer if it is no longer configured.
pub(super) fn name_of_provider<'a>(browser: &'a Browser, issuer: &'a str) -> &'a str {
    let settings = &browser.service.config.protocol;
    let provider = settings.identity_provider(issuer);
    provider.map_or(issuer, |provider| &provider.name)
}

/// A linked identity.
pub(super) struct OwnIdentity {
    /// The name of its provider.
    pub(super) provider: String,
    pub(super) subject: String,
    /// The address of the page that unlinks it, or why it stays.
    pub(super) address: Result<String, &'static str>,
}

/// True if the person could sign in with a password.
pub(super) fn password_counts(browser: &Browser, user: &User) -> bool {
    let offers_form = browser.service.config.sign_in_page.all != SignInForm::ProvidersOnly;
    user.password_hash.is_some() && offers_form
}

/// The linked identities, in the order of registration.
pub(super) fn identities(browser: &Browser, user: &User) -> Vec<OwnIdentity> {
    let (texts, settings) = (browser.texts(), &browser.service.config.protocol);
    let has_password = password_counts(browser, user);
    let linked = user.identities.iter().map(|linked| &linked.identity);
    let in_words = linked.map(|identity| OwnIdentity {
        provider: name_of_provider(browser, &identity.issuer).to_owned(),
        subject: identity.subject.clone(),
        address: match identities::unlinking(user, identity, has_password, settings) {
            Unlinking::Possible => Ok(Ending::Identity(identity_digest(identity)).address()),
            Unlinking::Managed => Err(texts.identity_is_managed),
            Unlinking::Returns => Err(texts.identity_returns),
            Unlinking::OnlyWay => Err(texts.identity_only_way),
        },
    });
    in_words.collect()
}

/// The identity with this digest.
pub(super) fn identity<'a>(user: &'a User, digest: &Digest) -> Option<&'a Identity> {
    let mut linked = user.identities.iter().map(|linked| &linked.identity);
    linked.find(|identity| identity_digest(identity) == *digest)
}

/// The sessions of people who are signed in completely: the one of this browser first, then the last used.
pub(super) async fn sessions(
    browser: &Browser,
    signed_in: &SignedIn,
) -> Result<Vec<OwnSession>, PageFailure> {
    let (now, store) = (browser.context().now, &browser.service.store);
    let username = signed_in.user().username.clone();
    let found = store.sessions(username, now).await?;
    let mut found: Vec<_> = found
        .into_iter()
        .filter(|(_, session)| session.stage == SessionStage::SignedIn)
        .collect();
    let own = signed_in.live().id.digest();
    found.sort_by_key(|(id, session)| (*id != own, Reverse(session.used_at)));
    let texts = browser.texts();
    let in_words = found.into_iter().map(|(id, session)| OwnSession {
        id: id.to_base64url(),
        is_own: id == own,
        browser: texts.browser_in_words(&session.place),
        network: match session.place.network.as_str() {
            "" => texts.not_known.to_owned(),
            network => network.to_owned(),
        },
        since: texts.moment(session.authenticated_at),
        last_used: texts.moment(session.used_at),
        signed_in_with: signed_in_with(browser, &session),
    });
    Ok(in_words.collect())
}
