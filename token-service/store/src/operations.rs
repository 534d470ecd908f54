//! The operations of the store, one trait per topic. The file of a topic has its operations as functions over a
//! [transaction](crate::tx::Tx), and implements the trait for every store that [runs](Runs) such functions.
//!
//! Operations with a parameter `audit` append these entries to the audit log in the transaction of their change, if they
//! change anything.

mod applied_file;
mod attempts;
mod change_log;
mod changing;
mod client_secrets;
pub(crate) mod codes;
mod credentials;
pub(crate) mod feed;
pub(crate) mod grants;
pub(crate) mod names;
pub(crate) mod notices;
mod once;
pub(crate) mod registry;
mod registry_index;
mod runs;
mod sealed;
mod second_factors;
pub(crate) mod sessions;
mod signing_keys;
pub(crate) mod sweep;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub(crate) use self::runs::Runs;
use crate::{BackupError, Begin, Counts, OnceId, SessionBegin, StoreError, Swept, Use};
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::registry_index::{NamedKind, email_value, identity_value};
use domain::{
    Admission, AuditEvent, AuditKind, AuditRange, AuditRecord, CertificateExpiry, ClaimedNotice,
    Client, ClientId, CodeRecord, Counted, Credentials, CredentialsVersion, EndedSignIns,
    EndingSessions, Excerpt, Extent, FeedId, FeedState, FirstStep, Grant, GrantFilter, GrantId,
    Identity, Layout, LegacyInstance, Notice, ObjectName, Owner, PacedKey, PresentedCode,
    ProviderSignOut, Redemption, RefreshRotation, RegistryChange, RegistryChanges, RegistryOutcome,
    RegistrySummary, Revocation, Revoked, Rotation, SealedSigningKey, SealedValue, SecondFactor,
    SecretTimes, SecretUse, SelfContainedCode, Session, SignIns, TokenReference, User, Username,
};

/// Clients, users and hosts of the legacy flow.
#[async_trait]
pub trait RegistrationStore: Send + Sync {
    /// The client with this id, enabled or not. An unreadable row counts as absent, in lists too: the service refuses
    /// that client or user, and the others keep working.
    async fn client(&self, client_id: ClientId) -> Result<Option<Client>, StoreError> {
        let found = self.client_with_bound_user(client_id).await?;
        Ok(found.map(|(client, _)| client))
    }

    /// Like [`RegistrationStore::client`], with the [bound user](Client::bound_user) of the client, enabled or not, in
    /// one read.
    async fn client_with_bound_user(
        &self,
        client_id: ClientId,
    ) -> Result<Option<(Client, Option<User>)>, StoreError>;

    /// The user with this name in any letter case (D-43), enabled or not.
    async fn user(&self, username: Username) -> Result<Option<User>, StoreError>;

    /// At most `limit` clients whose ids follow `after` (empty: from the start), in the order of the store. A shorter
    /// list means that no more clients follow.
    async fn clients(&self, after: String, limit: usize) -> Result<Vec<Client>, StoreError>;

    /// At most `limit` users whose names follow `after`, like [`RegistrationStore::clients`].
    async fn users(&self, after: String, limit: usize) -> Result<Vec<User>, StoreError>;

    /// All hosts of the legacy flow, sorted by name.
    async fn legacy_instances(&self) -> Result<Vec<LegacyInstance>, StoreError>;

    /// The position in the sequence of changes. Each object that a change touches raises the position by 1, so that
    /// replicas notice each other's changes.
    async fn registry_version(&self) -> Result<u64, StoreError>;

