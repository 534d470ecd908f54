//! The one way to change the registry: plan, hash passwords, make the change with its entries in the audit log, and plan again
//! if another change was faster.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::Mutex;

use crate::apply::Plan;
use crate::audit::entry_of;
use domain::audit_entry::Entry;
use domain::{AuditEvent, FileChange, RegistryChange, RegistryOutcome};
use secrets::protection::{Passwords, ProtectionError};
use store::StoreError;

/// Maximum number of plans for a change.
const MOST_PLANS: usize = 20;

/// The registry as a process changes it.
pub trait Registry {
    /// Held while a change is planned and made, so that changes within this process do not overtake each other.
    fn turn(&self) -> &Mutex<()>;

    /// Makes a planned change with its consequences. If the change is made, it takes effect in this process.
    fn make(
        &self,
        change: RegistryChange,
    ) -> impl Future<Output = Result<RegistryOutcome, StoreError>>;
}

/// How to make a change.
#[derive(Clone, Copy)]
pub struct How<'a> {
    /// Adds actor, origin and time to an entry of the audit log.
    pub event: &'a dyn Fn(Entry) -> AuditEvent,
    /// The passwords that the plan hashes; `None` if it hashes none.
    pub passwords: Option<&'a Arc<Passwords>>,
    /// Only plan.
    pub dry_run: bool,
}

/// A planned change, and what its caller gets when the change is made.
pub struct Edit<T> {
    pub change: RegistryChange,
    pub entries: Vec<Entry>,
    pub outcome: T,
    /// Plan again: what the plan rests on has changed.
    overtaken: bool,
}

impl Edit<Plan> {
    /// The change of `plan`, with an entry in the audit log for each difference. The outcome is the rest of the plan.
    pub fn of(plan: Plan) -> Self {
        let entries = plan.differences.iter().map(entry_of).collect();
        Self {
            entries,
            ..Self::with(plan, None)
        }
    }

    /// The change of `plan`, with these audit entries in place of one for each difference.
    pub fn with(mut plan: Plan, entries: impl IntoIterator<Item = Entry>) -> Self {
        Self {
            change: std::mem::take(&mut plan.change),
            entries: entries.into_iter().collect(),
            outcome: plan,
            overtaken: false,
        }
    }
}

impl<T> Edit<T> {
    /// No change.
    pub fn nothing(outcome: T) -> Self {
        Self {
            change: RegistryChange::default(),
            entries: Vec::new(),
            outcome,
            overtaken: false,
        }
    }

    /// No change yet: [`change`] asks for another plan.
    pub fn overtaken(outcome: T) -> Self {
        Self {
            overtaken: true,
            ..Self::nothing(outcome)
        }
    }

    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Edit<U> {
        let Self {
            change,
            entries,
            outcome,
            overtaken,
        } = self;
        Edit {
            change,
            entries,
            outcome: map(outcome),
            overtaken,
        }
    }
}

/// Why a change was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    #[error("other replicas are changing the registry at the same time: try again")]
    Overtaken,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Protection(#[from] ProtectionError),
    /// A task of the process did not complete.
    #[error("{0}")]
    Task(String),
}

/// Makes the change that `edit` plans, and returns the outcome of the plan. `edit` plans again if another replica was faster, or
/// if the plan lacks hashes of passwords. Other changes of this process wait, but not while passwords are hashed: nobody who
/// disables a user waits for that.
///
/// # Errors
/// The error of `edit`, or a [`ChangeError`]. Then nothing is changed.
pub async fn change<T, E: From<ChangeError>>(
    registry: &impl Registry,
    how: How<'_>,
    edit: impl AsyncFn() -> Result<Edit<T>, E>,
) -> Result<T, E> {
    let mut turn = registry.turn().lock().await;
    for _ in 0..MOST_PLANS {
        let planned = edit().await;
        if let Some(passwords) = how.passwords.filter(|passwords| passwords.are_wanted()) {
            drop(turn);
            compute(Arc::clone(passwords)).await?;
            turn = registry.turn().lock().await;
            continue;
        }
        let Edit {
            change,
            entries,
            outcome,
            overtaken,
        } = planned?;
        if overtaken {
            continue;
        }
        let is_nothing = change.touches().is_empty() && change.applied_file == FileChange::Keep;
        if is_nothing || how.dry_run {
            return Ok(outcome);
        }
        let change = RegistryChange {
            audit: entries.into_iter().map(how.event).collect(),
            ..change
        };
        let made = registry.make(change).await.map_err(ChangeError::Store)?;
        if made == RegistryOutcome::Changed {
            return Ok(outcome);
        }
    }
    drop(turn);
    Err(ChangeError::Overtaken.into())
}

/// Hashes passwords outside the async workers.
async fn compute(passwords: Arc<Passwords>) -> Result<(), ChangeError> {
    let done = tokio::task::spawn_blocking(move || passwords.compute()).await;
    let done = done.map_err(|error| ChangeError::Task(error.to_string()))?;
    Ok(done?)
}
