//! Applies changes of the configuration and the registrations file since the last start (D-27). A large change is
//! applied in several transactions, so that memory is bounded. If the service stops in between, the next start applies
//! the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::survey::{Part, Survey, Tags, is_instance, progress, survey};
use crate::audit_log::{Entry, Origin};
use crate::config::Config;
use crate::http::admin::registrations::{self, MOST_PLANS};
use crate::planning::{self, OwnFiles};
use domain::applied_file::Tag;
use domain::clock::{Clock as _, Timestamp};
use domain::digest::Digest;
use domain::remembered::{ObjectKind, ObjectName};
use domain::{
    AppliedFile, AuditAction, AuditEvent, Excerpt, FileChange, LegacyInstance, RegistryChange,
    RegistryOutcome,
};
use protocol::sealing::EncryptionKey;
use registration::apply::{Difference, DifferenceKind, Kept, Occasion, Plan};
use registration::describe::Registered;
use registration::file::RegistrationsFile;
use registration::objects::port_problem;
use registration::protection::AtRest;
use registration::registrations::{Draft, Sought};
use store::Store;
use system::SystemClock;

/// Number of objects and entries of the audit log that a start lists one by one.
const LISTED: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Applied {
    /// The first entries of the audit log. The store has all of them.
    pub(super) events: Vec<AuditEvent>,
    /// Numbers of the other entries.
    pub(super) more: BTreeMap<AuditAction, u64>,
    added: usize,
    changed: usize,
    /// Objects in which a field differs from the file, because a command changed the field.
    kept: usize,
    unchanged: usize,
}

/// Applies the changes since the last start.
///
/// # Errors
/// Every problem of the file; then nothing was applied. Or an error of the store.
pub(super) async fn register(
    config: &Config,
    store: &dyn Store,
    encryption_key: &EncryptionKey,
) -> anyhow::Result<Applied> {
    let start = Start {
        config,
        store,
        encryption_key,
        now: SystemClock.now(),
    };
    let mut applied = Applied::default();
    for _ in 0..MOST_PLANS {
        if start.apply(&mut applied).await? {
            applied.tell();
            return Ok(applied);
        }
    }
    anyhow::bail!("other replicas are changing the registry at the same time: start again")
}

#[derive(Clone, Copy)]
struct Start<'a> {
    config: &'a Config,
    store: &'a dyn Store,
    encryption_key: &'a EncryptionKey,
    now: Timestamp,
}

/// A file that differs from the file that was applied last.
struct Changed {
    file: RegistrationsFile,
    digest: Digest,
    survey: Survey,
}

/// A plan for a part of the file.
struct Planned {
    plan: Plan,
    /// Number of objects in the part.
    objects: usize,
    stored: Excerpt,
    /// The entries that decide everything about their objects.
    settled: Vec<(Tag, Tag)>,
    /// True if all entries are in `settled`.
    is_settled: bool,
}

