//! Look-ups over all registrations, compared with what all registrations say.

use std::collections::BTreeMap;

use super::*;
use domain::password_scheme::{self, UsedScheme};
use domain::registry_index::{NamedKind, account_value};
use domain::testing::identity;
use domain::{Certificate, CertificateExpiry, Excerpt, Managed, RegistrySummary};

pub(crate) fn bound(id: &str, to: &str) -> Client {
    user_bound(id, &[], to).with_scopes("projects")
}

fn found_by(name: &str, email: &str) -> User {
    User {
        email: Some(email.to_owned()),
        single_sign_on: true,
        ..user(name)
    }
}

/// A password hash with this cost.
fn hash(memory: u32, passes: u32) -> String {
    let salt_and_hash = "yDktG0K1Tk7h22spOXgPmA$GwMwFfwe0CGKrYdcHstP/5MtuYHf/9JfVYWUA0OXABc";
    format!("$argon2id$v=19$m={memory},t={passes},p=1${salt_and_hash}")
}

/// Reproducible random numbers (SplitMix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    }

    pub(crate) fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    pub(crate) fn some_of<T: Clone>(&mut self, all: &[T]) -> Vec<T> {
        let all = all.iter();
        all.filter(|_| self.below(3) == 0).cloned().collect()
    }

    fn client(&mut self) -> Client {
        let id = self.one_of(&NAMES);
        let some = match self.below(6) {
            0 => bound(id, self.one_of(&NAMES)),
            1 => legacy(id, &[], None),
            2 => web_server(id, &[], &[]),
            3 => self.certified(id),
            _ => installed(id, &self.some_of(&URIS)),
        };
        let scopes = self.some_of(&["a", "b", "c", "d"]).join(" ");
        Client {
            enabled: self.below(4) > 0,
            scopes: Scope::parse(&scopes).unwrap_or_default(),
            managed: self.managed(),
            ..some
        }
    }

    fn certified(&mut self, id: &str) -> Client {
        let certificates = self.some_of(&["late", "two words", "b"]);
        let certificate = |alias: &str| Certificate {
            alias: alias.to_owned(),
            sha1_thumbprint: [0; 20],
            sha256_thumbprint: None,
            public_key_der: Vec::new(),
            not_before: at(0),
            // Numbers of several lengths.
            not_after: at([5, 70, 900_000_000][self.below(3)]),
            parsed: Default::default(),
        };
        Client {
            integration: IntegrationType::NonInteractive {
                secrets: Vec::new(),
                certificates: certificates.into_iter().map(certificate).collect(),
                organization: None,
            },
            ..client(id)
        }
    }

    fn user(&mut self) -> User {
        let accounts = self.some_of(&["1", "12", "123456", "\"\\\n", "\u{1}", "z\u{eb}"]);
        let identities = self.some_of(&SUBJECTS);
        let linked = |subject: &str| LinkedIdentity {
            identity: identity(subject),
            by_email: false,
        };
        User {
            email: Some(self.one_of(&EMAILS).to_owned()).filter(|_| self.below(4) > 0),
            single_sign_on: self.below(2) == 0,
            enabled: self.below(4) > 0,
            password_hash: self.hash(),
            accounts: accounts.into_iter().map(account).collect(),
            identities: identities.into_iter().map(linked).collect(),
            managed: self.managed(),
            ..user(self.one_of(&NAMES))
        }
    }

    fn hash(&mut self) -> Option<String> {
        match self.below(10) {
            0 => None,
            1 => Some("plain".to_owned()),
            2 => Some(hash(1024 * 1024, 1)),
            passes => Some(hash(8192, u32::try_from(passes).unwrap())),
        }
    }

    pub(crate) fn managed(&mut self) -> Option<Managed> {
        (self.below(2) == 0).then(|| Managed {
            file: "registrations.toml".to_owned(),
            line: Some(self.below(100)),
            disables: false,
            suspended: false,
            secrets: BTreeMap::new(),
        })
    }

    fn several<T>(&mut self, most: usize, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| make(self)).collect()
    }

    fn change(&mut self) -> RegistryChange {
        RegistryChange {
            put_clients: self.several(3, Self::client),
            remove_clients: self.several(1, |dice| client_id(dice.one_of(&NAMES))),
            put_users: self.several(3, Self::user),
            remove_users: self.several(1, |dice| username(dice.one_of(&NAMES))),
            put_legacy_instances: self.several(1, |dice| legacy_instance(dice.one_of(&NAMES))),
            remove_legacy_instances: self.several(1, |dice| dice.one_of(&NAMES).to_owned()),
            revoke_clients: self.several(1, |dice| client_id(dice.one_of(&NAMES))),
            applied_file: FileChange::Keep,
            planned_on: None,
            untaken: Vec::new(),
            credentials: Vec::new(),
            notices: Vec::new(),
            audit: Arc::default(),
        }
    }
}

