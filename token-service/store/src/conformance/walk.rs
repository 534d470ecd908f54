//! Random operations of every topic. Each of them has the same outcome on every store.

use std::fmt::Debug;

use async_trait::async_trait;

use super::*;
use crate::codec::{Bytes, Keys};
use crate::fault::Fault;
use crate::memory::MemoryStore;
use crate::operations::Runs;
use crate::redb::RedbStore;
use crate::stored_code::StoredCode;
use crate::tx::tables::{
    self, Announced, CREDENTIALS_VERSION, Kind, Name, OwedNotices, REGISTRY_VERSION, TOKEN_LIFETIME,
};
use crate::tx::{Form as _, Read as _, Want};
use domain::IndexDifference;
use domain::registry_index::{Named, NamedKind, email_value, identity_value};
use domain::testing::{identity, provider_sign_in};
use domain::{ClaimedNotice, Credentials, Notice};

/// Few names, so that the operations of a walk meet: one is the beginning of another, and two are names of one user (D-43).
const NAMES: [&str; 5] = ["a", "b", "b.", "c", "C"];

const TEXTS: [&str; 3] = ["one", "two", "three"];

const SUBJECTS: [&str; 3] = ["1", "2", "\u{e9}"];

/// The number of values of each kind that a walk uses again.
const KEPT: usize = 12;

/// A walk through several stores, which take the same steps.
pub(crate) struct Walk {
    stores: Vec<Box<dyn Walked>>,
    dice: Dice,
    seed: u64,
    /// The last steps, for messages.
    steps: Vec<&'static str>,
    /// In seconds.
    now: u64,
    codes: Vec<SelfContainedCode>,
    legacy_codes: Vec<Digest>,
    grants: Vec<Grant>,
    sessions: Vec<Digest>,
    counted: Vec<Counted>,
    claimed: Vec<ClaimedNotice>,
}

/// Adds values to those that a walk uses again, in place of the oldest.
fn keep<T>(all: &mut Vec<T>, new: impl IntoIterator<Item = T>) {
    all.extend(new);
    let over = all.len().saturating_sub(KEPT);
    all.drain(..over);
}

impl Walk {
    pub(crate) fn new(seed: u64, stores: Vec<Box<dyn Walked>>) -> Self {
        Self {
            stores,
            dice: Dice(seed),
            seed,
            steps: Vec::new(),
            now: 0,
            codes: Vec::new(),
            legacy_codes: Vec::new(),
            grants: Vec::new(),
            sessions: Vec::new(),
            counted: Vec::new(),
            claimed: Vec::new(),
        }
    }

    /// Does the same on each store, and returns the outcome, which is the same on each.
    async fn same<T: Debug + PartialEq>(
        &mut self,
        act: impl AsyncFn(&dyn Store) -> Result<T, StoreError>,
    ) -> T {
        let (first, others) = self.stores.split_first().unwrap();
        // PostgreSQL gives positions in the feed when somebody asks for the last one.
        let act = async |store: &dyn Store| {
            let outcome = act(store).await;
            store.feed_state().await.unwrap();
            outcome
        };
        let outcome = act(&**first).await;
        for other in others {
            let of_other = act(&**other).await;
            assert_eq!(outcome, of_other, "{}", self.place());
        }
        outcome.unwrap()
    }

    /// Like [`Self::same`], for lists in any order.
    async fn same_in_any_order<T: Debug>(
        &mut self,
        act: impl AsyncFn(&dyn Store) -> Result<Vec<T>, StoreError>,
    ) {
        self.same(async |store| {
            let all = act(store).await?;
            let mut all: Vec<String> = all.iter().map(|one| format!("{one:?}")).collect();
            all.sort_unstable();
            Ok(all)
        })
        .await;
    }

    fn place(&self) -> String {
        let newest = self.steps.len().saturating_sub(10);
        let newest = self.steps[newest..].join(", ");
        format!("walk {}, step {} ({newest})", self.seed, self.steps.len())
    }

    fn now(&self) -> Timestamp {
        at(self.now)
    }

