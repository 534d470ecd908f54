//! Messages about changes that the service owes to people.

use std::sync::Arc;

use async_trait::async_trait;

use super::Runs;
use crate::codec::{Bytes, Keys, Parts, Rest};
use crate::fault::Fault;
use crate::tx::tables::{NOTICES_DUE, OWED_NOTICES, OwedNotices, notice_due};
use crate::tx::{Entries, Entry, Read, Tx, Want};
use crate::{NoticeStore, StoreError};
use domain::clock::Timestamp;
use domain::{AuditEvent, ClaimedNotice, Notice, Username};

#[async_trait]
impl<R: Runs> NoticeStore for R {
    async fn claim_notices(
        &self,
        now: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<ClaimedNotice>, StoreError> {
        // Nearly always nothing is due, and a write needs a sync.
        let first = self.read(move |tx| due(tx, &until_now(now), 1));
        if first.await?.is_empty() {
            return Ok(Vec::new());
        }
        self.owned(move |tx| claim(tx, now, until, limit)).await
    }

    async fn settle_notice(
        &self,
        claimed: ClaimedNotice,
        again_at: Option<Timestamp>,
        audit: Arc<[AuditEvent]>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let entries = self.entries(audit).await?;
        self.owned(move |tx| settle(tx, &claimed, again_at, &entries, now))
            .await
    }
}

/// Keys of [`NOTICES_DUE`] of notices that are due.
fn until_now(now: Timestamp) -> Keys {
    let later = Parts::new().number(now.next_second().seconds()).end();
    Keys::all().before(&later)
}

/// The people with the first of these keys, those who wait longest first.
fn due(tx: &mut impl Read, keys: &Keys, limit: usize) -> Result<Vec<(Bytes, Username)>, Fault> {
    let due = NOTICES_DUE.readable_rows(tx, keys, limit)?;
    let name = |(key, _): (Bytes, Timestamp)| {
        let mut rest = Rest(&key);
        rest.number()?;
        let name = Username::parse(rest.last()?);
        let name = name.ok_or_else(|| Fault::Row("the name of a person with notices".into()))?;
        Ok((key, name))
    };
    due.into_iter().map(name).collect()
}

/// How often a claim reads on past notices that cannot be read, which stay due.
const PAGES: usize = 8;

fn claim(
    tx: &mut impl Tx,
    now: Timestamp,
    until: Timestamp,
    limit: usize,
) -> Result<Vec<ClaimedNotice>, Fault> {
    let (mut keys, mut found) = (until_now(now), Vec::new());
    for _ in 0..PAGES {
        let wanted = limit - found.len();
        let due = due(tx, &keys, wanted)?;
        tx.ahead(|| due.iter().map(|(_, name)| OWED_NOTICES.lock(name)));
        for (_, username) in &due {
            let owed = OWED_NOTICES.readable(tx, username)?;
            // Another replica may have claimed it meanwhile.
            let owed = owed.filter(|owed| owed.due_at <= now);
            found.extend(owed.map(|owed| (username.clone(), owed)));
        }
        match due.last() {
            Some((last, _)) if due.len() == wanted && found.len() < limit => {
                keys = keys.behind(last);
            }
            _ => break,
        }
    }
    let mut claimed = Vec::new();
    for (username, owed) in &found {
        let after = OwedNotices {
            due_at: until,
            attempts: owed.attempts + 1,
            notices: owed.notices.clone(),
        };
        claimed.extend(after.notices.first().map(|notice| ClaimedNotice {
            notice: notice.clone(),
            attempt: after.attempts,
            until,
        }));
        put(tx, username, Some(owed), &after)?;
    }
    Ok(claimed)
}

fn settle(
    tx: &mut impl Tx,
    claimed: &ClaimedNotice,
    again_at: Option<Timestamp>,
    entries: &Entries,
    now: Timestamp,
) -> Result<bool, Fault> {
    let username = &claimed.notice.username;
    tx.ahead(|| [want(&claimed.notice)]);
    let owed = OWED_NOTICES.get(tx, username)?.filter(|owed| {
        owed.due_at == claimed.until && owed.notices.first() == Some(&claimed.notice)
    });
    let Some(owed) = owed else {
        return Ok(false);
    };
    let after = match again_at {
        Some(due_at) => OwedNotices {
            due_at,
            ..owed.clone()
        },
        None => OwedNotices {
            due_at: now,
            attempts: 0,
            notices: owed.notices.get(1..).unwrap_or_default().to_vec(),
        },
    };
    put(tx, username, Some(&owed), &after)?;
    tx.append(Entry::Audit(entries))?;
    Ok(true)
}

/// The time of the oldest notice of all.
pub(crate) fn oldest(tx: &mut impl Read) -> Result<Option<Timestamp>, Fault> {
    let due = NOTICES_DUE.rows(tx, &Keys::all(), usize::MAX)?;
    Ok(due.into_iter().map(|(_, since)| since).min())
}

/// What [`owe`] reads for a notice.
pub(crate) fn want(notice: &Notice) -> Want {
    OWED_NOTICES.lock(&notice.username)
}

/// Fails if a row that [`owe`] changes cannot be read: before the first write.
pub(crate) fn read(tx: &mut impl Read, notices: &[Notice]) -> Result<(), Fault> {
    for notice in notices {
        OWED_NOTICES.get(tx, &notice.username)?;
    }
    Ok(())
}

/// Adds notices in the transaction of their change, before other writes. They wait for older ones to the same address.
pub(crate) fn owe(tx: &mut impl Tx, notices: &[Notice], now: Timestamp) -> Result<(), Fault> {
    read(tx, notices)?;
    for notice in notices {
        let username = &notice.username;
        let before = OWED_NOTICES.get(tx, username)?;
        let mut after = before.clone().unwrap_or_else(|| OwedNotices {
            due_at: now,
            attempts: 0,
            notices: Vec::new(),
        });
        if notice.clone().owe(&mut after.notices) {
            (after.due_at, after.attempts) = (now, 0);
        }
        put(tx, username, before.as_ref(), &after)?;
    }
    Ok(())
}

/// Replaces the row of a person, with its index. No notice: no row.
pub(crate) fn put(
    tx: &mut impl Tx,
    username: &Username,
    before: Option<&OwedNotices>,
    after: &OwedNotices,
) -> Result<(), Fault> {
    if let Some(before) = before {
        NOTICES_DUE.remove(tx, &notice_due(before.due_at, username))?;
    }
    if after.notices.is_empty() {
        return OWED_NOTICES.remove(tx, username);
    }
    OWED_NOTICES.put(tx, username, after)?;
    let since = Notice::since(&after.notices);
    NOTICES_DUE.put(tx, &notice_due(after.due_at, username), &since)
}
