//! Entries of the audit log about changes of the registry.

use crate::apply::{Difference, DifferenceKind, FieldChange, NOBODY};
use domain::AuditAction;
use domain::audit_entry::Entry;
use domain::object::{ObjectKind, ObjectName};

/// The audit entry, without the actor, for a change that was made.
pub fn entry_of(difference: &Difference) -> Entry {
    let (added, changed, removed) = match difference.object.kind {
        ObjectKind::Client => (
            AuditAction::ClientCreated,
            AuditAction::ClientUpdated,
            AuditAction::ClientDeleted,
        ),
        ObjectKind::User => (
            AuditAction::UserCreated,
            AuditAction::UserUpdated,
            AuditAction::UserDeleted,
        ),
        ObjectKind::LegacyInstance => (
            AuditAction::LegacyInstanceCreated,
            AuditAction::LegacyInstanceUpdated,
            AuditAction::LegacyInstanceDeleted,
        ),
    };
    let action = match &difference.kind {
        DifferenceKind::Added => added,
        DifferenceKind::Changed(_) => changed,
        DifferenceKind::Removed => removed,
    };
    let changes = match &difference.kind {
        DifferenceKind::Changed(changes) => &changes[..],
        DifferenceKind::Added | DifferenceKind::Removed => &[],
    };
    // The log says who could sign in as whom, who was disabled, and which file defined what.
    let field = |change: &FieldChange| match (change.field, &change.values) {
        (field @ "managed_by", Some(values)) => {
            let command = match values.ends_with(NOBODY) {
                true => "release",
                false => "adopt",
            };
            format!("{field}: {values} ({command})")
        }
        (field @ ("enabled" | "identities" | "identities_by_email"), Some(values)) => {
            format!("{field}: {values}")
        }
        (field, _) => field.to_owned(),
    };
    let fields: Vec<String> = changes.iter().map(field).collect();
    about(action, &difference.object, &fields.join(", "))
}

fn about(action: AuditAction, object: &ObjectName, fields: &str) -> Entry {
    let entry = Entry::new(action);
    let name = &object.name;
    match (object.kind, fields.is_empty()) {
        (ObjectKind::Client, true) => entry.client(name),
        (ObjectKind::Client, false) => entry.client(name).detail(fields),
        (ObjectKind::User, true) => entry.user(name),
        (ObjectKind::User, false) => entry.user(name).detail(fields),
        (ObjectKind::LegacyInstance, true) => entry.detail(name),
        (ObjectKind::LegacyInstance, false) => entry.detail(format!("{name}: {fields}")),
    }
}
