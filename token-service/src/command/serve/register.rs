//! Applies the legacy instances of the configuration and the registrations file (D-27). A start checks the whole file before it
//! applies any of it, and reads only the entries that changed. A large change is applied in several transactions, so that
//! memory is bounded. If the service stops in between, the next start applies the rest.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::audit_log::{Entry, Origin as Actor};
use crate::config::Config;
use crate::http::admin::registrations::{MOST_PLANS, entry_of};
use crate::planning;
use document::{InvalidDocument, Problem, Problems};
use domain::clock::{Clock as _, Timestamp};
use domain::digest::Digest;
use domain::object::{ObjectKind, ObjectName};
use domain::{
    AppliedFile, AuditAction, AuditEvent, Excerpt, FileChange, LegacyInstance, RegistryChange,
    RegistryOutcome, Username, random,
};
use registration::apply::{DifferenceKind, Origin, Plan, Source};
use registration::describe::Registered;
use registration::file::RegistrationsFile;
use registration::objects::port_problem;
use registration::registrations::{Draft, Registrations, Sought};
use secrets::protection::AtRest;
use secrets::sealing::EncryptionKey;
use store::Store;
use system::{OsRandom, SystemClock};

/// Number of objects and entries of the audit log that a start lists one by one.
const LISTED: usize = 100;

/// Number of entries that are read at once and applied in one transaction.
pub(super) const PART: usize = if cfg!(test) { 50 } else { 1_000 };

/// Number of entries between two lines about the progress.
const PROGRESS: usize = 50_000;

/// Rules change with the program: the same text may have another effect in another version.
const VERSION: &[u8] = env!("CARGO_PKG_VERSION").as_bytes();

const CONTENTION: &str = "other replicas are changing the registry at the same time: start again";

#[derive(Debug, Default)]
pub(super) struct Applied {
    /// The first entries of the audit log. The store has all of them.
    pub(super) events: Vec<AuditEvent>,
    /// Numbers of the other entries.
    pub(super) more: BTreeMap<AuditAction, u64>,
    added: usize,
    changed: usize,
    /// Objects that the files list and do not manage.
    kept: usize,
    unchanged: usize,
}

/// Applies the changes since the last start.
///
/// # Errors
/// Every problem of the file; then nothing of it was applied. Or an error of the store.
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
    start.instances(&mut applied).await?;
    if let Some(path) = &config.registrations {
        start.file(path, &mut applied).await?;
    }
    applied.tell();
    Ok(applied)
}

#[derive(Clone, Copy)]
struct Start<'a> {
    config: &'a Config,
    store: &'a dyn Store,
    encryption_key: &'a EncryptionKey,
    now: Timestamp,
}