    /// At most `limit` objects that changed after position `after`. The store remembers the last
    /// [`CHANGES_KEPT`](domain::registry_change::CHANGES_KEPT) objects.
    async fn registry_changes(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<RegistryChanges, StoreError>;

    /// The registrations of these names, and all legacy instances, at one position in the sequence
    /// of changes. Contains every user whose name has the same folded form as one of these names.
    async fn excerpt(&self, names: Vec<ObjectName>) -> Result<Excerpt, StoreError>;

    /// What all registrations say together, at one position in the sequence of changes. A store reads it from its
    /// [index](domain::registry_index).
    async fn registry_summary(&self) -> Result<RegistrySummary, StoreError>;

    /// True if a page of this origin may call the token endpoint, because an enabled public client has a redirect URI
    /// with this origin (D-12, D-20).
    async fn allows_origin(&self, origin: String) -> Result<bool, StoreError>;

    /// The enabled single-sign-on users with this e-mail address, at most two of them, because the address of several
    /// users identifies nobody. Ignores case (protocol.md §4.5).
    async fn single_sign_on_users(&self, email: String) -> Result<Vec<Username>, StoreError> {
        self.users_of(NamedKind::SingleSignOn, email_value(&email))
            .await
    }

    /// The enabled users with this e-mail address, like [`RegistrationStore::single_sign_on_users`].
    async fn users_with_email(&self, email: String) -> Result<Vec<Username>, StoreError> {
        self.users_of(NamedKind::Email, email_value(&email)).await
    }

    /// The user with this identity, enabled or not.
    async fn user_with_identity(&self, identity: Identity) -> Result<Option<Username>, StoreError> {
        let found = self.users_of(NamedKind::Identity, identity_value(&identity));
        Ok(found.await?.pop())
    }

    /// The users who have this value of the index: at most two.
    async fn users_of(
        &self,
        kind: NamedKind,
        value: Option<String>,
    ) -> Result<Vec<Username>, StoreError> {
        let values = value.into_iter().collect();
        let found = self.users_with(kind, values).await?;
        Ok(found.into_iter().map(|(_, username)| username).collect())
    }

    /// The users who have one of these values of the [index](domain::registry_index), each with the value: at most two for
    /// each value.
    async fn users_with(
        &self,
        kind: NamedKind,
        values: Vec<String>,
    ) -> Result<Vec<(String, Username)>, StoreError>;

    /// At most `limit` of the clients that are bound to this user, enabled or not, sorted by name.
    async fn clients_bound_to(
        &self,
        username: Username,
        limit: usize,
    ) -> Result<Vec<ClientId>, StoreError>;

    /// The certificates of all clients, enabled or not, the earliest to expire first, at most `limit`.
    async fn certificates_by_expiry(
        &self,
        limit: usize,
    ) -> Result<Vec<CertificateExpiry>, StoreError>;

    /// The digest of the registrations file that a start applied last. An unreadable digest counts as absent.
    async fn applied_file(&self) -> Result<Option<Digest>, StoreError>;

    /// Applies `change` atomically, with its consequences:
    /// - Removing or disabling a client or a user revokes its tokens.
    /// - Unlinking an account revokes what the user authorized for this account.
    /// - Unlinking an identity ends the sessions and grants from sign-ins with it.
    /// - A new password or second factor ends the user's sessions and grants (RFC 9700 §4.14.2).
    /// - A new [`CredentialsVersion`] ends codes and unfinished sign-ins (D-35).
    /// - The service owes people the notices of the change.
    /// - The audit log has the entries of the change.
    ///
    /// The same transaction decides whether the change is overtaken: by [other changes](domain::Premises::are_overtaken_by)
    /// or by [another file](domain::FileChange::Replace).
    async fn change_registry(
        &self,
        change: RegistryChange,
        now: Timestamp,
    ) -> Result<RegistryOutcome, StoreError>;

    /// Replaces the password hash `hash` by `stronger`, a hash of the same password ([`User::rehash`]). Does nothing if
    /// another password was registered in the meantime. Nothing is revoked, and the [`CredentialsVersion`] stays.
    async fn rehash_password(
        &self,
        username: Username,
        hash: String,
        stronger: String,
    ) -> Result<(), StoreError>;
}

/// When client secrets were added and used.
#[async_trait]
pub trait ClientSecretStore: Send + Sync {
    /// The times of the secrets of these clients, in any order. A secret that is older than this record appears after
    /// its next use.
    async fn secret_times(&self, client_ids: Vec<ClientId>)
    -> Result<Vec<SecretTimes>, StoreError>;

    /// Records uses of client secrets. Skips secrets that were removed in the meantime.
    async fn note_secret_uses(&self, uses: Vec<SecretUse>) -> Result<(), StoreError>;
}

#[async_trait]
pub trait SigningKeyStore: Send + Sync {
    /// All signing keys, oldest first.
    async fn signing_keys(&self) -> Result<Vec<SealedSigningKey>, StoreError>;

