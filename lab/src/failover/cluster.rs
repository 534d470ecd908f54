//! Debian's Patroni and etcd with three PostgreSQL servers, in the network of `tests/tools/alone.sh`.

mod node;
mod runbook;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tests::browsing::agent;
use tests::{Process, pace};

use self::node::Node;

/// Seconds without a sign of the leader after which Patroni elects another one: the least that Patroni takes.
pub(crate) const TTL: u64 = 20;

/// Time between two looks of Patroni at the cluster.
const LOOP_WAIT: Duration = Duration::from_secs(5);

const ETCD: &str = "127.0.66.9:2379";
const COUNT: usize = 3;

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

/// A running cluster. It ends with the process.
pub(crate) struct Cluster {
    nodes: Vec<Node>,
    nft: PathBuf,
    folder: TempDir,
    repository: PathBuf,
    /// `None` while it is stopped.
    etcd: Option<Process>,
}

impl Cluster {
    /// Starts etcd and the three nodes, and waits until the cluster is complete.
    pub(crate) fn start(repository: &Path) -> Result<Self> {
        // The path of a socket has at most 107 bytes, and user postgres must reach it.
        let folder = tempfile::Builder::new()
            .prefix("failover.")
            .tempdir_in("/tmp")?;
        run(Command::new("chmod").arg("755").arg(folder.path()))?;
        let bin = fs::read_dir("/usr/lib/postgresql")?
            .filter_map(|version| Some(version.ok()?.path().join("bin")))
            .max()
            .context("PostgreSQL is missing")?;
        let etcd = Self::start_etcd(repository, folder.path())?;
        let mut nodes = Vec::new();
        for number in 1..=COUNT {
            let mut node = Node {
                number,
                folder: folder.path().join(format!("node{number}")),
                patroni: None,
            };
            fs::create_dir(&node.folder)?;
            run(Command::new("chown").arg("postgres:").arg(&node.folder))?;
            node.configure(&bin)?;
            node.start()?;
            nodes.push(node);
        }
        let cluster = Self {
            nodes,
            nft: repository.join(".cache/nft"),
            folder,
            repository: repository.to_owned(),
            etcd: Some(etcd),
        };
        cluster.until_complete()?;
        Ok(cluster)
    }

    fn start_etcd(repository: &Path, folder: &Path) -> Result<Process> {
        let (clients, peers) = (format!("http://{ETCD}"), "http://127.0.66.9:2380");
        let mut command = Command::new(repository.join(".cache/etcd"));
        command.arg("--data-dir").arg(folder.join("etcd")).args([
            "--listen-client-urls",
            &clients,
            "--advertise-client-urls",
            &clients,
            "--listen-peer-urls",
            peers,
            "--initial-advertise-peer-urls",
            peers,
            "--initial-cluster",
            &format!("default={peers}"),
            "--enable-v2",
            "--unsafe-no-fsync",
        ]);
        let mut etcd = Process::start("etcd", &command, &folder.join("etcd.log"))?;
        let health = format!("{clients}/health");
        etcd.until("healthy", || status(&health) == Some(200))?;
        Ok(etcd)
    }

    /// `store.url`.
    pub(crate) fn url(&self) -> String {
        let hosts: Vec<String> = self
            .nodes
            .iter()
            .map(|node| node.address() + ":5432")
            .collect();
        let hosts = hosts.join(",");
        format!("postgres://postgres@{hosts}/postgres?target_session_attrs=read-write")
    }

    /// The cluster as Patroni describes it.
    fn members(&self) -> Option<Vec<Value>> {
        self.nodes.iter().find_map(|node| {
            let cluster = get(&format!("http://{}:8008/cluster", node.address()))?;
            Some(cluster.get("members")?.as_array()?.clone())
        })
    }

    /// Index of the node that Patroni calls the leader, and of the synchronous standby.
    fn roles(&self) -> Option<(usize, usize)> {
        let members = self.members()?;
        let is_well = members.len() == COUNT
            && members.iter().all(|member| {
                let state = member.get("state").and_then(Value::as_str);
                matches!(state, Some("running" | "streaming"))
            });
        let one = |role: &str| {
            let of_role = |member: &&Value| member.get("role").is_some_and(|has| has == role);
            let name = members.iter().find(of_role)?.get("name")?.as_str()?;
            let number: usize = name.strip_prefix("node")?.parse().ok()?;
            number.checked_sub(1)
        };
        Some((one("leader")?, one("sync_standby")?)).filter(|_| is_well)
    }

    /// Number of standbys to which a node sends its changes, as the primary.
    fn streams(&self, leader: usize) -> usize {
        let url = format!("http://{}:8008/primary", self.nodes[leader].address());
        // Successful only on the primary.
        let status = get(&url).unwrap_or_default();
        let standbys = status["replication"].as_array().into_iter().flatten();
        standbys.filter(|one| one["state"] == "streaming").count()
    }

