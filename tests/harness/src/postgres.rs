//! A PostgreSQL server for one test or benchmark.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// A running server. Dropping it stops the server and removes its data.
#[derive(Debug)]
pub struct Postgres {
    script: Child,
    url: String,
}

impl Postgres {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// When PostgreSQL is not installed or does not start.
    pub fn start(repository: &Path) -> Result<Self> {
        Self::with_fsync(repository, "off")
    }

    /// The same, with commits that outlast the machine.
    ///
    /// # Errors
    /// As [`Postgres::start`].
    pub fn durable(repository: &Path) -> Result<Self> {
        Self::with_fsync(repository, "on")
    }

    fn with_fsync(repository: &Path, fsync: &str) -> Result<Self> {
        // The script ends when its standard input ends, however this process ends.
        let mut script = Command::new(repository.join("tests/tools/postgres.sh"))
            .env("POSTGRES_FSYNC", fsync)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("tests/tools/postgres.sh")?;
        let output = script.stdout.take().context("its output is a pipe")?;
        let mut folder = String::new();
        BufReader::new(output).read_line(&mut folder)?;
        let folder = folder.trim_end();
        if folder.is_empty() {
            bail!("PostgreSQL did not start");
        }
        let url = format!("postgres://postgres@/postgres?host={folder}");
        Ok(Self { script, url })
    }

    /// Runs statements with psql. Returns the rows, one on each line.
    ///
    /// # Errors
    /// When psql fails.
    pub fn sql(&self, statements: &str) -> Result<String> {
        let output = Command::new("psql")
            .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
            .args(["--dbname", &self.url, "--command", statements])
            .stdin(Stdio::null())
            .output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{statements}: {errors}");
        Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
    }

    /// The address of the database, in the format of `store.url`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        if let Err(error) = self.script.wait() {
            eprintln!("PostgreSQL was lost: {error}");
        }
    }
}