    /// Adds `key`, unless the store has a key of the same algorithm that was made after `unless_after` (`None`: any key
    /// of that algorithm). Replicas that rotate at the same moment thus agree on one key. Returns whether the store
    /// added the key.
    async fn add_signing_key(
        &self,
        key: SealedSigningKey,
        unless_after: Option<Timestamp>,
        audit: Arc<[AuditEvent]>,
    ) -> Result<bool, StoreError>;

    /// Records when a key stopped signing, or (`None`) that the key signs again. An unknown key is not an error.
    async fn retire_signing_key(
        &self,
        kid: String,
        retired_at: Option<Timestamp>,
    ) -> Result<(), StoreError>;

    /// Removes a key, which invalidates everything it signed. Returns `false` if the key is unknown.
    async fn forget_signing_key(
        &self,
        kid: String,
        audit: Arc<[AuditEvent]>,
    ) -> Result<bool, StoreError>;
}

/// Values that are sealed with the encryption key.
#[async_trait]
pub trait SealedStore: Send + Sync {
    /// The root key of the tags, sealed; `None` if the store has no root key yet.
    async fn sealed_root(&self) -> Result<Option<Vec<u8>>, StoreError>;

    /// At most `limit` TOTP secrets (sealed) that users set up themselves, for users whose names follow `after`, sorted
    /// by name. A shorter list means that no more follow.
    async fn own_totp_secrets(
        &self,
        after: String,
        limit: usize,
    ) -> Result<Vec<(Username, Vec<u8>)>, StoreError>;

    /// Replaces `before` by `after`, the same value sealed with another key. Nothing is revoked, and the
    /// [`CredentialsVersion`] stays. Returns `false`, and changes nothing, if the stored value is not `before`. For the
    /// root, `before` is `None` if the store has no root yet.
    async fn reseal(
        &self,
        value: SealedValue,
        before: Option<Vec<u8>>,
        after: Vec<u8>,
    ) -> Result<bool, StoreError>;
}

#[async_trait]
pub trait CodeStore: Send + Sync {
    /// Exchanges a code of the current flows for the first tokens of a grant, or returns the reason for refusal (D-2).
    ///
    /// The request is checked with [`SelfContainedCode::concerns`]. Then one transaction looks up the grant of the code,
    /// checks the code with [`CodeRecord::redeem`] and writes the grant. A mismatch changes nothing. If the grant
    /// exists, this is a second use, which revokes the grant. Of any number of parallel calls exactly one returns
    /// `Redeemed`. Grants of this user and client beyond [`cap::GRANTS`](domain::cap::GRANTS) are revoked.
    async fn redeem_code(
        &self,
        code: SelfContainedCode,
        presented: PresentedCode,
        first: FirstStep,
        now: Timestamp,
    ) -> Result<Redemption, StoreError>;

    /// Stores a new legacy code, if the code still [rests on](CodeRecord::rests_on) its client and the user's current
    /// credentials and accounts. The same transaction removes codes of this user and client beyond [`cap::CODES`](domain::cap::CODES).
    async fn issue_legacy_code(
        &self,
        code: Digest,
        record: CodeRecord,
    ) -> Result<Begin, StoreError>;

    /// Exchanges a legacy code for the first tokens of a grant, or returns the reason for refusal (D-2).
    ///
    /// One transaction looks up the code, checks request and code with [`CodeRecord::redeem_stored`], marks the code as
    /// used and writes the grant. A mismatch changes nothing. A second use by the client of the code revokes the grant
    /// of the first use. Of any number of parallel calls exactly one returns `Redeemed`. Grants of this user and client
    /// beyond [`cap::GRANTS`](domain::cap::GRANTS) are revoked.
    async fn redeem_legacy_code(
        &self,
        code: Digest,
        presented: PresentedCode,
        grant_id: GrantId,
        first: FirstStep,
        now: Timestamp,
    ) -> Result<Redemption, StoreError>;
}

#[async_trait]
pub trait GrantStore: Send + Sync {
    /// Uses a refresh token (D-3). [`Grant::rotate`] decides inside the transaction.
    async fn rotate_refresh(&self, rotation: RefreshRotation) -> Result<Rotation, StoreError>;