    fn random<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| u8::try_from(self.dice.below(256)).unwrap())
    }

    fn digest(&mut self) -> Digest {
        Digest::from_bytes(self.random())
    }

    fn token_id(&mut self) -> TokenId {
        TokenId::from_bytes(self.random())
    }

    /// Rises with time, as the ids of the service do.
    fn grant_id(&mut self) -> GrantId {
        let mut bytes = self.random::<16>();
        bytes[..8].copy_from_slice(&self.now.to_be_bytes());
        GrantId::from_bytes(bytes)
    }

    fn rarely(&mut self) -> bool {
        self.dice.below(8) == 0
    }

    fn one_rarely<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Vec<T> {
        let is_one = self.rarely();
        is_one.then(|| make(self)).into_iter().collect()
    }

    /// Mostly the same, so that caps are reached.
    fn name(&mut self) -> &'static str {
        match self.dice.below(3) {
            0 => self.dice.one_of(&NAMES),
            _ => NAMES[0],
        }
    }

    fn username(&mut self) -> Username {
        username(self.name())
    }

    fn text(&mut self) -> &'static str {
        self.dice.one_of(&TEXTS)
    }

    fn key(&mut self) -> Option<Thumbprint> {
        let key = u8::try_from(self.dice.below(8)).unwrap();
        (key < 2).then_some(Thumbprint::from_bytes([key; 32]))
    }

    fn audit(&mut self) -> Arc<[AuditEvent]> {
        let actions = [
            AuditAction::SignIn,
            AuditAction::GrantRevoked,
            AuditAction::TokensIssued,
        ];
        let entries = self.dice.below(3);
        let event = |_| AuditEvent {
            action: self.dice.one_of(&actions),
            ..audit_event(self.now)
        };
        (0..entries).map(event).collect()
    }

    fn notice(&mut self) -> Notice {
        let (name, number) = (self.name(), self.now);
        Notice {
            email: format!("{}@example.com", self.text()),
            ..notice(name, number)
        }
    }

    fn provider(&mut self) -> Option<ProviderSignIn> {
        let sid = (self.dice.below(2) == 0).then(|| self.text());
        let subject = self.dice.one_of(&SUBJECTS);
        let sign_in = provider_sign_in(subject, sid, self.now());
        (self.dice.below(3) == 0).then_some(sign_in)
    }

    /// Takes steps. Now and then, and at the end, each store has the same rows.
    pub(crate) async fn go(&mut self, steps: usize) {
        for step in 1..=steps {
            self.step().await;
            if step % 250 == 0 || step == steps {
                self.compare().await;
            }
        }
    }

    async fn compare(&self) {
        let (first, others) = self.stores.split_first().unwrap();
        let rows = first.rows().await.unwrap();
        assert_eq!(
            indexes(&rows),
            indexes_of(&rows).unwrap(),
            "{}",
            self.place()
        );
        for other in others {
            let of_other = other.rows().await.unwrap();
            let differ = |(one, other): &(&Row, &Row)| one != other;
            if let Some((one, other)) = rows.iter().zip(&of_other).find(differ) {
                let [one, other] = [one, other].map(|(table, key, row)| {
                    let [key, row] = [key, row].map(|bytes| bytes.escape_ascii().to_string());
                    format!("{table:?} {key} {row}")
                });
                assert_eq!(one, other, "{}", self.place());
            }
            assert_eq!(rows.len(), of_other.len(), "{}", self.place());
        }
    }

    /// Takes a step, chosen at random. Changes of the registry are rare, because they end what other steps need.
    async fn step(&mut self) {
        self.now += [0, 0, 1, 1, 2, 30, 300][self.dice.below(7)];
        let step = self.dice.below(100);
        self.steps.push(match step {
            0..6 => "registry",
            6..10 => "look-up",
            10..30 => "code",
            30..47 => "grant",
            47..52 => "feed",
            52..70 => "session",
            70..78 => "credential",
            78..83 => "once",
            83..87 => "notice",
            87..92 => "attempt",
            92..95 => "key",
            95..97 => "audit",
            _ => "upkeep",
        });
        match step {
            0..6 => self.change_registry().await,
            6..10 => self.look_up().await,
            10..30 => self.code().await,
            30..47 => self.grant().await,
            47..52 => self.feed().await,
            52..70 => self.session().await,
            70..78 => self.credential().await,
            78..83 => self.once().await,
            83..87 => self.notice_step().await,
            87..92 => self.attempt().await,
            92..95 => self.key_step().await,
            95..97 => self.audit_step().await,
            _ => self.upkeep().await,
        }
    }
}

/// Clients and users.
impl Walk {
    fn client(&mut self) -> Client {
        let id = self.name();
        let client = match self.dice.below(8) {
            0 => user_bound(id, &[], self.name()),
            1 => legacy(id, &[], None),
            2 | 3 => web_server(id, &self.dice.some_of(&TEXTS), &[]),
            _ => installed(id, &[REDIRECT_URI]),
        };
        Client {
            enabled: !self.rarely(),
            tls_client_certificate_bound_access_tokens: self.rarely(),
            managed: self.dice.managed(),
            ..client.with_scopes("projects")
        }
    }

