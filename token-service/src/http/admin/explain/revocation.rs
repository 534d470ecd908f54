//! Which entry of the feed revoked a token, and what the audit log says about its cause.

use std::time::Duration;

use super::{CheckView, failed, passed};
use crate::http::admin::Administration;
use crate::http::admin::answer::AdminError;
use crate::http::admin::audit::{AuditQuery, moment};
use crate::http::admin::pages::MAX_PAGE;
use domain::clock::Timestamp;
use domain::{AuditAction, AuditEvent, Revoked, TokenReference, TokenSubject};
use store::issued_until;

/// Largest difference between the times of one change in the audit log and in the feed.
const TIMES_DIFFER_BY: Duration = Duration::from_secs(2);

/// The actions that may revoke tokens.
const CAUSES: [AuditAction; 16] = [
    AuditAction::UserUpdated,
    AuditAction::UserDeleted,
    AuditAction::ClientUpdated,
    AuditAction::ClientDeleted,
    AuditAction::GrantRevoked,
    AuditAction::TokenRevoked,
    AuditAction::CodeReplayed,
    AuditAction::RefreshTokenReused,
    AuditAction::PasswordSet,
    AuditAction::SecondFactorSetUp,
    AuditAction::SecondFactorRemoved,
    AuditAction::AccessEnded,
    AuditAction::SessionsEnded,
    AuditAction::ProviderSignOut,
    AuditAction::TokensCutOff,
    AuditAction::KeyDeleted,
];

