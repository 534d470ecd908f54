//! The connection of an attempt.

use std::time::Instant;

use deadpool::managed::PoolError;
use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt as _, StreamExt as _, TryFutureExt as _};
use tokio_postgres::Row;

use super::connection::{Client, Pool};
use super::fault::{Fault, in_time};
use super::statements::Statement;

/// Number of prepared statements of a connection from which on they are forgotten. The server has a plan of each in its memory, and
/// there are as many as sets of tables that operations use together.
const FORMS: usize = 256;

/// What an attempt sent to the database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) round_trips: u32,
    pub(super) statements: u32,
}

impl Sent {
    pub(super) const fn add(&mut self, more: Self) {
        self.round_trips += more.round_trips;
        self.statements += more.statements;
    }
}

/// A connection of the pool. Closed if the attempt is dropped within a transaction, whose locks would stay otherwise.
pub(super) struct Lease {
    client: Option<Client>,
    is_open: bool,
    pub(super) sent: Sent,
}

impl Lease {
    pub(super) async fn new(pool: &Pool) -> Result<Self, Fault> {
        Ok(Self {
            client: Some(pool.get().await?),
            is_open: false,
            sent: Sent::default(),
        })
    }

    /// True within a transaction.
    pub(super) const fn is_open(&self) -> bool {
        self.is_open
    }

    /// Sends statements, with the begin of a transaction before and its commit behind, in one round trip. Returns the rows of each
    /// statement. A statement that fails rolls the transaction back, if this ends it.
    pub(super) async fn exchange(
        &mut self,
        begin: Option<&'static str>,
        statements: &[Statement<'_>],
        commit: bool,
    ) -> Result<Vec<Result<Vec<Row>, Fault>>, Fault> {
        let client = self.client.as_ref().ok_or(PoolError::Closed)?;
        if client.statement_cache.size() > FORMS {
            client.statement_cache.clear();
        }
        let mut prepared = Vec::with_capacity(statements.len());
        for statement in statements {
            prepared.push(in_time(client.prepare_cached(&statement.sql)).await?);
        }
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        self.sent.round_trips += 1;
        self.sent.statements +=
            number(statements.len()) + u32::from(begin.is_some()) + u32::from(commit);
        self.is_open |= begin.is_some();
        let command = |sql| client.batch_execute(sql).map_ok(|()| Vec::new()).boxed();
        let queries = statements.iter().zip(&prepared);
        let queries = queries.map(|(statement, prepared)| {
            async move { client.query(prepared, &statement.values()).await }.boxed()
        });
        // Each of these futures sends its message when it is polled first, in this order, and then waits for the answer.
        let all = begin.map(command).into_iter().chain(queries);
        let mut sent: FuturesOrdered<_> = all.chain(commit.then(|| command("COMMIT"))).collect();
        let mut answers = Vec::with_capacity(sent.len());
        while let Some(answer) = in_time(sent.next().map(Ok)).await? {
            answers.push(answer);
        }
        let committed = if commit { answers.pop() } else { None };
        if commit {
            self.is_open = false;
        }
        if begin.is_some() {
            answers.remove(0)?;
        }
        // The commit of a transaction in which a statement failed is a rollback.
        if answers.iter().all(Result::is_ok) {
            committed.transpose()?;
        }
        let answers = answers.into_iter();
        Ok(answers.map(|answer| answer.map_err(Fault::from)).collect())
    }

    /// Ends a transaction that has written nothing, without waiting for the answer: what uses the connection next comes after
    /// it.
    pub(super) fn leave(&mut self) {
        if let Some(client) = self.client.as_ref().filter(|_| self.is_open) {
            let left = client.batch_execute("COMMIT").now_or_never();
            // An answer that is here already is an error: the connection is gone.
            self.is_open = left.is_some();
        }
    }

    pub(super) async fn roll_back(&mut self) -> Result<(), Fault> {
        if let Some(client) = self.client.as_ref().filter(|_| self.is_open) {
            self.sent.round_trips += 1;
            in_time(client.batch_execute("ROLLBACK")).await?;
            self.is_open = false;
        }
        Ok(())
    }

    /// Closes the connection after a fault, and the idle ones of the pool if no operation may use them any more.
    pub(super) fn close(mut self, pool: &Pool, fault: &Fault) {
        if fault.ends_connections() {
            close(self.client.take(), pool);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_open
            && let Some(client) = self.client.take()
        {
            drop(Client::take(client));
        }
    }
}

/// Closes connections without a cancellation: that would make a server confirm a commit whose standby lacks it.
pub(super) fn close(client: Option<Client>, pool: &Pool) {
    drop(client.map(Client::take));
    pool.retain(|_, _| false);
}

/// Notes for the log and the metrics whether the database works.
pub(super) fn note(pool: &Pool, fault: Option<&Fault>) {
    let (outage, now) = (&pool.manager().outage, Instant::now());
    match fault {
        None => outage.succeeded(now),
        Some(fault) if fault.is_outage() => {
            outage.failed(fault, matches!(fault, Fault::Unanswered), now);
        }
        Some(_) => {}
    }
}
