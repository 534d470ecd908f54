//! Resources that the programs use at the end of a window.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tests::Pair;
use tests::visitor::Visitor;

use crate::measure::{cpu_of_all_time, resident};

/// Routes of the internal listener, whose requests are not the load's.
const INTERNAL: [&str; 5] = ["/healthz", "/readyz", "/metrics", "/revocations", "/admin"];

/// Size of redb's page cache (`store::redb`).
const PAGE_CACHE_MIB: f64 = 64.0;

/// One measurement of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    process: u32,
    pub(crate) memory_mib: f64,
    pub(crate) descriptors: f64,
    /// Processor time since the start of the process, in nanoseconds.
    spent: u64,
}

impl Taken {
    pub(crate) fn by(process: u32) -> Result<Self> {
        let descriptors = fs::read_dir(format!("/proc/{process}/fd"))?.count();
        Ok(Self {
            process,
            memory_mib: resident(process),
            descriptors: descriptors as f64,
            spent: cpu_of_all_time(process),
        })
    }

    /// This measurement, with the minimum of the values that go up and down.
    pub(crate) const fn least(self, earlier: Self) -> Self {
        Self {
            memory_mib: self.memory_mib.min(earlier.memory_mib),
            descriptors: self.descriptors.min(earlier.descriptors),
            ..self
        }
    }

    /// Microseconds of processor time for each answer since `before`. NaN if another process ran then.
    pub(crate) fn work(self, before: Self, answers: f64) -> f64 {
        match self.process == before.process {
            true => (self.spent - before.spent) as f64 / 1000.0 / answers,
            false => f64::NAN,
        }
    }
}

/// Size of the token caches of all workers of the gateway. They fill up to their bound.
pub(crate) fn token_cache_mib(pair: &Pair) -> Result<f64> {
    let admin = pair.ports().envoy_admin;
    let url = format!("http://127.0.0.1:{admin}/stats/prometheus");
    let statistics = Visitor::default().get(&url, &[])?;
    let bytes = statistics.metric("token_filter_cache_bytes{}");
    Ok(bytes.context("no token_filter_cache_bytes")? / 1_048_576.0)
}

/// Location of the data.
#[derive(Debug, Clone)]
pub(crate) enum Store {
    /// The redb file.
    File(PathBuf),
    /// The folder of a PostgreSQL server.
    Folder(PathBuf),
}

impl Store {
    /// Bytes of an audit entry, with indexes and half-empty pages. The store may grow by this for each entry.
    const fn audit_entry(&self) -> f64 {
        match self {
            Self::File(_) => 192.0,
            Self::Folder(_) => 384.0,
        }
    }
}

/// One measurement of the store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored {
    pub(crate) mib: f64,
    /// Entries of the audit log.
    pub(crate) audited: f64,
    /// Size without the audit log, whose entries stay for months. Negative if the entries are smaller than assumed.
    pub(crate) mib_without_audit: f64,
    /// Grants, sessions and revocations.
    pub(crate) rows: f64,
    pub(crate) keys: f64,
    /// Most memory that the token service uses for pages of the file.
    pub(crate) page_cache_mib: f64,
    /// Answers of the token service so far, at its public listener.
    pub(crate) answers: f64,
}

impl Stored {
    /// Queries the token service, and measures the files.
    pub(crate) fn look(pair: &Pair, store: &Store) -> Result<Self> {
        let visitor = Visitor::default();
        let metrics = visitor.get(&format!("{}/metrics", pair.internal_url()), &[])?;
        let gauge = |name: &str| {
            let value = metrics.metric(name);
            value.with_context(|| format!("no metric {name}"))
        };
        let keys = visitor.get(&format!("{}/auth/jwks", pair.lobby_url()), &[])?;
        let keys: serde_json::Value = serde_json::from_str(&keys.body)?;
        let keys = keys.get("keys").and_then(|keys| keys.as_array());
        let bytes = match store {
            Store::File(file) => fs::metadata(file)?.len(),
            Store::Folder(folder) => size_of(folder)?,
        };
        let mib = bytes as f64 / 1_048_576.0;
        let audited = gauge("token_service_audit_entries")?;
        let answers = metrics
            .body
            .lines()
            .filter(|line| line.starts_with("token_service_http_requests_total{"))
            .filter(|line| {
                let is_of = |route: &&str| line.contains(&format!("route=\"{route}"));
                !INTERNAL.iter().any(is_of)
            })
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum();
        Ok(Self {
            mib,
            audited,
            mib_without_audit: mib - audited * store.audit_entry() / 1_048_576.0,
            rows: gauge("token_service_grants")?
                + gauge("token_service_sessions")?
                + gauge("token_service_revocations")?,
            keys: keys.context("no keys")?.len() as f64,
            page_cache_mib: match store {
                Store::File(_) => mib.min(PAGE_CACHE_MIB),
                Store::Folder(_) => 0.0,
            },
            answers,
        })
    }
}

/// Bytes of the files in a folder, without PostgreSQL's write-ahead log, whose size PostgreSQL chooses.
fn size_of(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // PostgreSQL may delete files meanwhile.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        bytes += match metadata.is_dir() {
            true if entry.file_name() == "pg_wal" => 0,
            true => size_of(&entry.path())?,
            false => metadata.len(),
        };
    }
    Ok(bytes)
}