    fn user(&mut self) -> User {
        let subjects = self.dice.some_of(&SUBJECTS).into_iter();
        let identities = subjects.map(|subject| LinkedIdentity {
            identity: identity(subject),
            by_email: false,
        });
        let password = self.text().to_owned();
        let accounts = ["1", "2"];
        User {
            email: (!self.rarely()).then(|| format!("{}@Example.com", self.text())),
            single_sign_on: self.rarely(),
            enabled: !self.rarely(),
            identities: identities.collect(),
            password_hash: Some(password).filter(|_| self.rarely()),
            totp_secret_sealed: self.rarely().then(|| self.text().into()),
            managed: self.dice.managed(),
            ..domain::testing::user(self.name(), &accounts[usize::from(self.rarely())..])
        }
    }

    async fn change_registry(&mut self) {
        let name = self.username();
        let value = email_value(&format!("{}@example.com", self.text())).unwrap();
        let untaken = Named {
            kind: NamedKind::Email,
            value,
            name: name.to_string(),
        };
        let file = self.text().as_bytes();
        let file = Digest::of(file);
        let known = self.same(async |store| store.applied_file().await).await;
        let version = self
            .same(async |store| store.registry_version().await)
            .await;
        let before = known.filter(|_| !self.rarely());
        let change = RegistryChange {
            put_clients: (0..self.dice.below(3)).map(|_| self.client()).collect(),
            put_users: (0..self.dice.below(3)).map(|_| self.user()).collect(),
            remove_clients: self.one_rarely(|walk| client_id(walk.name())),
            remove_users: self.one_rarely(Self::username),
            revoke_clients: self.one_rarely(|walk| client_id(walk.name())),
            put_legacy_instances: self.one_rarely(|walk| legacy_instance(walk.text())),
            remove_legacy_instances: self.one_rarely(|walk| walk.text().to_owned()),
            applied_file: match self.dice.below(6) {
                0 => FileChange::Replace {
                    before,
                    after: Some(file),
                },
                1 => FileChange::Forget(Digest::of(b"random")),
                _ => FileChange::Keep,
            },
            planned_on: self
                .rarely()
                .then(|| version.saturating_sub(self.dice.below(4) as u64)),
            untaken: self.one_rarely(|_| untaken),
            credentials: self.one_rarely(|_| (name, CredentialsVersion::new(1))),
            notices: (0..self.dice.below(2)).map(|_| self.notice()).collect(),
            audit: self.audit(),
        };
        let now = self.now();
        self.same(async |store| store.change_registry(change.clone(), now).await)
            .await;
        let (name, hash, stronger) = (self.username(), self.text(), self.text());
        self.same(async |store| {
            store
                .rehash_password(name.clone(), hash.into(), stronger.into())
                .await
        })
        .await;
    }

    async fn look_up(&mut self) {
        let (name, limit) = (self.name(), 1 + self.dice.below(4));
        let after = self.dice.below(6) as u64;
        let values = TEXTS.map(|text| format!("{text}@example.com")).to_vec();
        let identities = SUBJECTS.map(|subject| identity_value(&identity(subject)).unwrap());
        let objects = NAMES.map(|name| ObjectName::new(ObjectKind::User, name));
        let clients = NAMES.map(|name| ObjectName::new(ObjectKind::Client, name));
        let objects = [objects, clients].concat();
        let own = NAMES.map(username);
        // The type has no `Debug`.
        let known = |found: Option<Credentials>| {
            found.map(|known| {
                (
                    known.username,
                    known.version,
                    known.password_hash,
                    known.totp_secret_sealed,
                )
            })
        };
        self.same(async |store| {
            let excerpt = store.excerpt(objects.clone()).await?;
            let excerpt = (
                NAMES.map(|name| excerpt.client(&client_id(name)).cloned()),
                NAMES.map(|name| excerpt.user_spelt(&username(name)).cloned()),
                excerpt.legacy_instances().to_vec(),
            );
            let of_name = (
                store.client_with_bound_user(client_id(name)).await?,
                store.user(username(name)).await?,
                store.clients(name.into(), limit).await?,
                store.users(name.into(), limit).await?,
                store.clients_bound_to(username(name), limit).await?,
                known(store.credentials(username(name)).await?),
                store.second_factor(username(name)).await?,
                store.own_totp_secrets(name.into(), limit).await?,
            );
            let of_all = (
                store.legacy_instances().await?,
                store.registry_version().await?,
                store.registry_changes(after, limit).await?,
                excerpt,
                store.registry_summary().await?,
                store
                    .allows_origin("https://app.example.com".into())
                    .await?,
                store.users_with(NamedKind::Email, values.clone()).await?,
                store
                    .users_with(NamedKind::Identity, identities.to_vec())
                    .await?,
                store.certificates_by_expiry(limit).await?,
                store.applied_file().await?,
                store.sign_ins(own.to_vec()).await?,
            );
            Ok((of_name, of_all))
        })
        .await;
    }
}

