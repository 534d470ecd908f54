//! Merges a file into the registry (D-27). A value that changed in the file since the file was last applied is taken
//! from the file. A value that a command changed since then stays. The decision depends only on values.

mod fields;
mod past;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::difference::{FieldChange, is_secret, text};
use super::{Plan, protect, secrets};
use crate::describe::values::Values;
use crate::describe::{Registered, Registration};
use crate::protection::{Protected, Protection, ProtectionError};
use crate::registrations::Registrations;
use domain::legacy_instance::LegacyInstance;
use domain::remembered::{Element, Made, ObjectName, Remembered, Said};
use domain::{Client, Excerpt, Username};
use fields::{Merger, single};
use past::Past;

pub use past::Occasion;

/// A difference that stays, because the registry takes precedence over the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub object: ObjectName,
    /// The field; `None` if a command removed the object and the object stays removed.
    pub field: Option<&'static str>,
    /// Whether the file changed here since it was last applied, or was never applied. Then the difference was not
    /// reported before.
    pub conflict: bool,
    /// The kept value and the file's value as text; `None` for secrets.
    pub values: Option<String>,
}

impl Kept {
    /// True if the object was not compared with the file.
    pub(super) const fn is_postponed(&self) -> bool {
        self.field.is_none() && self.values.is_some()
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectName { kind, name } = &self.object;
        write!(formatter, "! {} {name}: ", kind.name())?;
        match (self.field, &self.values) {
            (None, None) => formatter.write_str("stays removed"),
            (None, Some(reason)) => formatter.write_str(reason),
            (Some(field), Some(values)) => write!(formatter, "{field} stays {values}"),
            (Some(field), None) => write!(formatter, "{field} stays; the file has another"),
        }
    }
}

struct Merge<'a> {
    plan: Plan,
    stored: &'a Excerpt,
    remembered: HashMap<&'a ObjectName, &'a Remembered>,
    occasion: Occasion,
    protection: &'a dyn Protection,
}

impl<'a> Merge<'a> {
    fn new(stored: &'a Excerpt, occasion: Occasion, protection: &'a dyn Protection) -> Self {
        let remembered = stored.remembered().iter();
        Self {
            plan: Plan::on(stored),
            stored,
            remembered: remembered.map(|one| (&one.object, one)).collect(),
            occasion,
            protection,
        }
    }

    fn registrations(mut self, file: Registrations) -> Result<Plan, ProtectionError> {
        for user in file.users {
            self.object(user)?;
        }
        let put_users = self.plan.change.put_users.iter();
        let put_users: HashMap<String, Username> = put_users
            .map(|user| (user.username.folded().into_owned(), user.username.clone()))
            .collect();
        for client in file.clients {
            self.client(client, &put_users)?;
        }
        let kept = &mut self.plan.kept;
        kept.sort_by(|one, other| one.object.cmp(&other.object));
        self.plan.sort();
        Ok(self.plan)
    }

    fn legacy_instances(mut self, instances: &[LegacyInstance]) -> Result<Plan, ProtectionError> {
        for instance in instances {
            self.object(Registration::of(instance.clone()))?;
        }
        Ok(self.plan)
    }

    /// A client whose bound user stays removed is not changed.
    fn client(
        &mut self,
        mut file: Registration<Client>,
        put_users: &HashMap<String, Username>,
    ) -> Result<(), ProtectionError> {
        let registered = |name: &Username| match self.stored.user(name) {
            Some(user) => Some(user.username.clone()),
            None => put_users.get(&*name.folded()).cloned(),
        };
        file.object.spell_bound_user(registered);
        let bound_user = file.object.bound_user();
        match bound_user.filter(|name| registered(name).is_none()) {
            Some(name) => {
                let reason = format!("stays as it is; its bound_user {name} stays removed");
                self.plan.kept.push(Kept {
                    object: file.object.object_name(),
                    field: None,
                    conflict: true,
                    values: Some(reason),
                });
                Ok(())
            }
            None => self.object(file),
        }
    }

    fn object<T: Registered>(&mut self, file: Registration<T>) -> Result<(), ProtectionError> {
        let object = file.object.object_name();
        let past = Past {
            remembered: self.remembered.get(&object).copied(),
            occasion: self.occasion,
        };
        let overwrites = self.occasion == Occasion::Overwrite;
        let files = Values::of(&file.object);
        let said = said(&file, &files, self.protection);
        let before = T::find(self.stored, &object.name);
        let made = match before {
            None if past.remembered.is_some() && !overwrites => {
                self.keep_removed(&object, past, &said);
                past.made()
            }
            Some(before) if !overwrites => self.merge(&object, past, &file, &files, before)?,
            before => {
                let registered = protect(file, before, self.protection)?;
                let mut made = past.made();
                made.extend(made_of(&registered, &said));
                self.plan.put(registered, before);
                made
            }
        };
        let next = past.next(object, said, made);
        if past.remembered != Some(&next) {
            self.plan.change.remember.push(next);
        }
        Ok(())
    }

