//! Merges a file into the registry (D-27). A value that changed in the file since the file was last applied is taken
//! from the file. A value that a command changed since then stays. The decision depends only on values.

mod fields;
mod past;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde_json::Value;

use super::difference::{FieldChange, is_secret, text};
use super::{Plan, protect};
use crate::describe::values::{Values, read_stored, stored};
use crate::describe::{Registered, Registration, Rule};
use crate::protection::{Hidden, Protection, ProtectionError};
use crate::registrations::Registrations;
use domain::legacy_instance::LegacyInstance;
use domain::remembered::{Made, ObjectName, Remembered, Said};
use domain::{Client, Excerpt, Username};
use fields::{made_of, merge_secret, merged, single};
use past::Past;

pub use past::Occasion;

/// A difference that stays, because the registry takes precedence over the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub object: ObjectName,
    /// The field; `None` if the whole object stays as it is, removed for example.
    pub field: Option<&'static str>,
    /// Whether the file changed here since it was last applied, or was never applied. Then the difference was not
    /// reported before.
    pub conflict: bool,
    /// What stays, for people.
    pub(super) text: String,
}

impl fmt::Display for Kept {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectName { kind, name } = &self.object;
        write!(formatter, "! {} {name}: {}", kind.name(), self.text)
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
        let mut plan = Self::on(stored);
        let mut merge = Merge::new(&mut plan, stored, occasion, protection);
        for user in file.users {
            merge.object(user)?;
        }
        let put_users = merge.plan.change.put_users.iter();
        let put_users: HashMap<String, Username> = put_users
            .map(|user| (user.username.folded().into_owned(), user.username.clone()))
            .collect();
        for client in file.clients {
            merge.client(client, &put_users)?;
        }
        plan.kept
            .sort_by(|one, other| one.object.cmp(&other.object));
        plan.sort();
        Ok(plan)
    }

    /// Merges the changes of the configuration's legacy instances since the last start. `stored` contains what is
    /// remembered of them.
    pub fn merge_legacy_instances(
        &mut self,
        instances: &[LegacyInstance],
        stored: &Excerpt,
        protection: &dyn Protection,
    ) -> Result<(), ProtectionError> {
        let mut merge = Merge::new(self, stored, Occasion::Start, protection);
        let mut instances = instances.iter().cloned().map(Registration::of);
        instances.try_for_each(|instance| merge.object(instance))
    }
}

struct Merge<'a> {
    plan: &'a mut Plan,
    stored: &'a Excerpt,
    remembered: HashMap<&'a ObjectName, &'a Remembered>,
    occasion: Occasion,
    protection: &'a dyn Protection,
}

impl<'a> Merge<'a> {
    fn new(
        plan: &'a mut Plan,
        stored: &'a Excerpt,
        occasion: Occasion,
        protection: &'a dyn Protection,
    ) -> Self {
        let remembered = stored.remembered().iter();
        Self {
            plan,
            stored,
            remembered: remembered.map(|one| (&one.object, one)).collect(),
            occasion,
            protection,
        }
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
        let Some(name) = bound_user.filter(|name| registered(name).is_none()) else {
            return self.object(file);
        };
        let text = format!("stays as it is; its bound_user {name} stays removed");
        let object = file.object.object_name();
        self.plan.postponed.push(object.clone());
        self.plan.keep(object, None, true, text);
        Ok(())
    }

    fn object<T: Registered>(&mut self, file: Registration<T>) -> Result<(), ProtectionError> {
        let object = file.object.object_name();
        if let Occasion::Import { overwrites } = self.occasion {
            return self.import(file, overwrites);
        }
        let past = Past {
            remembered: self.remembered.get(&object).copied(),
            occasion: self.occasion,
        };
        let overwrites = self.occasion == Occasion::Overwrite;
        let files = Values::of(&file.object);
        let said = said(&file, &files, self.protection);
        let made = past.remembered.map(|one| one.made.clone());
        let mut made = made.unwrap_or_default();
        match T::find(self.stored, &object.name) {
            None if past.remembered.is_some() && !overwrites => {
                let is_unchanged = said
                    .iter()
                    .all(|(field, elements)| past.said(field).contains(&elements.as_slice()));
                let text = "stays removed".to_owned();
                self.plan.keep(object.clone(), None, !is_unchanged, text);
            }
            Some(before) if !overwrites => self.merge(past, &file, &files, before, &mut made)?,
            before => {
                let registered = protect(file, before, self.protection)?;
                if let Some(user) = registered.user() {
                    let tags = said
                        .iter()
                        .filter_map(|(field, tag)| Some((field, tag.first()?)));
                    made.extend(tags.filter_map(|(field, tag)| made_of(user, field, &tag.value)));
                }
                self.plan.put(registered, before);
            }
        }
        let next = past.next(object, said, made);
        if past.remembered != Some(&next) {
            self.plan.change.remember.push(next);
        }
        Ok(())
    }