/// Codes and grants.
impl Walk {
    async fn record(&mut self) -> CodeRecord {
        let (client, name) = (self.name(), self.name());
        let record = self.same(async |store| {
            let user = store.user(username(name)).await?;
            let client = store.client(client_id(client)).await?;
            let credentials = user.map(|user| user.credentials_version);
            Ok((credentials, client.map(|client| client.version)))
        });
        let (credentials, version) = record.await;
        let provider = self.provider();
        CodeRecord {
            credentials_version: credentials.unwrap_or_default(),
            client_version: version.unwrap_or_default(),
            issued_at: self.now(),
            expires_at: at(self.now + 60),
            session: provider.is_some().then(|| self.session_id()),
            provider,
            ..code_of(client, name)
        }
    }

    fn presented(&mut self, record: &CodeRecord) -> PresentedCode {
        let client = if self.rarely() {
            client_id(self.name())
        } else {
            record.client_id.clone()
        };
        PresentedCode {
            client_id: client,
            client_authenticated: self.dice.below(2) == 0,
            proven: of_key(self.key()),
            ..fitting()
        }
    }

    fn first_step(&mut self) -> FirstStep {
        FirstStep {
            refresh_id: self.token_id(),
            access_id: self.token_id(),
            scope: None,
            issued_at: self.now(),
            refresh_expires_at: self.now() + WEEK,
            second_factor: Arc::default(),
        }
    }

    async fn code(&mut self) {
        let record = self.record().await;
        let fresh = SelfContainedCode {
            grant_id: self.grant_id(),
            record: record.clone(),
            dpop_jkt: None,
        };
        let now = self.now();
        let (legacy, grant_id) = (self.digest(), self.grant_id());
        let (presented, first) = (self.presented(&record), self.first_step());
        let redeemed = match self.dice.below(8) {
            0 | 1 => {
                keep(&mut self.legacy_codes, [legacy]);
                let issued =
                    self.same(async |store| store.issue_legacy_code(legacy, record.clone()).await);
                let _ = issued.await;
                return;
            }
            2 | 3 => {
                let legacy = match self.rarely() || self.legacy_codes.is_empty() {
                    true => legacy,
                    false => self.dice.one_of(&self.legacy_codes),
                };
                let redeemed = self.same(async |store| {
                    store
                        .redeem_legacy_code(legacy, presented.clone(), grant_id, first.clone(), now)
                        .await
                });
                redeemed.await
            }
            way => {
                let code = match way {
                    4 if !self.codes.is_empty() => self.dice.one_of(&self.codes),
                    _ => fresh,
                };
                keep(&mut self.codes, [code.clone()]);
                let presented = self.presented(&code.record);
                let redeemed = self.same(async |store| {
                    store
                        .redeem_code(code.clone(), presented.clone(), first.clone(), now)
                        .await
                });
                redeemed.await
            }
        };
        if let Redemption::Redeemed { grant, .. } = redeemed {
            keep(&mut self.grants, [*grant]);
        }
    }

    async fn rotate(&mut self, grant: Grant) {
        let refresh_id = match self.dice.below(6) {
            0 => self.token_id(),
            1 => grant
                .spent
                .last()
                .map_or(grant.current.refresh_id, |spent| spent.refresh_id),
            _ => grant.current.refresh_id,
        };
        let rotation = RefreshRotation {
            proven: if self.rarely() {
                of_key(self.key())
            } else {
                grant.bound
            },
            client_id: if self.rarely() {
                client_id(self.name())
            } else {
                grant.client_id.clone()
            },
            next_refresh_id: self.token_id(),
            next_access_id: self.token_id(),
            ..use_of(&grant, refresh_id, self.now())
        };
        let rotated = self.same(async |store| store.rotate_refresh(rotation.clone()).await);
        if let Rotation::Rotated { grant, .. } = rotated.await {
            self.grants.retain(|known| known.grant_id != grant.grant_id);
            self.grants.push(*grant);
        }
    }