    /// Waits until there are a leader, a synchronous standby and another standby. The primary decides: to Patroni, a standby
    /// is running while `pg_rewind` runs, and a failover then would leave a standby that does not start.
    pub(crate) fn until_complete(&self) -> Result<(usize, usize)> {
        let complete = |cluster: &Self| {
            let roles = cluster.roles();
            Ok(roles.filter(|(leader, _)| cluster.streams(*leader) == COUNT - 1))
        };
        self.until("complete", complete)
    }

    /// Waits until there is what is looked for.
    fn until<T>(&self, what: &str, found: impl Fn(&Self) -> Result<Option<T>>) -> Result<T> {
        let start = Instant::now();
        loop {
            if let Some(found) = found(self)? {
                return Ok(found);
            }
            ensure!(
                start.elapsed() < PATIENCE,
                "not {what}: {:?}",
                self.members()
            );
            pace();
        }
    }

    /// Lets something happen to the primary, which is the node `leader`.
    pub(crate) fn strike(&mut self, fault: Fault, leader: usize, standby: usize) -> Result<()> {
        let node = &mut self.nodes[leader];
        match fault {
            Fault::Killed => {
                node.signal("KILL")?;
                node.patroni = None;
                Ok(())
            }
            Fault::Frozen => node.signal("STOP"),
            Fault::CutOff => {
                let rules = format!(
                    "table inet cut {{\n chain out {{\n type filter hook output priority 0\n \
                     meta skgid {} drop\n ip daddr {} drop\n }}\n}}\n",
                    node.group(),
                    node.address()
                );
                let file = self.folder.path().join("cut.nft");
                fs::write(&file, rules)?;
                run(Command::new(&self.nft).arg("--file").arg(file))
            }
            Fault::SwitchedOver => {
                let candidate = format!("node{}", self.nodes[standby].number);
                let arguments = [
                    "switchover",
                    "--candidate",
                    &candidate,
                    "--force",
                    "gatepass",
                ];
                self.patronictl(standby, &arguments).map(drop)
            }
        }
    }

    /// Runs patronictl on a node, and returns what it prints.
    fn patronictl(&self, node: usize, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new("patronictl");
        command.arg("-c").arg(self.nodes[node].config());
        let output = command.args(arguments).output()?;
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{arguments:?}: {said}");
        Ok(said.into_owned())
    }

    /// What PostgreSQL answers on a node.
    fn sql(&self, node: usize, statement: &str) -> Result<String> {
        let mut psql = Command::new("psql");
        let host = self.nodes[node].address();
        psql.args(["-h", &host, "-U", "postgres", "-d", "postgres", "-At", "-c"]);
        let output = psql.arg(statement).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{statement}: {errors}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// True if a node other than `former` is the primary.
    pub(crate) fn has_new_primary(&self, former: usize) -> bool {
        let mut others = (0..COUNT).filter(|node| *node != former);
        others.any(|node| self.is_primary(node))
    }

    fn is_primary(&self, node: usize) -> bool {
        let address = self.nodes[node].address();
        status(&format!("http://{address}:8008/primary")) == Some(200)
    }

    /// Undoes what happened to the former primary.
    pub(crate) fn mend(&mut self, fault: Fault, former: usize) -> Result<()> {
        let node = &mut self.nodes[former];
        match fault {
            Fault::Killed => node.start(),
            Fault::Frozen => node.signal("CONT"),
            Fault::CutOff => run(Command::new(&self.nft).args(["delete", "table", "inet", "cut"])),
            Fault::SwitchedOver => Ok(()),
        }
    }

    /// The last lines of the logs of Patroni and PostgreSQL.
    pub(crate) fn last_lines(&self) -> String {
        let logs = self.nodes.iter().map(|node| {
            let log = fs::read_to_string(node.folder.with_extension("log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines
                .get(lines.len().saturating_sub(30)..)
                .unwrap_or_default();
            format!("node{}:\n{}\n", node.number, last.join("\n"))
        });
        logs.collect()
    }
}

/// The JSON of a successful response.
fn get(url: &str) -> Option<Value> {
    let response = agent(Duration::from_secs(1)).get(url).call().ok()?;
    let is_success = response.status().is_success();
    let text = response.into_body().read_to_string().ok()?;
    serde_json::from_str(&text).ok().filter(|_| is_success)
}

fn status(url: &str) -> Option<u16> {
    let response = agent(Duration::from_secs(1)).get(url).call().ok()?;
    Some(response.status().as_u16())
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {errors}");
    Ok(())
}
