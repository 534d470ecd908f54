//! `[store]`.

use std::fmt;
use std::path::{Path, PathBuf};

use super::paths::{absolute, default_path};
use document::{Located, Place, Section};
use secrets::text_file;
use store::postgres::{PostgresSettings, PostgresUrl};

/// The store that `store.url` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// A redb file: `redb:PATH`.
    Redb(PathBuf),
    /// A PostgreSQL database: `postgres://USER:PASSWORD@HOST/DATABASE`.
    Postgres(Box<PostgresSettings>),
}

impl fmt::Display for StoreUrl {
    /// The file, or the database without its password.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redb(path) => path.display().fmt(formatter),
            Self::Postgres(settings) => settings.url.place().fmt(formatter),
        }
    }
}

/// The default store, in the folder of the configuration file or in the current folder.
pub(super) const DEFAULT_FILE: &str = "data/token-service.redb";

/// Reads the table; `file` is the configuration file. Also returns the file that contains the URL. `None` if a problem was
/// reported.
pub(super) fn read(
    mut section: Section<'_>,
    file: Option<&Path>,
) -> Option<(StoreUrl, Option<PathBuf>)> {
    let mut url = section.text("url");
    let mut url_file = section.text("url_file");
    // A variable replaces both keys of the file.
    let is_variable = |text: &Option<Located<String>>| {
        text.as_ref()
            .is_some_and(|text| matches!(text.place, Place::Variable(_)))
    };
    match (is_variable(&url), is_variable(&url_file)) {
        (true, false) => url_file = None,
        (false, true) => url = None,
        _ => {}
    }
    let secret = url_file.as_ref();
    let secret = secret.map(|file| absolute(file.place.resolve(&file.value)));
    let ca_file = section.path("ca_file").map(absolute);
    let store = match (url, url_file) {
        (Some(url), Some(_)) => Err((url.place, "url: give either url or url_file".to_owned())),
        (Some(url), None) => store_url(&url.value, &url.place, ca_file)
            .map(Some)
            .map_err(|problem| (url.place, format!("url: {problem}"))),
        (None, Some(file)) => {
            let path = absolute(file.place.resolve(&file.value));
            text_file::text(&path)
                .map_err(|error| error.to_string())
                .and_then(|text| StoreUrl::parse(text.trim(), ca_file))
                .map(Some)
                .map_err(|problem| {
                    let path = path.display();
                    (file.place, format!("url_file: {path}: {problem}"))
                })
        }
        (None, None) => {
            let path = default_path(DEFAULT_FILE.as_ref(), file);
            Ok(Some(StoreUrl::Redb(path)))
        }
    };
    let store = store.unwrap_or_else(|(place, problem)| {
        section.report(&place, problem);
        None
    });
    section.finish();
    store.map(|store| (store, secret))
}

impl StoreUrl {
    /// Reads a URL as `store.url`, relative to the current folder.
    ///
    /// # Errors
    /// A description of the problem without the URL.
    pub fn parse(url: &str, ca_file: Option<PathBuf>) -> Result<Self, String> {
        store_url(url, &Place::Default, ca_file)
    }
}

/// Reads `store.url`. Problems do not repeat the value, because a PostgreSQL URL may contain a password.
fn store_url(url: &str, place: &Place, ca_file: Option<PathBuf>) -> Result<StoreUrl, String> {
    if let Some(path) = url.strip_prefix("redb:").filter(|path| !path.is_empty()) {
        return Ok(StoreUrl::Redb(absolute(place.resolve(path))));
    }
    let schemes = ["postgres://", "postgresql://"];
    if !schemes.iter().any(|scheme| url.starts_with(scheme)) {
        return Err("expected redb:PATH or postgres://USER:PASSWORD@HOST/DATABASE".to_owned());
    }
    let url = PostgresUrl::parse(url)?;
    Ok(StoreUrl::Postgres(Box::new(PostgresSettings {
        url,
        ca_file,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::load_from;

    #[test]
    fn the_store_is_a_file_or_a_database_whose_url_may_be_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config.toml");
        let url = "postgres://service:secret@db.example.com/tokens";
        std::fs::write(folder.path().join("url"), format!("\u{feff}{url}\n")).unwrap();
        let load = |store: &str| {
            std::fs::write(&config, format!("[store]\n{store}\n")).unwrap();
            load_from(Some(&config), &[])
        };
        let expected = StoreUrl::Postgres(Box::new(PostgresSettings {
            url: PostgresUrl::parse(url).unwrap(),
            ca_file: Some(folder.path().join("ca.pem")),
        }));
        for store in [&format!("url = \"{url}\""), "url_file = \"url\""] {
            let config = load(&format!("{store}\nca_file = \"ca.pem\"")).unwrap();
            assert_eq!(config.store, expected);
        }
        let problems = load("url = \"redb:x\"\nurl_file = \"url\"")
            .unwrap_err()
            .join("\n");
        assert!(problems.contains("either url or url_file"), "{problems}");
        let path = folder.path().join("config.toml");
        std::fs::write(&path, "[store]\nurl = \"redb:x\"").unwrap();
        let file = folder.path().join("url").display().to_string();
        let variable = ("TOKEN_SERVICE__STORE__URL_FILE", file.as_str());
        let store = load_from(Some(&path), &[variable]).unwrap().store;
        assert!(matches!(store, StoreUrl::Postgres(_)), "{store:?}");
        std::fs::write(&path, "[store]\nurl_file = \"url\"").unwrap();
        let variable = ("TOKEN_SERVICE__STORE__URL", "redb:x");
        let store = load_from(Some(&path), &[variable]).unwrap().store;
        assert_eq!(store, StoreUrl::Redb(absolute("x".into())));
        let problems = load("url_file = \"missing\"").unwrap_err().join("\n");
        assert!(problems.contains("/missing: "), "{problems}");
    }
}
