//! What docs/runbook.md says about PostgreSQL and in the table "What Patroni says".

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tests::pace;

use super::cluster::{COUNT, Cluster, Fault, LOOP_WAIT, name};
use super::watch::Watch;

impl Cluster {
    /// Does what the page says. `watch` looks at the token services meanwhile.
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

    /// Runs a command of patronictl on a node as the page prints it, about the node `member`, with further arguments.
    fn as_printed(&self, node: usize, command: &str, member: usize, more: &str) -> Result<()> {
        let start = "patronictl -c FILE ";
        let printed = self.printed(&format!("{start}{command}"))?;
        let printed = printed.replace(start, "").replace("CLUSTER", "gatepass");
        let printed = printed.replace("MEMBER", &name(member));
        self.patronictl(node, &format!("{printed} {more}"))
            .map(drop)
    }

    /// The statements of the page.
    fn look_at_sessions(&self) -> Result<()> {
        let (leader, standby) = self.until_complete()?;
        let sessions = self.sql(leader, &self.printed("SELECT usename")?)?;
        ensure!(sessions.contains("|token-service|"), "{sessions}");
        let names = self.sql(leader, &self.printed("SHOW synchronous_standby_names")?)?;
        let replicas = self.sql(leader, "SELECT application_name FROM pg_stat_replication")?;
        for said in [names, replicas] {
            ensure!(
                said.contains(&name(standby)),
                "no {}: {said}",
                name(standby)
            );
        }
        Ok(())
    }

    /// A pause shows in the list and ends, and a replica is copied again.
    fn pause_and_copy(&self) -> Result<()> {
        let (leader, standby) = self.until_complete()?;
        let is_paused = || {
            let list = self.patronictl(leader, "list")?;
            anyhow::Ok(list.contains("Maintenance mode: on"))
        };
        self.patronictl(leader, "pause --wait gatepass")?;
        ensure!(is_paused()?, "the list does not show the pause");
        self.as_printed(leader, "resume", leader, "--wait")?;
        ensure!(!is_paused()?, "the pause has not ended");
        self.as_printed(leader, "reinit", standby, "--wait --force")?;
        self.until_complete().map(drop)
    }

    /// Without etcd, Patroni makes all servers standbys. When etcd is back, it promotes one by itself.
    fn lose_etcd(&mut self, watch: &Watch) -> Result<()> {
        let (leader, _) = self.until_complete()?;
        let unready = watch.unready();
        self.etcd.take().context("etcd does not run")?.kill()?;
        self.until("without a primary", || {
            let has_primary = (0..COUNT).any(|node| self.is_primary(node));
            Ok((watch.unready() > unready && !has_primary).then_some(()))
        })?;
        // It never ends by itself.
        let list = format!(
            "timeout 6 patronictl -c {}.yml list; [ $? = 124 ]",
            name(leader)
        );
        let said = self.shell(&list)?;
        ensure!(said.contains("Failed to get list of machines"), "{said}");
        self.start_etcd()?;
        self.until_complete()?;
        self.until("ready again", || Ok(watch.all_ready().then_some(())))
    }

    /// The primary and the synchronous standby are lost: Patroni promotes nobody, until an operator names a server.
    fn lose_the_synchronous_standby(&mut self) -> Result<()> {
        let (leader, standby) = self.until_complete()?;
        for node in [standby, leader] {
            // At the same moment: otherwise the other standby becomes the synchronous one.
            self.signal("STOP", node)?;
        }
        for node in [standby, leader] {
            self.strike(Fault::Killed, node, node)?;
        }
        let left = (0..COUNT).find(|node| ![leader, standby].contains(node));
        let left = left.context("no third server")?;
        self.until("without a leader", || {
            let list = self.patronictl(left, "list")?;
            let has_one = list.contains("Leader") || list.contains("Sync Standby");
            Ok((!has_one).then_some(()))
        })?;
        // Nor a while later.
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(2 * LOOP_WAIT) {
            ensure!(
                !self.is_primary(left),
                "Patroni has promoted {}",
                name(left)
            );
            pace();
        }
        self.as_printed(left, "failover", left, "--force")?;
        self.until("a primary", || Ok(self.is_primary(left).then_some(())))?;
        for node in [standby, leader] {
            self.start_node(node)?;
        }
        self.until_complete().map(drop)
    }
}