const NAMES: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];

const SUBJECTS: [&str; 3] = ["1", "a b", "\"\u{1}"];

const EMAILS: [&str; 4] = [
    "ada@mail.example",
    "Ada@mail.example",
    "grace@mail.example",
    "stra\u{df}e@mail.example",
];

const URIS: [&str; 6] = [
    "com.example.app:/callback",
    "http://127.0.0.1:8000/callback",
    "http://127.0.0.1:*/callback",
    "http://[::1]:*/callback",
    "https://one.example/callback",
    "https://other.example:8443/callback",
];

const ORIGINS: [&str; 11] = [
    "",
    "a\0b",
    "https://one.example.evil.example",
    "http://127.0.0.1",
    "http://127.0.0.1:8000",
    "http://127.0.0.1:9000",
    "http://[::1]:9000",
    "https://one.example",
    "https://one.example:8443",
    "https://other.example:8443",
    "null",
];

/// Changes registrations in every way in which a store changes them.
pub(crate) async fn register_at_random(store: &dyn Store, changes: usize) {
    let seed = store.registry_version().await.unwrap();
    let mut dice = Dice(seed);
    for _ in 0..changes {
        apply(store, dice.change(), 0).await;
        let Some(user) = store.user(username(dice.one_of(&NAMES))).await.unwrap() else {
            continue;
        };
        let name = user.username.clone();
        match dice.below(3) {
            0 => {
                if let (Some(before), Some(after)) = (user.password_hash, dice.hash()) {
                    let rehash = store.rehash_password(name, before, after);
                    rehash.await.unwrap();
                }
            }
            1 => {
                let own = Some(second_factor(&["a"]));
                let set = store.set_second_factor(name, own, None, None, Arc::default(), at(0));
                assert!(set.await.unwrap().is_some());
            }
            _ => {
                let sealed = |bytes: &[u8]| User {
                    totp_secret_sealed: Some(bytes.to_vec()),
                    ..user.clone()
                };
                apply(store, put(vec![], vec![sealed(b"before")]), 0).await;
                let value = SealedValue::RegisteredTotpSecret(name);
                let reseal = store.reseal(value, Some(b"before".to_vec()), b"after".to_vec());
                assert!(reseal.await.unwrap());
            }
        }
    }
}

pub(crate) async fn look_ups_agree_with_all_registrations(subject: &mut impl Subject) {
    for _ in 0..10 {
        register_at_random(&*subject.store(), 30).await;
        subject.restart().await;
        assert_look_ups_agree(&*subject.store()).await;
    }
    let store = subject.store();
    let clear = remove(&NAMES, &NAMES);
    apply(&*store, clear, 0).await;
    let summary = store.registry_summary().await.unwrap();
    let expected = RegistrySummary {
        version: summary.version,
        legacy_instances: summary.legacy_instances.clone(),
        ..RegistrySummary::default()
    };
    assert_eq!(summary, expected);
    assert_look_ups_agree(&*store).await;
}