    async fn grant(&mut self) {
        let now = self.now();
        let known = match self.grants.is_empty() {
            true => None,
            false => Some(self.dice.one_of(&self.grants)),
        };
        let unknown = self.grant_id();
        let grant_id = known.as_ref().map_or(unknown, |grant| grant.grant_id);
        let (name, client) = (self.username(), client_id(self.name()));
        let audit = self.audit();
        match (self.dice.below(12), known) {
            (0..7, Some(grant)) => self.rotate(grant).await,
            (7, _) => {
                let revoked =
                    self.same(async |store| store.revoke_grant(grant_id, audit.clone(), now).await);
                revoked.await;
            }
            (8, _) if self.rarely() => {
                let owner = match (self.dice.below(4), self.key()) {
                    (0, _) => Owner::Client(client),
                    (1, _) => Owner::User(name),
                    (2, Some(key)) => Owner::Key(key),
                    _ => Owner::UserAtClient {
                        username: name,
                        client_id: client,
                    },
                };
                let revoked = self
                    .same(async |store| store.revoke_all(owner.clone(), audit.clone(), now).await);
                revoked.await;
            }
            (way, _) => {
                let filter = GrantFilter {
                    client_id: (way % 2 == 0).then(|| client.clone()),
                    username: (way % 3 == 0).then(|| name.clone()),
                };
                let limit = 1 + self.dice.below(9);
                self.same(async |store| {
                    Ok((
                        store.grant(grant_id).await?,
                        store.grants(filter.clone(), Some(grant_id), limit).await?,
                        store.grants(filter.clone(), None, limit).await?,
                        store.live_grants(name.clone(), None, limit).await?,
                        store
                            .live_grants(name.clone(), Some(client.clone()), limit)
                            .await?,
                    ))
                })
                .await;
            }
        }
    }

    async fn feed(&mut self) {
        let (name, client) = (self.username(), client_id(self.name()));
        let revoked = match self.dice.below(5) {
            0 => Revoked::Token(TokenId::from_bytes([self.random::<1>()[0] % 4; 16])),
            1 if self.rarely() => Revoked::Client(client.clone()),
            2 if self.rarely() => Revoked::User(name.clone()),
            3 => Revoked::UserAtClient {
                username: username("b"),
                client_id: client.clone(),
            },
            _ => Revoked::LegacyToken(TokenId::from_bytes([self.random::<1>()[0] % 4; 16])),
        };
        let extent = Extent::of(
            self.now(),
            ACCESS * u32::try_from(1 + self.dice.below(2)).unwrap(),
        );
        let audit = self.audit();
        let announced =
            self.same(async |store| store.announce(revoked.clone(), extent, audit.clone()).await);
        announced.await;
        let unknown = self.grant_id();
        let grant_id = self.grants.last().map_or(unknown, |grant| grant.grant_id);
        let token = TokenReference {
            issuer: "https://one".into(),
            token_id: TokenId::from_bytes([1; 16]),
            grant_id,
            client_id: client,
            subject: TokenSubject::User {
                username: name,
                account: Some(("1".into(), "https://us1.example.com".into())),
            },
            bound_to: of_key(self.key()),
            issued_at: at(self.now.saturating_sub(3)),
        };
        self.same_in_any_order(async |store| store.revoked_by(token.clone()).await)
            .await;
        let newest = self
            .same(async |store| Ok(store.feed_state().await?.last))
            .await;
        let since = newest.saturating_sub(self.dice.below(9) as u64);
        self.same(async |store| store.revocations_since(since, 5).await)
            .await;
    }
}

/// What people hold: sessions, second factors, notices, failures.
impl Walk {
    fn session_id(&mut self) -> Digest {
        match self.sessions.is_empty() {
            true => Digest::of(b"unknown"),
            false => self.dice.one_of(&self.sessions),
        }
    }

    async fn begin(&mut self) {
        let (id, name) = (self.digest(), self.username());
        let user = self
            .same(async |store| store.user(name.clone()).await)
            .await;
        let replaces = self.rarely().then(|| self.session_id());
        let is_owed = self.dice.below(3) == 0;
        let owed = owed(self.text(), self.now());
        let session = Session {
            username: name,
            credentials_version: user
                .map_or_else(Default::default, |user| user.credentials_version),
            expires_at: at(self.now + 600),
            ends_at: at(self.now + 6000),
            used_at: self.now(),
            provider: self.provider(),
            ..if is_owed {
                owed
            } else {
                session("a", self.now())
            }
        };
        let begun =
            self.same(async |store| store.start_session(id, session.clone(), replaces).await);
        if let SessionBegin::Begun(_) = begun.await {
            keep(&mut self.sessions, [id]);
        }
    }

