//! A disk that fails.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use redb::StorageBackend;
use redb::backends::InMemoryBackend;

use super::crash::{USERS, id, many_users};
use super::*;

/// A disk that fails every write and sync after a number of writes, and keeps its content.
#[derive(Clone)]
struct FailingDisk {
    disk: Arc<InMemoryBackend>,
    journal: Arc<InMemoryBackend>,
    writes_left: Arc<AtomicI64>,
}

impl fmt::Debug for FailingDisk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("FailingDisk")
    }
}

impl FailingDisk {
    fn new() -> Self {
        Self {
            disk: Arc::new(InMemoryBackend::new()),
            journal: Arc::new(InMemoryBackend::new()),
            writes_left: Arc::new(AtomicI64::new(i64::MAX)),
        }
    }

    /// The file of the journal on the same disk.
    fn journal(&self) -> Self {
        Self {
            disk: Arc::clone(&self.journal),
            ..self.clone()
        }
    }

    fn fail_after(&self, writes: i64) {
        self.writes_left.store(writes, Ordering::SeqCst);
    }

    fn repair(&self) {
        self.fail_after(i64::MAX);
    }

    fn spend(&self) -> io::Result<()> {
        if self.writes_left.fetch_sub(1, Ordering::SeqCst) > 0 {
            Ok(())
        } else {
            Err(io::Error::from(io::ErrorKind::StorageFull))
        }
    }

    fn opener(&self) -> Opener {
        let disk = self.clone();
        Box::new(move || {
            let path = std::path::Path::new("failing disk");
            open::open_on(path, Ok([disk.clone(), disk.journal()]))
        })
    }
}

impl StorageBackend for FailingDisk {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.spend()?;
        self.disk.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.spend()?;
        self.disk.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.spend()?;
        self.disk.write(offset, data)
    }
}

async fn until_ready(store: &RedbStore) {
    while store.ready().await.is_err() {
        tokio::task::yield_now().await;
    }
}

/// The disk fails at every possible write of a rotation. In every case, a client that received a new token can use it,
/// and a client that received an error can repeat its request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_write_is_an_error_and_loses_nothing_acknowledged() {
    let disk = FailingDisk::new();
    let store = RedbStore::open_with(disk.opener(), ACCESS).unwrap();
    let grant = grant_of(&store, code()).await;
    let mut live = grant.current.refresh_id;
    let mut failures = 0;
    for writes in 0..12 {
        disk.fail_after(writes);
        let rotation = use_of(&grant, live, at(10));
        let outcome = store.rotate_refresh(rotation.clone()).await;
        disk.repair();
        until_ready(&store).await;
        live = match outcome {
            Ok(Rotation::Rotated { grant: rotated, .. }) => rotated.current.refresh_id,
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                failures += 1;
                assert!(matches!(error, StoreError::Failed(_)), "{error}");
                match store.rotate_refresh(rotation).await.unwrap() {
                    Rotation::Rotated { grant: rotated, .. } => rotated.current.refresh_id,
                    Rotation::Repeated { step, .. } => step.refresh_id,
                    other => panic!("{other:?}"),
                }
            }
        };
    }
    assert!(failures > 0, "the disk never failed");
}

/// A claim that failed because of a full disk can be repeated when the disk has space.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_and_recovers() {
    let disk = FailingDisk::new();
    let store = RedbStore::open_with(disk.opener(), ACCESS).unwrap();
    let use_id = || {
        store.use_once(
            crate::OnceId::of_user_assertion(&code().client_id, "jti"),
            at(60),
            at(0),
        )
    };
    disk.fail_after(0);
    assert!(matches!(use_id().await, Err(StoreError::Failed(_))));
    assert!(store.ready().await.is_err());
    // No operator must restore a backup because a disk is full.
    let full = (disk.opener())().unwrap_err();
    assert!(matches!(full, OpenError::File { .. }), "{full}");
    assert!(
        matches!(use_id().await, Err(StoreError::Failed(_))),
        "a closed store answers at once"
    );
    disk.repair();
    until_ready(&store).await;
    assert_eq!(use_id().await.unwrap(), Use::First);
    assert_eq!(use_id().await.unwrap(), Use::Again);
}

/// The disk fails at many writes of a checkpoint. The rows of its transaction are there together or not at all,
/// and what the journal had stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_checkpoint_loses_nothing_acknowledged() {
    let disk = FailingDisk::new();
    let store = RedbStore::open_with(disk.opener(), ACCESS).unwrap();
    let change = many_users(0);
    let mut failures = 0;
    for writes in (0..).map(|step| step * step) {
        let jti = writes.to_string();
        let use_id = || store.use_once(id(&jti), at(60), at(0));
        assert_eq!(use_id().await, Ok(Use::First));
        disk.fail_after(writes);
        let changed = store.change_registry(change.clone(), at(0)).await;
        disk.repair();
        until_ready(&store).await;
        assert_eq!(use_id().await, Ok(Use::Again));
        let users = store.counts().await.unwrap().users;
        assert!(matches!(users, 0 | USERS), "{users}");
        if changed.is_ok() {
            assert_eq!(users, USERS);
            break;
        }
        failures += 1;
    }
    assert!(failures > 3, "{failures}");
}
