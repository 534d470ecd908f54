//! Debian's Patroni and etcd with three PostgreSQL servers, in the network of `tests/tools/alone.sh`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::browsing::agent;
use tests::{Process, pace};

use super::watch::Watch;

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

/// A server with its Patroni.
struct Node {
    number: usize,
    folder: PathBuf,
    patroni: Option<Process>,
}

impl Node {
    fn address(&self) -> String {
        format!("127.0.66.{}", self.number)
    }

    /// Group of the node's processes, by which the kernel tells their packets from those of other nodes.
    fn group(&self) -> usize {
        60_000 + self.number
    }

    fn config(&self) -> PathBuf {
        self.folder.with_extension("json")
    }

    /// Writes the configuration. JSON is YAML.
    fn configure(&self, bin: &Path) -> Result<()> {
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

    fn start(&mut self) -> Result<()> {
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
    fn signal(&self, signal: &str) -> Result<()> {
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

    /// Does what docs/runbook.md says about PostgreSQL and in the table "What Patroni says". `watch` looks at the token services
    /// meanwhile.
    pub(crate) fn follow_the_runbook(&mut self, watch: &Watch) -> Result<()> {
        self.look_at_sessions()?;
        self.pause_and_copy()?;
        self.lose_etcd(watch)?;
        self.lose_the_synchronous_standby()
    }

    /// What the page prints as code and begins so.
    fn printed(&self, start: &str) -> Result<String> {
        let page = fs::read_to_string(self.repository.join("docs/runbook.md"))?;
        let mut code = page.split('`').skip(1).step_by(2);
        let found = code.find(|text| text.starts_with(start));
        Ok(found.with_context(|| format!("no {start}"))?.to_owned())
    }

    /// Runs a command of patronictl as the page prints it, about the node `member`, and with these further arguments.
    fn as_printed(&self, node: usize, command: &str, member: usize, more: &[&str]) -> Result<()> {
        let printed = self.printed(&format!("patronictl -c FILE {command}"))?;
        let member = format!("node{}", self.nodes[member].number);
        let words = printed.split(' ').skip(3).map(|word| match word {
            "CLUSTER" => "gatepass",
            "MEMBER" => &*member,
            word => word,
        });
        let arguments: Vec<&str> = words.chain(more.iter().copied()).collect();
        self.patronictl(node, &arguments).map(drop)
    }

    /// The statements of the page.
    fn look_at_sessions(&mut self) -> Result<()> {
        let (leader, standby) = self.until_complete()?;
        let sessions = self.sql(leader, &self.printed("SELECT usename")?)?;
        ensure!(sessions.contains("|token-service|"), "{sessions}");
        let names = self.sql(leader, &self.printed("SHOW synchronous_standby_names")?)?;
        let standby = format!("node{}", self.nodes[standby].number);
        let replicas = self.sql(leader, "SELECT application_name FROM pg_stat_replication")?;
        ensure!(
            names.contains(&standby) && replicas.contains(&standby),
            "{standby}: {names} {replicas}"
        );
        Ok(())
    }

    /// A pause shows in the list and ends, and a replica is copied again.
    fn pause_and_copy(&mut self) -> Result<()> {
        let (leader, standby) = self.until_complete()?;
        let is_paused = || {
            let list = self.patronictl(leader, &["list"])?;
            anyhow::Ok(list.contains("Maintenance mode: on"))
        };
        self.patronictl(leader, &["pause", "--wait", "gatepass"])?;
        ensure!(is_paused()?, "the list does not show the pause");
        self.as_printed(leader, "resume", leader, &["--wait"])?;
        ensure!(!is_paused()?, "the pause has not ended");
        self.as_printed(leader, "reinit", standby, &["--wait", "--force"])?;
        self.until_complete().map(drop)
    }

    /// Without etcd, Patroni makes all servers standbys. When etcd is back, it promotes one by itself.
    fn lose_etcd(&mut self, watch: &Watch) -> Result<()> {
        let (leader, _) = self.until_complete()?;
        let unready = watch.unready();
        self.etcd.take().context("etcd does not run")?.kill()?;
        self.until("without a primary", |cluster| {
            let has_primary = (0..COUNT).any(|node| cluster.is_primary(node));
            Ok((watch.unready() > unready && !has_primary).then_some(()))
        })?;
        // It never ends by itself.
        let mut list = Command::new("timeout");
        list.args(["6", "patronictl", "-c"]);
        let list = list.arg(self.nodes[leader].config()).arg("list").output()?;
        let said = String::from_utf8_lossy(&list.stderr);
        ensure!(
            list.status.code() == Some(124) && said.contains("Failed to get list of machines"),
            "{said}"
        );
        self.etcd = Some(Self::start_etcd(&self.repository, self.folder.path())?);
        self.until_complete()?;
        self.until("ready again", |_| Ok(watch.all_ready().then_some(())))
    }

    /// The primary and the synchronous standby are lost: Patroni promotes nobody, until an operator names a server.
    fn lose_the_synchronous_standby(&mut self) -> Result<()> {
        let (leader, standby) = self.until_complete()?;
        for node in [standby, leader] {
            // At the same moment: otherwise the other standby becomes the synchronous one.
            self.nodes[node].signal("STOP")?;
        }
        for node in [standby, leader] {
            self.strike(Fault::Killed, node, node)?;
        }
        let left = (0..COUNT).find(|node| ![leader, standby].contains(node));
        let left = left.context("no third server")?;
        let has_no_leader = |cluster: &Self| {
            let list = cluster.patronictl(left, &["list"])?;
            let has_one = list.contains("Leader") || list.contains("Sync Standby");
            Ok((!has_one).then_some(()))
        };
        self.until("without a leader", has_no_leader)?;
        // Nor a while later.
        let start = Instant::now();
        while start.elapsed() < 2 * LOOP_WAIT {
            ensure!(!self.is_primary(left), "Patroni has promoted node {left}");
            pace();
        }
        self.as_printed(left, "failover", left, &["--force"])?;
        self.until("a primary", |cluster| {
            Ok(cluster.is_primary(left).then_some(()))
        })?;
        for node in [standby, leader] {
            self.nodes[node].start()?;
        }
        self.until_complete().map(drop)
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
