//! Attempts to guess a secret.

use async_trait::async_trait;

use super::Runs;
use crate::fault::Fault;
use crate::tx::tables::FAILURES;
use crate::tx::{Read, Tx};
use crate::{AttemptStore, StoreError};
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{Admission, Counted, Failures, PacedKey, attempt};

#[async_trait]
impl<R: Runs> AttemptStore for R {
    async fn admit_attempt(
        &self,
        keys: Vec<PacedKey>,
        now: Timestamp,
    ) -> Result<Admission, StoreError> {
        // A flood of attempts that wait costs no write.
        let asked = keys.clone();
        let known = self.read(move |tx| {
            tx.ahead(|| asked.iter().map(|paced| FAILURES.want(&paced.key)));
            failures_of(tx, &asked)
        });
        if let (wait @ Admission::Wait(_), counted) = attempt::admit(&known.await?, now)
            && counted.is_empty()
        {
            return Ok(wait);
        }
        self.owned(move |tx| {
            tx.ahead(|| keys.iter().map(|paced| FAILURES.lock(&paced.key)));
            let known = failures_of(tx, &keys)?;
            let (admission, counted) = attempt::admit(&known, now);
            for ((paced, _), after) in known.iter().zip(counted) {
                FAILURES.put(tx, &paced.key, &after)?;
            }
            Ok(admission)
        })
        .await
    }

    async fn forgive_attempt(
        &self,
        forget: Option<Digest>,
        take_back: Vec<Counted>,
    ) -> Result<(), StoreError> {
        self.owned(move |tx| forgive(tx, forget.as_ref(), &take_back))
            .await
    }
}

fn failures_of(
    tx: &mut impl Read,
    keys: &[PacedKey],
) -> Result<Vec<(PacedKey, Option<Failures>)>, Fault> {
    let of = |paced: &PacedKey| Ok((*paced, FAILURES.get(tx, &paced.key)?));
    keys.iter().map(of).collect()
}

fn forgive(tx: &mut impl Tx, forget: Option<&Digest>, take_back: &[Counted]) -> Result<(), Fault> {
    let keys = || take_back.iter().map(|counted| &counted.paced.key);
    tx.ahead(|| {
        forget
            .into_iter()
            .chain(keys())
            .map(|key| FAILURES.lock(key))
    });
    let before = keys().map(|key| FAILURES.get(tx, key));
    let before = before.collect::<Result<Vec<_>, Fault>>()?;
    if let Some(forget) = forget {
        FAILURES.remove(tx, forget)?;
    }
    let others = take_back.iter().zip(before);
    for (counted, before) in others.filter(|(counted, _)| Some(&counted.paced.key) != forget) {
        let key = &counted.paced.key;
        match before.and_then(|failures| counted.take_back(failures)) {
            Some(after) => FAILURES.put(tx, key, &after)?,
            None => FAILURES.remove(tx, key)?,
        }
    }
    Ok(())
}
