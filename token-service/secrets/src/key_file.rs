//! Keys in files. The first start creates the files, readable only by their owner.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tempfile::NamedTempFile;
use zeroize::Zeroizing;

use crate::text_file;
use domain::random::{self, Random, RandomError};

/// Length of a key, in bytes. A file contains the key as 43 characters of base64url, with or without a line end.
const KEY_LENGTH: usize = 32;

#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    #[error(
        "the key file {path} is missing, and the store holds what it sealed: restore it from a backup"
    )]
    Missing { path: PathBuf },
    #[error("the key file {path}: {error}")]
    File { path: PathBuf, error: io::Error },
    #[error("the key file {path} is open to others (mode {mode:o}): `chmod 600 {path}`")]
    Exposed { path: PathBuf, mode: u32 },
    #[error(
        "the key file {path} does not hold a key: 32 bytes as 43 characters of base64url are expected"
    )]
    Malformed { path: PathBuf },
    #[error("the key file {path}, line {line}: expected {expected}")]
    Line {
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        expected: &'static str,
    },
    #[error("the key file {path} has {found} keys or tokens: expected 1 to {most}")]
    Count {
        path: PathBuf,
        /// Number of lines with a key or token.
        found: usize,
        most: usize,
    },
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// A key of [`KEY_LENGTH`] bytes.
pub type Key = Zeroizing<[u8; KEY_LENGTH]>;

/// Reads the key in the file at `path`.
///
/// # Errors
/// A [`KeyFileError`]: the file is missing, contains no key, or is open to others.
pub fn load(path: &Path) -> Result<Key, KeyFileError> {
    read(path)?.ok_or_else(|| KeyFileError::Missing {
        path: path.to_owned(),
    })
}

/// Reads the keys in the file at `path`, one per line, without empty lines and comments (`#`): at least one key, at
/// most `most` keys.
pub(crate) fn load_keys(path: &Path, most: usize) -> Result<Vec<Key>, KeyFileError> {
    if !path.exists() {
        return Err(KeyFileError::Missing {
            path: path.to_owned(),
        });
    }
    let text = contents(path)?;
    let mut keys = Vec::new();
    for (line, text) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let text = text.trim_ascii();
        if text.is_empty() || text.starts_with(b"#") {
            continue;
        }
        keys.push(parse(text).ok_or_else(|| KeyFileError::Line {
            path: path.to_owned(),
            line,
            expected: "32 bytes as 43 characters of base64url",
        })?);
    }
    if (1..=most).contains(&keys.len()) {
        Ok(keys)
    } else {
        Err(KeyFileError::Count {
            path: path.to_owned(),
            found: keys.len(),
            most,
        })
    }
}

/// Reads the file at `path`.
///
/// # Errors
/// A [`KeyFileError`]: the file is missing or open to others.
pub fn contents(path: &Path) -> Result<Zeroizing<Vec<u8>>, KeyFileError> {
    let bytes = text_file::bytes(path).map_err(|error| file_error(path, error))?;
    check_permissions(path)?;
    Ok(bytes)
}

/// Reads the key in the file at `path`. Creates a missing file with a random key and mode 0600.
///
/// # Errors
/// A [`KeyFileError`]; an existing file is never changed.
pub fn load_or_create(path: &Path, random: &dyn Random) -> Result<Key, KeyFileError> {
    if let Some(key) = read(path)? {
        return Ok(key);
    }
    let key = Zeroizing::new(random::bytes::<KEY_LENGTH>(random)?);
    match write_new(path, &key) {
        Ok(()) => {
            tracing::info!(path = %path.display(), "key file created");
            Ok(key)
        }
        // Another process created the file meanwhile; use its key.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => load(path),
        Err(error) => Err(file_error(path, error)),
    }
}

fn file_error(path: &Path, error: io::Error) -> KeyFileError {
    KeyFileError::File {
        path: path.to_owned(),
        error,
    }
}

/// The key as in its file: 43 characters of base64url.
pub fn text(key: &Key) -> Zeroizing<String> {
    Zeroizing::new(URL_SAFE_NO_PAD.encode(**key))
}

/// `None` if the file does not exist.
fn read(path: &Path) -> Result<Option<Key>, KeyFileError> {
    let text = match text_file::bytes(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(file_error(path, error)),
    };
    check_permissions(path)?;
    let key = parse(&text).ok_or_else(|| KeyFileError::Malformed {
        path: path.to_owned(),
    });
    key.map(Some)
}

