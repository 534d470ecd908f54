//! Applies the changed entries of a file, part by part.

use std::path::Path;

use super::names::Names;
use super::survey::Part;
use super::{Applied, CONTENTION, Start};
use crate::apply::{DocumentKind, Plan, Source};
use crate::describe::Registered as _;
use crate::file::RegistrationsFile;
use crate::identities;
use crate::planning::MOST_PLANS;
use domain::audit_entry::Entry;
use domain::digest::Digest;
use domain::{AppliedFile, FileChange, Identity, User, random};
use secrets::protection::AtRest;
use system::OsRandom;

/// Rules change with the program: the same text may have another effect in another version.
const VERSION: &[u8] = env!("CARGO_PKG_VERSION").as_bytes();

/// A plan for a part of the file.
struct Planned {
    plan: Plan,
    /// Number of objects in the part.
    objects: usize,
    /// True if the text decides everything about these objects.
    is_settled: bool,
}

impl Start<'_> {
    pub(super) async fn file(self, path: &Path, applied: &mut Applied) -> anyhow::Result<()> {
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
            self.progress("applied", number, survey.changed);
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
        plan.apply(
            registrations,
            DocumentKind::File(source),
            &stored,
            &protection,
        )?;
        let users = plan.change.put_users.iter();
        let new = users.flat_map(|user| identities::new_identities(user, &stored));
        for warning in identities::unconfigured(new.map(|(identity, _)| identity), self.protocol) {
            tracing::warn!("{warning}");
        }
        // The entry of the other user no longer lists the identity: the survey has seen that.
        let may_lose = |user: &User, identity: &Identity| names.gives(user, identity);
        let taken = identities::taken(&mut plan, &stored, self.store, may_lose).await?;
        anyhow::ensure!(taken.is_empty(), "{}", taken.join("\n"));
        Ok(Planned {
            is_settled: is_settled && plan.kept.is_empty(),
            objects,
            plan,
        })
    }

    /// What the configuration decides about names in legacy tokens, and its identity providers: with others, every entry is read
    /// again.
    fn room(self) -> Vec<u8> {
        let settings = &self.protocol;
        let room = (
            settings.api_audience.len(),
            settings.legacy_user_id_max,
            settings.legacy_hostname_max,
            self.legacy_instances.is_empty(),
            (settings.identity_providers.iter())
                .map(|provider| &provider.issuer)
                .collect::<Vec<_>>(),
        );
        format!("{room:?}").into_bytes()
    }

    fn digest(self, parts: &[&[u8]]) -> Digest {
        Digest::from_bytes(self.encryption_key.tag(parts))
    }
}
