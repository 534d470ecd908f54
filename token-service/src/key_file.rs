//! Keys in files: made on first start, readable by their owner alone.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tempfile::NamedTempFile;
use zeroize::Zeroizing;

use crate::random::{self, Random, RandomError};

/// Length of every key, in bytes. A file holds it as 43 characters of base64url, with a line end or without.
pub const KEY_LENGTH: usize = 32;

/// Why a key file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// It cannot be read or made.
    #[error("the key file {path}: {error}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Others on the machine could read it.
    #[error("the key file {path} can be read by others (mode {mode:o}): `chmod 600 {path}`")]
    Exposed {
        /// Which file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It holds something else.
    #[error(
        "the key file {path} does not hold a key: 32 bytes as 43 characters of base64url are expected"
    )]
    Malformed {
        /// Which file.
        path: PathBuf,
    },
    /// No random bytes for a new key.
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// The key in the file at `path`; a missing file is created with a random key and mode 0600.
///
/// # Errors
/// A [`KeyFileError`]; an existing file is never changed.
pub fn load_or_create(
    path: &Path,
    random: &dyn Random,
) -> Result<Zeroizing<[u8; KEY_LENGTH]>, KeyFileError> {
    let file_error = |error| KeyFileError::File {
        path: path.to_owned(),
        error,
    };
    match std::fs::read_to_string(path).map(Zeroizing::new) {
        Ok(text) => {
            check_permissions(path)?;
            return parse(&text).ok_or_else(|| KeyFileError::Malformed {
                path: path.to_owned(),
            });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(file_error(error)),
    }
    let key = Zeroizing::new(random::bytes::<KEY_LENGTH>(random)?);
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(folder).map_err(file_error)?;
    // Temporary files have mode 0600; the name appears only when the content is on disk.
    let mut file = NamedTempFile::new_in(folder).map_err(file_error)?;
    let text = Zeroizing::new(format!("{}\n", URL_SAFE_NO_PAD.encode(*key)));
    file.write_all(text.as_bytes()).map_err(file_error)?;
    file.as_file().sync_all().map_err(file_error)?;
    file.persist_noclobber(path)
        .map_err(|error| file_error(error.error))?;
    tracing::info!(path = %path.display(), "key file created");
    Ok(key)
}

fn parse(text: &str) -> Option<Zeroizing<[u8; KEY_LENGTH]>> {
    let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(text.trim_end()).ok()?);
    bytes.as_slice().try_into().ok().map(Zeroizing::new)
}

#[cfg(unix)]
fn check_permissions(path: &Path) -> Result<(), KeyFileError> {
    use std::os::unix::fs::PermissionsExt as _;

    let mode = std::fs::metadata(path)
        .map_err(|error| KeyFileError::File {
            path: path.to_owned(),
            error,
        })?
        .permissions()
        .mode()
        & 0o777;
    if mode & 0o077 == 0 {
        Ok(())
    } else {
        Err(KeyFileError::Exposed {
            path: path.to_owned(),
            mode,
        })
    }
}

#[cfg(not(unix))]
fn check_permissions(_: &Path) -> Result<(), KeyFileError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use tempfile::TempDir;

    use super::*;
    use crate::random::OsRandom;

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
    fn an_exposed_key_is_refused() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("key");
        load_or_create(&path, &OsRandom).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let error = load_or_create(&path, &OsRandom).unwrap_err();
        assert!(
            matches!(error, KeyFileError::Exposed { mode: 0o640, .. }),
            "{error}"
        );
    }

    #[test]
    fn what_is_not_a_key_is_refused_and_kept() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("key");
        for text in ["", "short", &"A".repeat(44), &"!".repeat(43)] {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            let error = load_or_create(&path, &OsRandom).unwrap_err();
            assert!(matches!(error, KeyFileError::Malformed { .. }), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}
