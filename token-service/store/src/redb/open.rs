//! Opens the file, with a clear message for each error.

use std::fs::{File, OpenOptions};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use redb::backends::FileBackend;
use redb::{
    Database, DatabaseError, ReadOnlyDatabase, ReadableDatabase, StorageBackend, StorageError,
    TableError,
};

use super::opened::{Opened, durable, settle};
use super::tables::{
    CHECKPOINT, JOURNAL, LAYOUT, MIGRATIONS, Migration, Snapshot, Tables, definition,
};
use super::{journal, revocations, rows};
use crate::Look;
use crate::fault::Fault;
use crate::operations::{names, registry};
use crate::token_lifetime::{TokenLifetime, note_opened};
use crate::tx::tables::{META, Name, ROOT, SEALED};
use domain::clock::Clock as _;
use domain::random::{self, RandomError};
use domain::registry_index::NamedKind;
use domain::{FeedId, Layout};
use system::{OsRandom, SystemClock};

/// Page cache size, in bytes. Rotations use few pages, so the pages in use fit.
const CACHE_BYTES: usize = 64 * 1024 * 1024;

/// Why the store cannot be opened. The file is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the store {path} cannot be opened: {error}")]
    File { path: PathBuf, error: io::Error },
    #[error(
        "the store {path} is in use by another process: one token service serves one file; stop the other one or choose another store.url"
    )]
    InUse { path: PathBuf },
    #[error(
        "the store {path} has layout {found}, and this version knows {} at most: run the version that wrote it, or a later one; a step back needs the backup from before the upgrade",
        Layout::NEWEST
    )]
    Newer { path: PathBuf, found: u64 },
    #[error(
        "an unreleased version before 0.3.0 wrote the store {path}, and no other version reads it: move it away, with its -journal, to start with an empty one"
    )]
    Older { path: PathBuf },
    #[error(
        "the store {path} is damaged or not a store: {reason}; restore a backup, or move it away, with its -journal, to start with an empty one"
    )]
    Damaged { path: PathBuf, reason: String },
    #[error(
        "the store {path} was not closed, and {journal} is not its journal: put the journal of this store there, or restore a backup"
    )]
    NoJournal { path: PathBuf, journal: PathBuf },
    #[error(
        "the store {path} is missing or empty, but its journal {journal} is there: put the store of this journal there, or move the journal away to start with an empty store"
    )]
    NoStore { path: PathBuf, journal: PathBuf },
    #[error("the store's writer cannot be started: {0}")]
    Thread(io::Error),
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// Opens or creates the file at `path` with all tables, and its journal.
pub(super) fn open(path: &Path) -> Result<Opened, OpenError> {
    guarded(path, || {
        let database = without_journal(path)?;
        let at = journal_path(path);
        let file = owners_alone(OpenOptions::new().create(true).truncate(false), &at);
        let journal = backend(file).map_err(|error| file_error(&at, error))?;
        with_journal(path, database, journal, Some(at))
    })
}

/// Opens or creates the file at `path` with all tables. The file contains what its journal had. A journal without its file
/// is refused: a clean stop deletes the journal, so the file was moved away, and needs the journal.
pub(super) fn without_journal(path: &Path) -> Result<Database, OpenError> {
    let journal = journal_path(path);
    let is_new = std::fs::metadata(path).map_or_else(
        |error| error.kind() == io::ErrorKind::NotFound,
        |found| found.len() == 0,
    );
    if is_new && journal.exists() {
        let path = path.to_owned();
        return Err(OpenError::NoStore { path, journal });
    }
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder).map_err(|error| file_error(path, error))?;
    }
    let file = owners_alone(OpenOptions::new().create(true).truncate(false), path)
        .map_err(|error| file_error(path, error))?;
    guarded(path, || {
        let database = builder()
            .create_file(file)
            .map_err(|error| database_error(path, error))?;
        prepare(path, &database, |id, checkpoint| {
            journal::read(&*existing_journal(path)?, id, checkpoint)
        })?;
        Ok(database)
    })
}

fn with_journal(
    path: &Path,
    database: Database,
    journal: Box<dyn StorageBackend>,
    at: Option<PathBuf>,
) -> Result<Opened, OpenError> {
    // 0 would be a journal that nobody has started.
    let id = u64::from_le_bytes(random::bytes(&OsRandom)?) | 1;
    Opened::new(database, journal, at, id).map_err(|fault| damaged(path, &fault))
}

/// The file that has what the store at `path` wrote since its last checkpoint.
pub(super) fn journal_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-journal");
    name.into()
}

fn existing_journal(path: &Path) -> io::Result<Box<dyn StorageBackend>> {
    backend(File::open(journal_path(path)))
}

fn backend(file: io::Result<File>) -> io::Result<Box<dyn StorageBackend>> {
    let backend = FileBackend::new(file?).map_err(io::Error::other)?;
    Ok(Box::new(backend))
}

fn file_error(path: &Path, error: io::Error) -> OpenError {
    OpenError::File {
        path: path.to_owned(),
        error,
    }
}

