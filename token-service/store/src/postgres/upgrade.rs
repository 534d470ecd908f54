//! The end of an upgrade: the layout in use becomes the newest.

use std::fmt;

use super::audit;
use super::fault::{Fault, in_time};
use super::operation::Connection;
use super::replicas::{self, RunningReplica};
use super::schema::{self, SchemaError};
use super::settings::PostgresSettings;
use super::{OpenError, failed, pooler};
use domain::{AuditEvent, Layout};

/// How far the upgrade of a database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upgrade {
    /// The layout in use.
    pub layout: Layout,
    /// The layout that a finish puts into use.
    pub newest: Layout,
    /// The services that run, sorted by host.
    pub replicas: Vec<RunningReplica>,
}

impl Upgrade {
    /// The services that do not know the newest layout.
    pub fn earlier(&self) -> impl Iterator<Item = &RunningReplica> {
        let newest = u64::from(self.newest.number());
        let replicas = self.replicas.iter();
        replicas.filter(move |replica| replica.layout < newest)
    }
}

/// Why the upgrade is not finished. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum FinishError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(
        "services of an earlier version run: {}. Replace or stop them. A service that crashed counts as running for {} \
         seconds",
        Listed(.0), replicas::SILENCE.as_secs()
    )]
    Earlier(Vec<RunningReplica>),
}

struct Listed<'a>(&'a [RunningReplica]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, replica) in self.0.iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            let (host, version) = (&replica.host, &replica.version);
            write!(formatter, "{separator}{host} ({version})")?;
        }
        Ok(())
    }
}

/// Reads how far the upgrade of a database is.
///
/// # Errors
/// An [`OpenError`].
pub async fn upgrade(settings: &PostgresSettings) -> Result<Upgrade, OpenError> {
    match run(settings, Layout::NEWEST, None).await {
        Ok(upgrade) => Ok(upgrade),
        Err(FinishError::Open(error)) => Err(error),
        Err(refused) => Err(failed(settings, refused)),
    }
}

/// Makes the newest layout the layout in use, unless a service runs that does not know the newest layout. Returns the
/// state before. Earlier versions refuse the database from now on. If the layout changes, the same transaction appends
/// `audit`, made from the layout before, to the audit log.
///
/// # Errors
/// A [`FinishError`].
pub async fn finish_upgrade(
    settings: &PostgresSettings,
    audit: &Audit<'_>,
) -> Result<Upgrade, FinishError> {
    run(settings, Layout::NEWEST, Some(audit)).await
}

/// Makes the audit entry about the end of an upgrade from this layout.
type Audit<'a> = dyn Fn(Layout) -> AuditEvent + 'a;

pub(super) async fn run(
    settings: &PostgresSettings,
    newest: Layout,
    finish: Option<&Audit<'_>>,
) -> Result<Upgrade, FinishError> {
    let fault = |fault: Fault| failed(settings, SchemaError::from(fault));
    let (_, mut client) = pooler::connect(settings).await?;
    let transaction = (client.transaction().await).map_err(|error| fault(error.into()))?;
    let connection = Connection::Transaction(&transaction);
    // Locks the layout: a service that starts now waits, and then finds the layout of the finish.
    let layout = (schema::lock(&connection).await).map_err(|error| failed(settings, error))?;
    let replicas = replicas::running(&connection).await.map_err(fault)?;
    let upgrade = Upgrade {
        layout,
        newest,
        replicas,
    };
    if let Some(event) = finish
        && layout < newest
    {
        let earlier: Vec<RunningReplica> = upgrade.earlier().cloned().collect();
        if !earlier.is_empty() {
            return Err(FinishError::Earlier(earlier));
        }
        let set = schema::set_layout(&connection, newest);
        set.await.map_err(fault)?;
        let events = [event(layout)];
        audit::append(&connection, &events).await.map_err(fault)?;
        in_time(transaction.commit()).await.map_err(fault)?;
    }
    Ok(upgrade)
}