impl Start<'_> {
    async fn instances(self, applied: &mut Applied) -> anyhow::Result<()> {
        let instances = &self.config.legacy_instances;
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
            let settings = &self.config.protocol;
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
                         token-service legacy-instance release {left}"
                    );
                }
                return Ok(());
            }
        }
        anyhow::bail!(CONTENTION)
    }

    async fn file(self, path: &Path, applied: &mut Applied) -> anyhow::Result<()> {
        let file = RegistrationsFile::read(path)?;
        for _ in 0..MOST_PLANS {
            if self.changes(&file, path, applied).await? {
                return Ok(());
            }
        }
        anyhow::bail!(CONTENTION)
    }

    /// Returns `false` if another replica or a command applied a file meanwhile.
    async fn changes(
        self,
        file: &RegistrationsFile,
        path: &Path,
        applied: &mut Applied,
    ) -> anyhow::Result<bool> {
        let mut before = self.store.applied_file().await?;
        let rules = self.digest(&[b"registrations rules", VERSION, &self.room()]);
        let text = self.digest(&[b"registrations file", file.text().as_bytes()]);
        let whole = AppliedFile {
            rules,
            text: Some(text),
        };
        if before == Some(whole) {
            return Ok(true);
        }
        let has_rules = before.is_some_and(|before| before.rules == rules);
        let survey = self.survey(file, has_rules).await?;
        for warning in &survey.warnings {
            tracing::warn!("{warning}");
        }
        applied.unchanged = survey.unchanged;
        // Another file that is applied between two parts overtakes the next part.
        let between = AppliedFile {
            rules: Digest::from_bytes(random::bytes(&OsRandom)?),
            text: None,
        };
        let mut is_settled = true;
        for (number, part) in survey.parts.iter().enumerate() {
            let is_last = number + 1 == survey.parts.len();
            let after = |is_settled: bool| match is_last {
                true => AppliedFile {
                    rules,
                    text: whole.text.filter(|_| is_settled),
                },
                false => between,
            };
            let mut is_applied = false;
            for _ in 0..MOST_PLANS {
                let mut planned = self.plan(file, path, part, &survey.names).await?;
                let after = Some(after(is_settled && planned.is_settled));
                let plan = &mut planned.plan;
                let is_done = plan.is_empty() && (before == after || !is_last);
                let change = FileChange::Replace { before, after };
                let by = |entry: Entry| entry.by_file(path);
                if is_done || self.make(plan, change, by, applied).await? {
                    if !is_done {
                        before = after;
                    }
                    is_settled &= planned.is_settled;
                    applied.note(plan, planned.objects);
                    is_applied = true;
                    break;
                }
                if self.store.applied_file().await? != before {
                    return Ok(false);
                }
            }
            if !is_applied {
                return Ok(false);
            }
            progress("applied", number, survey.changed);
        }
        Ok(true)
    }

    async fn plan(
        self,
        file: &RegistrationsFile,
        path: &Path,
        part: &Part,
        names: &Names,
    ) -> anyhow::Result<Planned> {
        let draft = part.draft(file, self.now);
        let draft = draft.unwrap_or_else(|| file.whole(self.now));
        let stored = self.store.excerpt(draft.names()).await?;
        let mut registrations = draft.check_part(&stored, |sought| names.list(sought))?;
        let unserved = self.unserved(&registrations, &stored);
        for client in &mut registrations.clients {
            client.is_settled &= unserved
                .iter()
                .all(|(object, _)| *object != client.object.object_name());
        }
        let users = registrations.users.iter().map(|user| user.is_settled);
        let clients = registrations.clients.iter();
        let mut settled = users.chain(clients.map(|client| client.is_settled));
        let is_settled = settled.all(|is_settled| is_settled);
        let objects = registrations.objects().count();
        let path = path.display().to_string();
        let source = Source {
            file: &path,
            digest: &|entry| Some(self.entry(file.entry(entry)?)),
        };
        let mut plan = Plan::on(&stored);
        let protection = AtRest(self.encryption_key);
        plan.apply(registrations, Origin::File(source), &stored, &protection)?;
        Ok(Planned {
            is_settled: is_settled && plan.kept.is_empty(),
            objects,
            plan,
        })
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
        let keep_for = self.config.audit.keep_for;
        let entries = plan
            .differences
            .iter()
            .map(|difference| by(entry_of(difference)));
        let events: Arc<[AuditEvent]> = entries
            .map(|entry| entry.event(&Actor::default(), self.now, keep_for))
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

    /// Checks `file`. Passes over the entries that managed objects have from before (`has_rules`: by the same rules), unless
    /// there is a problem: a message may name the place of another entry.
    ///
    /// # Errors
    /// [`InvalidDocument`] with every problem, or an error of the store.
    async fn survey(self, file: &RegistrationsFile, has_rules: bool) -> anyhow::Result<Survey> {
        let managed = match has_rules {
            true => self.store.managed().await?,
            false => Vec::new(),
        };
        let known = managed.into_iter().filter(|(entry, _)| !entry.is_empty());
        let known: HashMap<String, ObjectName> = known.collect();
        for (known, is_whole) in [
            (known, false),
            (HashMap::new(), false),
            (HashMap::new(), true),
        ] {
            let passes_over = !known.is_empty();
            let mut survey = self.sorted(file, known, is_whole);
            match self.check(&mut survey, file).await? {
                Checked::Right => return Ok(survey),
                Checked::Wrong(invalid) if !passes_over => return Err(invalid.into()),
                Checked::Wrong(_) | Checked::Inseparable => {}
            }
        }
        anyhow::bail!("the registrations file cannot be read")
    }

    /// Tells `known` entries from changed ones.
    fn sorted(
        self,
        file: &RegistrationsFile,
        mut known: HashMap<String, ObjectName>,
        is_whole: bool,
    ) -> Survey {
        let mut survey = Survey::default();
        let mut changed = file.entries();
        survey.names.exact.reserve(changed.len());
        changed.retain(|entry| {
            let text = file.entry(*entry).map(|text| self.entry(text));
            // The second of two equal entries is a problem, which is found by reading.
            let Some(name) = text.and_then(|text| known.remove(&text)) else {
                return true;
            };
            survey.unchanged += 1;
            survey.names.exact.insert(name, 0);
            false
        });
        survey.changed = changed.len();
        survey.parts = match is_whole {
            true => vec![Part::Whole],
            false => {
                let parts = changed.chunks(PART);
                parts.map(|part| Part::Entries(part.to_vec())).collect()
            }
        };
        survey
    }

    async fn check(self, survey: &mut Survey, file: &RegistrationsFile) -> anyhow::Result<Checked> {
        let problems = Problems::default();
        let mut misfits = Vec::new();
        let parts = std::mem::take(&mut survey.parts);
        for (number, part) in parts.iter().enumerate() {
            let Some(draft) = part.draft(file, self.now) else {
                return Ok(Checked::Inseparable);
            };
            let stored = self.store.excerpt(draft.names()).await?;
            survey.names.note(&draft, file);
            match draft.check_part(&stored, |sought| survey.names.list(sought)) {
                Ok(registrations) => {
                    let place = |object: &ObjectName| {
                        let line = survey.names.exact.get(object)?;
                        Some(file.line(*line))
                    };
                    let has_legacy = !self.config.legacy_instances.is_empty()
                        || !stored.legacy_instances().is_empty();
                    let settings = &self.config.protocol;
                    misfits.extend(planning::misfits_of(
                        &registrations,
                        place,
                        has_legacy,
                        settings,
                    ));
                    let unserved = self.unserved(&registrations, &stored).into_iter();
                    survey.warnings.extend(unserved.map(|(_, warning)| warning));
                    survey.warnings.extend(registrations.warnings);
                }
                Err(invalid) => problems.extend(invalid),
            }
            progress("compared", number, survey.changed);
        }
        survey.parts = parts;
        survey.warnings.sort();
        Ok(match problems.none_or(()) {
            Ok(()) if !misfits.is_empty() => anyhow::bail!("{}", misfits.join("\n")),
            Ok(()) => Checked::Right,
            Err(invalid) => Checked::Wrong(invalid),
        })
    }

    fn unserved(
        self,
        registrations: &Registrations,
        stored: &Excerpt,
    ) -> Vec<(ObjectName, Problem)> {
        let instances = self.config.legacy_instances.iter();
        let instances = instances.chain(stored.legacy_instances());
        let is_known = |host: &str| instances.clone().any(|instance| instance.hostname == host);
        let unserved = registrations.unserved(is_known, self.config.mutual_tls.is_some());
        unserved.collect()
    }

    /// What the configuration decides about names in legacy tokens: with other room, every entry is read again.
    fn room(self) -> Vec<u8> {
        let settings = &self.config.protocol;
        let room = (
            settings.api_audience.len(),
            settings.legacy_user_id_max,
            settings.legacy_hostname_max,
            self.config.legacy_instances.is_empty(),
        );
        format!("{room:?}").into_bytes()
    }

    /// The keyed hash of an entry. Entries contain secrets, so readers of the store must not be able to guess at a text.
    fn entry(self, text: &str) -> String {
        let tag = self
            .encryption_key
            .tag(&[b"registrations entry", text.as_bytes()]);
        let (half, _) = tag.split_at(tag.len() / 2);
        URL_SAFE_NO_PAD.encode(half)
    }

    fn digest(self, parts: &[&[u8]]) -> Digest {
        Digest::from_bytes(self.encryption_key.tag(parts))
    }
}