    async fn session(&mut self) {
        let (id, name, now) = (self.session_id(), self.username(), self.now());
        let audit = self.audit();
        match self.dice.below(16) {
            0..9 => self.begin().await,
            9 | 10 => {
                let until = at(self.now + 900);
                self.same(async |store| store.extend_session(id, until, now).await)
                    .await;
            }
            11 => self.same(async |store| store.end_session(id).await).await,
            12 if self.rarely() => {
                let which = match self.dice.below(2) {
                    0 => EndingSessions::One(id),
                    _ => EndingSessions::Others(id),
                };
                let ended = self.same(async |store| {
                    store
                        .end_sessions(name.clone(), which, audit.clone(), now)
                        .await
                });
                ended.await;
            }
            13 => {
                let sign_out = ProviderSignOut {
                    identity: identity(self.dice.one_of(&SUBJECTS)),
                    sid: (self.dice.below(3) > 0).then(|| self.text().to_owned()),
                    at: at(self.now.saturating_sub(self.dice.below(3) as u64)),
                };
                let ended = self.same(async |store| {
                    store
                        .end_provider_sign_ins(sign_out.clone(), audit.clone(), now)
                        .await
                });
                ended.await;
            }
            _ => {
                self.same(async |store| store.session(id, now).await).await;
                self.same_in_any_order(async |store| store.sessions(name.clone(), now).await)
                    .await;
            }
        }
    }

    async fn credential(&mut self) {
        let (name, now) = (self.username(), self.now());
        let version = self.same(async |store| {
            let known = store.credentials(name.clone()).await?;
            Ok(known.map(|credentials| credentials.version))
        });
        let version = version.await;
        let version = version.filter(|_| !self.rarely()).unwrap_or_default();
        let codes: Vec<Digest> = TEXTS.map(|text| Digest::of(text.as_bytes())).to_vec();
        let own = SecondFactor {
            totp_secret_sealed: b"sealed".to_vec(),
            recovery_codes: codes.clone(),
        };
        let own = Some(own).filter(|_| !self.rarely());
        let notice = (self.dice.below(3) == 0).then(|| self.notice());
        let audit = self.audit();
        match self.dice.below(8) {
            0 => {
                let rests_on = (!self.rarely()).then_some(version);
                let set = self.same(async |store| {
                    store
                        .set_second_factor(
                            name.clone(),
                            own.clone(),
                            rests_on,
                            notice.clone(),
                            audit.clone(),
                            now,
                        )
                        .await
                });
                set.await;
            }
            1 | 2 => {
                let replaced = self.same(async |store| {
                    store
                        .replace_recovery_codes(
                            name.clone(),
                            codes.clone(),
                            version,
                            notice.clone(),
                            audit.clone(),
                            now,
                        )
                        .await
                });
                replaced.await;
            }
            3..6 => {
                let code = Digest::of(self.text().as_bytes());
                self.same(async |store| store.use_recovery_code(name.clone(), code).await)
                    .await;
            }
            _ => {
                let step = self.now / 30;
                self.same(async |store| store.use_totp_step(name.clone(), step).await)
                    .await;
            }
        }
    }

    async fn once(&mut self) {
        let id = OnceId::of_user_assertion(&client_id(self.name()), self.text());
        let (until, now) = (at(self.now + 60), self.now());
        self.same(async |store| {
            let asked = store.is_used(id, now).await?;
            Ok((asked, store.use_once(id, until, now).await?))
        })
        .await;
    }

    async fn notice_step(&mut self) {
        let (now, until) = (self.now(), at(self.now + 60));
        let limit = 1 + self.dice.below(3);
        let claimed = self.same(async |store| {
            let mut claimed = store.claim_notices(now, until, limit).await?;
            claimed.sort_by_key(|one| one.notice.username.clone());
            Ok(claimed)
        });
        let claimed = claimed.await;
        keep(&mut self.claimed, claimed);
        if self.claimed.is_empty() || self.rarely() {
            return;
        }
        let claimed = self.dice.one_of(&self.claimed);
        let again_at = (self.dice.below(3) == 0).then(|| at(self.now + 5));
        let audit = self.audit();
        let settled = self.same(async |store| {
            store
                .settle_notice(claimed.clone(), again_at, audit.clone(), now)
                .await
        });
        settled.await;
    }

