//! What a file says, before any of it is applied.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::Start;
use super::names::Names;
use crate::file::RegistrationsFile;
use crate::registrations::{Draft, Registrations};
use crate::{identities, planning};
use document::{InvalidDocument, Problem, Problems};
use domain::clock::Timestamp;
use domain::object::ObjectName;
use domain::{Excerpt, Identity, User, Username};
use store::StoreError;

/// Number of entries between two lines about the progress.
const PROGRESS: usize = 50_000;

/// A part of a file that is applied in one transaction.
#[derive(Debug)]
pub(super) enum Part {
    Entries(Vec<usize>),
    /// A file whose entries cannot be read apart.
    Whole,
}

impl Part {
    /// Reads the part; `None` if its entries cannot be read apart.
    pub(super) fn draft(
        &self,
        file: &RegistrationsFile,
        now: Timestamp,
    ) -> Option<Draft<Registrations>> {
        match self {
            Self::Entries(entries) => file.draft(entries, now),
            Self::Whole => Some(file.whole(now)),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Survey {
    /// The parts with the changed entries: users before clients. Never empty.
    pub(super) parts: Vec<Part>,
    pub(super) changed: usize,
    pub(super) unchanged: usize,
    pub(super) names: Names,
    pub(super) warnings: Vec<Problem>,
}

enum Checked {
    Right,
    Wrong(InvalidDocument),
    /// The entries cannot be read apart.
    Inseparable,
}

impl Start<'_> {
    /// Checks `file`. Passes over the entries that managed objects have from before (`has_rules`: by the same rules), unless
    /// there is a problem: a message may name the place of another entry.
    ///
    /// # Errors
    /// [`InvalidDocument`] with every problem, or an error of the store.
    pub(super) async fn survey(
        self,
        file: &RegistrationsFile,
        has_rules: bool,
    ) -> anyhow::Result<Survey> {
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
                let parts = changed.chunks(self.part);
                parts.map(|part| Part::Entries(part.to_vec())).collect()
            }
        };
        survey
    }

    async fn check(self, survey: &mut Survey, file: &RegistrationsFile) -> anyhow::Result<Checked> {
        let problems = Problems::default();
        let mut misfits = Vec::new();
        let mut held = Vec::new();
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
                    let has_legacy =
                        !self.legacy_instances.is_empty() || !stored.legacy_instances().is_empty();
                    let settings = &self.protocol;
                    misfits.extend(planning::misfits_of(
                        &registrations,
                        place,
                        has_legacy,
                        settings,
                    ));
                    held.extend(self.held(&registrations, &stored).await?);
                    let unserved = self.unserved(&registrations, &stored).into_iter();
                    survey.warnings.extend(unserved.map(|(_, warning)| warning));
                    survey.warnings.extend(registrations.warnings);
                }
                Err(invalid) => problems.extend(invalid),
            }
            self.progress("compared", number, survey.changed);
        }
        // Only now the entries of all parts are known.
        for (username, holder, identity) in held {
            let is_given = |user: &User| survey.names.gives(user, &identity);
            if !self
                .store
                .user(holder.clone())
                .await?
                .as_ref()
                .is_none_or(is_given)
            {
                misfits.push(identities::line(&username, &holder, &identity));
            }
        }
        survey.parts = parts;
        survey.warnings.sort();
        Ok(match problems.none_or(()) {
            Ok(()) if !misfits.is_empty() => anyhow::bail!("{}", misfits.join("\n")),
            Ok(()) => Checked::Right,
            Err(invalid) => Checked::Wrong(invalid),
        })
    }

    /// Identities that users of the file get and other users have: both users, and the identity. A user whom no file manages gets
    /// nothing.
    async fn held(
        self,
        registrations: &Registrations,
        stored: &Excerpt,
    ) -> Result<Vec<(Username, Username, Identity)>, StoreError> {
        let users = registrations.users.iter().map(|user| &user.object);
        let managed = users.filter(|user| {
            let before = stored.user(&user.username);
            before.is_none_or(|before| before.managed.is_some())
        });
        let mut new = HashMap::new();
        for user in managed {
            for (identity, value) in identities::new_identities(user, stored) {
                new.insert(value, (&user.username, identity));
            }
        }
        let values = new.keys().cloned().collect();
        let holders = identities::holders(values, self.store).await?.into_iter();
        let held = holders.filter_map(|(value, holder)| {
            let (username, identity) = new.get(&value)?;
            (holder != **username).then(|| ((*username).clone(), holder, (*identity).clone()))
        });
        Ok(held.collect())
    }

    /// The keyed hash of an entry. Entries contain secrets, so readers of the store must not be able to guess at a text.
    pub(super) fn entry(self, text: &str) -> String {
        let tag = self
            .encryption_key
            .tag(&[b"registrations entry", text.as_bytes()]);
        let (half, _) = tag.split_at(tag.len() / 2);
        URL_SAFE_NO_PAD.encode(half)
    }

    /// Logs the progress after the part `number` of `all` entries.
    pub(super) fn progress(self, what: &str, number: usize, all: usize) {
        let done = (number + 1) * self.part;
        if done.is_multiple_of(PROGRESS) && done < all {
            tracing::info!("registrations {what}: {done} of {all}");
        }
    }
}
