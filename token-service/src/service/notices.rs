//! Sends the notices that the service owes to people (D-64). A notice stays in the store until the mail server takes it, so that neither an
//! outage nor a restart loses it. Requests of strangers for messages wait elsewhere.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::time::timeout;

use crate::mail::Mailer;
use crate::service::Service;
use crate::telemetry::audit_log::{Entry, Origin};
use domain::clock::Timestamp;
use domain::notice::GIVE_UP_AFTER;
use domain::{AuditAction, ClaimedNotice};
use store::StoreError;

/// Notices on their way at once.
const AT_ONCE: usize = 4;

/// Interval between looks at the store for notices of other replicas, and for those whose pause is over. The service sends the notices of
/// its own changes at once.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Time of a claim beyond the longest attempt to send.
const MARGIN: Duration = Duration::from_secs(30);

/// Runs until aborted.
pub(crate) async fn run(service: &Service) {
    let mut sending = FuturesUnordered::new();
    let mut failing = false;
    loop {
        let free = AT_ONCE.saturating_sub(sending.len());
        let claimed = claim(service, free).await.unwrap_or_else(|error| {
            if !std::mem::replace(&mut failing, true) {
                tracing::error!(%error, "notices to people cannot be read; they wait");
            }
            Vec::new()
        });
        if !claimed.is_empty() {
            failing = false;
            sending.extend(claimed.into_iter().map(|one| send(service, one)));
            continue;
        }
        let _ = timeout(LOOK_EVERY, async {
            tokio::select! {
                Some(()) = sending.next() => {}
                () = service.owed.notified() => {}
            }
        })
        .await;
    }
}

/// Without `[mail]`, other replicas may have it: notices that nobody has sent in this time are given up.
pub(crate) async fn claim(
    service: &Service,
    limit: usize,
) -> Result<Vec<ClaimedNotice>, StoreError> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let now = service.clock.now();
    let (due, longest) = match &service.config.mail {
        Some(mail) => (now, mail.timeout),
        None => (before(now, GIVE_UP_AFTER), Duration::ZERO),
    };
    let until = now + longest + MARGIN;
    service.store.claim_notices(due, until, limit).await
}

fn before(now: Timestamp, time: Duration) -> Timestamp {
    Timestamp::from_seconds(now.seconds().saturating_sub(time.as_secs()))
}

/// Sends a notice, and notes in the store what came of it. If that fails, the notice is sent again when its claim is over.
pub(crate) async fn send(service: &Service, claimed: ClaimedNotice) {
    let sent = match &service.mailer {
        Some(mailer) => try_to_send(mailer, &claimed).await,
        None => false,
    };
    let now = service.clock.now();
    let again_at = claimed.notice.next_attempt(claimed.attempt, now);
    let again_at = again_at.filter(|_| !sent);
    let username = claimed.notice.username.clone();
    let mut events = Vec::new();
    if !sent && again_at.is_none() {
        let (subject, attempts) = (&claimed.notice.subject, claimed.attempt);
        let entry = Entry::new(AuditAction::NoticeGivenUp).user(username.as_str());
        let entry = entry.detail(format!("\"{subject}\", after {attempts} attempts"));
        events.push(service.event(&Origin::default(), entry));
    }
    let audit = events.clone().into();
    match service
        .store
        .settle_notice(claimed, again_at, audit, now)
        .await
    {
        Ok(true) => {
            service.recorded(&events);
            if !events.is_empty() {
                tracing::error!(%username, "a notice of a change could not be sent to a person");
            }
        }
        // The attempt took longer than the claim, for example on a machine that slept.
        Ok(false) => {}
        Err(error) => {
            tracing::error!(%error, %username, sent, "the store does not know of an attempt to send a notice");
        }
    }
}

async fn try_to_send(mailer: &Mailer, ClaimedNotice { notice, .. }: &ClaimedNotice) -> bool {
    match notice.email.parse() {
        Ok(address) => {
            mailer
                .send(address, &notice.subject, notice.text.clone())
                .await
        }
        Err(_) => false,
    }
}