    /// Merges an object that is stored. Returns the stored forms of its secrets, to be remembered.
    fn merge<T: Registered>(
        &mut self,
        object: &ObjectName,
        past: Past<'_>,
        file: &Registration<T>,
        files: &[Values],
        before: &T,
    ) -> Result<BTreeMap<String, Made>, ProtectionError> {
        let mut merger = Merger::new(past);
        let found = Values::of(before);
        let mut merged = merger.object(&file.object, before, files, &found);
        let mut made = past.made();
        let mut others = Vec::new();
        if let Some((before, user)) = before.user().zip(merged.user_mut()) {
            for (field, given) in &file.hidden {
                let settled = merger.secret(field, given, before, self.protection)?;
                if !settled.is_files {
                    others.push(*field);
                }
                made.extend(settled.made.map(|made| ((*field).to_owned(), made)));
                if let Some(kept) = settled.kept {
                    kept.store_in(user);
                }
            }
        }
        let hidden: Vec<_> = secrets::<T>().collect();
        let mut after = Values::of(&merged);
        self.plan
            .put_changed(merged, Some(FieldChange::between(&found, &after)));
        live_secret_is_files(files, &mut after);
        let shown = files.iter().zip(&after);
        // Hidden secrets were already compared above.
        for (files, after) in shown.filter(|(files, _)| !hidden.contains(&files.field.key)) {
            let is_conflict = merger.conflicts.contains(files.field.key);
            self.keep(object, files, after, is_conflict);
        }
        for field in others {
            self.plan.kept.push(Kept {
                object: object.clone(),
                field: Some(field),
                conflict: merger.conflicts.contains(field),
                values: None,
            });
        }
        Ok(made)
    }

    fn keep_removed(&mut self, object: &ObjectName, past: Past<'_>, said: &Said) {
        let unchanged = |(field, elements): (&String, &Vec<Element>)| {
            past.said(field).contains(&elements.as_slice())
        };
        self.plan.kept.push(Kept {
            object: object.clone(),
            field: None,
            conflict: !said.iter().all(unchanged),
            values: None,
        });
    }

    /// Records a difference between `after` and the file.
    fn keep(&mut self, object: &ObjectName, file: &Values, after: &Values, conflict: bool) {
        let is_other = |one: &Values, other: &Values| {
            let mut items = one.items.iter();
            items.any(|item| !other.items.contains(item))
        };
        if !is_other(file, after) && !is_other(after, file) {
            return;
        }
        let values = || format!("{}; the file says {}", text(after), text(file));
        self.plan.kept.push(Kept {
            object: object.clone(),
            field: Some(file.field.key),
            conflict,
            values: (!is_secret(file)).then(values),
        });
    }
}

/// The content of the file for an object, to be remembered: fields, and tags of secrets.
fn said<T: Registered>(
    file: &Registration<T>,
    files: &[Values],
    protection: &dyn Protection,
) -> Said {
    let elements = |one: &Values| one.items.iter().map(|item| item.element.clone()).collect();
    // The object contains no stored forms, so these are the fields of the file.
    let values = files.iter();
    let mut said: Said = values
        .map(|values| (values.field.key.to_owned(), elements(values)))
        .collect();
    if let Some(user) = file.object.user() {
        let hidden = file.hidden.iter();
        said.extend(hidden.map(|(field, given)| {
            let tag = given.tag(&user.username, protection);
            ((*field).to_owned(), vec![single(&tag)])
        }));
    }
    said
}

/// The digests of the stored forms that `object` got from the file, with the tags of the file's secrets.
fn made_of<T: Registered>(object: &T, said: &Said) -> BTreeMap<String, Made> {
    let made = secrets::<T>().filter_map(|field| {
        let value = said.get(field)?.first()?.value.clone();
        let digest = Protected::of(object.user()?, field)?.digest();
        Some((field.to_owned(), Made { value, digest }))
    });
    made.collect()
}

/// A secret of the file that equals one of two live secrets is not reported as a difference.
fn live_secret_is_files(file: &[Values], after: &mut [Values]) {
    for (file, after) in file.iter().zip(after) {
        let mut said = file.items.iter();
        if is_secret(file)
            && !file.items.is_empty()
            && said.all(|secret| after.items.contains(secret))
        {
            after.items.clone_from(&file.items);
        }
    }
}

impl Plan {
    /// Merges the changes in `file` since it was last applied into `stored` (D-27). `stored` contains the names in
    /// `file`, as far as they are registered or remembered.
    pub fn merge(
        file: Registrations,
        stored: &Excerpt,
        occasion: Occasion,
        protection: &dyn Protection,
    ) -> Result<Self, ProtectionError> {
        Merge::new(stored, occasion, protection).registrations(file)
    }

    /// Merges the changes of the configuration's legacy instances since the last start. `stored` contains what is
    /// remembered of them.
    pub fn merge_legacy_instances(
        &mut self,
        instances: &[LegacyInstance],
        stored: &Excerpt,
        protection: &dyn Protection,
    ) -> Result<(), ProtectionError> {
        let merge = Merge::new(stored, Occasion::Start, protection);
        let plan = merge.legacy_instances(instances)?;
        let change = plan.change;
        self.change
            .put_legacy_instances
            .extend(change.put_legacy_instances);
        self.change.remember.extend(change.remember);
        self.differences.extend(plan.differences);
        self.kept.extend(plan.kept);
        Ok(())
    }
}
