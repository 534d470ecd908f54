//! The first look at a registrations file: checks all of the file before any part of it is applied, and finds the
//! entries that changed since a start applied the file last.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::config::Config;
use crate::planning;
use document::{InvalidDocument, Problem, Problems};
use domain::applied_file::Tag;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::remembered::ObjectKind;
use domain::{AppliedFile, Excerpt, LegacyInstance, ObjectName, Username};
use protocol::sealing::EncryptionKey;
use registration::file::RegistrationsFile;
use registration::registrations::{Draft, Registrations, Sought};
use store::Store;

/// Number of entries that are read at once and applied in one transaction.
pub(super) const PART: usize = if cfg!(test) { 50 } else { 1_000 };

/// Number of entries between two lines about the progress.
const PROGRESS: usize = 50_000;

/// Rules change with the program: the same text may have another effect in another version.
const VERSION: &[u8] = env!("CARGO_PKG_VERSION").as_bytes();

/// Makes tags. Files contain secrets, so readers of the store must not be able to guess at a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tags<'a>(pub(super) &'a EncryptionKey, pub(super) &'a Config);

impl Tags<'_> {
    pub(super) fn file(self, text: &str) -> Digest {
        let room = self.room();
        let parts = [b"registrations of a start", VERSION, &room, text.as_bytes()];
        Digest::from_bytes(self.0.tag(&parts))
    }

    pub(super) fn entry(self, text: &str) -> Tag {
        self.tag(&[
            b"registrations entry",
            VERSION,
            &self.room(),
            text.as_bytes(),
        ])
    }

    /// What the configuration decides about names in legacy tokens: with other room, every entry is read again.
    fn room(self) -> Vec<u8> {
        let settings = &self.1.protocol;
        let room = (
            settings.api_audience.len(),
            settings.legacy_user_id_max,
            settings.legacy_hostname_max,
            self.1.legacy_instances.is_empty(),
        );
        format!("{room:?}").into_bytes()
    }

    pub(super) fn name(self, object: &ObjectName) -> Tag {
        self.tag(&[b"registrations name", object.key().as_bytes()])
    }

    /// The tag under which a username that is not folded is found in any letter case.
    fn folded(self, username: &Username) -> Tag {
        self.tag(&[
            b"registrations folded username",
            username.folded().as_bytes(),
        ])
    }

    fn tag(self, parts: &[&[u8]]) -> Tag {
        let mut tag = Tag::default();
        let whole = self.0.tag(parts);
        tag.copy_from_slice(&whole[..size_of::<Tag>()]);
        tag
    }
}

/// A part of a file that is applied in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
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

    /// The texts of the entries, in the order of the objects in the draft.
    pub(super) fn texts<'f>(&self, file: &'f RegistrationsFile) -> Vec<&'f str> {
        match self {
            Self::Entries(entries) => {
                let texts = entries.iter().filter_map(|entry| file.entry(*entry));
                texts.collect()
            }
            Self::Whole => Vec::new(),
        }
    }
}

/// The names in a file, by tag, each with the line of its entry; 0 for entries that were not read. Usernames of entries
/// that were read are here a second time without letter case, unless that is the name itself.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<Tag, usize>);

impl Names {
    fn contains(&self, name: &Tag) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn list(&self, sought: Sought<'_>, tags: Tags<'_>) -> bool {
        match sought {
            Sought::Object(object) => self.contains(&tags.name(object)),
            Sought::User(username) => {
                let folded = ObjectName::new(ObjectKind::User, username.folded());
                self.contains(&tags.name(&folded)) || self.contains(&tags.folded(username))
            }
        }
    }

    /// True if all names of `file` are known and are among these names. The names of a file that was read as a whole are
    /// unknown.
    pub(super) fn contain(&self, file: &AppliedFile) -> bool {
        let mut entries = file.entries.iter();
        file.is_settled && entries.len() > 0 && entries.all(|(_, name)| self.contains(name))
    }
}

#[derive(Debug, Default)]
pub(super) struct Survey {
    /// The parts with the changed entries: users before clients. Never empty.
    pub(super) parts: Vec<Part>,
    pub(super) changed: usize,
    pub(super) unchanged: Vec<(Tag, Tag)>,
    pub(super) names: Names,
    pub(super) warnings: Vec<Problem>,
}

/// Checks `file`. Reads only the entries that are not in `applied`, unless there is a problem: a message may name the
/// place of another entry.
///
/// # Errors
/// [`InvalidDocument`] with every problem, or an error of the store.
pub(super) async fn survey(
    file: &RegistrationsFile,
    applied: Option<&AppliedFile>,
    tags: Tags<'_>,
    store: &dyn Store,
    config: &Config,
    now: Timestamp,
) -> anyhow::Result<Survey> {
    let attempts = [(applied, false), (None, false), (None, true)];
    for (applied, is_whole) in attempts {
        let (mut survey, changed) = Survey::of(file, applied, tags);
        survey.changed = changed.len();
        survey.parts = if is_whole {
            vec![Part::Whole]
        } else {
            let parts = changed.chunks(PART);
            parts.map(|part| Part::Entries(part.to_vec())).collect()
        };
        match survey.check(file, tags, store, config, now).await? {
            Checked::Right => return Ok(survey),
            Checked::Wrong(invalid) if applied.is_none() => return Err(invalid.into()),
            Checked::Wrong(_) | Checked::Inseparable => {}
        }
    }
    anyhow::bail!("the registrations file cannot be read")
}

enum Checked {
    Right,
    Wrong(InvalidDocument),
    /// The entries cannot be read apart.
    Inseparable,
}