/// Asserts that the look-ups say what all registrations say.
pub(crate) async fn assert_look_ups_agree(store: &dyn Store) {
    let (clients, users) = registrations(store).await;
    assert_eq!(
        store.registry_summary().await.unwrap(),
        summary_of(store, &clients, &users).await
    );
    for origin in ORIGINS {
        let apps = clients.iter().filter(|client| client.enabled);
        let allowed = apps
            .filter(|client| matches!(client.integration, IntegrationType::Installed { .. }))
            .flat_map(Client::redirect_uris)
            .any(|uri| uri.allows_origin(origin));
        let found = store.allows_origin(origin.to_owned()).await.unwrap();
        assert_eq!(found, allowed, "{origin}");
    }
    for email in EMAILS
        .into_iter()
        .chain(["", "nobody", "ada\0@mail.example"])
    {
        let with_email: Vec<&User> = users
            .iter()
            .filter(|user| user.enabled)
            .filter(|user| {
                user.email.as_deref().map(str::to_lowercase) == Some(email.to_lowercase())
            })
            .collect();
        // The capital form of some letters has another lower-case form.
        let capitals = Some(email.to_uppercase());
        let asked = capitals.filter(|capitals| capitals.to_lowercase() == email.to_lowercase());
        let asked = asked.unwrap_or_else(|| email.to_owned());
        for (only_single_sign_on, found) in [
            (true, store.single_sign_on_users(asked.clone()).await),
            (false, store.users_with_email(asked).await),
        ] {
            let expected = with_email.iter();
            let expected = expected.filter(|user| user.single_sign_on || !only_single_sign_on);
            let expected: Vec<&Username> = expected.map(|user| &user.username).collect();
            let found = found.unwrap();
            assert_eq!(found.len(), expected.len().min(2), "{email}");
            assert!(found.iter().all(|name| expected.contains(&name)), "{email}");
        }
    }
    let mut accounts: BTreeMap<String, BTreeSet<Username>> = BTreeMap::new();
    for user in &users {
        for value in user.accounts.iter().filter_map(account_value) {
            let with = accounts.entry(value).or_default();
            with.insert(user.username.clone());
        }
    }
    let asked = accounts.keys().cloned().chain(["nobody".to_owned()]);
    let found = store.users_with(NamedKind::Account, asked.collect()).await;
    let mut with: BTreeMap<String, BTreeSet<Username>> = BTreeMap::new();
    for (value, username) in found.unwrap() {
        assert!(accounts[&value].contains(&username), "{value}");
        with.entry(value).or_default().insert(username);
    }
    for (value, of) in &accounts {
        assert_eq!(with[value].len(), of.len().min(2), "{value}");
    }
    for subject in SUBJECTS {
        let identity = identity(subject);
        let has = |name: &Username| {
            let mut users = users.iter();
            users.any(|user| user.username == *name && user.has_identity(&identity))
        };
        let found = store.user_with_identity(identity.clone()).await.unwrap();
        let is_known = users.iter().any(|user| user.has_identity(&identity));
        assert_eq!(found.is_some(), is_known, "{subject}");
        assert!(found.iter().all(has), "{subject}");
    }
    for name in NAMES {
        let is_bound = |client: &&Client| client.bound_user() == Some(&username(name));
        let bound: Vec<&ClientId> = clients
            .iter()
            .filter(is_bound)
            .map(|client| &client.client_id)
            .collect();
        for limit in [1, usize::MAX] {
            let found = store.clients_bound_to(username(name), limit).await.unwrap();
            let mut bound = bound.clone();
            bound.sort();
            bound.truncate(limit);
            assert!(found.iter().eq(bound), "{name}");
        }
        let client = clients.iter().find(|one| one.client_id.as_str() == name);
        let expected = client.map(|client| {
            let user = users
                .iter()
                .find(|user| Some(&user.username) == client.bound_user());
            (client.clone(), user.cloned())
        });
        let found = store.client_with_bound_user(client_id(name)).await.unwrap();
        assert_eq!(found, expected, "{name}");
    }
    for limit in [3, usize::MAX] {
        let found = store.certificates_by_expiry(limit).await.unwrap();
        let mut expected: Vec<CertificateExpiry> = clients.iter().flat_map(expiries).collect();
        expected.sort_by_key(|one| (one.not_after, one.alias.clone(), one.client_id.clone()));
        expected.truncate(limit);
        assert_eq!(found, expected);
    }
}

/// The certificates of a client.
fn expiries(client: &Client) -> Vec<CertificateExpiry> {
    let IntegrationType::NonInteractive { certificates, .. } = &client.integration else {
        return Vec::new();
    };
    let expiry = |certificate: &Certificate| CertificateExpiry {
        client_id: client.client_id.clone(),
        alias: certificate.alias.clone(),
        not_after: certificate.not_after,
    };
    certificates.iter().map(expiry).collect()
}

/// What all registrations say, computed from all of them.
async fn summary_of(store: &dyn Store, clients: &[Client], users: &[User]) -> RegistrySummary {
    let enabled = clients.iter().filter(|client| client.enabled);
    let scopes: BTreeSet<&str> = enabled.flat_map(|client| client.scopes.tokens()).collect();
    let mut schemes: BTreeMap<&str, u64> = BTreeMap::new();
    let hashes = users
        .iter()
        .filter_map(|user| user.password_hash.as_deref());
    for scheme in hashes.filter_map(password_scheme::scheme) {
        *schemes.entry(scheme).or_default() += 1;
    }
    let schemes = schemes.into_iter().map(|(scheme, users)| UsedScheme {
        scheme: scheme.to_owned(),
        users,
    });
    RegistrySummary {
        version: store.registry_version().await.unwrap(),
        scopes: scopes.into_iter().map(str::to_owned).collect(),
        password_schemes: schemes.collect(),
        legacy_instances: store.legacy_instances().await.unwrap(),
    }
}