/// Converts panics to errors: redb does not check pages and panics on damaged pages.
fn guarded<T>(path: &Path, open: impl FnOnce() -> Result<T, OpenError>) -> Result<T, OpenError> {
    catch_unwind(AssertUnwindSafe(open)).unwrap_or_else(|_| {
        Err(damaged(
            path,
            &Fault::Row("its pages do not fit together".into()),
        ))
    })
}

/// Opens or creates a store on the first backend, with its journal on the second one. Messages contain `path`.
pub(super) fn open_on(
    path: &Path,
    backends: io::Result<[impl StorageBackend; 2]>,
) -> Result<Opened, OpenError> {
    let [file, journal] = backends.map_err(|error| file_error(path, error))?;
    let database = builder()
        .create_with_backend(file)
        .map_err(|error| database_error(path, error))?;
    prepare(path, &database, |id, checkpoint| {
        journal::read(&journal, id, checkpoint)
    })?;
    with_journal(path, database, Box::new(journal), None)
}

/// Opens an existing store, such as a backup.
pub(super) fn existing(path: &Path) -> Result<Database, OpenError> {
    guarded(path, || {
        let database = builder()
            .open(path)
            .map_err(|error| database_error(path, error))?;
        match layout(path, &database)? {
            Some(_) => prepare(path, &database, |id, checkpoint| {
                journal::read(&*existing_journal(path)?, id, checkpoint)
            })?,
            None => return Err(damaged(path, &Fault::Row("it is empty".into()))),
        }
        Ok(database)
    })
}

/// Looks at the file at `path` before a start. A file that was not closed has all but the last changes, which its journal has.
///
/// # Errors
/// This version cannot open the file.
pub fn look(path: &Path, identities: &[String]) -> Result<Look, OpenError> {
    if std::fs::metadata(path).map_or(true, |found| found.len() == 0)
        && !journal_path(path).exists()
    {
        return Ok(Look::Absent);
    }
    let Some(reader) = Reader::open(path)? else {
        return Ok(Look::Unread);
    };
    if reader.is_empty {
        return Ok(Look::Absent);
    }
    reader.read(|snapshot| {
        let mut holders = Vec::new();
        for (value, username) in registry::users_with(snapshot, NamedKind::Identity, identities)? {
            let user = names::user(snapshot, &username)?;
            holders.extend(user.map(|user| (value, user)));
        }
        Ok(Look::Found {
            sealed_root: SEALED.get(snapshot, ROOT)?,
            holders,
        })
    })
}

/// A file that is read and not changed.
pub(crate) struct Reader {
    path: PathBuf,
    database: ReadOnlyDatabase,
    /// True for a file without tables.
    pub(crate) is_empty: bool,
}

impl Reader {
    /// `None` if another process has the file open, or if only a start can read it, which repairs it first.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, OpenError> {
        guarded(path, || {
            let database = match builder().open_read_only(path) {
                Err(DatabaseError::DatabaseAlreadyOpen | DatabaseError::RepairAborted) => {
                    return Ok(None);
                }
                opened => opened.map_err(|error| database_error(path, error))?,
            };
            Ok(Some(Self {
                path: path.to_owned(),
                is_empty: layout(path, &database)?.is_none(),
                database,
            }))
        })
    }

    /// True if the newest changes are in the journal.
    pub(crate) fn lacks_its_journal(&self) -> Result<bool, OpenError> {
        let needed = needed_journal(&self.database);
        needed
            .map(|needed| needed.is_some())
            .map_err(|fault| damaged(&self.path, &fault))
    }

    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&mut Snapshot<'_>) -> Result<T, Fault>,
    ) -> Result<T, OpenError> {
        guarded(&self.path, || {
            let read = || {
                read(&mut Snapshot::new(
                    &self.database.begin_read()?,
                    Duration::ZERO,
                ))
            };
            read().map_err(|fault| damaged(&self.path, &fault))
        })
    }
}

/// Opens a file for reading and writing. Only the owner may read it, because grants show who works with what.
pub(super) fn owners_alone(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options.read(true).write(true).open(path)
}

pub(super) fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder.set_repair_callback(|repair| {
        tracing::warn!(
            progress = repair.progress(),
            "the store was not closed, and its last commit is not a checkpoint: reading the whole file"
        );
    });
    builder
}

/// Checks the layout, writes what the journal has, creates missing tables, and changes the file to the layout of
/// this version. `read_journal` gets what [`journal::read`] needs.
pub(super) fn prepare(
    path: &Path,
    database: &Database,
    read_journal: impl FnOnce(u64, u64) -> io::Result<Option<Vec<Vec<u8>>>>,
) -> Result<(), OpenError> {
    let found = layout(path, database)?;
    let fresh = FeedId::generate(&OsRandom)?;
    let needed = needed_journal(database).map_err(|fault| damaged(path, &fault))?;
    let records = needed.map_or(Ok(Some(Vec::new())), |(id, checkpoint)| {
        read_journal(id, checkpoint)
    });
    let journal = journal_path(path);
    let records = match records {
        Ok(Some(records)) => records,
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(file_error(&journal, error));
        }
        Ok(None) | Err(_) => {
            let path = path.to_owned();
            return Err(OpenError::NoJournal { path, journal });
        }
    };
    let migrated = migrate(database, &records, found, fresh, MIGRATIONS);
    migrated.map_err(|fault| damaged(path, &fault))?;
    if needed.is_some() {
        let transactions = records.len();
        tracing::warn!(
            transactions,
            "the store was not closed: its journal is applied"
        );
    }
    Ok(())
}

