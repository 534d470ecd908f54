//! Applies the legacy instances of the configuration and the registrations file (D-27). A start checks the whole file before it
//! applies any of it, and reads only the entries that changed. A large change is applied in several transactions, so that
//! memory is bounded. If the service stops in between, the next start applies the rest.

mod names;
mod parts;
mod survey;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::apply::{DifferenceKind, Plan};
use crate::audit::entry_of;
use crate::describe::Registered;
use crate::objects::port_problem;
use crate::planning::{self, MOST_PLANS};
use crate::registrations::Registrations;
use document::Problem;
use domain::audit_entry::{Entry, Origin};
use domain::clock::Timestamp;
use domain::object::ObjectName;
use domain::{
    AuditAction, AuditEvent, Excerpt, FileChange, LegacyInstance, RegistryChange, RegistryOutcome,
};
use protocol::Settings;
use secrets::sealing::EncryptionKey;
use store::Store;

/// Number of objects and entries of the audit log that a start lists one by one.
const LISTED: usize = 100;

const CONTENTION: &str = "other replicas are changing the registry at the same time: start again";

#[derive(Debug, Default)]
pub struct Applied {
    /// The first entries of the audit log. The store has all of them.
    pub events: Vec<AuditEvent>,
    /// Numbers of the other entries.
    pub more: BTreeMap<AuditAction, u64>,
    added: usize,
    changed: usize,
    /// Objects that the files list and do not manage.
    kept: usize,
    unchanged: usize,
}

/// What a start applies, and to which store.
#[derive(Clone, Copy)]
pub struct Start<'a> {
    /// Legacy instances of the configuration.
    pub legacy_instances: &'a [LegacyInstance],
    /// Path of the registrations file.
    pub registrations: Option<&'a Path>,
    pub protocol: &'a Settings,
    /// Whether clients can present TLS certificates.
    pub takes_certificates: bool,
    pub keep_audit_for: Duration,
    /// Number of entries that are read at once and applied in one transaction.
    pub part: usize,
    pub store: &'a dyn Store,
    pub encryption_key: &'a EncryptionKey,
    pub now: Timestamp,
}

impl Start<'_> {
    /// Applies the changes since the last start.
    ///
    /// # Errors
    /// Every problem of the file; then nothing of it was applied. Or an error of the store.
    pub async fn register(self) -> anyhow::Result<Applied> {
        let mut applied = Applied::default();
        self.instances(&mut applied).await?;
        if let Some(path) = self.registrations {
            self.file(path, &mut applied).await?;
        }
        applied.tell();
        Ok(applied)
    }

    async fn instances(self, applied: &mut Applied) -> anyhow::Result<()> {
        let instances = self.legacy_instances;
        for _ in 0..MOST_PLANS {
            let names = instances.iter().map(Registered::object_name);
            let stored = self.store.excerpt(names.collect()).await?;
            let others = stored.legacy_instances();
            let of = |one: &LegacyInstance| {
                let mut others = others.iter();
                others.find_map(|other| port_problem(&one.hostname, &other.hostname))
            };
            if let Some(problem) = instances.iter().find_map(of) {
                anyhow::bail!(
                    "{problem}: remove that instance first (token-service legacy-instance remove)"
                );
            }
            let mut plan = Plan::on(&stored);
            plan.configure(instances, &stored);
            let settings = self.protocol;
            let unfit = planning::unfit_for_legacy(&plan.change, &stored, self.store, settings);
            if let Some(warning) = unfit.await? {
                tracing::warn!("{warning}");
            }
            let by = Entry::by_configuration;
            if self.make(&mut plan, FileChange::Keep, by, applied).await? {
                applied.note(&plan, instances.len());
                for left in left(instances, &stored) {
                    tracing::warn!(
                        "the configuration no longer lists the legacy instance {left}, which stays as it is: list it, or run \
                         token-service release legacy-instance {left}"
                    );
                }
                return Ok(());
            }
        }
        anyhow::bail!(CONTENTION)
    }

    fn unserved(
        self,
        registrations: &Registrations,
        stored: &Excerpt,
    ) -> Vec<(ObjectName, Problem)> {
        let instances = self.legacy_instances.iter();
        let instances = instances.chain(stored.legacy_instances());
        let is_known = |host: &str| instances.clone().any(|instance| instance.hostname == host);
        let unserved = registrations.unserved(is_known, self.takes_certificates, self.protocol);
        unserved.collect()
    }

    /// Makes a change, with its entries in the audit log. Returns `false` if the change was overtaken.
    async fn make(
        self,
        plan: &mut Plan,
        applied_file: FileChange,
        by: impl Fn(Entry) -> Entry,
        applied: &mut Applied,
    ) -> anyhow::Result<bool> {
        if plan.is_empty() && applied_file == FileChange::Keep {
            return Ok(true);
        }
        let keep_for = self.keep_audit_for;
        let entries = plan
            .differences
            .iter()
            .map(|difference| by(entry_of(difference)));
        let events: Arc<[AuditEvent]> = entries
            .map(|entry| entry.event(&Origin::default(), self.now, keep_for))
            .collect();
        let change = RegistryChange {
            applied_file,
            audit: Arc::clone(&events),
            ..std::mem::take(&mut plan.change)
        };
        let outcome = self.store.change_registry(change, self.now).await?;
        if outcome == RegistryOutcome::Overtaken {
            return Ok(false);
        }
        applied.events(&events);
        Ok(true)
    }
}

/// Instances that the configuration managed and no longer lists.
fn left<'a>(instances: &[LegacyInstance], stored: &'a Excerpt) -> impl Iterator<Item = &'a str> {
    let managed = stored.legacy_instances().iter();
    let managed = managed.filter(|instance| instance.managed.is_some());
    let names = managed.map(|instance| instance.hostname.as_str());
    names.filter(|name| instances.iter().all(|one| one.hostname != *name))
}

impl Applied {
    /// Counts what a plan for `objects` did, and logs the first changes.
    fn note(&mut self, plan: &Plan, objects: usize) {
        for difference in &plan.differences {
            if self.added + self.changed < LISTED {
                tracing::info!("registered: {difference}");
            }
            match difference.kind {
                DifferenceKind::Added => self.added += 1,
                DifferenceKind::Changed(_) | DifferenceKind::Removed => self.changed += 1,
            }
        }
        for kept in &plan.kept {
            self.kept += 1;
            if self.kept <= LISTED {
                tracing::warn!("{kept}");
            }
        }
        let others = plan.differences.len() + plan.kept.len();
        self.unchanged += objects.saturating_sub(others);
    }

    fn events(&mut self, events: &[AuditEvent]) {
        let room = LISTED.saturating_sub(self.events.len()).min(events.len());
        let (listed, others) = events.split_at(room);
        self.events.extend_from_slice(listed);
        for event in others {
            *self.more.entry(event.action).or_default() += 1;
        }
    }

    fn tell(&self) {
        let Self {
            added,
            changed,
            kept,
            unchanged,
            ..
        } = self;
        if added + changed + kept == 0 {
            tracing::info!("registrations are up to date");
            return;
        }
        tracing::info!(
            "registrations: {added} added, {changed} changed, {kept} not managed, {unchanged} unchanged"
        );
        if added + changed > LISTED || *kept > LISTED {
            tracing::info!(
                "the first {LISTED} objects of each kind are listed above; token-service audit lists all changes"
            );
        }
    }
}
