//! Assertions of clients: about a user, or in place of a secret.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{CheckView, failed, passed};
use domain::{Client, ClientId, IntegrationType, User};
use protocol::Context;
use protocol::oauth::account_selection;
use protocol::oauth::assertion::{AssertionError, Finding, Unverified};
use protocol::oauth::grants::jwt_bearer;
use store::{OnceId, StoreError};

pub(super) async fn user_assertion(
    context: &Context<'_>,
    assertion: &Unverified<'_>,
) -> Result<Vec<CheckView>, StoreError> {
    let claims = assertion.claims();
    let client = match client(context, claims).await? {
        Ok(client) => client,
        Err(unknown) => return Ok(vec![unknown]),
    };
    let IntegrationType::NonInteractive {
        certificates,
        organization,
        ..
    } = &client.integration
    else {
        return Ok(vec![failed(
            "client",
            format!(
                "{} is of type {}; assertions are for non_interactive",
                client.client_id,
                client.integration.name()
            ),
        )]);
    };
    let case = assertion.of_user(
        &client.client_id,
        certificates,
        context.settings,
        context.now,
    );
    let mut checks = views(&client, case.explain());
    let username = text(claims, "sub").unwrap_or_default();
    let user = context.directory.user(username).await?;
    checks.extend(subject(user.as_deref(), claims, organization.as_deref()));
    let id = OnceId::of_user_assertion;
    checks.extend(used_before(context, &client, claims, id).await?);
    Ok(checks)
}

pub(super) async fn client_assertion(
    context: &Context<'_>,
    assertion: &Unverified<'_>,
) -> Result<Vec<CheckView>, StoreError> {
    let claims = assertion.claims();
    let client = match client(context, claims).await? {
        Ok(client) => client,
        Err(unknown) => return Ok(vec![unknown]),
    };
    if client.key_authentication.keys.is_empty() {
        let id = &client.client_id;
        let reason =
            format!("{id} is not registered with keys (token-service client update --key)");
        return Ok(vec![failed("client", reason)]);
    }
    let case = assertion.of_client(&client, context.settings, context.now);
    let mut checks = views(&client, case.explain());
    let id = OnceId::of_client_assertion;
    checks.extend(used_before(context, &client, claims, id).await?);
    Ok(checks)
}

fn text<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    claims.get(name).and_then(Value::as_str)
}

/// The client in `iss`, or the check that fails without it.
async fn client(
    context: &Context<'_>,
    claims: &Map<String, Value>,
) -> Result<Result<Arc<Client>, CheckView>, StoreError> {
    let issuer = text(claims, "iss").unwrap_or_default();
    let found = context.directory.client(issuer).await?;
    Ok(found.ok_or_else(|| {
        let reason = format!("iss must be the Client ID of an enabled client; {issuer:?} is none");
        failed("client", reason)
    }))
}

fn views(client: &Client, outcomes: Vec<(&str, Finding)>) -> Vec<CheckView> {
    let checks = outcomes.into_iter().map(|(name, outcome)| match outcome {
        Ok(found) => passed(name, found),
        Err(error) => failed(name, refusal(&error, client)),
    });
    let client = passed("client", client.name.clone());
    let structure = passed("structure", "three parts of base64url");
    [client, structure].into_iter().chain(checks).collect()
}

/// The failed check of an assertion whose `jti` was used. `id` is the id of an assertion of this kind.
async fn used_before(
    context: &Context<'_>,
    client: &Client,
    claims: &Map<String, Value>,
    id: fn(&ClientId, &str) -> OnceId,
) -> Result<Option<CheckView>, StoreError> {
    let Some(jti) = text(claims, "jti") else {
        return Ok(None);
    };
    let id = id(&client.client_id, jti);
    let is_used = context.store.is_used(id, context.now).await?;
    let replayed = || failed("single use", AssertionError::Replayed.to_string());
    Ok(is_used.then(replayed))
}

/// The description for the client, with details that the client does not get.
fn refusal(error: &AssertionError, client: &Client) -> String {
    let description = error.to_string();
    match error {
        AssertionError::UnknownThumbprint
        | AssertionError::UnknownAlias
        | AssertionError::ThumbprintAsAlias(_) => {
            let certificates = client.certificates().iter();
            let known: Vec<String> = certificates
                .map(|certificate| format!("{} (x5t {})", certificate.alias, certificate.x5t()))
                .collect();
            format!("{description}; registered: {}", known.join(", "))
        }
        AssertionError::UnknownKid | AssertionError::NoKid => {
            let keys = client.key_authentication.keys.iter();
            let known: Vec<&str> = keys.map(|key| key.kid.as_str()).collect();
            format!("{description}; registered: {}", known.join(", "))
        }
        _ => description,
    }
}

fn subject(
    user: Option<&User>,
    claims: &Map<String, Value>,
    organization: Option<&str>,
) -> Vec<CheckView> {
    let username = text(claims, "sub").unwrap_or_default();
    let Some(user) = user else {
        let reason = format!("there is no enabled user {username:?}");
        return vec![failed("user", reason)];
    };
    if !jwt_bearer::is_subject(user, organization) {
        let reason = format!("{username} is not of the client's organization (D-19)");
        return vec![failed("user", reason)];
    }
    let named = account_selection::NamedAccount {
        user_id: text(claims, "user_id"),
        user_site: text(claims, "user_site"),
    };
    vec![
        passed("user", "is enabled"),
        match account_selection::select(&user.accounts, named) {
            Ok(account) => passed(
                "linked account",
                format!("{} at {}", account.user_id, account.site),
            ),
            Err(error) => failed("linked account", error.to_string()),
        },
    ]
}
