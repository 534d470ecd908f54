//! Debian's Patroni and etcd with three PostgreSQL servers, in the network of `tests/tools/alone.sh`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tests::visitor::Visitor;
use tests::{Process, pace, status_of};

/// Seconds without a sign of the leader after which Patroni elects another one: the least that Patroni takes.
pub(super) const TTL: u64 = 20;

/// Seconds between two looks of Patroni at the cluster.
pub(super) const LOOP_WAIT: u64 = 5;

pub(super) const COUNT: usize = 3;
const ETCD: &str = "127.0.66.9:2379";

/// Longest time until the cluster is complete. A server that comes back may need a copy of the new primary.
const PATIENCE: Duration = Duration::from_secs(600);

/// What happens to the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// PostgreSQL and Patroni get SIGKILL.
    Killed,
    /// PostgreSQL and Patroni get SIGSTOP: connections hang instead of breaking.
    Frozen,
    /// The kernel drops all packets from and to PostgreSQL and Patroni.
    CutOff,
    /// `patronictl switchover`.
    SwitchedOver,
}

impl Fault {
    pub(crate) const ALL: [Self; 4] =
        [Self::Killed, Self::Frozen, Self::CutOff, Self::SwitchedOver];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Frozen => "frozen",
            Self::CutOff => "cut off",
            Self::SwitchedOver => "switched over",
        }
    }
}

/// The name of the node number `node`, counted from 0.
pub(super) fn name(node: usize) -> String {
    format!("node{}", node + 1)
}

fn address(node: usize) -> String {
    format!("127.0.66.{}", node + 1)
}

/// Group of a node's processes, by which the kernel tells them and their packets from those of other nodes.
const fn group(node: usize) -> usize {
    60_001 + node
}

/// A running cluster. It ends with the process.
pub(crate) struct Cluster {
    /// Has a configuration, a log and a folder for each node.
    folder: TempDir,
    pub(super) repository: PathBuf,
    /// `None` while it is stopped.
    pub(super) etcd: Option<Process>,
    /// Patroni of each node, which runs PostgreSQL.
    nodes: [Option<Process>; COUNT],
}

