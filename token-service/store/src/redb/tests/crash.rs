//! Crashes: what was written since the last sync is lost in part, in any order.

use std::fmt;
use std::io;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use redb::StorageBackend;
use redb::backends::InMemoryBackend;

use super::super::journal;
use super::super::open::journal_path;
use super::*;
use domain::random::Random as _;
use system::OsRandom;

/// A file. A crash keeps what was synced, and any part of the rest.
#[derive(Clone, Default)]
struct Device(Arc<Mutex<Content>>);

#[derive(Debug, Default, Clone)]
struct Content {
    synced: Vec<u8>,
    now: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
}

impl fmt::Debug for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Device")
    }
}

impl Content {
    fn write(to: &mut Vec<u8>, offset: usize, data: &[u8]) {
        to.resize(to.len().max(offset + data.len()), 0);
        to[offset..offset + data.len()].copy_from_slice(data);
    }

    /// The file after a crash now.
    fn after_crash(&self) -> Vec<u8> {
        let mut after = self.synced.clone();
        for (offset, data) in &self.unsynced {
            let mut random = [0; 3];
            OsRandom.fill(&mut random).unwrap();
            // A torn write ends at a sector.
            let kept = match random {
                [0..=99, _, _] => 0,
                [100..=199, _, _] => data.len(),
                [_, sectors, _] => data.len().min(usize::from(sectors) * 512),
            };
            Self::write(&mut after, *offset, &data[..kept]);
        }
        after
    }
}

impl Device {
    fn of(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(Content {
            synced: bytes.clone(),
            now: bytes,
            unsynced: Vec::new(),
        })))
    }
}

impl StorageBackend for Device {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().now.len() as u64)
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let content = self.0.lock().unwrap();
        let offset = offset as usize;
        out.copy_from_slice(&content.now[offset..offset + out.len()]);
        Ok(())
    }
    /// The length outlasts a crash, because the file system has journaled it.
    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut content = self.0.lock().unwrap();
        content.now.resize(len as usize, 0);
        content.synced.resize(len as usize, 0);
        content
            .unsynced
            .retain(|(offset, data)| offset + data.len() <= len as usize);
        Ok(())
    }
    fn sync_data(&self) -> io::Result<()> {
        let mut content = self.0.lock().unwrap();
        let content = &mut *content;
        for (offset, data) in content.unsynced.drain(..) {
            Content::write(&mut content.synced, offset, &data);
        }
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut content = self.0.lock().unwrap();
        Content::write(&mut content.now, offset as usize, data);
        content.unsynced.push((offset as usize, data.to_vec()));
        Ok(())
    }
}

/// Number of repairs when the file opens, for which redb reads the whole file.
fn repairs(file: impl StorageBackend) -> usize {
    let repairs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&repairs);
    let mut builder = builder();
    builder.set_repair_callback(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    drop(builder.create_with_backend(file).unwrap());
    repairs.load(Ordering::Relaxed)
}

pub(super) fn id(jti: &str) -> OnceId {
    OnceId::of_user_assertion(&code().client_id, jti)
}

fn open_on(devices: &[Device; 2]) -> Arc<RedbStore> {
    let devices = devices.clone();
    Arc::new(RedbStore::open_on(move || Ok(devices.clone()), ACCESS).unwrap())
}

/// Number of users in [`many_users`].
pub(super) const USERS: u64 = 150;