/// Where the audit log has the cause: the entries of a user, of a client, or of everybody.
pub(super) enum Of<'a> {
    User(&'a str),
    Client(&'a str),
    Everybody(AuditAction),
}

impl Administration {
    /// Whether an entry of the feed revokes the access token.
    pub(super) async fn revocation(&self, token: TokenReference) -> Result<CheckView, AdminError> {
        let revoked_by = self.service.store.revoked_by(token.clone()).await?;
        if revoked_by.is_empty() {
            return Ok(passed(
                "revocation",
                "neither the token nor its grant, client, user, account, key or issuer is revoked",
            ));
        }
        let user = match &token.subject {
            TokenSubject::User { username, .. } => Some(username.clone()),
            // Only the grant contains the user.
            TokenSubject::Account { .. } => {
                let grant = self.service.store.grant(token.grant_id).await?;
                grant.map(|grant| grant.username)
            }
        };
        let owner = match &user {
            Some(user) => Of::User(user.as_str()),
            None => Of::Client(token.client_id.as_str()),
        };
        let mut reasons = Vec::new();
        for (revoked, at) in revoked_by {
            let time = at.rfc3339();
            let up_to = format!("issued up to {time} is revoked");
            let (what, of, grant_id) = match &revoked {
                Revoked::Grant(id) => (
                    format!("the grant {id} was revoked at {time}"),
                    &owner,
                    Some(id.to_string()),
                ),
                Revoked::Token(_) | Revoked::LegacyToken(_) => (
                    format!("this token was revoked at {time}, and its grant was not"),
                    &owner,
                    Some(token.grant_id.to_string()),
                ),
                Revoked::Client(id) => (
                    format!("every token of the client {id} {up_to}"),
                    &Of::Client(id.as_str()),
                    None,
                ),
                Revoked::User(name) => (
                    format!("every token of the user {name} {up_to}"),
                    &owner,
                    None,
                ),
                Revoked::Account {
                    username,
                    user_id,
                    site,
                } => (
                    format!(
                        "every token of {username} for the account {user_id} at {site} {up_to}"
                    ),
                    &owner,
                    None,
                ),
                Revoked::UserAtClient {
                    username,
                    client_id,
                } => (
                    format!("every token of {username} at the client {client_id} {up_to}"),
                    &owner,
                    None,
                ),
                Revoked::Issuer(issuer) => (
                    format!("every token of the issuer {issuer} {up_to}"),
                    &Of::Everybody(AuditAction::TokensCutOff),
                    None,
                ),
                Revoked::Key(key) => (
                    format!("every token bound to the key or certificate {key} {up_to}"),
                    &Of::Everybody(AuditAction::GrantRevoked),
                    None,
                ),
            };
            let cause = self.cause(of, grant_id.as_deref(), at).await?;
            reasons.push(format!("{what}{cause}"));
        }
        Ok(failed("revocation", reasons.join("; ")))
    }

    /// What the audit log says about what was revoked at `at`, and the command that shows more: text to append to a sentence.
    /// With a grant, that one ended; without, tokens up to a time.
    pub(super) async fn cause(
        &self,
        of: &Of<'_>,
        grant_id: Option<&str>,
        at: Timestamp,
    ) -> Result<String, AdminError> {
        let earliest = issued_until(at).since(at) + TIMES_DIFFER_BY;
        let since = Timestamp::from_seconds(at.seconds().saturating_sub(earliest.as_secs()));
        let mut query = AuditQuery {
            since: Some(since.rfc3339()),
            limit: Some(MAX_PAGE),
            ..AuditQuery::default()
        };
        let filter = match of {
            Of::User(name) => {
                query.username = Some((*name).to_owned());
                format!("--user {name}")
            }
            Of::Client(id) => {
                query.client_id = Some((*id).to_owned());
                format!("--client {id}")
            }
            Of::Everybody(action) => {
                query.action = Some(action.name().to_owned());
                format!("--action {}", action.name())
            }
        };
        let records = self.audit(&query).await?.items.into_iter();
        let candidates = records.filter_map(|record| {
            let event = record.event;
            let time = revoked_at(&event, grant_id.is_some())?;
            let differs = time.max(at).since(time.min(at));
            let is_of_grant = event.grant_id.is_none() || event.grant_id.as_deref() == grant_id;
            (is_of_grant && differs <= TIMES_DIFFER_BY).then_some((differs, event))
        });
        // What names the grant is more exact than what names the user.
        let exact = |(differs, event): &(Duration, AuditEvent)| {
            (grant_id.is_some() && event.grant_id.is_none(), *differs)
        };
        let event = candidates.min_by_key(exact).map(|(_, event)| event);
        let (cause, since) = match event {
            Some(event) => (format!(", because {}", words(&event)), event.at),
            None => (String::new(), since),
        };
        let since = since.rfc3339();
        Ok(format!(
            "{cause}: see token-service audit {filter} --since {since}"
        ))
    }
}

/// A detail of the audit log about a client or user that is disabled.
const DISABLES: &str = "enabled: \"true\" -> \"false\"";

/// The time in the feed of what the event revoked; `None` for an event that revokes nothing. `ends_grant`: the time of the end of
/// a grant.
fn revoked_at(event: &AuditEvent, ends_grant: bool) -> Option<Timestamp> {
    let detail = event.detail.as_deref().unwrap_or_default();
    match event.action {
        AuditAction::UserUpdated | AuditAction::ClientUpdated
            if ![
                DISABLES,
                "password",
                "totp_secret",
                "accounts",
                "identities",
            ]
            .iter()
            .any(|field| detail.contains(field)) =>
        {
            None
        }
        AuditAction::UserUpdated
        | AuditAction::UserDeleted
        | AuditAction::ClientUpdated
        | AuditAction::ClientDeleted
        | AuditAction::GrantRevoked
        | AuditAction::TokensCutOff
            if !ends_grant =>
        {
            match detail.rsplit_once("issued up to ") {
                Some((_, time)) => moment(time).ok(),
                None => Some(issued_until(event.at)),
            }
        }
        action => CAUSES.contains(&action).then_some(event.at),
    }
}

/// An entry of the audit log as a clause with its time.
fn words(event: &AuditEvent) -> String {
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    let (user, client) = (name(&event.username), name(&event.client_id));
    let fields = event.detail.as_deref().unwrap_or_default();
    let disables = fields.contains(DISABLES);
    let what = match event.action {
        AuditAction::UserUpdated if disables => format!("the user {user} was disabled"),
        AuditAction::UserUpdated => format!("the user {user} was changed ({fields})"),
        AuditAction::UserDeleted => format!("the user {user} was removed"),
        AuditAction::ClientUpdated if disables => format!("the client {client} was disabled"),
        AuditAction::ClientDeleted => format!("the client {client} was removed"),
        action if fields.is_empty() => format!("of {}", action.name()),
        action => format!("of {} ({fields})", action.name()),
    };
    let by = event.actor.as_ref().map(|actor| format!(" by {actor}"));
    let (by, at) = (by.unwrap_or_default(), event.at.rfc3339());
    format!("{what}{by} at {at}")
}