impl Survey {
    /// Tells entries that are in `applied` from changed entries, whose numbers it returns.
    fn of(
        file: &RegistrationsFile,
        applied: Option<&AppliedFile>,
        tags: Tags<'_>,
    ) -> (Self, Vec<usize>) {
        let mut survey = Self::default();
        let entries = file.entries();
        survey.names.0.reserve(entries.len());
        let changed = entries.into_iter().filter(|entry| {
            let known = applied.zip(file.entry(*entry)).and_then(|(applied, text)| {
                let text = tags.entry(text);
                Some((text, *applied.name_of(&text)?))
            });
            let Some((text, name)) = known else {
                return true;
            };
            // The second of two equal entries is a problem, which is found by reading.
            let is_second = survey.names.0.insert(name, 0).is_some();
            if !is_second {
                survey.unchanged.push((text, name));
            }
            is_second
        });
        let changed = changed.collect();
        (survey, changed)
    }

    async fn check(
        &mut self,
        file: &RegistrationsFile,
        tags: Tags<'_>,
        store: &dyn Store,
        config: &Config,
        now: Timestamp,
    ) -> anyhow::Result<Checked> {
        let problems = Problems::default();
        let mut misfits = Vec::new();
        let parts = std::mem::take(&mut self.parts);
        for (number, part) in parts.iter().enumerate() {
            let Some(draft) = part.draft(file, now) else {
                return Ok(Checked::Inseparable);
            };
            let stored = store.excerpt(draft.names()).await?;
            self.note_names(&draft, file, tags);
            let is_listed = |sought: Sought<'_>| self.names.list(sought, tags);
            match draft.check_part(&stored, is_listed) {
                Ok(registrations) => {
                    let place = |object: &ObjectName| {
                        let line = self.names.0.get(&tags.name(object))?;
                        Some(file.line(*line))
                    };
                    let has_legacy = !config.legacy_instances.is_empty()
                        || !stored.legacy_instances().is_empty();
                    misfits.extend(planning::misfits_of(
                        &registrations,
                        place,
                        has_legacy,
                        &config.protocol,
                    ));
                    let instances = &config.legacy_instances;
                    let is_known = |host: &str| is_instance(host, instances, &stored);
                    let unserved = registrations.unserved(is_known, config.mutual_tls.is_some());
                    self.warnings.extend(unserved.map(|(_, warning)| warning));
                    self.warnings.extend(registrations.warnings);
                }
                Err(invalid) => problems.extend(invalid),
            }
            progress("compared", number, self.changed);
        }
        self.parts = parts;
        self.warnings.sort();
        Ok(match problems.none_or(()) {
            Ok(()) if !misfits.is_empty() => anyhow::bail!("{}", misfits.join("\n")),
            Ok(()) => Checked::Right,
            Err(invalid) => Checked::Wrong(invalid),
        })
    }

    /// Reports names that an earlier part has.
    fn note_names(
        &mut self,
        draft: &Draft<Registrations>,
        file: &RegistrationsFile,
        tags: Tags<'_>,
    ) {
        let folded = self.spellings(draft, file, tags);
        for (kind, name, place) in draft.places() {
            match self.names.0.entry(tags.name(&ObjectName::new(kind, name))) {
                Entry::Vacant(entry) => {
                    entry.insert(place.line().unwrap_or_default());
                }
                Entry::Occupied(first) => {
                    let key = match kind {
                        ObjectKind::Client => "client_id",
                        ObjectKind::User | ObjectKind::LegacyInstance => "username",
                    };
                    let first = file.line(*first.get());
                    draft.report(place, format!("{key}: {name} is already at {first}"));
                }
            }
        }
        self.names.0.extend(folded);
    }

    /// Reports usernames that differ from a name of an earlier part in letter case alone; the draft itself compares the
    /// names of one part. Returns the tags of the names that are not folded.
    fn spellings(
        &self,
        draft: &Draft<Registrations>,
        file: &RegistrationsFile,
        tags: Tags<'_>,
    ) -> Vec<(Tag, usize)> {
        let mut folded = Vec::new();
        for (kind, name, place) in draft.places() {
            let object = ObjectName::new(kind, name);
            let username = (kind == ObjectKind::User).then(|| Username::parse(name));
            let Some(username) = username.flatten() else {
                continue;
            };
            if self.names.contains(&tags.name(&object)) {
                continue;
            }
            let other = tags.folded(&username);
            let mut alike = self.names.0.get(&other);
            if let Cow::Owned(name) = username.folded() {
                alike = alike.or(self.names.0.get(&tags.name(&ObjectName::new(kind, name))));
                folded.push((other, place.line().unwrap_or_default()));
            }
            if let Some(first) = alike {
                let first = file.line(*first);
                let message = format!(
                    "username: {name} differs from the name at {first} in letter case alone: keep one of the two"
                );
                draft.report(place, message);
            }
        }
        folded
    }
}

/// True if the configuration or the store has a legacy instance with this host name.
pub(super) fn is_instance(host: &str, configured: &[LegacyInstance], stored: &Excerpt) -> bool {
    let mut instances = configured.iter().chain(stored.legacy_instances());
    instances.any(|instance| instance.hostname == host)
}

/// Logs the progress after the part `number` of `all` entries.
pub(super) fn progress(what: &str, number: usize, all: usize) {
    let done = (number + 1) * PART;
    if done.is_multiple_of(PROGRESS) && done < all {
        tracing::info!("registrations {what}: {done} of {all}");
    }
}
