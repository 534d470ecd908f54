//! The conformance suite on real files, and tests of damaged files and disks.

mod crash;
mod disk;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use redb::Database;
use tempfile::TempDir;

use super::open::builder;
use super::tables::Tables;
use super::*;
use crate::conformance::{
    ACCESS, Subject, WEAK, apply, assert_a_longer_lifetime_holds,
    assert_unreadable_rows_stop_no_change, at, code, conformance, first_step, grant_of,
    issue_legacy, present_secrets, put, register_at_random, register_weak, registrations, rehash,
    replacements_and_removals, revoke, session, start, use_of, user,
};
use crate::operations::*;
use crate::tx::Tx as _;
use crate::tx::tables::{META, Name, TOTP_STEPS};
use crate::{OnceId, Use};
use claims::Confirmation;
use domain::digest::Digest;
use domain::{
    AuditKind, GrantFilter, GrantId, PresentedCode, Redemption, RegistryChange, Rotation, Username,
};

struct File {
    folder: TempDir,
    store: Option<Arc<RedbStore>>,
    restarts: bool,
}

impl File {
    fn new(restarts: bool) -> Self {
        let mut file = Self {
            folder: TempDir::new().unwrap(),
            store: None,
            restarts,
        };
        file.open();
        file
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("data/store.redb")
    }

    fn open(&mut self) {
        self.store = Some(Arc::new(RedbStore::open(&self.path(), ACCESS).unwrap()));
    }
}

impl Subject for File {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone().unwrap()
    }

    async fn restart(&mut self) {
        if self.restarts {
            // The file stays locked while the store is open, so opening it again would fail.
            self.store = None;
            self.open();
        }
    }
}

mod staying_open {
    use super::*;
    conformance!(File::new(false));
}

mod restarting {
    use super::*;
    conformance!(File::new(true));
}

#[tokio::test]
async fn the_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let file = File::new(false);
    assert_eq!(mode(&file.path()), 0o600);
    let [backup, restored] = ["backup", "restored"].map(|name| file.folder.path().join(name));
    file.store().backup(&backup).await.unwrap();
    assert_eq!(mode(&backup), 0o600);
    for of_backup in [0o444, 0o644] {
        let of_backup = std::fs::Permissions::from_mode(of_backup);
        std::fs::set_permissions(&backup, of_backup).unwrap();
        restore(&backup, &restored).unwrap();
        assert_eq!(mode(&restored), 0o600);
        drop(RedbStore::open(&restored, ACCESS).unwrap());
        std::fs::remove_file(&restored).unwrap();
    }
}

#[test]
fn a_file_in_use_is_refused() {
    let file = File::new(false);
    let error = RedbStore::open(&file.path(), ACCESS).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
}

fn set_layout(path: &Path, number: u64) {
    let database = Database::create(path).unwrap();
    let transaction = database.begin_write().unwrap();
    let mut tables = Tables::new(&transaction);
    META.put(&mut tables, tables::LAYOUT, &number).unwrap();
    drop(tables);
    transaction.commit().unwrap();
}

#[test]
fn a_file_of_another_version_is_refused_and_kept() {
    let mut file = File::new(false);
    file.store = None;
    let path = file.path();
    let refused = || {
        let error = RedbStore::open(&path, ACCESS).unwrap_err().to_string();
        error.replace(&path.display().to_string(), "FILE")
    };
    let [newest, later] = [Layout::NEWEST, Layout::LATER].map(Layout::number);
    set_layout(&path, later.into());
    assert_eq!(
        refused(),
        format!(
            "the store FILE has layout {later}, and this version knows {newest} at most: run the version that wrote \
             it, or a later one; a step back needs the backup from before the upgrade"
        )
    );
    set_layout(&path, newest.into());
    assert_eq!(
        RedbStore::open(&path, ACCESS).unwrap().layout(),
        Layout::NEWEST
    );

    // The tables of an unreleased version had other types.
    std::fs::remove_file(&path).unwrap();
    let database = Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    let typed = redb::TableDefinition::<&str, u64>::new("meta");
    let mut meta = transaction.open_table(typed).unwrap();
    meta.insert(tables::LAYOUT, 1).unwrap();
    drop(meta);
    transaction.commit().unwrap();
    drop(database);
    assert_eq!(
        refused(),
        "an unreleased version before 0.3.0 wrote the store FILE, and no other version reads it: move it away, with \
         its -journal, to start with an empty one"
    );
}

