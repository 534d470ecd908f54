//! Operations that share a statement, so that their rate does not depend on the distance to the database.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Semaphore, oneshot};
use tracing::Instrument as _;

use crate::StoreError;

/// Statements that run at the same time. Each occupies a connection.
const LANES: usize = 2;

/// Maximum number of operations in a statement.
const TOGETHER: usize = 512;

type Queued<I, O> = Vec<(I, oneshot::Sender<Result<O, StoreError>>)>;

/// Operations of one kind, with the input `I` and the outcome `O`. An operation starts at once if a lane is free.
/// Operations that arrive while all lanes are busy start together.
pub(super) struct Gathered<I, O> {
    waiting: Mutex<Queued<I, O>>,
    lanes: Arc<Semaphore>,
}

impl<I, O> Default for Gathered<I, O> {
    fn default() -> Self {
        Self {
            waiting: Mutex::default(),
            lanes: Arc::new(Semaphore::new(LANES)),
        }
    }
}

impl<I: Send + 'static, O: Send + 'static> Gathered<I, O> {
    /// Runs an operation, with others if they wait too. `run` runs several operations, and returns their outcomes in the same
    /// order. It runs to its end even if this future is dropped, because other callers wait for it.
    pub(super) async fn run<F>(
        &self,
        input: I,
        run: impl Fn(Vec<I>) -> F + Send,
    ) -> Result<O, StoreError>
    where
        F: Future<Output = Result<Vec<O>, StoreError>> + Send + 'static,
    {
        let (answer, mut answered) = oneshot::channel();
        self.waiting().push((input, answer));
        loop {
            let lane = tokio::select! {
                biased;
                outcome = &mut answered => return outcome.unwrap_or_else(|_| Err(lost())),
                lane = Arc::clone(&self.lanes).acquire_owned() => lane.map_err(|_| lost())?,
            };
            let (inputs, answers): (Vec<I>, Vec<_>) = {
                let mut waiting = self.waiting();
                let together = waiting.len().min(TOGETHER);
                waiting.drain(..together).unzip()
            };
            if inputs.is_empty() {
                // Another caller has taken this operation.
                drop(lane);
                return answered.await.unwrap_or_else(|_| Err(lost()));
            }
            let outcomes = run(inputs);
            let running = async move {
                let outcomes = outcomes.await;
                drop(lane);
                match outcomes {
                    Ok(outcomes) => {
                        for (answer, outcome) in answers.into_iter().zip(outcomes) {
                            // The caller may be gone.
                            let _ = answer.send(Ok(outcome));
                        }
                    }
                    Err(error) => {
                        for answer in answers {
                            let _ = answer.send(Err(error.clone()));
                        }
                    }
                }
            };
            tokio::spawn(running.in_current_span());
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Queued<I, O>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lost() -> StoreError {
    StoreError::Failed("the statement of several operations ended without an outcome".into())
}
