//! `token-service audit`.

use std::sync::mpsc::channel;
use std::time::Duration;

use super::Connected;
use super::connection::{Answer, query};
use crate::admin::views::{AuditView, Page};

pub(super) const EXAMPLES: &str = "Examples:
  token-service audit --user ada@example.com --limit 20
  token-service audit --follow
  token-service audit --action refresh_token_reused --json";

/// How often new entries are asked for.
const POLL_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Arguments {
    /// Only entries of this client.
    #[arg(long, value_name = "CLIENT_ID")]
    client: Option<String>,
    /// Only entries of this user.
    #[arg(long, value_name = "USERNAME")]
    user: Option<String>,
    /// Only entries of this action, such as sign_in_refused.
    #[arg(long)]
    action: Option<String>,
    /// Entries at most.
    #[arg(long)]
    limit: Option<usize>,
    /// Print the last entries, then new ones as they come.
    #[arg(long)]
    follow: bool,
}

pub(super) fn run(arguments: &Connected<Arguments>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    let path = |after: Option<u64>| {
        let query = query(&[
            ("client_id", own.client.clone()),
            ("username", own.user.clone()),
            ("action", own.action.clone()),
            ("limit", own.limit.map(|limit| limit.to_string())),
            ("after", after.map(|after| after.to_string())),
        ]);
        format!("/audit{query}")
    };
    let latest: Answer<Page<AuditView>> = administration.get(&path(None))?;
    if !own.follow {
        return latest.print(|page| lines(page.items.iter().rev()));
    }
    let mut last = latest.value.items.first().map_or(0, |entry| entry.sequence);
    if !latest.value.items.is_empty() {
        latest.print(|page| lines(page.items.iter().rev()))?;
    }
    // Nobody sends: waiting for it is waiting for the time.
    let (_silent, ticks) = channel::<()>();
    loop {
        let new: Answer<Page<AuditView>> = administration.get(&path(Some(last)))?;
        if !new.value.items.is_empty() {
            new.print(|page| lines(page.items.iter()))?;
        }
        if let Some(next) = new.value.next.as_ref().and_then(|next| next.parse().ok()) {
            last = next;
        }
        let _ = ticks.recv_timeout(POLL_EVERY);
    }
}

fn lines<'a>(entries: impl Iterator<Item = &'a AuditView>) -> String {
    let entries: Vec<String> = entries.map(line).collect();
    entries.join("\n")
}

fn line(entry: &AuditView) -> String {
    let entry = &entry.event;
    let named = [
        ("by", &entry.actor),
        ("client", &entry.client_id),
        ("user", &entry.username),
        ("grant", &entry.grant_id),
        ("from", &entry.address),
        ("request", &entry.request_id),
        ("detail", &entry.detail),
    ];
    let named = named
        .iter()
        .filter_map(|(name, value)| value.as_ref().map(|value| format!("{name}={value}")));
    let named: Vec<String> = named.collect();
    format!("{} {} {}", entry.at, entry.action.name(), named.join(" "))
}
