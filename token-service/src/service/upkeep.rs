//! Background tasks: rotate keys, follow other replicas, write the audit log, remove expired rows.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

use crate::service::sweep_time::SweepTime;
use crate::service::{Service, notices};
use crate::telemetry::audit_log::most_entries;
use domain::AuditKind;
use domain::certificate::CertificateState;
use store::{SWEEP_EVERY, StoreError, Swept};

/// Maximum number of rows removed in one transaction, so that no request waits long for a sweep.
const SWEEP_BATCH: usize = 500;

/// Interval between checks of the keys. Limits the time in which replicas may sign with different keys.
const MAINTAIN_KEYS_EVERY: Duration = Duration::from_secs(1);

/// Interval between looks at the changes of registrations. A change of another replica takes effect within a second,
/// reading included.
const FOLLOW_REGISTRATIONS_EVERY: Duration = Duration::from_millis(500);

const WARN_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum number of certificates with a warning or a metric: those that expire first.
pub(crate) const MOST_CERTIFICATES: usize = 1000;

/// Time for which audit entries are collected, so that a busy service writes many in one transaction.
const GATHER_AUDIT_FOR: Duration = Duration::from_secs(1);

/// Interval in which the audit log records the number of entries that it omitted.
const TELL_OF_LEFT_OUT_EVERY: Duration = Duration::from_secs(60);

/// Interval between writes of client secret uses. Each secret has one use per
/// [`NOTED_EVERY`](protocol::secret_uses::NOTED_EVERY).
const NOTE_SECRET_USES_EVERY: Duration = Duration::from_secs(5);

/// Pause before the next write of audit entries after the store failed.
const AUDIT_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Runs all tasks until aborted.
pub(crate) async fn run(service: Arc<Service>) {
    tokio::join!(
        maintain_keys(&service),
        follow_registrations(&service),
        sweep_on_and_on(&service),
        write_audit_log(&service),
        note_secret_uses(&service),
        tell_of_left_out(&service),
        warn_of_certificates(&service),
        send_mail(&service),
        notices::run(&service),
        service.providers.run(),
        service.feed.follow()
    );
}

async fn send_mail(service: &Service) {
    if let Some(mailer) = &service.mailer {
        mailer.run().await;
    }
}

async fn write_audit_log(service: &Service) {
    loop {
        service.audit.arrival().await;
        sleep_until(Instant::now() + GATHER_AUDIT_FOR).await;
        let mut again = every(AUDIT_AGAIN_AFTER);
        let mut failing = false;
        while let Err(error) = {
            again.tick().await;
            service.audit.write(&service.store).await
        } {
            if !std::mem::replace(&mut failing, true) {
                tracing::error!(%error, "the audit log cannot be written; its entries wait");
            }
        }
    }
}

async fn note_secret_uses(service: &Service) {
    let mut ticks = every(NOTE_SECRET_USES_EVERY);
    let mut failing = false;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = service.secret_uses.crowded() => {}
        }
        let now = service.clock.now();
        let written = service.secret_uses.write(&*service.store, now).await;
        if let (Err(error), false) = (&written, failing) {
            tracing::warn!(%error, "uses of client secrets are not noted; they wait");
        }
        failing = written.is_err();
        if failing {
            ticks.tick().await;
        }
    }
}

async fn tell_of_left_out(service: &Service) {
    let mut ticks = every(TELL_OF_LEFT_OUT_EVERY);
    loop {
        ticks.tick().await;
        service.audit.tell_of_left_out(service.clock.now());
    }
}

async fn warn_of_certificates(service: &Service) {
    let mut ticks = every(WARN_EVERY);
    loop {
        ticks.tick().await;
        if let Err(error) = warn_once_of_certificates(service).await {
            tracing::error!(%error, "the certificates of clients cannot be looked at");
        }
    }
}

async fn warn_once_of_certificates(service: &Service) -> Result<(), StoreError> {
    let now = service.clock.now();
    let certificates = service.store.certificates_by_expiry(MOST_CERTIFICATES);
    for certificate in certificates.await? {
        let state = CertificateState::by_expiry(certificate.not_after, now);
        if state == CertificateState::Valid {
            break;
        }
        tracing::warn!(
            client_id = %certificate.client_id,
            alias = certificate.alias,
            not_after = certificate.not_after.rfc3339(),
            state = state.name(),
            "a certificate needs a successor"
        );
    }
    Ok(())
}

async fn maintain_keys(service: &Service) {
    let failed = "the signing keys cannot be maintained";
    repeat(MAINTAIN_KEYS_EVERY, failed, async || {
        service.maintain_keys().await
    })
    .await;
}

async fn follow_registrations(service: &Service) {
    let failed = "changes of registrations cannot be read; those in memory stay as they were";
    let follow = async || service.follow_registrations().await;
    repeat(FOLLOW_REGISTRATIONS_EVERY, failed, follow).await;
}

/// Runs `task` again and again. Logs once per failure, not once per attempt.
async fn repeat<E: Display>(
    period: Duration,
    failed: &str,
    mut task: impl AsyncFnMut() -> Result<(), E>,
) {
    let mut ticks = every(period);
    let mut failing = false;
    loop {
        ticks.tick().await;
        let outcome = task().await;
        if let (Err(error), false) = (&outcome, failing) {
            tracing::error!(%error, "{failed}");
        }
        failing = outcome.is_err();
    }
}

async fn sweep_on_and_on(service: &Service) {
    let mut time = None;
    repeat(SWEEP_EVERY, "expired rows cannot be removed", async || {
        service
            .revocation_limit
            .forget_idle(Instant::now().into_std());
        sweep(service, &mut time).await
    })
    .await;
}

fn every(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

pub(crate) async fn sweep(
    service: &Service,
    time: &mut Option<SweepTime>,
) -> Result<(), StoreError> {
    let database = service.store.ready().await?;
    let now = service.clock.now();
    let clock = database.map_or(now, |database| database.min(now));
    let at = Instant::now().into_std();
    if time.is_none() {
        *time = Some(SweepTime::start(service.store.swept_at().await?, clock, at));
    }
    let due = time.as_mut().map_or(clock, |time| time.due(clock, at));
    until_done(async || service.store.sweep(due, now, SWEEP_BATCH).await).await?;
    for kind in AuditKind::ALL {
        let most = most_entries(kind);
        let forget = async || service.store.forget_audit(kind, most, SWEEP_BATCH).await;
        until_done(forget).await?;
    }
    Ok(())
}

async fn until_done(
    mut batch: impl AsyncFnMut() -> Result<Swept, StoreError>,
) -> Result<(), StoreError> {
    loop {
        let swept = batch().await?;
        if swept.removed > 0 {
            tracing::debug!(removed = swept.removed, "rows removed");
        }
        if !swept.more {
            return Ok(());
        }
    }
}
