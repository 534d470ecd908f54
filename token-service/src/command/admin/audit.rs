//! `token-service audit`.

use std::sync::mpsc::channel;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;

use super::Connected;
use super::connection::{Answer, at_least_one, query, segment};
use crate::http::admin::pages::Page;
use crate::telemetry::audit_log::AuditView;
use domain::clock::Clock as _;
use system::SystemClock;

pub(super) const EXAMPLES: &str = "Examples:
  token-service audit --user ada@example.com --limit 20
  token-service audit --since 2h --action sign_in_refused
  token-service audit --limit 2000 --before 31337      # older entries than this one
  token-service audit --follow
  token-service audit --action refresh_token_reused --json";

/// Interval between requests for new entries.
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
    /// Maximum number of entries: the newest, or with --after the oldest. Default: 50; with --since all.
    #[arg(long, value_parser = at_least_one)]
    limit: Option<usize>,
    /// Only entries older than the one with this number.
    #[arg(long, value_name = "NUMBER", conflicts_with = "after")]
    before: Option<u64>,
    /// Only entries newer than the one with this number.
    #[arg(long, value_name = "NUMBER")]
    after: Option<u64>,
    /// Only entries since this time: RFC 3339, a day (from 0:00 UTC), or a duration before now, such as 90m or 2days.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<String>,
    /// Print the last entries, then new ones as they arrive.
    #[arg(long, conflicts_with_all = ["before", "after"])]
    follow: bool,
}

/// Maximum number of entries per request.
const PAGE: usize = 500;

/// Number of printed entries if neither a limit nor a time is given.
const DEFAULT_LIMIT: usize = 50;

pub(super) fn run(arguments: &Connected<Arguments>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    let page = |before: Option<u64>, after: Option<u64>, limit: usize| {
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let query = query(&[
            ("client_id", own.client.clone()),
            ("username", own.user.clone()),
            ("action", own.action.clone()),
            ("since", own.since.clone()),
            ("limit", Some(limit.min(PAGE).to_string())),
            ("before", number(before)),
            ("after", number(after)),
        ]);
        administration.get::<Page<AuditView<'static>>>(&format!("/audit{query}"))
    };
    let most = match (own.limit, &own.since) {
        (Some(limit), _) => limit,
        (None, Some(_)) => usize::MAX,
        (None, None) => DEFAULT_LIMIT,
    };
    let (mut items, mut before, mut after) = (Vec::new(), own.before, own.after);
    let next = loop {
        let answer = page(before, after, most - items.len())?.value;
        let found = answer.items.len();
        items.extend(answer.items);
        let next = answer
            .next
            .as_ref()
            .and_then(|next| next.parse::<u64>().ok());
        // With `after`, every page has a `next`; an empty page is the end.
        let over = items.len() >= most || (after.is_some() && found == 0);
        match next {
            Some(next) if !over && after.is_some() => after = Some(next),
            Some(next) if !over => before = Some(next),
            next => break next,
        }
    };
    if items.is_empty() && !own.follow {
        // Entries outlive what they name, so only a name without entries may be unknown.
        for (kind, name) in [("clients", &own.client), ("users", &own.user)] {
            if let Some(name) = name {
                administration.get::<Value>(&format!("/{kind}/{}", segment(name)))?;
            }
        }
    }
    let newest = items.iter().filter_map(|entry| entry.sequence).max();
    if !own.follow || !items.is_empty() {
        let page = Page {
            next: next.map(|next| next.to_string()),
            items,
        };
        let newest_first = after.is_none();
        administration.print(&page, |page| {
            let entries = page.items.iter();
            if newest_first {
                lines(entries.rev())
            } else {
                lines(entries)
            }
        })?;
    }
    if !own.follow {
        if let (None, Some(next)) = (after, next) {
            eprintln!("There are more: --before {next}");
        }
        return Ok(());
    }
    let mut last = newest.unwrap_or_default();
    // No message is ever sent, so receiving only waits for the timeout.
    let (_silent, ticks) = channel::<()>();
    loop {
        let new: Answer<Page<AuditView<'static>>> = page(None, Some(last), PAGE)?;
        if !new.value.items.is_empty() {
            new.print(|page| lines(page.items.iter()))?;
        }
        if let Some(next) = new.value.next.as_ref().and_then(|next| next.parse().ok()) {
            last = next;
        }
        let _ = ticks.recv_timeout(POLL_EVERY);
    }
}

/// A time for the service, from an RFC 3339 time or a duration before now.
fn moment(text: &str) -> Result<String, String> {
    // A day begins at midnight UTC.
    let midnight = format!("{text}T00:00:00Z");
    let moment = humantime::parse_rfc3339_weak(text);
    if let Ok(moment) = moment.or_else(|_| humantime::parse_rfc3339_weak(&midnight)) {
        return Ok(humantime::format_rfc3339_seconds(moment).to_string());
    }
    let ago = humantime::parse_duration(text).map_err(|_| {
        "expected 2026-01-31, 2026-01-31T12:00:00Z, or how long ago, such as 90m".to_owned()
    })?;
    let now = UNIX_EPOCH + Duration::from_secs(SystemClock.now().seconds());
    let moment = now.checked_sub(ago);
    let moment = moment.filter(|moment| *moment >= UNIX_EPOCH);
    let moment = moment.ok_or_else(|| "that was before 1970".to_owned())?;
    Ok(humantime::format_rfc3339_seconds(moment).to_string())
}

fn lines<'a>(entries: impl Iterator<Item = &'a AuditView<'a>>) -> String {
    let entries: Vec<String> = entries.map(ToString::to_string).collect();
    entries.join("\n")
}