/// Instances that the configuration managed and no longer lists.
fn left<'a>(instances: &[LegacyInstance], stored: &'a Excerpt) -> impl Iterator<Item = &'a str> {
    let managed = stored.legacy_instances().iter();
    let managed = managed.filter(|instance| instance.managed.is_some());
    let names = managed.map(|instance| instance.hostname.as_str());
    names.filter(|name| instances.iter().all(|one| one.hostname != *name))
}

/// A plan for a part of the file.
struct Planned {
    plan: Plan,
    /// Number of objects in the part.
    objects: usize,
    /// True if the text decides everything about these objects.
    is_settled: bool,
}

/// A part of a file that is applied in one transaction.
#[derive(Debug)]
enum Part {
    Entries(Vec<usize>),
    /// A file whose entries cannot be read apart.
    Whole,
}

impl Part {
    /// Reads the part; `None` if its entries cannot be read apart.
    fn draft(&self, file: &RegistrationsFile, now: Timestamp) -> Option<Draft<Registrations>> {
        match self {
            Self::Entries(entries) => file.draft(entries, now),
            Self::Whole => Some(file.whole(now)),
        }
    }
}

/// The names in a file, each with the line of its entry; 0 for entries that were not read.
#[derive(Debug, Default)]
struct Names {
    exact: HashMap<ObjectName, usize>,
    /// Usernames of entries that were read, without letter case, unless that is the name itself.
    folded: HashMap<String, usize>,
}

