//! `token-service migrate`.

use std::process::ExitCode;

use super::{ConfigFile, output};
use crate::config::{Config, StoreUrl};
use crate::telemetry::audit_log::{Entry, Origin};
use domain::clock::Clock as _;
use domain::{AuditAction, AuditEvent, Layout};
use store::postgres::{Upgrade, finish_upgrade, upgrade};
use system::SystemClock;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Upgrade all services of one PostgreSQL database as docs/operating.md says:
  1. Replace the services one by one. Services of the earlier and of this version run side by side.
  2. token-service migrate            shows which versions run.
  3. token-service migrate --finish   when a step back is no longer needed.

Until the third step, services of this version write nothing that the earlier version cannot read."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    file: ConfigFile,
    /// Finish the upgrade: services may write what the earlier version cannot read. From then on services of the
    /// earlier version refuse the store, and a step back needs a backup from before. Refused while such a service runs.
    #[arg(long)]
    finish: bool,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let config = arguments.file.load()?;
    let store = &config.store;
    match store {
        StoreUrl::Redb(_) => output::line(format_args!(
            "{store}: one service uses a redb file, so its start finishes an upgrade. A step back needs a backup from \
             before that start."
        ))?,
        StoreUrl::Postgres(settings) => {
            let system = actix_web::rt::System::new();
            let lines = system.block_on(async {
                anyhow::Ok(if arguments.finish {
                    let event = |layout| finishing(layout, &config);
                    finished(&finish_upgrade(settings, &event).await?)
                } else {
                    state(&upgrade(settings).await?)
                })
            })?;
            output::line(format_args!("{store}: {}", lines.join("\n")))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The audit entry about the end of an upgrade from `layout`.
fn finishing(layout: Layout, config: &Config) -> AuditEvent {
    let detail = format!("from layout {layout} to layout {}", Layout::NEWEST);
    let entry = Entry::new(AuditAction::UpgradeFinished)
        .by_command(&system::user_name(), &system::host_name());
    let (now, keep_for) = (SystemClock.now(), config.audit.keep_for);
    entry
        .detail(detail)
        .event(&Origin::default(), now, keep_for)
}

const STEP_BACK: &str =
    "A step back to an earlier version needs a backup from before the upgrade was finished.";

fn finished(before: &Upgrade) -> Vec<String> {
    let (layout, newest) = (before.layout, before.newest);
    let first = if layout < newest {
        format!("layout {newest} is in use, after layout {layout}: the upgrade is finished")
    } else {
        format!("layout {newest} was in use already: nothing to finish")
    };
    vec![first, STEP_BACK.to_owned()]
}

fn state(upgrade: &Upgrade) -> Vec<String> {
    let (layout, newest) = (upgrade.layout, upgrade.newest);
    let mut lines = vec![format!(
        "layout {layout} is in use, and this version knows {newest}"
    )];
    for replica in &upgrade.replicas {
        lines.push(format!(
            "  {}: version {}, knows layout {}, seen {} s ago",
            replica.host,
            replica.version,
            replica.layout,
            replica.silent_for.as_secs()
        ));
    }
    if layout == newest {
        lines.push(format!("The upgrade is finished. {STEP_BACK}"));
        return lines;
    }
    let earlier = upgrade.earlier().count();
    lines.push(if earlier == 0 {
        "No service of the earlier version runs: `token-service migrate --finish` finishes the upgrade.".to_owned()
    } else {
        format!("Services of the earlier version that run: {earlier}. Replace them first.")
    });
    lines.push("A step back needs nothing: the earlier version reads this store.".to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use store::postgres::RunningReplica;

    /// From layout 1 to layout 2, with services that know these layouts.
    fn upgrade(layout: Layout, layouts: &[u64]) -> Upgrade {
        let replica = |layout: &u64| RunningReplica {
            host: format!("host-{layout}"),
            version: "0.3.0".to_owned(),
            layout: *layout,
            silent_for: Duration::from_secs(3),
        };
        Upgrade {
            layout,
            newest: Layout::LATER,
            replicas: layouts.iter().map(replica).collect(),
        }
    }

    #[test]
    fn the_state_says_what_comes_next_and_what_a_step_back_needs() {
        assert_eq!(
            state(&upgrade(Layout::FIRST, &[1, 2])),
            [
                "layout 1 is in use, and this version knows 2",
                "  host-1: version 0.3.0, knows layout 1, seen 3 s ago",
                "  host-2: version 0.3.0, knows layout 2, seen 3 s ago",
                "Services of the earlier version that run: 1. Replace them first.",
                "A step back needs nothing: the earlier version reads this store.",
            ]
        );
        let lines = state(&upgrade(Layout::FIRST, &[2]));
        assert_eq!(
            lines[2],
            "No service of the earlier version runs: `token-service migrate --finish` finishes the upgrade."
        );
        let lines = state(&upgrade(Layout::LATER, &[]));
        assert_eq!(lines[1], format!("The upgrade is finished. {STEP_BACK}"));
        assert_eq!(
            finished(&upgrade(Layout::FIRST, &[]))[0],
            "layout 2 is in use, after layout 1: the upgrade is finished"
        );
        assert_eq!(
            finished(&upgrade(Layout::LATER, &[]))[0],
            "layout 2 was in use already: nothing to finish"
        );
        let runbook = include_str!("../../../docs/runbook.md");
        assert!(runbook.contains("A step back needs nothing"));
    }
}
