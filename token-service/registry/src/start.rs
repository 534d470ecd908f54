//! A start applies the legacy instances of the configuration and the registrations file (D-27), each in one transaction.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::apply::{DifferenceKind, DocumentKind, Plan};
use crate::change::{self, Edit, How, Registry};
use crate::describe::Registered;
use crate::file;
use crate::identities;
use crate::objects::port_problem;
use crate::planning::{self, Surroundings};
use document::{Problems, read_text};
use domain::audit_entry::{Entry, Origin};
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{
    AuditAction, AuditEvent, FileChange, LegacyInstance, RegistryChange, RegistryOutcome,
};
use protocol::Settings;
use secrets::protection::Passwords;
use secrets::sealing::EncryptionKey;
use store::{Store, StoreError};

/// Number of objects and entries of the audit log that a start lists one by one.
const LISTED: usize = 100;

/// Rules change with the program: the same text may have another effect in another version.
const VERSION: &[u8] = env!("CARGO_PKG_VERSION").as_bytes();

/// What a start did.
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
        let starting = Starting {
            start: self,
            turn: Mutex::default(),
            passwords: Arc::default(),
            applied: RefCell::default(),
        };
        starting.instances().await?;
        if let Some(path) = self.registrations {
            starting.file(path).await?;
        }
        let applied = starting.applied.into_inner();
        applied.tell();
        Ok(applied)
    }
}

struct Starting<'a> {
    start: Start<'a>,
    turn: Mutex<()>,
    passwords: Arc<Passwords>,
    applied: RefCell<Applied>,
}

impl Registry for Starting<'_> {
    fn turn(&self) -> &Mutex<()> {
        &self.turn
    }

    async fn make(&self, change: RegistryChange) -> Result<RegistryOutcome, StoreError> {
        let events = Arc::clone(&change.audit);
        let Start { store, now, .. } = self.start;
        let outcome = store.change_registry(change, now).await?;
        if outcome == RegistryOutcome::Changed {
            self.applied.borrow_mut().events(&events);
        }
        Ok(outcome)
    }
}

impl Starting<'_> {
    async fn change<T>(
        &self,
        by: impl Fn(Entry) -> Entry,
        edit: impl AsyncFn() -> anyhow::Result<Edit<T>>,
    ) -> anyhow::Result<T> {
        let Start {
            now,
            keep_audit_for,
            ..
        } = self.start;
        let how = How {
            event: &|entry| by(entry).event(&Origin::default(), now, keep_audit_for),
            passwords: Some(&self.passwords),
            dry_run: false,
        };
        change::change(self, how, edit).await
    }

    async fn instances(&self) -> anyhow::Result<()> {
        let Start {
            legacy_instances: instances,
            store,
            protocol,
            ..
        } = self.start;
        let configured = self.change(Entry::by_configuration, async || {
            let names = instances.iter().map(Registered::object_name);
            let stored = store.excerpt(names.collect()).await?;
            let of = |one: &LegacyInstance| {
                let mut others = stored.legacy_instances().iter();
                others.find_map(|other| port_problem(&one.hostname, &other.hostname))
            };
            if let Some(problem) = instances.iter().find_map(of) {
                anyhow::bail!(
                    "{problem}: remove that instance first (token-service legacy-instance remove)"
                );
            }
            let mut plan = Plan::on(&stored);
            plan.configure(instances, &stored);
            let unfit = planning::unfit_for_legacy(&plan.change, &stored, store, protocol).await?;
            Ok(Edit::of(plan).map(|plan| (plan, stored, unfit)))
        });
        let (plan, stored, unfit) = configured.await?;
        if let Some(warning) = unfit {
            tracing::warn!("{warning}");
        }
        self.applied.borrow_mut().note(&plan, instances.len());
        let left = stored.legacy_instances().iter().filter(|instance| {
            let is_listed = instances
                .iter()
                .any(|one| one.hostname == instance.hostname);
            instance.managed.is_some() && !is_listed
        });
        for LegacyInstance { hostname, .. } in left {
            tracing::warn!(
                "the configuration no longer lists the legacy instance {hostname}, which stays as it is: list it, or run \
                 token-service release legacy-instance {hostname}"
            );
        }
        Ok(())
    }

    /// Applies the file, unless it is the one that a start applied last.
    async fn file(&self, path: &Path) -> anyhow::Result<()> {
        let Start {
            store,
            protocol,
            takes_certificates,
            encryption_key,
            now,
            ..
        } = self.start;
        let problems = Problems::default();
        let text = read_text(path, &problems).unwrap_or_default();
        let text = problems.none_or(text)?;
        let (digest, name) = (self.digest(&text), path.display().to_string());
        let applied = self.change(
            |entry| entry.by_file(path),
            async || {
                let before = store.applied_file().await?;
                if before == Some(digest) {
                    return Ok(Edit::nothing(None));
                }
                let draft = file::parse(path, &text, now);
                let stored = store.excerpt(draft.names()).await?;
                let mut registrations = draft.check(&stored)?;
                let found = registrations.problems(Surroundings {
                    settings: protocol,
                    legacy_instances: stored.legacy_instances(),
                    takes_certificates,
                    at_start: true,
                });
                if !found.refused.is_empty() {
                    anyhow::bail!("{}", found.refused.join("\n"));
                }
                let mut warnings = found.warnings;
                let held = identities::leave(&mut registrations, store).await?;
                warnings.extend(held.iter().map(|held| {
                    format!("! {held}, and the next start gives it to {}", held.username)
                }));
                let names_files = registrations.names_files;
                let objects = registrations.objects().count();
                let mut plan = self.passwords.plan(encryption_key, |protection| {
                    let mut plan = Plan::on(&stored);
                    let kind = DocumentKind::File(&name);
                    plan.apply(registrations, kind, &stored, protection)?;
                    Ok(plan)
                })?;
                let taken = identities::taken(&mut plan, &stored, store, |_, _| false).await?;
                if !taken.is_empty() {
                    return Ok(Edit::overtaken(None));
                }
                // What the text does not decide, the next start looks at again.
                let is_all = !names_files && held.is_empty() && plan.kept.is_empty();
                let after = is_all.then_some(digest);
                if before != after {
                    plan.change.applied_file = FileChange::Replace { before, after };
                }
                Ok(Edit::of(plan).map(|plan| Some((plan, warnings, objects))))
            },
        );
        if let Some((plan, warnings, objects)) = applied.await? {
            for warning in warnings {
                tracing::warn!("{warning}");
            }
            self.applied.borrow_mut().note(&plan, objects);
        }
        Ok(())
    }

    /// Keyed, because the file contains secrets, and readers of the store must not be able to guess at them. With the settings that
    /// decide which names legacy tokens have room for.
    fn digest(&self, text: &str) -> Digest {
        let Start {
            legacy_instances,
            protocol,
            encryption_key,
            ..
        } = self.start;
        let room = (
            protocol.api_audience.len(),
            protocol.legacy_user_id_max,
            protocol.legacy_hostname_max,
            legacy_instances.is_empty(),
        );
        let room = format!("{room:?}");
        let parts = [
            b"registrations file",
            VERSION,
            room.as_bytes(),
            text.as_bytes(),
        ];
        Digest::from_bytes(encryption_key.tag(&parts))
    }
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
