//! Opens the file, with a clear message for each error.

use std::fs::{File, OpenOptions};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::{Database, DatabaseError, ReadableDatabase as _, StorageBackend, StorageError};

use super::fault::Fault;
use super::revocations;
use super::tables::{
    FIRST_SCHEMA_VERSION, META, MIGRATIONS, Migration, SCHEMA_VERSION, SCHEMA_VERSION_KEY, Tables,
};
use crate::token_lifetime::TokenLifetime;
use domain::FeedId;
use domain::random::RandomError;
use system::OsRandom;

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
        "the store {path} has schema version {found} and this version knows {SCHEMA_VERSION}: run the version that wrote it, or a later one; a step back needs the backup from before the upgrade"
    )]
    Newer { path: PathBuf, found: u64 },
    #[error(
        "an unreleased version before 0.3.0 wrote the store {path} (schema version {found}), and no other version reads it: move it away to start with an empty one"
    )]
    Older { path: PathBuf, found: u64 },
    #[error(
        "the store {path} is damaged or not a store: {reason}; restore a backup, or move it away to start with an empty one"
    )]
    Damaged { path: PathBuf, reason: String },
    #[error("the store's writer cannot be started: {0}")]
    Thread(io::Error),
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// Opens or creates the file at `path` with all tables.
pub(super) fn open(path: &Path) -> Result<Database, OpenError> {
    let file_error = |error| OpenError::File {
        path: path.to_owned(),
        error,
    };
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder).map_err(file_error)?;
    }
    let file =
        owners_alone(OpenOptions::new().create(true).truncate(false), path).map_err(file_error)?;
    guarded(path, || {
        let database = builder()
            .create_file(file)
            .map_err(|error| database_error(path, error))?;
        prepare(path, &database)?;
        Ok(database)
    })
}

/// Converts panics to errors: redb does not check pages and panics on damaged pages.
fn guarded(
    path: &Path,
    open: impl FnOnce() -> Result<Database, OpenError>,
) -> Result<Database, OpenError> {
    catch_unwind(AssertUnwindSafe(open)).unwrap_or_else(|_| {
        Err(damaged(
            path,
            &Fault::Row("its pages do not fit together".into()),
        ))
    })
}

/// Opens or creates a store on `backend`. Messages contain `path`.
pub(super) fn open_on(
    path: &Path,
    backend: io::Result<impl StorageBackend>,
) -> Result<Database, OpenError> {
    let backend = backend.map_err(|error| OpenError::File {
        path: path.to_owned(),
        error,
    })?;
    let database = builder()
        .create_with_backend(backend)
        .map_err(|error| database_error(path, error))?;
    prepare(path, &database)?;
    Ok(database)
}

/// Opens an existing store, such as a backup.
pub(super) fn existing(path: &Path) -> Result<Database, OpenError> {
    guarded(path, || {
        let database = builder()
            .open(path)
            .map_err(|error| database_error(path, error))?;
        match schema_version(&database).map_err(|fault| damaged(path, &fault))? {
            Some(_) => prepare(path, &database)?,
            None => return Err(damaged(path, &Fault::Row("it is empty".into()))),
        }
        Ok(database)
    })
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
    builder
}

/// Checks the schema version, creates missing tables, and changes the file to the layout of this version.
pub(super) fn prepare(path: &Path, database: &Database) -> Result<(), OpenError> {
    let found = schema_version(database).map_err(|fault| damaged(path, &fault))?;
    let path_of = || path.to_owned();
    match found {
        Some(found) if found > SCHEMA_VERSION => {
            return Err(OpenError::Newer {
                path: path_of(),
                found,
            });
        }
        // No version ever wrote it.
        Some(0) => return Err(damaged(path, &Fault::Row("schema version 0".into()))),
        Some(found) if found < FIRST_SCHEMA_VERSION => {
            return Err(OpenError::Older {
                path: path_of(),
                found,
            });
        }
        _ => {}
    }
    let fresh = FeedId::generate(&OsRandom)?;
    migrate(database, found, fresh, MIGRATIONS).map_err(|fault| damaged(path, &fault))
}

/// Gives the revocation feed a new identity, because its positions get a new meaning.
pub(super) fn renew_feed(path: &Path, database: &Database) -> Result<(), OpenError> {
    let fresh = FeedId::generate(&OsRandom)?;
    let renew = || -> Result<(), Fault> {
        let transaction = database.begin_write()?;
        revocations::set_feed(&mut Tables::new(&transaction), fresh)?;
        Ok(transaction.commit()?)
    };
    renew().map_err(|fault| damaged(path, &fault))
}

/// Records that tokens with a lifetime of `configured` seconds are issued.
pub(super) fn note_lifetime(database: &Database, configured: u64) -> Result<TokenLifetime, Fault> {
    let transaction = database.begin_write()?;
    let lifetime = {
        let mut tables = Tables::new(&transaction);
        let lifetime = revocations::token_lifetime(&mut tables)?.opened(configured);
        revocations::set_token_lifetime(&mut tables, lifetime)?;
        lifetime
    };
    transaction.commit()?;
    Ok(lifetime)
}

/// The schema version of the file; `None` for an empty file.
fn schema_version(database: &Database) -> Result<Option<u64>, Fault> {
    let transaction = database.begin_read()?;
    if transaction.list_tables()?.next().is_none() {
        return Ok(None);
    }
    let version = transaction.open_table(META)?.get(SCHEMA_VERSION_KEY)?;
    version.map_or_else(
        || Err(Fault::Row("it has no schema version".into())),
        |version| Ok(Some(version.value())),
    )
}

/// Creates missing tables and runs the migrations after `found`, the schema version of the file; `None` for a new file,
/// whose feed gets the identity `fresh`.
pub(super) fn migrate(
    database: &Database,
    found: Option<u64>,
    fresh: FeedId,
    migrations: &[Migration],
) -> Result<(), Fault> {
    let transaction = database.begin_write()?;
    {
        let mut tables = Tables::new(&transaction);
        tables.create_all()?;
        match found {
            None => revocations::set_feed(&mut tables, fresh)?,
            Some(found) => {
                for (_, migration) in (FIRST_SCHEMA_VERSION..)
                    .zip(migrations)
                    .filter(|(from, _)| *from >= found)
                {
                    migration(&mut tables)?;
                }
            }
        }
        let newest = FIRST_SCHEMA_VERSION + migrations.len() as u64;
        tables.meta.open()?.insert(SCHEMA_VERSION_KEY, newest)?;
    }
    Ok(transaction.commit()?)
}

pub(super) fn damaged(path: &Path, fault: &Fault) -> OpenError {
    OpenError::Damaged {
        path: path.to_owned(),
        reason: fault.to_string(),
    }
}

pub(super) fn database_error(path: &Path, error: DatabaseError) -> OpenError {
    let path = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::InUse { path },
        // redb reports a file that is not a redb file as invalid data.
        DatabaseError::Storage(StorageError::Io(error))
            if !matches!(
                error.kind(),
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
            ) =>
        {
            OpenError::File { path, error }
        }
        other => OpenError::Damaged {
            path,
            reason: other.to_string(),
        },
    }
}
