//! The operations of the store, one trait for each topic. Each store implements a topic in the file of its name.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{BackupError, Begin, Claim, Counts, StoreError, Swept};
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{
    Admission, AuditEvent, AuditRange, AuditRecord, Client, ClientId, CodeRecord, Credentials,
    CredentialsVersion, Extent, FeedId, FeedState, Grant, GrantFilter, GrantId, LegacyInstance,
    PacedKey, PresentedCode, Redemption, RefreshRotation, RefreshStep, RegistryChange,
    RegistryChanges, RegistryOutcome, Remembered, Revocation, Revoked, Rotation, SealedSigningKey,
    SealedValue, SecondFactor, SecretTimes, SecretUse, Session, TokenReference, User, Username,
};

/// Clients, users and hosts of the legacy flow.
#[async_trait]
pub trait RegistrationStore: Send + Sync {
    /// The client with this id, enabled or not. A row that cannot be read counts as absent, in lists too: who is not
    /// registered is refused, and the others go on.
    async fn client(&self, client_id: ClientId) -> Result<Option<Client>, StoreError>;

    /// The user with this name, enabled or not.
    async fn user(&self, username: Username) -> Result<Option<User>, StoreError>;

    /// Clients whose ids follow `after` (empty: from the start), in the order of the store; at most `limit`, and fewer
    /// only at the end.
    async fn clients(&self, after: String, limit: usize) -> Result<Vec<Client>, StoreError>;

    /// Users whose names follow `after`, as [`RegistrationStore::clients`].
    async fn users(&self, after: String, limit: usize) -> Result<Vec<User>, StoreError>;

    /// All hosts of the legacy flow, in the order of their names.
    async fn legacy_instances(&self) -> Result<Vec<LegacyInstance>, StoreError>;

    /// The position in the sequence of changes: each object that a change touches raises it by 1, so that replicas notice
    /// each other's changes.
    async fn registry_version(&self) -> Result<u64, StoreError>;

    /// What changed behind the position `after`, at most `limit` objects. The store remembers the last
    /// [`CHANGES_KEPT`](domain::registry_change::CHANGES_KEPT).
    async fn registry_changes(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<RegistryChanges, StoreError>;

    /// Applies `change` atomically, with its consequences: what was issued to a client or user that is removed or
    /// disabled is revoked, and so is what a user authorized for an account that is no longer linked; a new password or
    /// second factor ends the user's sessions and grants (RFC 9700 §4.14.2), and with another [`CredentialsVersion`]
    /// what was begun before: codes, and sign-ins in flight (D-35). Whether the change is
    /// [overtaken](domain::Premises::are_overtaken_by) is decided in the same transaction.
    async fn change_registry(
        &self,
        change: RegistryChange,
        now: Timestamp,
    ) -> Result<RegistryOutcome, StoreError>;

    /// What is remembered of the files that were applied, in any order.
    async fn remembered(&self) -> Result<Vec<Remembered>, StoreError>;

    /// Takes a stronger hash of a password in the place of `hash` ([`User::rehash`]), unless another one was registered
    /// meanwhile; nothing ends, and the [`CredentialsVersion`] stays.
    async fn rehash_password(
        &self,
        username: Username,
        hash: String,
        stronger: String,
    ) -> Result<(), StoreError>;
}

/// Times of client secrets.
#[async_trait]
pub trait ClientSecretStore: Send + Sync {
    /// What is known of the secrets of these clients, in any order. A secret from before this was kept is there once it
    /// was used.
    async fn secret_times(&self, client_ids: Vec<ClientId>)
    -> Result<Vec<SecretTimes>, StoreError>;

    /// Notes uses of client secrets. One of a secret that has ended since is left out.
    async fn note_secret_uses(&self, uses: Vec<SecretUse>) -> Result<(), StoreError>;
}

/// Signing keys, sealed.
#[async_trait]
pub trait SigningKeyStore: Send + Sync {
    /// All signing keys, sealed, oldest first.
    async fn signing_keys(&self) -> Result<Vec<SealedSigningKey>, StoreError>;

    /// Adds `key`, unless the store has a key of the same algorithm that was made after `unless_after` (`None`:
    /// any key of that algorithm). Replicas that rotate at the same moment thus agree on one key. Whether it was
    /// added.
    async fn add_signing_key(
        &self,
        key: SealedSigningKey,
        unless_after: Option<Timestamp>,
    ) -> Result<bool, StoreError>;

    /// Notes when a key stopped to sign, or that it signs again; an unknown key is no error.
    async fn retire_signing_key(
        &self,
        kid: String,
        retired_at: Option<Timestamp>,
    ) -> Result<(), StoreError>;