/// Many users, whose rows are more than the journal takes: their transaction is a checkpoint.
pub(super) fn many_users(of: usize) -> RegistryChange {
    let users = (0..USERS).map(|number| {
        let mut user = user(&format!("user-{of}-{number}"));
        user.organization = Some("o".repeat(8192));
        user
    });
    put(vec![], users.collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_time_loses_nothing_acknowledged_and_needs_no_repair() {
    let mut devices = [Device::default(), Device::default()];
    // Opened once without a crash: before, there is nothing to lose.
    drop(open_on(&devices));
    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    for crash in 0..8_usize {
        let store = open_on(&devices);
        let uses = (0..4_usize).map(|worker| {
            let (store, acknowledged) = (Arc::clone(&store), Arc::clone(&acknowledged));
            tokio::spawn(async move {
                for number in 0.. {
                    let jti = format!("{crash}-{worker}-{number}");
                    match store.use_once(id(&jti), at(60), at(0)).await {
                        Ok(used) => assert_eq!(used, Use::First),
                        Err(_) => break,
                    }
                    acknowledged.lock().unwrap().push(jti);
                }
            })
        });
        let uses: Vec<_> = uses.collect();
        let (change, changed) = (many_users(crash), Arc::clone(&store));
        let changing = tokio::spawn(async move {
            // On a busy machine, the store may be closed before.
            let _ = changed.change_registry(change, at(0)).await;
        });
        // Before, during, or after the checkpoint.
        let before = acknowledged.lock().unwrap().len();
        while acknowledged.lock().unwrap().len() < before + 20 * crash {
            tokio::task::yield_now().await;
        }
        let whole = acknowledged.lock().unwrap().clone();
        let after = {
            let [file, journal] = &devices;
            // Both at the same time.
            let (file, journal) = (file.0.lock().unwrap(), journal.0.lock().unwrap());
            [&*file, &*journal].map(|content| Device::of(content.after_crash()))
        };
        store.close().await;
        futures_util::future::join_all(uses).await;
        changing.await.unwrap();
        devices = after;
        let [file, _] = &devices;
        let file = file.0.lock().unwrap().after_crash();
        assert_eq!(repairs(Device::of(file)), 0, "crash {crash}");
        let store = open_on(&devices);
        for jti in &whole {
            let again = store.use_once(id(jti), at(60), at(0));
            assert_eq!(again.await, Ok(Use::Again), "{jti} of crash {crash}");
        }
        // The rows of one transaction are there together.
        let users = store.counts().await.unwrap().users;
        assert_eq!(users % USERS, 0, "crash {crash}");
        *acknowledged.lock().unwrap() = whole;
    }
}

/// A file at whose process a kill strikes: the files of the folder, copied while the store is open.
fn killed(file: &File) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.redb");
    std::fs::copy(file.path(), &path).unwrap();
    std::fs::copy(journal_path(&file.path()), journal_path(&path)).unwrap();
    (folder, path)
}

fn bytes_on_disk(path: &Path) -> InMemoryBackend {
    let bytes = std::fs::read(path).unwrap();
    let backend = InMemoryBackend::new();
    backend.set_len(bytes.len() as u64).unwrap();
    backend.write(0, &bytes).unwrap();
    backend
}

/// Otherwise a start would read the whole file, which takes long if the file is large.
#[tokio::test]
async fn the_file_of_a_killed_process_needs_no_repair() {
    let file = File::new(false);
    let store = file.store();
    for number in 0..3 {
        apply(&*store, many_users(number), number as u64).await;
        let grant = grant_of(&*store, code()).await;
        let (_folder, path) = killed(&file);
        assert_eq!(repairs(bytes_on_disk(&path)), 0);
        let reopened = RedbStore::open(&path, ACCESS).unwrap();
        let found = reopened.grant(grant.grant_id).await.unwrap();
        assert_eq!(found.map(|found| found.current), Some(grant.current));
    }
}

#[tokio::test]
async fn a_closed_file_has_no_journal() {
    let mut file = File::new(false);
    let journal = journal_path(&file.path());
    grant_of(&*file.store(), code()).await;
    assert!(journal.exists());
    file.store().close().await;
    assert!(!journal.exists());
    file.store = None;
    file.open();
    assert_eq!(file.store().counts().await.unwrap().grants, 1);
}

/// Without the journal, a used code could be used again.
#[tokio::test]
async fn a_file_without_its_journal_is_refused() {
    let (file, other) = (File::new(false), File::new(false));
    grant_of(&*file.store(), code()).await;
    let (_folder, path) = killed(&file);
    let journal = journal_path(&path);
    let whole = std::fs::read(&journal).unwrap();
    std::fs::remove_file(&journal).unwrap();
    for _ in 0..2 {
        let error = RedbStore::open(&path, ACCESS).unwrap_err();
        let text = error.to_string();
        let text = text.replace(&path.display().to_string(), "FILE");
        assert_eq!(
            text,
            "the store FILE was not closed, and FILE-journal is not its journal: put the journal of this store there, \
             or restore a backup"
        );
        let of_other = std::fs::copy(journal_path(&other.path()), &journal);
        of_other.unwrap();
    }
    std::fs::write(&journal, whole).unwrap();
    let store = RedbStore::open(&path, ACCESS).unwrap();
    assert_eq!(store.counts().await.unwrap().grants, 1);
}

/// A copy of the file that was made before a checkpoint lacks the rows of the checkpoint, and the journal has them no more.
#[tokio::test]
async fn a_file_that_is_older_than_its_journal_is_refused() {
    let file = File::new(false);
    let (_folder, path) = killed(&file);
    let store = file.store();
    let grant = grant_of(&*store, code()).await;
    apply(&*store, many_users(0), 0).await;
    for rotated in [false, true] {
        if rotated {
            let rotation = use_of(&grant, grant.current.refresh_id, at(5));
            let _ = store.rotate_refresh(rotation).await.unwrap();
        }
        std::fs::copy(journal_path(&file.path()), journal_path(&path)).unwrap();
        let error = RedbStore::open(&path, ACCESS).unwrap_err();
        let text = error.to_string();
        assert_eq!(
            text.replace(&path.display().to_string(), "FILE"),
            "the store FILE-journal cannot be opened: the file is older than its journal: put the file of this journal \
             back, or restore a backup"
        );
    }
}

/// A start without the store would overwrite the journal, and the store could never be opened again.
#[tokio::test]
async fn a_journal_without_its_store_is_refused_and_kept() {
    let file = File::new(false);
    grant_of(&*file.store(), code()).await;
    let backup = file.folder.path().join("backup");
    file.store().backup(&backup).await.unwrap();
    let (_folder, path) = killed(&file);
    let away = path.with_extension("away");
    std::fs::rename(&path, &away).unwrap();
    let as_printed = |error: &dyn fmt::Display| {
        let text = error.to_string();
        text.replace(&path.display().to_string(), "FILE")
    };
    let is_refused = || {
        let error = RedbStore::open(&path, ACCESS).unwrap_err();
        assert_eq!(
            as_printed(&error),
            "the store FILE is missing or empty, but its journal FILE-journal is there: put the store of this journal \
             there, or move the journal away to start with an empty store"
        );
    };
    is_refused();
    for refused in [
        restore(&backup, &path).unwrap_err(),
        FileRecords::target(&path).err().unwrap(),
    ] {
        assert_eq!(
            as_printed(&refused),
            "FILE-journal exists already: name another file, or move the old store away first, with its -journal"
        );
    }
    assert!(!path.exists());
    std::fs::write(&path, "").unwrap();
    is_refused();
    std::fs::rename(&away, &path).unwrap();
    let store = RedbStore::open(&path, ACCESS).unwrap();
    assert_eq!(store.counts().await.unwrap().grants, 1);
}

#[test]
fn a_journal_returns_whole_records_since_the_checkpoint() {
    let device = Device::default();
    let mut log = journal(&device);
    let read = |checkpoint| journal::read(&device, 7, checkpoint).unwrap().unwrap();
    let bytes = || device.0.lock().unwrap().now.clone();
    assert!(log.append(b"first").unwrap() && log.append(b"second").unwrap());
    let earlier = bytes();
    assert_eq!(read(0), [&b"first"[..], b"second"]);
    assert_eq!(journal::read(&device, 8, 0).unwrap(), None);
    assert_eq!(log.announce_checkpoint().unwrap(), 1);
    let announced = bytes();
    // The file has the checkpoint, or the crash came before.
    assert_eq!(read(0), [&b"first"[..], b"second"]);
    assert!(read(1).is_empty());
    log.checkpoint_done().unwrap();
    assert!(read(1).is_empty());
    let refused = |bytes: Vec<u8>, checkpoint| {
        let refused = journal::read(&Device::of(bytes), 7, checkpoint);
        refused.unwrap_err().to_string()
    };
    let older = "the file is older than its journal: put the file of this journal back, or restore a backup";
    assert_eq!(refused(bytes(), 0), older);
    let younger = "the journal is older than its file: put the journal of this file back, or restore a backup";
    assert_eq!(refused(earlier.clone(), 1), younger);
    assert_eq!(refused(announced.clone(), 2), younger);
    assert!(log.append(b"third").unwrap());
    assert_eq!(read(1), [b"third"]);
    assert_eq!(refused(bytes(), 2), younger);
    // A crash loses what was written to the mark since the last sync.
    let without_mark = || {
        let mut bytes = bytes();
        bytes[512..1024].copy_from_slice(&announced[512..1024]);
        bytes
    };
    let read_without_mark = journal::read(&Device::of(without_mark()), 7, 1);
    assert_eq!(read_without_mark.unwrap().unwrap(), [b"third"]);
    assert_eq!(refused(without_mark(), 0), older);
    // Every byte of a record counts. A crash tears only the last record, before the mark names the record.
    let missing = "record 0 is missing or damaged: restore a backup";
    let record = 4096..4096 + 64 + b"third".len();
    for at in record.clone() {
        let mut torn = without_mark();
        torn[at] ^= 1;
        let read = journal::read(&Device::of(torn), 7, 1).unwrap().unwrap();
        assert!(read.is_empty(), "byte {at}");
    }
    let mut damaged = bytes();
    damaged[4096] ^= 1;
    assert_eq!(refused(damaged, 1), missing);
    assert!(log.append(b"fourth").unwrap());
    let mut damaged = without_mark();
    damaged[4096] ^= 1;
    assert_eq!(refused(damaged, 1), missing);
    let mut zeros = bytes();
    zeros[record.end..].fill(0);
    assert_eq!(
        refused(zeros, 1),
        "record 1 is missing or damaged: restore a backup"
    );
    let mut bytes = bytes();
    bytes.truncate(SMALL as usize / 2);
    assert_eq!(journal::read(&Device::of(bytes), 7, 1).unwrap(), None);
    let most = vec![1; SMALL as usize];
    assert!(!log.append(&most).unwrap(), "no room");
    assert_eq!(read(1), [&b"third"[..], b"fourth"]);
}

/// Length of the journals of these tests.
const SMALL: u64 = 16 * 1024;

fn journal(device: &Device) -> journal::Journal {
    journal::Journal::start(Box::new(device.clone()), 7, SMALL).unwrap()
}

/// What a crash may leave of the journal: each write since the last sync is lost, there as a whole, or there up to a sector.
fn after_crashes(content: &Content) -> Vec<Vec<u8>> {
    let mut states = vec![content.synced.clone()];
    for (offset, data) in &content.unsynced {
        let sectors = (0..data.len()).step_by(512).chain([data.len()]);
        let torn = sectors.flat_map(|kept| {
            states.iter().map(move |state| {
                let mut state = state.clone();
                Content::write(&mut state, *offset, &data[..kept]);
                state
            })
        });
        states = torn.collect();
    }
    states
}

/// Keeps the content after each operation.
#[derive(Debug, Clone, Default)]
struct Taped {
    device: Device,
    tape: Arc<Mutex<Vec<Content>>>,
}

impl Taped {
    fn tape(&self) {
        let content = self.device.0.lock().unwrap().clone();
        self.tape.lock().unwrap().push(content);
    }
}

impl StorageBackend for Taped {
    fn len(&self) -> io::Result<u64> {
        self.device.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.device.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.device.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.device.sync_data()?;
        self.tape();
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.device.write(offset, data)?;
        self.tape();
        Ok(())
    }
}

/// Whichever step a kill or a crash interrupts, the start finds what is durable, and refuses no good journal. A journal from
/// before a checkpoint of the file is refused.
#[test]
fn a_crash_at_every_step_leaves_a_good_journal() {
    let taped = Taped::default();
    let mut log = journal::Journal::start(Box::new(taped.clone()), 7, SMALL).unwrap();
    let (mut checkpoint, mut durable) = (0, Vec::<Vec<u8>>::new());
    // Journals, each with the last checkpoint that was announced.
    let mut earlier: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut states = 0;
    let mut crash = |taped: &Taped, checkpoint, durable: &[Vec<u8>], writing: Option<&[u8]>| {
        for content in taped.tape.lock().unwrap().drain(..) {
            for state in after_crashes(&content) {
                states += 1;
                let found = journal::read(&Device::of(state), 7, checkpoint);
                let mut found = found.unwrap().unwrap();
                if found.len() > durable.len() {
                    assert_eq!(found.pop().as_deref(), writing);
                }
                assert_eq!(found, durable);
            }
        }
    };
    taped.tape.lock().unwrap().clear();
    // `None`: a checkpoint. Longer and shorter records overwrite each other.
    for step in [
        Some(10),
        Some(700),
        None,
        Some(3000),
        None,
        None,
        Some(1),
        Some(2),
        Some(1500),
        None,
        Some(2000),
    ] {
        let before = taped.device.0.lock().unwrap().now.clone();
        earlier.push((checkpoint, before));
        match step {
            Some(length) => {
                let rows = vec![u8::try_from(earlier.len()).unwrap(); length];
                assert!(log.append(&rows).unwrap());
                crash(&taped, checkpoint, &durable, Some(&rows));
                durable.push(rows);
            }
            None => {
                let next = log.announce_checkpoint().unwrap();
                let last = taped.tape.lock().unwrap().last().cloned();
                crash(&taped, checkpoint, &durable, None);
                // Now the file has the checkpoint.
                taped.tape.lock().unwrap().extend(last);
                (checkpoint, durable) = (next, Vec::new());
                log.checkpoint_done().unwrap();
                crash(&taped, checkpoint, &durable, None);
            }
        }
        for (announced, journal) in &earlier {
            let found = journal::read(&Device::of(journal.clone()), 7, checkpoint);
            assert_eq!(found.is_ok(), *announced == checkpoint, "{announced}");
        }
    }
    assert!(states > 100, "{states}");
}