    /// The grant, revoked or not, until the sweep removes it.
    async fn grant(&self, grant_id: GrantId) -> Result<Option<Grant>, StoreError>;

    /// At most `limit` grants after `after`, sorted by id, which is the order of creation.
    async fn grants(
        &self,
        filter: GrantFilter,
        after: Option<GrantId>,
        limit: usize,
    ) -> Result<Vec<Grant>, StoreError>;

    /// At most `limit` live grants of a user, sorted by client, from the client `from` on. [`cap::GRANTS`](domain::cap::GRANTS)
    /// bounds those at one client.
    async fn live_grants(
        &self,
        username: Username,
        from: Option<ClientId>,
        limit: usize,
    ) -> Result<Vec<Grant>, StoreError>;

    /// Revokes a grant and adds the feed entry in the same transaction. Returns `false` if there is no such live grant.
    async fn revoke_grant(
        &self,
        grant_id: GrantId,
        audit: Arc<[AuditEvent]>,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Revokes all grants of `owner`, and all access tokens issued to `owner` up to `now`, also those without a stored
    /// grant. The same transaction adds the feed entries. Returns the number of grants that were live. Codes of a user at a client
    /// from before `now` and from that second are refused too.
    async fn revoke_all(
        &self,
        owner: Owner,
        audit: Arc<[AuditEvent]>,
        now: Timestamp,
    ) -> Result<u64, StoreError>;
}

#[async_trait]
pub trait RevocationStore: Send + Sync {
    /// Adds an entry to the feed. Merges the entry with an existing entry for the same subject. Returns `false`, and
    /// writes nothing, if the existing entry already covers the new one.
    async fn announce(
        &self,
        revoked: Revoked,
        extent: Extent,
        audit: Arc<[AuditEvent]>,
    ) -> Result<bool, StoreError>;

    /// The entries of the feed that revoke the token, each with its [`Extent::at`].
    async fn revoked_by(
        &self,
        token: TokenReference,
    ) -> Result<Vec<(Revoked, Timestamp)>, StoreError>;

    async fn is_revoked(&self, token: TokenReference) -> Result<bool, StoreError> {
        Ok(!self.revoked_by(token).await?.is_empty())
    }
}

/// The feed that gateways read. Each store gives the entries their positions in its own way.
#[async_trait]
pub trait FeedStore: Send + Sync {
    /// The longest lifetime of any access token that can still be valid: the configured lifetime, or a longer lifetime
    /// from an earlier configuration until its last token has expired.
    fn longest_token(&self) -> Duration;

    /// The feed as far as its entries have positions. All entries that were committed before have positions, unless another
    /// process gives positions at the moment.
    async fn feed_state(&self) -> Result<FeedState, StoreError>;

    /// Gives the feed a new identity, so that every reader starts over.
    async fn renew_feed(&self, feed: FeedId, audit: Arc<[AuditEvent]>) -> Result<(), StoreError>;

    /// Changes with every commit that may have added entries. `None` if other processes write to the store too.
    fn feed_changes(&self) -> Option<tokio::sync::watch::Receiver<u64>>;

    /// At most `limit` feed entries after position `since` (0: from the start), oldest first. An entry gets its position
    /// when [`Self::feed_state`] is asked, if not before.
    async fn revocations_since(
        &self,
        since: u64,
        limit: usize,
    ) -> Result<Vec<Revocation>, StoreError>;
}

#[async_trait]
pub trait OnceStore: Send + Sync {
    /// Uses an id, which then counts as used until `expires_at` (D-10, D-46).
    async fn use_once(
        &self,
        id: OnceId,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<Use, StoreError>;

    async fn is_used(&self, id: OnceId, now: Timestamp) -> Result<bool, StoreError>;

    /// Uses a TOTP time step of a user, so that each code works only once (RFC 6238 §5.2). Steps up to the last used step
    /// return [`Use::Again`].
    async fn use_totp_step(&self, username: Username, step: u64) -> Result<Use, StoreError>;
}

/// Credentials of users, and second factors that users set up themselves.
#[async_trait]
pub trait CredentialStore: Send + Sync {
    /// The credentials of the user with this name in any letter case (D-43); `None` if the user is unknown.
    async fn credentials(&self, username: Username) -> Result<Option<Credentials>, StoreError>;

