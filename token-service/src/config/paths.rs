//! Paths of files. All of them are absolute, so that messages name one file wherever the service was started.

use std::path::{Path, PathBuf};

/// The default path `default`. It starts at the folder of the configuration file `file`; without a file, at the current
/// folder.
pub(super) fn default_path(default: &Path, file: Option<&Path>) -> PathBuf {
    let folder = file.and_then(Path::parent);
    absolute(folder.map_or_else(|| default.to_owned(), |folder| folder.join(default)))
}

/// `path` from the root of the file system, without a look at the files.
pub(super) fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}