/// The file gets its name after its content is on disk, and this function returns after the name is on disk. Otherwise
/// sealed data could survive the key that sealed it.
fn write_new(path: &Path, key: &[u8; KEY_LENGTH]) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(folder)?;
    // Temporary files have mode 0600.
    let mut file = NamedTempFile::new_in(folder)?;
    let text = Zeroizing::new(format!("{}\n", URL_SAFE_NO_PAD.encode(key)));
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path).map_err(|error| error.error)?;
    std::fs::File::open(folder)?.sync_all()
}

/// Reads a key from the text of a file; `None` if it is malformed.
pub fn parse(text: &[u8]) -> Option<Key> {
    let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(text.trim_ascii_end()).ok()?);
    bytes.as_slice().try_into().ok().map(Zeroizing::new)
}

/// The group may read the file, because orchestrators give secrets to non-root processes in this way.
fn check_permissions(path: &Path) -> Result<(), KeyFileError> {
    match mode(path).map_err(|error| file_error(path, error))? {
        Some(mode) if mode & 0o037 != 0 => Err(KeyFileError::Exposed {
            path: path.to_owned(),
            mode,
        }),
        _ => Ok(()),
    }
}

/// The permissions of the file at `path`; `None` on systems without them.
fn mode(path: &Path) -> io::Result<Option<u32>> {
    let metadata = std::fs::metadata(path)?;
    #[cfg(unix)]
    let mode = Some(std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777);
    #[cfg(not(unix))]
    let mode = {
        drop(metadata);
        None
    };
    Ok(mode)
}

/// The mode of the file at `path` if all users of the machine may read the file, or users other than the owner may
/// change it.
pub fn exposed_mode(path: &Path) -> Option<u32> {
    mode(path).ok()?.filter(|mode| mode & 0o026 != 0)
}

/// The mode of the file at `path` if its group may read it.
pub fn group_readable_mode(path: &Path) -> Option<u32> {
    mode(path).ok()?.filter(|mode| mode & 0o040 != 0)
}

/// True if the process runs in a container, as the container's runtime tells it: by the files of Docker and Podman, the
/// variable of Kubernetes, or `container`, which Podman, LXC and systemd set.
pub fn is_in_container() -> bool {
    ["/.dockerenv", "/run/.containerenv"]
        .iter()
        .any(|file| Path::new(file).exists())
        || ["KUBERNETES_SERVICE_HOST", "container"]
            .iter()
            .any(|variable| std::env::var_os(variable).is_some())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use tempfile::TempDir;

    use super::*;
    use system::OsRandom;

    fn key(byte: u8) -> Key {
        Key::new([byte; KEY_LENGTH])
    }

    #[test]
    fn a_key_is_made_once_for_its_owner_alone() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("data/key");
        let key = load_or_create(&path, &OsRandom).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(load_or_create(&path, &OsRandom).unwrap(), key);
    }

    #[test]
    fn a_key_that_is_open_to_others_is_refused() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("key");
        let key = load_or_create(&path, &OsRandom).unwrap();
        for (mode, refused) in [
            (0o400, false),
            (0o440, false),
            (0o640, false),
            (0o604, true),
            (0o620, true),
            (0o602, true),
        ] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            match load(&path) {
                Ok(read) => assert!(!refused && read == key, "{mode:o}"),
                Err(KeyFileError::Exposed { mode: found, .. }) => {
                    assert!(refused && found == mode, "{mode:o}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn a_key_that_must_be_there_is_not_made() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("key");
        let error = load(&path).unwrap_err();
        assert!(matches!(error, KeyFileError::Missing { .. }), "{error}");
        assert!(!path.exists());
    }

    #[test]
    fn of_two_that_start_together_one_makes_the_key() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("key");
        let start = || load_or_create(&path, &OsRandom).unwrap();
        let keys = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
            let keys = threads.into_iter().map(|thread| thread.join().unwrap());
            keys.collect::<Vec<_>>()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
    }

    #[test]
    fn what_is_not_a_key_is_refused_and_kept() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("key");
        // Editors of Windows put a mark before the key.
        std::fs::write(&path, format!("\u{feff}{}\r\n", *text(&key(3)))).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(load(&path).unwrap(), key(3));
        assert_eq!(load_keys(&path, 1).unwrap(), [key(3)]);
        for text in ["", "short", &"A".repeat(44), &"!".repeat(43), "\u{fc}"] {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            let error = load_or_create(&path, &OsRandom).unwrap_err();
            assert!(matches!(error, KeyFileError::Malformed { .. }), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}