    /// Adds an object of another server. A registered object stays, because it may be another one of the same name (D-52).
    fn import<T: Registered>(
        &mut self,
        file: Registration<T>,
        overwrites: bool,
    ) -> Result<(), ProtectionError> {
        let object = file.object.object_name();
        let is_managed = self.remembered.contains_key(&object);
        let before = T::find(self.stored, &object.name);
        if is_managed && before.is_none() {
            let text = "stays removed; a registrations file lists it".to_owned();
            self.plan.keep(object, None, false, text);
            return Ok(());
        }
        let after = protect(file, before, self.protection)?;
        let after = match before {
            Some(before) => suspended_like(before, after),
            None => after,
        };
        let Some(before) = before.filter(|_| is_managed || !overwrites) else {
            self.plan.put(after, before);
            return Ok(());
        };
        let changes = FieldChange::between(&Values::of(before), &Values::of(&after));
        if !changes.is_empty() {
            let fields: Vec<&str> = changes.iter().map(|change| change.field).collect();
            let why = match is_managed {
                true => "a registrations file lists it",
                false => "it is registered",
            };
            let text = format!("stays, because {why}; other {}", fields.join(", "));
            self.plan.keep(object, None, false, text);
        }
        Ok(())
    }

    /// Merges an object that is stored. Adds the stored forms of its secrets to `made`.
    fn merge<T: Registered>(
        &mut self,
        past: Past<'_>,
        file: &Registration<T>,
        files: &[Values],
        before: &T,
        made: &mut BTreeMap<String, Made>,
    ) -> Result<(), ProtectionError> {
        let found = Values::of(before);
        let (mut merged, conflicts) = merged(past, (&file.object, files), (before, &found));
        let mut secrets = Vec::new();
        if let Some(user) = merged.user_mut() {
            for given in &file.hidden {
                let differs = merge_secret(past, given, user, made, self.protection)?;
                secrets.extend(differs.map(|conflict| (given.field(), conflict, None)));
            }
        }
        let after = Values::of(&merged);
        let changes = FieldChange::between(&found, &after);
        let object = merged.object_name();
        self.plan.put_changed(merged, Some(changes));
        let pairs = files.iter().zip(&after);
        let fields = pairs
            .filter(|(file, after)| differ(file, after))
            .map(|(file, after)| {
                let values = (!is_secret(file)).then(|| (text(after), text(file)));
                (file.field.key, conflicts.contains(file.field.key), values)
            });
        for (field, conflict, values) in fields.chain(secrets) {
            let text = match values {
                Some((after, file)) => format!("{field} stays {after}; the file says {file}"),
                None => format!("{field} stays; the file has another"),
            };
            self.plan.keep(object.clone(), Some(field), conflict, text);
        }
        Ok(())
    }
}

/// `after`, disabled if `before` is: whom an operator has suspended, a table of another server does not bring back (D-27).
fn suspended_like<T: Registered>(before: &T, after: T) -> T {
    let found = Values::of(before);
    let Some(suspended) = found.iter().find_map(|one| {
        let item = one.items.first()?;
        let is_suspended = one.field.rule == Rule::Enabled && item.stored == Value::Bool(false);
        is_suspended.then_some((one.field, item))
    }) else {
        return after;
    };
    let (field, item) = suspended;
    let mut merged = stored(&after);
    field.set(&mut merged, &[item]);
    read_stored(merged).unwrap_or(after)
}

/// The content of the file for an object, to be remembered: fields, and tags of secrets.
fn said<T: Registered>(
    file: &Registration<T>,
    files: &[Values],
    protection: &dyn Protection,
) -> Said {
    let elements = |one: &Values| one.items.iter().map(|item| item.element.clone()).collect();
    // The object contains no stored forms, so these are the fields of the file.
    let fields = files.iter();
    let mut said: Said = fields
        .map(|one| (one.field.key.to_owned(), elements(one)))
        .collect();
    if let Some(user) = file.object.user() {
        let tag = |given: &Hidden| vec![single(&given.tag(&user.username, protection))];
        let hidden = file.hidden.iter();
        said.extend(hidden.map(|given| (given.field().to_owned(), tag(given))));
    }
    said
}

/// True if `after` differs from the file in more than the order. A secret of the file that equals one of two live secrets
/// is no difference. Secrets that are stored in a protected form are compared in another way.
fn differ(file: &Values, after: &Values) -> bool {
    let has =
        |one: &Values, other: &Values| other.items.iter().all(|item| one.items.contains(item));
    match file.field.rule {
        Rule::Hidden => false,
        Rule::ClientSecrets if !file.items.is_empty() => !has(after, file),
        _ => !has(after, file) || !has(file, after),
    }
}