impl Cluster {
    /// Starts etcd and the three nodes, and waits until the cluster is complete.
    pub(crate) fn start(repository: &Path) -> Result<Self> {
        // The path of a socket has at most 107 bytes, and user postgres must reach it.
        let folder = tempfile::Builder::new()
            .prefix("failover.")
            .tempdir_in("/tmp")?;
        let mut cluster = Self {
            folder,
            repository: repository.to_owned(),
            etcd: None,
            nodes: [const { None }; COUNT],
        };
        cluster.shell("chmod 755 .")?;
        cluster.start_etcd()?;
        for node in 0..COUNT {
            cluster.configure(node)?;
            cluster.start_node(node)?;
        }
        cluster.until_complete()?;
        Ok(cluster)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn start_etcd(&mut self) -> Result<()> {
        let (clients, peers) = (format!("http://{ETCD}"), "http://127.0.66.9:2380");
        let mut command = Command::new(self.repository.join(".cache/etcd"));
        command
            .args(["--data-dir", "etcd", "--enable-v2", "--unsafe-no-fsync"])
            .args(["--listen-client-urls", &clients])
            .args(["--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", peers])
            .args(["--initial-advertise-peer-urls", peers])
            .args(["--initial-cluster", &format!("default={peers}")])
            .current_dir(&self.folder);
        let mut etcd = Process::start("etcd", &command, &self.path("etcd.log"))?;
        let health = format!("{clients}/health");
        etcd.until("healthy", || status_of(&health) == Some(200))?;
        self.etcd = Some(etcd);
        Ok(())
    }

    fn configure(&self, node: usize) -> Result<()> {
        let programs = fs::read_dir("/usr/lib/postgresql")?
            .filter_map(|version| Some(version.ok()?.path().join("bin")))
            .max()
            .context("PostgreSQL is missing")?;
        let (name, folder) = (name(node), self.path(&name(node)));
        let mut configuration = include_str!("patroni.yml").to_owned();
        for (word, value) in [
            ("NAME", name.clone()),
            ("ADDRESS", address(node)),
            ("ETCD", ETCD.to_owned()),
            ("TTL", TTL.to_string()),
            ("LOOP_WAIT", LOOP_WAIT.to_string()),
            ("FOLDER", folder.display().to_string()),
            ("PROGRAMS", programs.display().to_string()),
        ] {
            configuration = configuration.replace(word, &value);
        }
        fs::write(self.path(&format!("{name}.yml")), configuration)?;
        self.shell(&format!("install --directory --owner postgres {name}"))?;
        Ok(())
    }

    pub(super) fn start_node(&mut self, node: usize) -> Result<()> {
        let name = name(node);
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=postgres", "--clear-groups"])
            .arg(format!("--regid={}", group(node)))
            .arg("patroni")
            .arg(self.path(&format!("{name}.yml")))
            .current_dir(self.path(&name));
        let log = self.path(&format!("{name}.log"));
        self.nodes[node] = Some(Process::start("patroni", &command, &log)?);
        Ok(())
    }

    /// `store.url`.
    pub(crate) fn url(&self) -> String {
        let hosts: Vec<String> = (0..COUNT).map(|node| address(node) + ":5432").collect();
        let hosts = hosts.join(",");
        format!("postgres://postgres@{hosts}/postgres?target_session_attrs=read-write")
    }

    /// The node that Patroni calls the leader, and the synchronous standby.
    fn roles(&self) -> Option<(usize, usize)> {
        let cluster = (0..COUNT).find_map(|node| get(node, "cluster"))?;
        let members = cluster["members"].as_array()?;
        let one = |role: &str| {
            let member = members.iter().find(|member| member["role"] == role)?;
            (0..COUNT).find(|node| member["name"] == name(*node))
        };
        Some((one("leader")?, one("sync_standby")?)).filter(|_| members.len() == COUNT)
    }

    /// Number of standbys to which a node sends its changes. `None` if it is not the primary.
    fn streams(&self, node: usize) -> Option<usize> {
        let status = get(node, "primary")?;
        let standbys = status["replication"].as_array().into_iter().flatten();
        Some(standbys.filter(|one| one["state"] == "streaming").count())
    }

    pub(super) fn is_primary(&self, node: usize) -> bool {
        self.streams(node).is_some()
    }

    /// True if a node other than `former` is the primary.
    pub(crate) fn has_new_primary(&self, former: usize) -> bool {
        (0..COUNT).any(|node| node != former && self.is_primary(node))
    }

    /// Waits until there are a leader, a synchronous standby and another standby. The primary decides: to Patroni, a standby
    /// is running while `pg_rewind` runs, and a failover then would leave a standby that does not start.
    pub(crate) fn until_complete(&self) -> Result<(usize, usize)> {
        self.until("complete", || {
            let roles = self.roles();
            Ok(roles.filter(|(leader, _)| self.streams(*leader) == Some(COUNT - 1)))
        })
    }

    /// Waits until there is what is looked for.
    pub(super) fn until<T>(&self, what: &str, found: impl Fn() -> Result<Option<T>>) -> Result<T> {
        let start = Instant::now();
        loop {
            if let Some(found) = found()? {
                return Ok(found);
            }
            ensure!(start.elapsed() < PATIENCE, "not {what}");
            pace();
        }
    }

    /// Lets something happen to the primary, which is the node `leader`.
    pub(crate) fn strike(&mut self, fault: Fault, leader: usize, standby: usize) -> Result<()> {
        match fault {
            Fault::Killed => {
                self.signal("KILL", leader)?;
                self.nodes[leader] = None;
                Ok(())
            }
            Fault::Frozen => self.signal("STOP", leader),
            Fault::CutOff => self.filter_packets(&format!(
                "table inet cut {{ chain out {{ type filter hook output priority 0; meta skgid {} drop; ip daddr {} drop; }} }}",
                group(leader),
                address(leader)
            )),
            Fault::SwitchedOver => {
                let candidate = name(standby);
                let switchover = format!("switchover --candidate {candidate} --force gatepass");
                self.patronictl(standby, &switchover).map(drop)
            }
        }
    }

    /// Undoes what happened to the former primary.
    pub(crate) fn mend(&mut self, fault: Fault, former: usize) -> Result<()> {
        match fault {
            Fault::Killed => self.start_node(former),
            Fault::Frozen => self.signal("CONT", former),
            Fault::CutOff => self.filter_packets("delete table inet cut"),
            Fault::SwitchedOver => Ok(()),
        }
    }

    /// Sends a signal to all processes of a node.
    pub(super) fn signal(&self, signal: &str, node: usize) -> Result<()> {
        let send = format!("pkill --signal {signal} --group {}", group(node));
        let script = match signal {
            // The server continues before Patroni learns that it is no longer the primary.
            "CONT" => format!("{send} --exact postgres && {send}"),
            // The second time to processes that the server made meanwhile. After KILL there is none.
            _ => format!("{send} && {{ {send} || [ $? = 1 ]; }}"),
        };
        self.shell(&script).map(drop)
    }

    fn filter_packets(&self, rules: &str) -> Result<()> {
        let nft = self.repository.join(".cache/nft");
        self.shell(&format!("{} '{rules}'", nft.display()))
            .map(drop)
    }

    /// Runs patronictl on a node, and returns what it prints.
    pub(super) fn patronictl(&self, node: usize, arguments: &str) -> Result<String> {
        self.shell(&format!("patronictl -c {}.yml {arguments}", name(node)))
    }

    /// What PostgreSQL answers on a node.
    pub(super) fn sql(&self, node: usize, statement: &str) -> Result<String> {
        let host = address(node);
        let psql = format!("psql -X -v ON_ERROR_STOP=1 -h {host} -U postgres -At");
        self.shell(&format!("{psql} <<'END'\n{statement}\nEND"))
    }

    /// Runs a script in the folder of the cluster, and returns what it prints.
    pub(super) fn shell(&self, script: &str) -> Result<String> {
        let mut command = Command::new("sh");
        let output = command
            .args(["-c", script])
            .current_dir(&self.folder)
            .output()?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        ensure!(output.status.success(), "{script}: {said}");
        Ok(said)
    }

    /// The last lines of the logs of Patroni and PostgreSQL.
    pub(crate) fn last_lines(&self) -> String {
        let last = self.shell("tail --lines 30 node?.log");
        last.unwrap_or_else(|error| error.to_string())
    }
}

/// What Patroni answers on a node, if that is a success.
fn get(node: usize, path: &str) -> Option<Value> {
    let url = format!("http://{}:8008/{path}", address(node));
    let answer = Visitor::patient(Duration::from_secs(1))
        .get(&url, &[])
        .ok()?;
    let body = serde_json::from_str(&answer.body).ok()?;
    (answer.status == 200).then_some(body)
}
