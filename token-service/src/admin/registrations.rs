//! Changing the registry: a registrations document is compared with what is there, and the difference is made at once.

use std::sync::Arc;

use super::views::Applied;
use super::{AdminError, Administration, Object};
use crate::audit::Entry;
use crate::registry::Registry;
use crate::registry::apply::{Difference, DifferenceKind, Kept, Plan};
use crate::registry::registrations::{Completeness, Registrations};
use crate::sign_in::protection::AtRest;
use crate::store::AuditAction;

/// What to do about clients and users that a document does not list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unlisted {
    /// They stay.
    Keep,
    /// They go, and what was issued to them is revoked.
    Remove,
}

/// Whether to do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// Do it.
    Real,
    /// Only say what it would do.
    Dry,
}

impl Administration<'_> {
    /// Makes the registry what `document` says: an object with the lists `clients` and `users`. Applying it again changes
    /// nothing.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] with every problem, [`AdminError::DoesNotFit`], or a failure; nothing was changed then.
    pub async fn apply(
        &self,
        document: Object,
        unlisted: Unlisted,
        run: Run,
    ) -> Result<Applied, AdminError> {
        let _turn = self.service.registry_turn().await;
        let stored = self.service.registry();
        let now = self.service.clock.now();
        let registrations = Registrations::from_json(document, &stored, Completeness::Whole, now)?;
        let warnings = registrations.warnings.iter();
        let warnings = warnings.map(ToString::to_string).collect();
        let kept = Kept::of(&registrations);
        let mut plan = self.plan(registrations, &stored).await?;
        if unlisted == Unlisted::Remove {
            plan.prune(&kept, &stored);
        }
        let differences = match run {
            Run::Dry => {
                self.refuse_misfits(&plan, &stored)?;
                plan.differences
            }
            Run::Real => self.carry_out(plan, &stored).await?,
        };
        Ok(Applied {
            differences: differences.iter().map(ToString::to_string).collect(),
            warnings,
            dry_run: run == Run::Dry,
        })
    }

    /// Compares; passwords are hashed on the way, away from the async workers.
    pub(super) async fn plan(
        &self,
        registrations: Registrations,
        stored: &Arc<Registry>,
    ) -> Result<Plan, AdminError> {
        let (service, stored) = (Arc::clone(self.service), Arc::clone(stored));
        let plan = tokio::task::spawn_blocking(move || {
            Plan::new(registrations, &stored, &AtRest(&service.encryption_key))
        });
        let plan = plan
            .await
            .map_err(|error| AdminError::Internal(error.to_string()))?;
        Ok(plan?)
    }

    /// Makes the change, with its consequences and its entries in the audit log.
    pub(super) async fn carry_out(
        &self,
        plan: Plan,
        stored: &Registry,
    ) -> Result<Vec<Difference>, AdminError> {
        self.refuse_misfits(&plan, stored)?;
        if plan.differences.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.service.clock.now();
        self.service.store.change_registry(plan.change, now).await?;
        self.service.reload_registry().await?;
        for difference in &plan.differences {
            self.service.record(self.origin, entry(difference));
        }
        Ok(plan.differences)
    }

    fn refuse_misfits(&self, plan: &Plan, stored: &Registry) -> Result<(), AdminError> {
        let misfits = plan.legacy_misfits(&self.service.config.api_audience, stored);
        if misfits.is_empty() {
            return Ok(());
        }
        let lines = misfits.iter().map(ToString::to_string).collect();
        Err(AdminError::DoesNotFit(lines))
    }
}

fn entry(difference: &Difference) -> Entry {
    let (added, changed, removed) = match difference.what {
        "client" => (
            AuditAction::ClientCreated,
            AuditAction::ClientUpdated,
            AuditAction::ClientDeleted,
        ),
        "user" => (
            AuditAction::UserCreated,
            AuditAction::UserUpdated,
            AuditAction::UserDeleted,
        ),
        _ => (
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
    let entry = Entry::new(action).by_administrator();
    let fields = match &difference.kind {
        DifferenceKind::Changed(fields) => fields.join(", "),
        DifferenceKind::Added | DifferenceKind::Removed => String::new(),
    };
    let name = &difference.name;
    match (difference.what, fields.is_empty()) {
        ("client", true) => entry.client(name),
        ("client", false) => entry.client(name).detail(fields),
        ("user", true) => entry.user(name),
        ("user", false) => entry.user(name).detail(fields),
        (_, true) => entry.detail(name),
        (_, false) => entry.detail(format!("{name}: {fields}")),
    }
}