pub(crate) async fn an_excerpt_has_what_was_asked_for(subject: &mut impl Subject) {
    let registered = RegistryChange {
        put_legacy_instances: vec![
            legacy_instance("us2.example"),
            legacy_instance("us1.example"),
        ],
        ..put(
            vec![client("web"), client("other"), client("off").disabled()],
            vec![user("ada"), user("grace"), user("Zo\u{eb}")],
        )
    };
    apply(&*subject.store(), registered, 0).await;
    let store = subject.restarted().await;
    let name = |kind, name: &str| ObjectName::new(kind, name);
    let mut names = vec![
        name(ObjectKind::Client, "web"),
        name(ObjectKind::Client, "off"),
        name(ObjectKind::User, "ada"),
        // Another form of the same name (D-33).
        name(ObjectKind::User, "Zoe\u{308}"),
        // Unknown, or no legal names.
        name(ObjectKind::User, "web"),
        name(ObjectKind::User, "a\0b"),
        name(ObjectKind::Client, "a b"),
        name(ObjectKind::LegacyInstance, "us1.example"),
    ];
    // More than a store asks for at once.
    names.extend((0..25_000).map(|number| name(ObjectKind::Client, &number.to_string())));
    names.push(name(ObjectKind::Client, "web"));
    let excerpt = store.excerpt(names).await.unwrap();
    let has_client = |id: &str| excerpt.client(&client_id(id)).is_some();
    assert_eq!(["web", "off", "other"].map(has_client), [true, true, false]);
    let has_user = |name: &str| excerpt.user(&username(name)).is_some();
    assert_eq!(
        ["ada", "Zo\u{eb}", "grace", "web"].map(has_user),
        [true, true, false, false]
    );
    let web = excerpt.client(&client_id("web")).unwrap();
    assert_eq!(as_registered(web), client("web"));
    assert_eq!(
        excerpt.legacy_instances(),
        ["us1.example", "us2.example"].map(legacy_instance)
    );
    let version = store.registry_version().await.unwrap();
    assert_eq!(excerpt.version(), Some(version));
    let empty: Excerpt = store.excerpt(Vec::new()).await.unwrap();
    assert_eq!(empty.legacy_instances().len(), 2);
}

/// Changes of clients and users that cannot be read, with their names.
pub(crate) fn replacements_and_removals() -> [(&'static str, RegistryChange); 3] {
    let off = user("disabled").disabled();
    let on = found_by("replaced", EMAILS[0]);
    [
        ("replaced", put(vec![bound("replaced", "a")], vec![on])),
        (
            "disabled",
            put(vec![client("disabled").disabled()], vec![off]),
        ),
        ("removed", remove(&["removed"], &["removed"])),
    ]
}

/// Asserts that a change of the unreadable client and user `name` is made, and that their tokens end.
pub(crate) async fn assert_unreadable_rows_stop_no_change(
    store: &dyn Store,
    name: &str,
    changed: RegistryChange,
) {
    assert_eq!(store.user(username(name)).await.unwrap(), None);
    let found = store.client_with_bound_user(client_id(name)).await.unwrap();
    assert_eq!(found, None);
    apply(store, put(vec![bound("i", name)], vec![]), 0).await;
    let found = store.client_with_bound_user(client_id("i")).await.unwrap();
    assert_eq!(found.unwrap().1, None);
    let ends_client = changed.put_clients.iter().all(|client| !client.enabled);
    let feed_before = store.feed_state().await.unwrap().last;
    apply(store, changed.clone(), 0).await;
    for client in &changed.put_clients {
        let stored = store.client(client.client_id.clone()).await.unwrap();
        assert_eq!(as_registered(&stored.unwrap()), *client);
    }
    for user in &changed.put_users {
        let stored = store.user(user.username.clone()).await.unwrap();
        assert_eq!(stored.unwrap().enabled, user.enabled);
    }
    let announced = entries_since(store, feed_before, 10).await;
    let announced: Vec<Revoked> = announced.into_iter().map(|entry| entry.revoked).collect();
    let client = Revoked::Client(client_id(name));
    assert!(announced.contains(&Revoked::User(username(name))));
    assert_eq!(announced.contains(&client), ends_client);
    assert_look_ups_agree(store).await;
}