/// Identity of the journal that the file needs, and number of the checkpoint that the file has.
fn needed_journal(database: &impl ReadableDatabase) -> Result<Option<(u64, u64)>, Fault> {
    let transaction = database.begin_read()?;
    if transaction.list_tables()?.next().is_none() {
        return Ok(None);
    }
    let mut snapshot = Snapshot::new(&transaction, Duration::ZERO);
    let journal = META.get(&mut snapshot, JOURNAL)?;
    Ok(journal.zip(META.get(&mut snapshot, CHECKPOINT)?))
}

/// Gives the revocation feed a new identity, because its positions get a new meaning.
pub(super) fn renew_feed(path: &Path, database: &Database) -> Result<(), OpenError> {
    let fresh = FeedId::generate(&OsRandom)?;
    let renew = || -> Result<(), Fault> {
        let transaction = durable(database)?;
        revocations::set_feed(&mut Tables::new(&transaction), fresh)?;
        Ok(transaction.commit()?)
    };
    renew().map_err(|fault| damaged(path, &fault))
}

/// Records that tokens with a lifetime of `configured` seconds are issued.
pub(super) fn note_lifetime(database: &Database, configured: u64) -> Result<TokenLifetime, Fault> {
    let transaction = durable(database)?;
    let lifetime = {
        let tables = &mut Tables::new(&transaction);
        note_opened(tables, configured, SystemClock.now())?
    };
    transaction.commit()?;
    Ok(lifetime)
}

/// The layout of the file; `None` for an empty file.
fn layout(path: &Path, database: &impl ReadableDatabase) -> Result<Option<Layout>, OpenError> {
    let read = || -> Result<Option<Option<u64>>, Fault> {
        let transaction = database.begin_read()?;
        if transaction.list_tables()?.next().is_none() {
            return Ok(None);
        }
        if let Err(TableError::TableTypeMismatch { .. }) =
            transaction.open_table(definition(Name::meta))
        {
            // Keys and rows are not bytes.
            return Ok(Some(None));
        }
        let mut snapshot = Snapshot::new(&transaction, Duration::ZERO);
        META.get(&mut snapshot, LAYOUT).map(Some)
    };
    let Some(number) = read().map_err(|fault| damaged(path, &fault))? else {
        return Ok(None);
    };
    let path = path.to_owned();
    let found = number.ok_or_else(|| OpenError::Older { path: path.clone() })?;
    let known = i64::try_from(found).ok().and_then(Layout::known);
    known.map(Some).ok_or(OpenError::Newer { path, found })
}

/// Writes the rows of the journal's `records`, creates missing tables, and runs the migrations after `found`, the
/// layout of the file; `None` for a new file, whose feed gets the identity `fresh`.
pub(super) fn migrate(
    database: &Database,
    records: &[Vec<u8>],
    found: Option<Layout>,
    fresh: FeedId,
    migrations: &[Migration],
) -> Result<(), Fault> {
    let transaction = durable(database)?;
    {
        let mut tables = Tables::new(&transaction);
        for rows in records {
            for change in rows::changes(rows) {
                tables.replay(&change?)?;
            }
        }
        settle(&mut tables)?;
        tables.create_all()?;
        match found {
            None => revocations::set_feed(&mut tables, fresh)?,
            Some(found) => {
                let done = found.number() - Layout::FIRST.number();
                for migration in migrations.iter().skip(done as usize) {
                    migration(&mut tables)?;
                }
            }
        }
        let newest = u64::from(Layout::FIRST.number()) + migrations.len() as u64;
        META.put(&mut tables, LAYOUT, &newest)?;
    }
    Ok(transaction.commit()?)
}

/// What `fault` means for a store that is being opened: a disk that is full or fails is no damage.
pub(super) fn damaged(path: &Path, fault: &Fault) -> OpenError {
    if let Fault::Storage(error) = fault
        && let redb::Error::Io(error) = &**error
        && !is_damage(error)
    {
        return file_error(path, io::Error::new(error.kind(), error.to_string()));
    }
    OpenError::Damaged {
        path: path.to_owned(),
        reason: fault.to_string(),
    }
}

/// redb reports a file that is not a redb file as invalid data.
fn is_damage(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
    )
}

pub(super) fn database_error(path: &Path, error: DatabaseError) -> OpenError {
    let path = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::InUse { path },
        DatabaseError::Storage(StorageError::Io(error)) if !is_damage(&error) => {
            OpenError::File { path, error }
        }
        other => OpenError::Damaged {
            path,
            reason: other.to_string(),
        },
    }
}