/// An example of what a new layout needs.
#[test]
fn a_file_is_migrated_step_by_step() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.redb");
    drop(RedbStore::open(&path, ACCESS).unwrap());
    fn step(tables: &mut Tables<'_>) -> Result<(), Fault> {
        let ada = Username::parse("ada").unwrap();
        let step = TOTP_STEPS.get(tables, &ada)?.unwrap_or_default();
        TOTP_STEPS.put(tables, &ada, &(step + 1))
    }
    let database = builder().open(&path).unwrap();
    let fresh = domain::FeedId::from_bytes([0; 16]);
    let all: [tables::Migration; 3] = [step; 3];
    let migrate = |found, most| {
        open::migrate(&database, &[], Some(found), fresh, &all[..most]).unwrap();
        let transaction = database.begin_read().unwrap();
        let mut snapshot = Snapshot::new(&transaction, ACCESS);
        let layout = META.get(&mut snapshot, tables::LAYOUT).unwrap();
        let ada = Username::parse("ada").unwrap();
        let step = TOTP_STEPS.get(&mut snapshot, &ada).unwrap();
        (layout.unwrap(), step.unwrap())
    };
    assert_eq!(migrate(Layout::FIRST, 1), (2, 1));
    assert_eq!(migrate(Layout::LATER, 3), (4, 3));
    assert_eq!(migrate(Layout::LATER, 1), (2, 3), "nothing is done twice");
}

#[test]
fn what_is_not_a_store_is_refused_and_kept() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.redb");
    let text = b"not a store ".repeat(1000);
    std::fs::write(&path, &text).unwrap();
    let error = RedbStore::open(&path, ACCESS).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), text);

    let other = folder.path().join("other.redb");
    let database = Database::create(&other).unwrap();
    let transaction = database.begin_write().unwrap();
    Tables::new(&transaction).open(Name::users).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let error = RedbStore::open(&other, ACCESS).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
}

#[test]
fn a_file_without_a_new_table_gets_it() {
    let mut file = File::new(false);
    file.store = None;
    let has_it = || {
        let database = Database::create(file.path()).unwrap();
        let transaction = database.begin_read().unwrap();
        let mut snapshot = Snapshot::new(&transaction, ACCESS);
        snapshot.open(Name::second_factors).is_ok()
    };
    let database = Database::create(file.path()).unwrap();
    let transaction = database.begin_write().unwrap();
    let second_factors = tables::definition(Name::second_factors);
    transaction.delete_table(second_factors).unwrap();
    transaction.commit().unwrap();
    drop(database);
    assert!(!has_it());
    drop(RedbStore::open(&file.path(), ACCESS).unwrap());
    assert!(has_it());
}