    /// Removes a key: what it signed is worth nothing from now on. `false` when there is no such key.
    async fn forget_signing_key(&self, kid: String) -> Result<bool, StoreError>;
}

/// What the encryption key seals.
#[async_trait]
pub trait SealedStore: Send + Sync {
    /// The root of the tags, sealed; `None` in a store that has none yet.
    async fn sealed_root(&self) -> Result<Option<Vec<u8>>, StoreError>;

    /// The TOTP secrets that users whose names follow `after` have set up, sealed, in the order of the names; at most
    /// `limit`, and fewer only at the end.
    async fn own_totp_secrets(
        &self,
        after: String,
        limit: usize,
    ) -> Result<Vec<(Username, Vec<u8>)>, StoreError>;

    /// Puts `after`, the same value sealed anew, in the place of `before`. Nothing ends, and the [`CredentialsVersion`] stays.
    /// `false`, and nothing is changed, if something else than `before` is there. For the root, `before` may be `None`: there
    /// is none yet.
    async fn reseal(
        &self,
        value: SealedValue,
        before: Option<Vec<u8>>,
        after: Vec<u8>,
    ) -> Result<bool, StoreError>;
}

/// Authorization codes.
#[async_trait]
pub trait CodeStore: Send + Sync {
    /// Keeps a fresh code, unless it does not [rest](CodeRecord::rests_on) on what the user is now. In the same
    /// transaction codes of this user and client beyond [`cap::CODES`](domain::cap::CODES) end.
    async fn issue_code(&self, code: Digest, record: CodeRecord) -> Result<Begin, StoreError>;

    /// Exchanges a code for `grant`'s first tokens, or says why not (D-2).
    ///
    /// In one transaction: the code is looked up, [`CodeRecord::check`] compares what was presented and
    /// [`CodeRecord::rests_on`] what the user is now, the code is marked as used and the grant is written. A mismatch
    /// changes nothing; a second use by the code's own client revokes the grant of the first. Of any number of parallel
    /// calls exactly one is `Redeemed`. Grants of this user and client beyond [`cap::GRANTS`](domain::cap::GRANTS) are
    /// revoked.
    async fn redeem_code(
        &self,
        code: Digest,
        presented: PresentedCode,
        grant_id: GrantId,
        first: RefreshStep,
        now: Timestamp,
    ) -> Result<Redemption, StoreError>;
}

/// Grants and their refresh tokens.
#[async_trait]
pub trait GrantStore: Send + Sync {
    /// Uses a refresh token (D-3): see [`Grant::rotate`], which decides inside the transaction. A grant that was made
    /// with other credentials than the user has now is revoked instead (D-35).
    async fn rotate_refresh(&self, rotation: RefreshRotation) -> Result<Rotation, StoreError>;

    /// The grant, revoked or not, while it is remembered.
    async fn grant(&self, grant_id: GrantId) -> Result<Option<Grant>, StoreError>;

    /// Grants behind `after` in the order of their ids, which is that of their time; at most `limit`.
    async fn grants(
        &self,
        filter: GrantFilter,
        after: Option<GrantId>,
        limit: usize,
    ) -> Result<Vec<Grant>, StoreError>;

    /// Ends a grant: its refresh token is dead and the revocation is in the feed when this returns. `false`
    /// when there is no such live grant.
    async fn revoke_grant(&self, grant_id: GrantId, now: Timestamp) -> Result<bool, StoreError>;
}

/// The revocation feed.
#[async_trait]
pub trait RevocationStore: Send + Sync {
    /// Adds an entry to the feed: it is there when this returns. An entry for the same thing is replaced by one that
    /// says as much as both; if it says as much already, nothing is written and the answer is `false`.
    async fn announce(&self, revoked: Revoked, extent: Extent) -> Result<bool, StoreError>;

    /// Whether the feed has an entry that concerns the token.
    async fn is_revoked(&self, token: TokenReference) -> Result<bool, StoreError>;

    /// How long the longest-lived access token lives that may exist: the configured lifetime, or a longer one that was
    /// configured before until the last token of it has expired.
    fn longest_token(&self) -> Duration;

    /// The feed as it is now.
    async fn feed_state(&self) -> Result<FeedState, StoreError>;

    /// Gives the feed another identity: every reader starts over.
    async fn renew_feed(&self, feed: FeedId) -> Result<(), StoreError>;

    /// Moves with every commit that may have added entries, if the store is this process's alone. `None` for a store
    /// that others write to as well.
    fn feed_changes(&self) -> Option<tokio::sync::watch::Receiver<u64>>;