impl Start<'_> {
    /// Returns `false` if another replica was faster, so that this start has to compare the files again.
    async fn apply(self, applied: &mut Applied) -> anyhow::Result<bool> {
        let before = self.store.applied_file().await?;
        let changed = self.changed(before.as_ref()).await?;
        let mut run = Run {
            start: self,
            remembered: before.as_ref().map(|file| file.digest),
            before,
            settled: Vec::new(),
            is_settled: true,
        };
        let Some(changed) = changed else {
            return run.part(None, true, applied).await;
        };
        let survey = &changed.survey;
        for warning in &survey.warnings {
            tracing::warn!("{warning}");
        }
        applied.unchanged = survey.unchanged.len();
        run.settled.reserve_exact(survey.changed);
        for (number, part) in survey.parts.iter().enumerate() {
            let is_last = number + 1 == survey.parts.len();
            if !run.part(Some((&changed, part)), is_last, applied).await? {
                return Ok(false);
            }
            progress("applied", number, survey.changed);
        }
        Ok(true)
    }

    /// The registrations file; `None` if there is none, or if it is the file that was applied last.
    async fn changed(self, before: Option<&AppliedFile>) -> anyhow::Result<Option<Changed>> {
        let Some(path) = &self.config.registrations else {
            return Ok(None);
        };
        let file = RegistrationsFile::read(path)?;
        let tags = Tags(self.encryption_key, self.config);
        let digest = tags.file(file.text());
        if before.is_some_and(|before| before.is_settled && before.digest == digest) {
            return Ok(None);
        }
        let survey = survey(&file, before, tags, self.store, self.config, self.now).await?;
        Ok(Some(Changed {
            file,
            digest,
            survey,
        }))
    }

    /// Plans a part of the file. The plan of the last part contains everything else.
    async fn plan(
        self,
        part: Option<(&Changed, &Part)>,
        is_last: bool,
        before: Option<&AppliedFile>,
    ) -> anyhow::Result<Planned> {
        let protection = AtRest(self.encryption_key);
        let tags = Tags(self.encryption_key, self.config);
        let instances = &self.config.legacy_instances;
        let mut names: Vec<ObjectName> = Vec::new();
        if is_last {
            names.extend(instances.iter().map(Registered::object_name));
        }
        let draft = part.and_then(|(changed, part)| part.draft(&changed.file, self.now));
        names.extend(draft.iter().flat_map(Draft::names));
        let stored = self.store.excerpt(names).await?;
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
        let mut planned = Planned {
            plan: Plan::on(&stored),
            objects: 0,
            stored,
            settled: Vec::new(),
            is_settled: true,
        };
        let stored = &planned.stored;
        let listed = part.map(|(changed, _)| &changed.survey.names);
        let is_listed = |sought: Sought<'_>| listed.is_some_and(|names| names.list(sought, tags));
        if let (Some(draft), Some((changed, part))) = (draft, part) {
            let registrations = draft.check_part(stored, is_listed)?;
            let is_known = |host: &str| is_instance(host, instances, stored);
            let unserved = registrations.unserved(is_known, self.config.mutual_tls.is_some());
            let mut unsettled: BTreeSet<ObjectName> = unserved.map(|(client, _)| client).collect();
            let (objects, settled): (Vec<_>, Vec<_>) = registrations.objects().unzip();
            let of_files = objects.iter().zip(settled).filter(|(_, settled)| !settled);
            unsettled.extend(of_files.map(|(object, _)| object.clone()));
            planned.objects = objects.len();
            planned.plan = Plan::merge(registrations, stored, Occasion::Start, &protection)?;
            unsettled.extend(planned.plan.postponed.iter().cloned());
            planned.is_settled = unsettled.is_empty();
            let texts = part.texts(&changed.file);
            if texts.len() == objects.len() {
                let entries = texts.into_iter().zip(&objects);
                let entries = entries.filter(|(_, object)| !unsettled.contains(object));
                let entries = entries.map(|(text, object)| (tags.entry(text), tags.name(object)));
                planned.settled = entries.collect();
            }
        }
        if !is_last {
            return Ok(planned);
        }
        let plan = &mut planned.plan;
        plan.merge_legacy_instances(instances, stored, &protection)?;
        let files = match listed {
            // No object left the file.
            Some(names) if before.is_some_and(|before| names.contain(before)) => {
                OwnFiles::Configuration
            }
            Some(_) => OwnFiles::ConfigurationAndRegistrations,
            None => OwnFiles::Configuration,
        };
        let is_listed = |object: &ObjectName| match object.kind {
            ObjectKind::LegacyInstance => instances.iter().any(|one| one.hostname == object.name),
            ObjectKind::Client | ObjectKind::User => is_listed(Sought::Object(object)),
        };
        planning::forget_left(plan, files, is_listed, self.store).await?;
        Ok(planned)
    }

    /// The audit entries for a plan that is carried out.
    fn events(self, plan: &Plan) -> Arc<[AuditEvent]> {
        let of_configuration = |object: &ObjectName| object.kind == ObjectKind::LegacyInstance;
        let (configured, registered): (Vec<Difference>, Vec<Difference>) = plan
            .differences
            .iter()
            .cloned()
            .partition(|difference| of_configuration(&difference.object));
        let (kept_configured, kept_registered): (Vec<Kept>, Vec<Kept>) = plan
            .kept
            .iter()
            .cloned()
            .partition(|kept| of_configuration(&kept.object));
        let configured = registrations::entries(&configured, &kept_configured);
        let mut entries: Vec<Entry> = configured.map(Entry::by_configuration).collect();
        if let Some(path) = &self.config.registrations {
            let registered = registrations::entries(&registered, &kept_registered);
            entries.extend(registered.map(|entry| entry.by_file(path)));
        }
        let keep_for = self.config.audit.keep_for;
        let event = |entry: Entry| entry.event(&Origin::default(), self.now, keep_for);
        entries.into_iter().map(event).collect()
    }
}