/// A torn file causes a message, not a crash.
#[tokio::test]
async fn a_torn_file_is_refused() {
    let mut file = File::new(false);
    for _ in 0..50 {
        grant_of(&*file.store(), code()).await;
    }
    file.store = None;
    let whole = std::fs::read(file.path()).unwrap();
    let folder = TempDir::new().unwrap();
    let torn = folder.path().join("torn.redb");
    let (mut refused, mut opened) = (0, 0);
    let parts = (1..16).map(|part| whole.len() * part / 16);
    let cut = parts.map(|length| whole.get(..length).unwrap().to_vec());
    // Blocks of zeros, as a file system leaves them after a crash.
    let holes = (0..32).map(|hole| {
        let mut holed = whole.clone();
        let start = whole.len() * hole / 32;
        holed.get_mut(start..start + 512).unwrap().fill(0);
        holed
    });
    for bytes in cut.chain(holes) {
        std::fs::write(&torn, &bytes).unwrap();
        match RedbStore::open(&torn, ACCESS) {
            // The damaged part was unused, or a row, which affects only operations on this row.
            Ok(_) => opened += 1,
            Err(OpenError::Damaged { reason, .. }) => {
                refused += 1;
                assert!(!reason.is_empty());
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(
        refused > 0 && opened > 0,
        "{refused} refused, {opened} opened"
    );
}

#[test]
fn a_path_that_cannot_be_is_refused() {
    let folder = TempDir::new().unwrap();
    let error = RedbStore::open(folder.path(), ACCESS).unwrap_err();
    assert!(matches!(error, OpenError::File { .. }), "{error}");
}

/// The file contains no codes, refresh tokens, secrets or session ids.
#[tokio::test]
async fn no_code_and_no_session_id_is_in_the_file() {
    let mut file = File::new(false);
    let secrets = present_secrets(&*file.store()).await;
    file.store = None;
    let bytes = std::fs::read(file.path()).unwrap();
    let contains = |text: &str| {
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    };
    assert!(contains("app.example.com"), "the record itself is there");
    for secret in secrets {
        assert!(!contains(secret), "{secret}");
    }
}

/// An unreadable row fails only its own operation. Other operations in the same transaction succeed.
#[tokio::test]
async fn an_unreadable_row_fails_its_own_operation() {
    let mut file = File::new(false);
    let grant = grant_of(&*file.store(), code()).await;
    file.store = None;
    let database = Database::create(file.path()).unwrap();
    let transaction = database.begin_write().unwrap();
    let mut tables = Tables::new(&transaction);
    let id = grant.grant_id.as_bytes();
    tables.put(Name::grants, id, vec![0xff; 3]).unwrap();
    drop(tables);
    transaction.commit().unwrap();
    drop(database);
    file.open();
    let store = file.store();
    let broken = store.rotate_refresh(use_of(&grant, grant.current.refresh_id, at(1)));
    let (broken, ()) = tokio::join!(broken, issue_legacy(&*store, "c", code()));
    assert!(matches!(broken, Err(StoreError::Failed(_))));
    store.ready().await.unwrap();
    let presented = PresentedCode {
        client_id: code().client_id,
        redirect_uri: code().redirect_uri,
        verifier_digest: code().code_challenge,
        client_authenticated: false,
        proven: Confirmation::default(),
    };
    let first = first_step(at(1));
    let redeemed = store
        .redeem_legacy_code(
            Digest::of(b"c"),
            presented,
            GrantId::from_bytes([1; 16]),
            first,
            at(1),
        )
        .await;
    assert!(matches!(redeemed, Ok(Redemption::Redeemed { .. })));
}

/// Unreadable rows do not affect sweeping, listing, revoking or registering of other rows.
#[tokio::test]
async fn an_unreadable_row_stops_nothing_else() {
    let mut file = File::new(false);
    let bad = grant_of(&*file.store(), code()).await;
    let good = grant_of(&*file.store(), code()).await;
    let revoked = grant_of(&*file.store(), code()).await;
    let store = file.store();
    revoke(&*store, &revoked, at(0)).await;
    let id = Digest::of(b"session");
    start(&*store, id, session("ada", at(10)), None).await;
    drop(store);
    file.store = None;
    let database = Database::create(file.path()).unwrap();
    let transaction = database.begin_write().unwrap();
    let mut tables = Tables::new(&transaction);
    let sign_ins = [&[AuditKind::SignIn.number()][..], &[0; 8]].concat();
    let rows: [(Name, &[u8]); 5] = [
        (Name::grants, bad.grant_id.as_bytes()),
        (Name::revocations, &[0; 8]),
        (Name::sessions, id.as_bytes()),
        (Name::users, b"bad"),
        (Name::audit_log, &sign_ins),
    ];
    for (table, key) in rows {
        // For a row of the audit log, the first entry has the number 0.
        let garbage = [&[0; 15][..], &[1], &[0xff; 3]].concat();
        tables.put(table, key, garbage).unwrap();
    }
    drop(tables);
    transaction.commit().unwrap();
    drop(database);
    file.open();
    let store = file.store();
    let before = crate::unreadable_rows().get();
    let (_, users) = registrations(&*store).await;
    assert_eq!(users.len(), 1);
    let listed = store.grants(GrantFilter::default(), None, 100).await;
    assert_eq!(listed.unwrap().len(), 2);
    // Readable sessions and grants of the user end.
    let disabled = RegistryChange {
        put_users: users.into_iter().map(|user| user.disabled()).collect(),
        ..RegistryChange::default()
    };
    apply(&*store, disabled, 1).await;
    let ended = store.grant(good.grant_id).await.unwrap().unwrap();
    assert!(ended.revoked_at.is_some());
    let late = at(1_000_000);
    let events = [crate::conformance::audit_event(1)];
    store.append_audit(events.into()).await.unwrap();
    store.sweep(late, late, 100).await.unwrap();
    let counts = store.counts().await.unwrap();
    let left = crate::Counts {
        clients: 1,
        users: 2,
        grants: 1,
        revocations: 1,
        ..crate::Counts::default()
    };
    assert_eq!(counts, left, "those that cannot be read");
    assert!(crate::unreadable_rows().get() > before);
}

/// A repair reads the whole file, which takes long if the file is large.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_file_needs_no_repair_although_somebody_holds_the_store() {
    let file = File::new(false);
    let store = file.store();
    apply(&*store, put(vec![], vec![user("ada")]), 0).await;
    store.close().await;
    let repaired = Arc::new(AtomicI64::new(0));
    let repairs = Arc::clone(&repaired);
    let mut builder = builder();
    builder.set_repair_callback(move |_| {
        repairs.fetch_add(1, Ordering::Relaxed);
    });
    drop(builder.open(file.path()).unwrap());
    assert_eq!(repaired.load(Ordering::Relaxed), 0);
    let ada = Username::parse("ada").unwrap();
    assert!(store.user(ada.clone()).await.is_err());
    assert!(store.use_totp_step(ada, 1).await.is_err());
    drop(builder.open(file.path()).unwrap());
}

/// Operations beyond the queue are refused at once. All queued operations complete.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_turns_operations_away() {
    let file = File::new(false);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..20_000 {
        let store = file.store();
        tasks.spawn(async move {
            let jti = number.to_string();
            let id = OnceId::of_user_assertion(&code().client_id, &jti);
            store.use_once(id, at(60), at(0)).await
        });
    }
    let outcomes = tasks.join_all().await;
    let taken = outcomes
        .iter()
        .filter(|outcome| **outcome == Ok(Use::First))
        .count();
    let turned_away = outcomes
        .iter()
        .filter(|outcome| **outcome == Err(StoreError::Overloaded))
        .count();
    assert_eq!(taken + turned_away, 20_000);
    assert!(taken > 0);
}

/// The restored feed uses the positions after the backup again, so it needs a new identity.
#[tokio::test]
async fn a_restored_copy_has_a_feed_of_its_own() {
    let file = File::new(false);
    let before = file.store().feed_state().await.unwrap();
    let [copy, restored] = ["copy", "restored"].map(|name| file.folder.path().join(name));
    file.store().backup(&copy).await.unwrap();
    restore(&copy, &restored).unwrap();
    let restored = RedbStore::open(&restored, ACCESS).unwrap();
    let after = restored.feed_state().await.unwrap();
    assert_ne!(after.feed, before.feed);
    assert_eq!(after.last, before.last);
}

#[tokio::test]
async fn a_shorter_lifetime_brings_no_revoked_token_back() {
    let mut file = File::new(true);
    file.store = None;
    drop(RedbStore::open(&file.path(), ACCESS * 2).unwrap());
    file.open();
    assert_a_longer_lifetime_holds(&*file.store()).await;
    file.restart().await;
    assert_eq!(file.store().longest_token(), ACCESS);
}

/// A stolen backup contains only the strongest hash of a password.
#[tokio::test]
async fn no_row_keeps_a_hash_that_became_stronger() {
    let file = File::new(false);
    let store = file.store();
    register_weak(&*store).await;
    let copy_has_weak = async |name: &str| {
        let path = file.folder.path().join(name);
        store.backup(&path).await.unwrap();
        let copy = std::fs::read(path).unwrap();
        copy.windows(WEAK.len())
            .any(|bytes| bytes == WEAK.as_bytes())
    };
    assert!(copy_has_weak("before").await);
    rehash(&*store).await;
    assert!(!copy_has_weak("after").await);
}

/// Adds a client and a user whose rows cannot be read.
fn break_rows(file: &mut File, name: &str) {
    file.store = None;
    let database = Database::create(file.path()).unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let mut tables = Tables::new(&transaction);
        for table in [Name::clients, Name::users] {
            let garbage = vec![0xff; 3];
            tables.put(table, name.as_bytes(), garbage).unwrap();
        }
    }
    transaction.commit().unwrap();
    drop(database);
    file.open();
}

#[tokio::test]
async fn an_unreadable_registration_is_replaced_and_removed() {
    let mut file = File::new(false);
    register_at_random(&*file.store(), 20).await;
    for (name, change) in replacements_and_removals() {
        break_rows(&mut file, name);
        assert_unreadable_rows_stop_no_change(&*file.store(), name, change).await;
    }
}