    async fn attempt(&mut self) {
        let now = self.now();
        if !self.counted.is_empty() && self.dice.below(3) == 0 {
            let counted = self.dice.one_of(&self.counted);
            let forget = self.rarely().then(|| Digest::of(self.text().as_bytes()));
            // The keys must be distinct.
            let forget = forget.filter(|forget| *forget != counted.paced.key);
            let forgiven =
                self.same(async |store| store.forgive_attempt(forget, vec![counted]).await);
            forgiven.await;
            return;
        }
        let keys: Vec<PacedKey> = self
            .dice
            .some_of(&TEXTS)
            .into_iter()
            .map(|text| PacedKey {
                key: Digest::of(text.as_bytes()),
                pace: PACE,
            })
            .collect();
        let admission = self.same(async |store| store.admit_attempt(keys.clone(), now).await);
        if let Admission::Admitted(counted) = admission.await {
            keep(&mut self.counted, counted);
        }
    }
}

/// Keys, the audit log, and upkeep.
impl Walk {
    async fn key_step(&mut self) {
        let (kid, name, now) = (self.text(), self.username(), self.now());
        let (before, after) = (self.text().as_bytes(), self.text().as_bytes());
        let audit = self.audit();
        match self.dice.below(6) {
            0 => {
                let key = signing_key(
                    kid,
                    self.dice.one_of(&[Algorithm::EdDsa, Algorithm::Es256]),
                    now,
                );
                let unless_after = (!self.rarely()).then(|| at(self.now.saturating_sub(9)));
                let added = self.same(async |store| {
                    store
                        .add_signing_key(key.clone(), unless_after, audit.clone())
                        .await
                });
                added.await;
            }
            1 => {
                let retired_at = self.rarely().then_some(now);
                let retired = self.same(async |store| {
                    let retired = store.retire_signing_key(kid.into(), retired_at);
                    retired.await
                });
                retired.await;
            }
            2 => {
                let forgotten = self
                    .same(async |store| store.forget_signing_key(kid.into(), audit.clone()).await);
                forgotten.await;
            }
            3 => {
                let value = match self.dice.below(4) {
                    0 => SealedValue::Root,
                    1 => SealedValue::SigningKey(kid.into()),
                    2 => SealedValue::RegisteredTotpSecret(name),
                    _ => SealedValue::OwnTotpSecret(name),
                };
                let known = [b"sealed".as_slice(), &[1, 2, 3], before];
                let before = (!self.rarely()).then(|| self.dice.one_of(&known).to_vec());
                let resealed = self.same(async |store| {
                    store
                        .reseal(value.clone(), before.clone(), after.to_vec())
                        .await
                });
                resealed.await;
            }
            4 => {
                let used = SecretUse {
                    client_id: client_id(self.name()),
                    secret: ClientSecret::of(self.text()),
                    at: now,
                };
                let other = SecretUse {
                    secret: ClientSecret::of(self.text()),
                    ..used.clone()
                };
                let noted = self.same(async |store| {
                    store
                        .note_secret_uses(vec![used.clone(), other.clone()])
                        .await
                });
                noted.await;
            }
            _ => {
                self.same(async |store| {
                    Ok((store.signing_keys().await?, store.sealed_root().await?))
                })
                .await;
                let ids = NAMES.map(client_id).to_vec();
                self.same_in_any_order(async |store| store.secret_times(ids.clone()).await)
                    .await;
            }
        }
    }

    async fn audit_step(&mut self) {
        let audit = self.audit();
        let range = match self.dice.below(3) {
            0 => AuditRange::Before(None),
            1 => AuditRange::Before(Some(1 + self.dice.below(40) as u64)),
            _ => AuditRange::After(self.dice.below(40) as u64),
        };
        self.same(async |store| {
            store.append_audit(audit.clone()).await?;
            store.audit(range, 7).await
        })
        .await;
    }

    /// Sweeps all at once: a store may find the rows of a part in another order.
    async fn upkeep(&mut self) {
        let now = self.now();
        if self.dice.below(2) == 0 {
            self.same(async |store| {
                // PostgreSQL sweeps entries that have their places in the log, which a reader gives them.
                store.audit(AuditRange::Before(None), 1).await?;
                store.sweep(now, now, 1000).await
            })
            .await;
            self.same(async |store| store.swept_at().await).await;
        }
        self.same(async |store| store.counts().await).await;
    }
}

type Row = (Name, Bytes, Bytes);

/// A store whose rows can be compared.
#[async_trait]
pub(crate) trait Walked: Store {
    /// The rows that are the same on each store, by table and key.
    async fn rows(&self) -> Result<Vec<Row>, StoreError>;
}