/// The parts of a file, one after the other.
struct Run<'a> {
    start: Start<'a>,
    /// The file that was applied last.
    before: Option<AppliedFile>,
    /// The digest that the store has now: none while only some parts are applied.
    remembered: Option<Digest>,
    settled: Vec<(Tag, Tag)>,
    is_settled: bool,
}

impl Run<'_> {
    /// Applies a part of the file. Returns `false` if another replica was faster.
    async fn part(
        &mut self,
        part: Option<(&Changed, &Part)>,
        is_last: bool,
        applied: &mut Applied,
    ) -> anyhow::Result<bool> {
        let start = self.start;
        for _ in 0..MOST_PLANS {
            let mut planned = start.plan(part, is_last, self.before.as_ref()).await?;
            let file = part.filter(|_| is_last).map(|(changed, _)| changed);
            let file = file.map(|changed| self.file(changed, &planned));
            let is_remembered = self.remembered.is_some() && file.as_ref() == self.before.as_ref();
            let plan = &mut planned.plan;
            let mut events = Arc::default();
            let settings = &start.config.protocol;
            let unfit =
                planning::unfit_for_legacy(&plan.change, &planned.stored, start.store, settings);
            if let Some(warning) = unfit.await? {
                tracing::warn!("{warning}");
            }
            if !plan.is_empty() || (file.is_some() && !is_remembered) {
                let digest = file.as_ref().map(|file| file.digest);
                if part.is_some() {
                    plan.change.applied_file = FileChange::Replace {
                        before: self.remembered,
                        after: file.map(Arc::new),
                    };
                }
                events = start.events(plan);
                let change = RegistryChange {
                    audit: Arc::clone(&events),
                    ..std::mem::take(&mut plan.change)
                };
                let outcome = start.store.change_registry(change, start.now).await?;
                if outcome == RegistryOutcome::Overtaken {
                    let found = start.store.applied_file().await?;
                    if found.map(|file| file.digest) == self.remembered {
                        continue;
                    }
                    return Ok(false);
                }
                if part.is_some() {
                    self.remembered = digest;
                }
            }
            applied.note(start.config, &planned, &events);
            self.settled.append(&mut planned.settled);
            self.is_settled &= planned.is_settled;
            return Ok(true);
        }
        Ok(false)
    }

    /// The file to remember when its last part is applied.
    fn file(&self, changed: &Changed, last: &Planned) -> AppliedFile {
        let parts = [&changed.survey.unchanged, &self.settled, &last.settled];
        let mut entries = parts.map(Vec::as_slice).concat();
        entries.sort_unstable();
        AppliedFile {
            digest: changed.digest,
            is_settled: self.is_settled && last.is_settled,
            entries,
        }
    }
}

impl Applied {
    /// Counts what a plan did, and logs the first changes.
    fn note(&mut self, config: &Config, planned: &Planned, events: &[AuditEvent]) {
        let plan = &planned.plan;
        for difference in &plan.differences {
            if self.added + self.changed < LISTED {
                tracing::info!("registered: {difference}");
            }
            match difference.kind {
                DifferenceKind::Added => self.added += 1,
                DifferenceKind::Changed(_) | DifferenceKind::Removed => self.changed += 1,
            }
        }
        let (mut last, kept_before) = (None, self.kept);
        for kept in &plan.kept {
            self.kept += usize::from(last != Some(&kept.object));
            last = Some(&kept.object);
            if self.kept <= LISTED {
                tell_of_kept(config, kept);
            }
        }
        let others = plan.differences.len() + self.kept - kept_before;
        self.unchanged += planned.objects.saturating_sub(others);
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
            "registrations: {added} added, {changed} changed, {kept} kept as a command left them, {unchanged} unchanged"
        );
        if added + changed > LISTED || *kept > LISTED {
            tracing::info!(
                "the first {LISTED} objects of each kind are listed above; token-service audit lists all changes"
            );
        }
    }
}

/// Logs a field in which the registry keeps its value: a new conflict as a warning, a known one as information.
fn tell_of_kept(config: &Config, kept: &Kept) {
    let of_configuration = kept.object.kind == ObjectKind::LegacyInstance;
    let file = match &config.registrations {
        Some(path) if !of_configuration => path.display().to_string(),
        _ => "the configuration".to_owned(),
    };
    if kept.conflict {
        tracing::warn!(
            file,
            "kept, because a command changed it or the service never applied the file to it: {kept}. \
             To let a registrations file count, run token-service apply FILE --overwrite"
        );
    } else {
        tracing::info!(file, "kept as a command left it: {kept}");
    }
}