    /// The second factor that this user set up.
    async fn second_factor(&self, username: Username) -> Result<Option<SecondFactor>, StoreError>;

    /// How these users sign in, in the same order.
    async fn sign_ins(&self, usernames: Vec<Username>) -> Result<Vec<SignIns>, StoreError>;

    /// Replaces or removes the second factor that the user set up. The same transaction ends all sessions and grants of
    /// the user (D-35), and the service owes `notice` from then on. Returns the new version of the credentials, or
    /// `None` if nothing was changed, because the user is unknown or the current version is not `rests_on` (`None`: any
    /// version). Removing the user, or registering another TOTP secret, removes the second factor too.
    async fn set_second_factor(
        &self,
        username: Username,
        second_factor: Option<SecondFactor>,
        rests_on: Option<CredentialsVersion>,
        notice: Option<Notice>,
        audit: Arc<[AuditEvent]>,
        now: Timestamp,
    ) -> Result<Option<CredentialsVersion>, StoreError>;

    /// Replaces the recovery codes of the second factor that the user set up, and owes `notice` from then on. Returns `false` if nothing
    /// was changed, because the user set up none, or the current version of the credentials is not `rests_on`.
    async fn replace_recovery_codes(
        &self,
        username: Username,
        codes: Vec<Digest>,
        rests_on: CredentialsVersion,
        notice: Option<Notice>,
        audit: Arc<[AuditEvent]>,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Uses up a recovery code. An unknown code returns [`Use::Again`] too.
    async fn use_recovery_code(&self, username: Username, code: Digest) -> Result<Use, StoreError>;
}

/// Messages about changes that the service owes to people (D-64): [`RegistrationStore::change_registry`] and
/// [`CredentialStore::set_second_factor`] add them.
#[async_trait]
pub trait NoticeStore: Send + Sync {
    /// The oldest notice of each of at most `limit` people whose notices are due at `now`. Until `until`, nobody else gets these notices;
    /// then they are due again, because their sender may have died.
    async fn claim_notices(
        &self,
        now: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<ClaimedNotice>, StoreError>;

    /// Ends a claim. The notice is due again at `again_at`. `None` removes it, because the mail server took it or the service gives
    /// up, and then the person's next notice is due at once. Returns `false`, and changes nothing, if the claim is over and somebody else
    /// has claimed the notice.
    async fn settle_notice(
        &self,
        claimed: ClaimedNotice,
        again_at: Option<Timestamp>,
        audit: Arc<[AuditEvent]>,
        now: Timestamp,
    ) -> Result<bool, StoreError>;
}

/// Attempts to guess a secret.
#[async_trait]
pub trait AttemptStore: Send + Sync {
    /// Decides on an attempt and counts it as a failure: see [`attempt::admit`](domain::attempt::admit). Both happen in
    /// one transaction, so that parallel attempts are admitted no more often than consecutive attempts. The keys must be
    /// distinct. An attempt that has to wait for its first key writes nothing.
    async fn admit_attempt(
        &self,
        keys: Vec<PacedKey>,
        now: Timestamp,
    ) -> Result<Admission, StoreError>;

    /// Called after an attempt that was not a failure: removes all failures of `forget`, and takes the attempt back from
    /// each key in `take_back`. The keys must be distinct.
    async fn forgive_attempt(
        &self,
        forget: Option<Digest>,
        take_back: Vec<Counted>,
    ) -> Result<(), StoreError>;
}

#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Starts a session under the digest of its random id, if the session still [rests on](Session::rests_on) the
    /// user's current credentials and identities, and if no [sign-out](SessionBegin) has overtaken its sign-in. The
    /// same transaction ends `replaces`, and sessions of this user and stage beyond
    /// [`cap::SESSIONS`](domain::cap::SESSIONS): first those with the same [`origin`](Session::origin). It also keeps
    /// the user's [`UnfinishedSignIns`](domain::UnfinishedSignIns); a complete sign-in returns and forgets them, and a
    /// change of the credentials forgets them.
    async fn start_session(
        &self,
        id: Digest,
        session: Session,
        replaces: Option<Digest>,
    ) -> Result<SessionBegin, StoreError>;

