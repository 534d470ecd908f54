//! The programs that make up a pair.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::{env, thread};

use anyhow::{Context, Result, bail, ensure};

/// What Envoy loads as the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `filter.wasm`.
    Wasm,
    /// The native module, `libtoken_filter.so`.
    Native,
}

thread_local! {
    static FORM_OF_TEST: Cell<Option<Form>> = const { Cell::new(None) };
}

impl Form {
    /// Runs a test, or what a thread of a test does, with the filter in this form.
    pub fn run<T>(self, test: impl FnOnce() -> T) -> T {
        FORM_OF_TEST.set(Some(self));
        test()
    }

    /// The form of the running test, or else the one that the environment variable `FILTER` names: `wasm`, which is the
    /// default, or `native`.
    ///
    /// # Errors
    /// If `FILTER` has another value, or in a thread that a test has started, which does not know the form of the test.
    pub fn chosen() -> Result<Self> {
        if let Some(form) = FORM_OF_TEST.get() {
            return Ok(form);
        }
        ensure!(
            thread::current().name().is_some(),
            "this thread has no name: in a test, start it with `Form::run`, so that it knows the form of the filter"
        );
        match env::var("FILTER").as_deref() {
            Err(env::VarError::NotPresent) | Ok("wasm") => Ok(Self::Wasm),
            Ok("native") => Ok(Self::Native),
            other => bail!("FILTER is {other:?}: set it to wasm or native"),
        }
    }
}

/// Paths of the programs that make up a pair. `make` builds and installs them.
#[derive(Debug, Clone)]
pub struct Artifacts {
    pub repository: PathBuf,
    pub token_service: PathBuf,
    /// Form of `filter`.
    pub form: Form,
    pub filter: PathBuf,
    pub envoy: PathBuf,
}

impl Artifacts {
    /// Finds the token service in the folder of the running program, the filter in the form that `FILTER` names, and Envoy in `.cache`.
    /// `filter.wasm` is in the same target directory, of the profile `release`; the native module is in the folder of the token service.
    /// The repository is the one around the current directory, or else around the program. `CARGO_MANIFEST_DIR` is not used,
    /// because it names the old path if a checkout was moved together with its target directory.
    ///
    /// # Errors
    /// If a program is missing or older than its sources; the message names the command that makes it.
    pub fn find() -> Result<Self> {
        Self::of(Form::chosen()?)
    }

    /// The same, with the filter in this form.
    ///
    /// # Errors
    /// As [`Artifacts::find`].
    pub fn of(form: Form) -> Result<Self> {
        let program = env::current_exe()?;
        let repository = around(&env::current_dir()?)
            .or_else(|| around(&program))
            .with_context(|| {
                let program = program.display();
                format!(
                    "no repository around the current directory or {program}: change to its folder"
                )
            })?;
        let mut programs = program.parent().context("a program lies in a directory")?;
        if programs.ends_with("deps") {
            programs = programs.parent().context("deps lies in a directory")?;
        }
        let target = programs.parent().context("profiles lie in target")?;
        let artifacts = Self {
            token_service: programs.join("token-service"),
            form,
            filter: match form {
                Form::Wasm => target.join("wasm32-wasip1/release/filter.wasm"),
                Form::Native => programs.join("libtoken_filter.so"),
            },
            envoy: repository.join(".cache/envoy"),
            repository,
        };
        for (path, command) in [
            (&artifacts.token_service, "make build"),
            (&artifacts.filter, "make build"),
            (&artifacts.envoy, "make tools"),
        ] {
            if !path.exists() {
                bail!("{} is missing: run `{command}`", path.display());
            }
            if let Some(source) = newer_source(path)? {
                let (path, source) = (path.display(), source.display());
                bail!("{path} is older than {source}: run `{command}`");
            }
        }
        Ok(artifacts)
    }

    /// token-guard: in the folder of the token service, or at the path in `TOKEN_GUARD_BIN`.
    #[must_use]
    pub fn token_guard(&self) -> PathBuf {
        let sibling = || self.token_service.with_file_name("token-guard");
        env::var_os("TOKEN_GUARD_BIN").map_or_else(sibling, PathBuf::from)
    }

    /// Cargo's target directory.
    ///
    /// # Errors
    /// Never, for artifacts that were found.
    pub fn target(&self) -> Result<&Path> {
        let above = self.token_service.ancestors().nth(2);
        above.context("profiles lie in target")
    }

    /// The directory for the output of runs. `make test` empties it; Cargo does not.
    pub(crate) fn scratch(&self) -> Result<PathBuf> {
        let scratch = self.target()?.join("tmp");
        std::fs::create_dir_all(&scratch)?;
        Ok(scratch)
    }
}

/// A source of `program` that changed after `program` was built, by the list of sources that Cargo writes next to the
/// program. `cargo test` does not build the programs that the tests run.
fn newer_source(program: &Path) -> Result<Option<PathBuf>> {
    let Ok(list) = std::fs::read_to_string(program.with_extension("d")) else {
        return Ok(None);
    };
    let built = program.metadata()?.modified()?;
    let sources = list.split_once(": ").map_or("", |(_, sources)| sources);
    // A space in a path is escaped.
    let sources = sources.replace("\\ ", "\0");
    let newer = sources
        .split_whitespace()
        .map(|source| source.replace('\0', " "));
    Ok(newer.map(PathBuf::from).find(|source| {
        let changed = source.metadata().and_then(|metadata| metadata.modified());
        changed.is_ok_and(|changed| changed > built)
    }))
}

/// The repository that contains `path`.
fn around(path: &Path) -> Option<PathBuf> {
    let is_repository = |folder: &&Path| {
        ["envoy/envoy.yaml", "demo/config.toml"]
            .iter()
            .all(|file| folder.join(file).is_file())
    };
    path.ancestors().find(is_repository).map(Path::to_owned)
}