    /// Feed entries behind position `since` (0: from the start), oldest first, at most `limit`.
    async fn revocations_since(
        &self,
        since: u64,
        limit: usize,
    ) -> Result<Vec<Revocation>, StoreError>;
}

/// Things that may be used once.
#[async_trait]
pub trait OnceStore: Send + Sync {
    /// Claims an assertion's `jti` for a client until `expires_at` (protocol.md §2.3, D-10).
    async fn claim_jti(
        &self,
        client_id: ClientId,
        jti: String,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<Claim, StoreError>;

    /// Whether an assertion's `jti` is claimed at `now`.
    async fn is_jti_claimed(
        &self,
        client_id: ClientId,
        jti: String,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Claims a TOTP time step for a user, so that a code works once (RFC 6238 §5.2). Steps at or below the
    /// last claimed one are `AlreadyClaimed`.
    async fn claim_totp_step(&self, username: Username, step: u64) -> Result<Claim, StoreError>;
}

/// What users sign in with, and second factors that they set up.
#[async_trait]
pub trait CredentialStore: Send + Sync {
    /// What this user signs in with; `None` for one who is unknown or disabled.
    async fn credentials(&self, username: Username) -> Result<Option<Credentials>, StoreError>;

    /// What this user has set up.
    async fn second_factor(&self, username: Username) -> Result<Option<SecondFactor>, StoreError>;

    /// Sets up a second factor in the place of the one before, or removes it; all sessions and grants of the user end
    /// in the same transaction (D-35). The answer is the new version of the credentials; `None`, and nothing was
    /// changed, when the user is unknown or does not have the version `rests_on` (`None`: any). A second factor also
    /// goes when the user is removed, and when another TOTP secret is registered.
    async fn set_second_factor(
        &self,
        username: Username,
        second_factor: Option<SecondFactor>,
        rests_on: Option<CredentialsVersion>,
        now: Timestamp,
    ) -> Result<Option<CredentialsVersion>, StoreError>;

    /// Uses a recovery code up, once: unknown ones are `AlreadyClaimed` too.
    async fn claim_recovery_code(
        &self,
        username: Username,
        code: Digest,
    ) -> Result<Claim, StoreError>;
}

/// Attempts to prove something that can be guessed.
#[async_trait]
pub trait AttemptStore: Send + Sync {
    /// Decides on an attempt and counts it as a failure: see [`attempt::admit`]. Deciding and counting is one
    /// transaction: of any number of parallel attempts no more are admitted than of consecutive ones. The keys differ
    /// from each other.
    async fn admit_attempt(
        &self,
        keys: Vec<PacedKey>,
        now: Timestamp,
    ) -> Result<Admission, StoreError>;

    /// After an attempt that was no failure: all failures of `forget` are forgotten, and one is taken back of each of
    /// `take_back`. The keys differ from each other.
    async fn forgive_attempt(
        &self,
        forget: Option<Digest>,
        take_back: Vec<Digest>,
    ) -> Result<(), StoreError>;
}

/// Sign-in sessions.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Starts a session under the digest of its random id, and ends `replaces` in the same transaction, and sessions of
    /// this user and stage beyond [`cap::SESSIONS`](domain::cap::SESSIONS); unless the user has other credentials by now
    /// than the session was made with.
    async fn start_session(
        &self,
        id: Digest,
        session: Session,
        replaces: Option<Digest>,
    ) -> Result<Begin, StoreError>;

    /// The live session with this id.
    async fn session(&self, id: Digest, now: Timestamp) -> Result<Option<Session>, StoreError>;

    /// Lets a session live until `expires_at`, as it is used; a dead one stays dead.
    async fn extend_session(
        &self,
        id: Digest,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<(), StoreError>;

    /// Ends a session; ending an unknown one is no error.
    async fn end_session(&self, id: Digest) -> Result<(), StoreError>;
}

/// The audit log.
#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Appends entries, in this order.
    async fn append_audit(&self, events: Arc<[AuditEvent]>) -> Result<(), StoreError>;

    /// At most `limit` entries of the log.
    async fn audit(&self, range: AuditRange, limit: usize) -> Result<Vec<AuditRecord>, StoreError>;

    /// Removes up to `limit` entries of the log up to the sequence `last`, oldest first.
    async fn forget_audit(&self, last: u64, limit: usize) -> Result<Swept, StoreError>;
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
    + OnceStore
    + CredentialStore
    + AttemptStore
    + SessionStore
    + AuditStore
    + std::fmt::Debug
{
    /// Removes up to `limit` rows that expired before `now`.
    async fn sweep(&self, now: Timestamp, limit: usize) -> Result<Swept, StoreError>;

    /// How many rows there are.
    async fn counts(&self) -> Result<Counts, StoreError>;

    /// Writes a consistent copy of the store to a new file at `to`, while it serves.
    async fn backup(&self, to: &Path) -> Result<(), BackupError>;

    /// Adds what the store counts to `registry`.
    fn register_metrics(&self, registry: &mut prometheus_client::registry::Registry);

    /// Fails when the store cannot take writes now.
    async fn ready(&self) -> Result<(), StoreError>;

    /// Waits until the store has failed for good, so that the process has to end; the answer says why.
    async fn failed(&self) -> String {
        std::future::pending().await
    }
}