    async fn session(&self, id: Digest, now: Timestamp) -> Result<Option<Session>, StoreError>;

    /// The live sessions of a user, in any order. [`cap::SESSIONS`](domain::cap::SESSIONS) bounds their number.
    async fn sessions(
        &self,
        username: Username,
        now: Timestamp,
    ) -> Result<Vec<(Digest, Session)>, StoreError>;

    /// Notes a use at `now`, which moves the expiry of a session to `expires_at`. An expired session stays expired.
    async fn extend_session(
        &self,
        id: Digest,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<(), StoreError>;

    /// Ends a session. An unknown session is not an error.
    async fn end_session(&self, id: Digest) -> Result<(), StoreError>;

    /// Ends only sessions of this user, at each stage of the sign-in. Returns their number. The same transaction sets
    /// [`User::sign_ins_from`] to `now`, also if no session ended: another browser may be at a provider.
    async fn end_sessions(
        &self,
        username: Username,
        which: EndingSessions,
        audit: Arc<[AuditEvent]>,
        now: Timestamp,
    ) -> Result<u64, StoreError>;

    /// Ends the sessions and revokes the live grants that [end with](domain::ProviderSignIn::ends_with) this sign-out. The same
    /// transaction adds the feed entries of the grants. Codes end with the sessions. A sign-in that is under way ends when its session
    /// would begin.
    async fn end_provider_sign_ins(
        &self,
        sign_out: ProviderSignOut,
        audit: Arc<[AuditEvent]>,
        now: Timestamp,
    ) -> Result<EndedSignIns, StoreError>;
}

#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Appends entries in this order.
    async fn append_audit(&self, events: Arc<[AuditEvent]>) -> Result<(), StoreError>;

    async fn audit(&self, range: AuditRange, limit: usize) -> Result<Vec<AuditRecord>, StoreError>;

    /// Removes up to `limit` of the oldest entries of `kind` that are not among its newest `most`.
    async fn forget_audit(
        &self,
        kind: AuditKind,
        most: u64,
        limit: usize,
    ) -> Result<Swept, StoreError>;
}

/// The state of the service. Implementations are safe to share and to call concurrently.
#[async_trait]
pub trait Store:
    RegistrationStore
    + ClientSecretStore
    + SigningKeyStore
    + SealedStore
    + CodeStore
    + GrantStore
    + RevocationStore
    + FeedStore
    + OnceStore
    + CredentialStore
    + NoticeStore
    + AttemptStore
    + SessionStore
    + AuditStore
    + std::fmt::Debug
{
    /// The layout in use. Never falls while the store is open.
    fn layout(&self) -> Layout;

    /// Removes up to `limit` rows that expired before `due`, and notes `due` as the time of the last sweep. Called every
    /// [`SWEEP_EVERY`](crate::SWEEP_EVERY). `now` is the clock, which may be ahead of `due`.
    async fn sweep(
        &self,
        due: Timestamp,
        now: Timestamp,
        limit: usize,
    ) -> Result<Swept, StoreError>;

    /// The time of the last sweep, or of the creation of the store.
    async fn swept_at(&self) -> Result<Timestamp, StoreError>;

    async fn counts(&self) -> Result<Counts, StoreError>;

    /// Writes a consistent copy of the store to a new file at `to`. The store keeps serving.
    async fn backup(&self, to: &Path) -> Result<(), BackupError>;

    fn register_metrics(&self, registry: &mut prometheus_client::registry::Registry);

    /// The time by the clock of the database, if that is another machine's. An error if the store cannot take writes now.
    async fn ready(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Completes the queued operations and closes the store, before the process ends. Later operations fail.
    async fn close(&self) {}

    /// Waits until the store has failed permanently and the process has to end. Returns the reason.
    async fn failed(&self) -> String {
        std::future::pending().await
    }
}
