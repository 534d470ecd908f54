//! A PostgreSQL server with its Patroni.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::json;
use tests::Process;

use super::{ETCD, LOOP_WAIT, TTL, run};

/// A server with its Patroni.
pub(super) struct Node {
    pub(super) number: usize,
    pub(super) folder: PathBuf,
    pub(super) patroni: Option<Process>,
}

impl Node {
    pub(super) fn address(&self) -> String {
        format!("127.0.66.{}", self.number)
    }

    /// Group of the node's processes, by which the kernel tells their packets from those of other nodes.
    pub(super) fn group(&self) -> usize {
        60_000 + self.number
    }

    pub(super) fn config(&self) -> PathBuf {
        self.folder.with_extension("json")
    }

    /// Writes the configuration. JSON is YAML.
    pub(super) fn configure(&self, bin: &Path) -> Result<()> {
        let (address, folder) = (self.address(), &self.folder);
        let api = format!("{address}:8008");
        let trusted = ["local all", "host all", "host replication"].map(|who| match who {
            "local all" => "local all all trust".to_owned(),
            who => format!("{who} all 127.0.0.0/8 trust"),
        });
        let config = json!({
            "scope": "gatepass",
            "name": format!("node{}", self.number),
            "restapi": {"listen": api, "connect_address": api},
            // Not etcd3: with that, Patroni 3.0.2 takes the lock of the leader back after a cut without asking who has it.
            "etcd": {"hosts": ETCD},
            "bootstrap": {
                "dcs": {
                    "ttl": TTL,
                    "loop_wait": LOOP_WAIT.as_secs(),
                    "retry_timeout": 5,
                    "synchronous_mode": true,
                    "postgresql": {
                        "use_pg_rewind": true,
                        // The tests are about servers that die, not about their disks.
                        "parameters": {"wal_log_hints": "on", "fsync": "off", "max_connections": 100},
                    },
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, {"auth": "trust"}],
            },
            "postgresql": {
                "listen": format!("{address}:5432"),
                "connect_address": format!("{address}:5432"),
                "data_dir": folder.join("data"),
                "bin_dir": bin,
                "pgpass": folder.join("pgpass"),
                // Otherwise a copy waits for minutes.
                "basebackup": [{"checkpoint": "fast"}],
                "authentication": {
                    "superuser": {"username": "postgres"},
                    "replication": {"username": "replicator"},
                    "rewind": {"username": "postgres"},
                },
                "pg_hba": trusted,
                "parameters": {"unix_socket_directories": folder},
                "remove_data_directory_on_rewind_failure": true,
                "remove_data_directory_on_diverged_timelines": true,
            },
        });
        Ok(fs::write(self.config(), config.to_string())?)
    }

    pub(super) fn start(&mut self) -> Result<()> {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=postgres", "--clear-groups"])
            .arg(format!("--regid={}", self.group()))
            .arg("patroni")
            .arg(self.config())
            .current_dir(&self.folder);
        let log = self.folder.with_extension("log");
        self.patroni = Some(Process::start("patroni", &command, &log)?);
        Ok(())
    }

    /// The processes of PostgreSQL: the postmaster first.
    fn postgres(&self) -> Result<Vec<String>> {
        let pid = fs::read_to_string(self.folder.join("data/postmaster.pid"))?;
        let pid = pid.lines().next().context("postmaster.pid is empty")?;
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        let children = children.split_whitespace().map(str::to_owned);
        Ok([pid.to_owned()].into_iter().chain(children).collect())
    }

    /// Sends a signal to Patroni and to all processes of PostgreSQL.
    pub(super) fn signal(&self, signal: &str) -> Result<()> {
        let patroni = self.patroni.as_ref().context("Patroni does not run")?;
        let send = |processes: &[String]| {
            run(Command::new("kill")
                .arg(format!("-{signal}"))
                .args(processes))
        };
        let patroni = [patroni.pid()?.to_string()];
        let postgres = self.postgres()?;
        match signal {
            // The server continues before Patroni learns that it is no longer the primary.
            "CONT" => {
                send(&postgres)?;
                send(&patroni)
            }
            _ => {
                send(&patroni)?;
                let [postmaster, ..] = &*postgres else {
                    bail!("PostgreSQL does not run");
                };
                // From now on, it makes no more children.
                send(std::slice::from_ref(postmaster))?;
                let children = self.postgres().map_or(postgres, |processes| processes);
                // A child may have ended meanwhile.
                let _ = send(children.get(1..).unwrap_or_default());
                Ok(())
            }
        }
    }
}