impl Names {
    fn list(&self, sought: Sought<'_>) -> bool {
        match sought {
            Sought::Object(object) => self.exact.contains_key(object),
            Sought::User(username) => self.alike(username).is_some(),
        }
    }

    /// The line of a user with this name in any letter case.
    fn alike(&self, username: &Username) -> Option<usize> {
        let folded = username.folded();
        let line = self.folded.get(&*folded);
        let line = line.or_else(|| self.exact.get(&ObjectName::new(ObjectKind::User, folded)));
        line.copied()
    }

    /// Adds the names of a part. Reports names that an earlier part has, also in another letter case; the draft compares the
    /// names of the part itself.
    fn note(&mut self, draft: &Draft<Registrations>, file: &RegistrationsFile) {
        let mut folded = Vec::new();
        let mut exact = Vec::new();
        for (kind, name, place) in draft.places() {
            let line = place.line().unwrap_or_default();
            let object = ObjectName::new(kind, name);
            if let Some(first) = self.exact.get(&object) {
                let key = match kind {
                    ObjectKind::Client => "client_id",
                    ObjectKind::User | ObjectKind::LegacyInstance => "username",
                };
                let first = file.line(*first);
                draft.report(place, format!("{key}: {name} is already at {first}"));
                continue;
            }
            let username = Username::parse(name).filter(|_| kind == ObjectKind::User);
            if let Some(username) = username {
                if let Some(first) = self.alike(&username) {
                    let first = file.line(first);
                    let message = format!(
                        "username: {name} differs from the name at {first} in letter case alone: keep one of the two"
                    );
                    draft.report(place, message);
                }
                if let Cow::Owned(name) = username.folded() {
                    folded.push((name, line));
                }
            }
            exact.push((object, line));
        }
        self.folded.extend(folded);
        self.exact.extend(exact);
    }
}

#[derive(Debug, Default)]
struct Survey {
    /// The parts with the changed entries: users before clients. Never empty.
    parts: Vec<Part>,
    changed: usize,
    unchanged: usize,
    names: Names,
    warnings: Vec<Problem>,
}

enum Checked {
    Right,
    Wrong(InvalidDocument),
    /// The entries cannot be read apart.
    Inseparable,
}

/// Logs the progress after the part `number` of `all` entries.
fn progress(what: &str, number: usize, all: usize) {
    let done = (number + 1) * PART;
    if done.is_multiple_of(PROGRESS) && done < all {
        tracing::info!("registrations {what}: {done} of {all}");
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
