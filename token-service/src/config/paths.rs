//! Paths of files. All of them are absolute, so that messages name one file wherever the service was started.

use std::path::{Path, PathBuf};

use document::{Place, Section};

/// The default path `default` of the value that `key` sets. It starts at the folder of the configuration file `file`;
/// without a file, at the current folder.
///
/// Up to 0.2.0, default paths always started at the current folder. Reports a file that only exists there, because the
/// service would start with a new one.
pub(super) fn default_path(
    section: &Section<'_>,
    key: &str,
    default: &Path,
    file: Option<&Path>,
) -> PathBuf {
    let earlier = absolute(default.to_owned());
    let Some(file) = file else {
        return earlier;
    };
    let path = absolute(
        file.parent()
            .map_or_else(|| default.to_owned(), |folder| folder.join(default)),
    );
    if earlier.exists() && !path.exists() {
        let (path, earlier) = (path.display(), earlier.display());
        section.report(
            &Place::file(file),
            format!(
                "{key}: the default path is now {path}, which does not exist; version 0.2.0 used {earlier}, which \
                 exists. Move the file there, or set {key}"
            ),
        );
    }
    path
}

/// `path` from the root of the file system, without a look at the files.
pub(super) fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use document::{Problems, Table};

    use super::*;

    /// The tests run in the folder of this package, which has a `Cargo.toml`.
    #[test]
    fn a_file_that_only_exists_at_its_earlier_default_path_is_a_problem() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        let read = |default: &str| {
            let problems = Problems::default();
            let section = Section::root(Table::empty(Place::Default), &problems);
            let path = default_path(&section, "store.url", default.as_ref(), Some(&file));
            assert_eq!(path, folder.path().join(default));
            problems.none_or(()).map_err(|error| error.to_string())
        };
        let problem = read("Cargo.toml").unwrap_err();
        let current = std::env::current_dir().unwrap();
        for path in [folder.path(), &current] {
            let path = path.join("Cargo.toml").display().to_string();
            assert!(problem.contains(&path), "{problem}");
        }
        assert_eq!(read("missing"), Ok(()));
        std::fs::write(folder.path().join("Cargo.toml"), "").unwrap();
        assert_eq!(read("Cargo.toml"), Ok(()));
    }
}