#[async_trait]
impl<R: Runs + Store> Walked for R {
    async fn rows(&self) -> Result<Vec<Row>, StoreError> {
        self.snapshot(|tx| {
            let tables = || Name::ALL.iter().filter(|table| table.kind() != Kind::Log);
            tx.ahead(|| {
                tables().map(|table| Want::Rows {
                    table: *table,
                    keys: Keys::all(),
                    limit: usize::MAX,
                })
            });
            let mut rows = Vec::new();
            for table in tables() {
                tx.range(*table, &Keys::all(), usize::MAX, |key, row| {
                    rows.extend(comparable(*table, key, row)?);
                    Ok(())
                })?;
            }
            Ok(rows)
        })
        .await
    }
}

/// `None` for a row that differs between stores.
fn comparable(table: Name, key: &[u8], row: &[u8]) -> Result<Option<Row>, Fault> {
    // A store that has not been swept has another time for it.
    let shared = [REGISTRY_VERSION, CREDENTIALS_VERSION, TOKEN_LIFETIME];
    let is_shared = |key: &[u8]| shared.iter().any(|shared| shared.as_bytes() == key);
    let row = match table {
        Name::meta if !is_shared(key) || u64::decode(row)? == 0 => return Ok(None),
        // A file has the position in the feed in the row.
        Name::revoked => Announced {
            position: None,
            ..Announced::decode(row)?
        }
        .encode()?,
        _ => row.to_vec(),
    };
    Ok(Some((table, key.to_vec(), row)))
}

/// The rows of the indexes.
fn indexes(rows: &[Row]) -> BTreeSet<Row> {
    let of_index = |(table, _, _): &&Row| table.kind() == Kind::Index;
    rows.iter().filter(of_index).cloned().collect()
}

/// The rows that the indexes should have by the other rows.
fn indexes_of(rows: &[Row]) -> Result<BTreeSet<Row>, Fault> {
    let mut found = BTreeSet::new();
    let mut registry = IndexDifference::new();
    for (table, key, row) in rows {
        let digest = || Digest::from_bytes(*key.last_chunk().unwrap());
        let mut add = |index, key| found.insert((index, key, Bytes::new()));
        match table {
            Name::clients => registry.change_client(None, Some(&Client::decode(row)?)),
            Name::users => registry.change_user(None, Some(&User::decode(row)?)),
            Name::codes => {
                if let StoredCode::Unused(record) = StoredCode::decode(row)? {
                    add(Name::unused_codes, tables::unused_code(&record, &digest()));
                }
            }
            Name::grants => {
                let grant = Grant::decode(row)?;
                let of_user = tables::grant_of_user(&grant, grant.revoked_at.is_some());
                add(Name::grants_of_users, of_user);
                add(Name::grants_by_client, tables::grant_of_client(&grant));
                for bound in grant.bound.thumbprints() {
                    let bound = tables::grant_of_key(bound.as_bytes(), grant.grant_id);
                    add(Name::grants_by_key, bound);
                }
            }
            Name::sessions => {
                let username = Session::decode(row)?.username;
                let of_user = tables::session_of_user(&username, &digest());
                add(Name::sessions_by_user, of_user);
            }
            Name::owed_notices => {
                let owed = OwedNotices::decode(row)?;
                let due = tables::notice_due(owed.due_at, &owed.notices[0].username);
                let since = Notice::since(&owed.notices).encode()?;
                found.insert((Name::notices_due, due, since));
            }
            _ => {}
        }
    }
    for (counted, count) in registry.counts() {
        let key = tables::counted(counted.kind as u8, &counted.value);
        let count = u64::try_from(count).unwrap_or_default().encode()?;
        found.insert((Name::registry_counts, key, count));
    }
    for (named, _) in registry.names() {
        let key = tables::named(named.kind as u8, &named.value, &named.name);
        found.insert((Name::registry_names, key, Bytes::new()));
    }
    Ok(found)
}

/// The number of random operations in a test: `WALK_STEPS` for a longer walk.
pub(crate) fn steps(usual: usize) -> usize {
    let asked = std::env::var("WALK_STEPS");
    asked.map_or(usual, |steps| steps.parse().unwrap())
}

/// 2,000 steps take 2 seconds.
#[tokio::test]
async fn random_operations_do_the_same_in_a_file_and_in_memory() {
    for seed in 0..4 {
        let backends = || Ok([(); 2].map(|()| ::redb::backends::InMemoryBackend::new()));
        let file = RedbStore::open_on(backends, ACCESS).unwrap();
        let memory = MemoryStore::new(ACCESS, at(0));
        let mut walk = Walk::new(seed, vec![Box::new(memory), Box::new(file)]);
        walk.go(steps(500)).await;
    }
}
