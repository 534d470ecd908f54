//! User assertions of clients.

use serde_json::{Map, Value};

use super::{CheckView, failed, passed};
use domain::{Client, IntegrationType, User};
use protocol::Context;
use protocol::oauth::account_selection;
use protocol::oauth::assertion::{self, AssertionError};
use protocol::oauth::grants::jwt_bearer;
use store::{AssertionId, StoreError};

pub(super) async fn user_assertion(
    context: &Context<'_>,
    token: &str,
    claims: &Map<String, Value>,
) -> Result<Vec<CheckView>, StoreError> {
    let issuer = claims
        .get("iss")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let Some(client) = context.directory.client(issuer).await? else {
        return Ok(vec![failed(
            "client",
            format!("iss must be the Client ID of an enabled client; {issuer:?} is none"),
        )]);
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
                "{issuer} is of type {}; assertions are for non_interactive",
                client.integration.name()
            ),
        )]);
    };
    let mut checks = vec![passed("client", client.name.clone())];
    let found = assertion::explain(
        token,
        &client.client_id,
        certificates,
        context.settings,
        context.now,
    );
    checks.extend(found.into_iter().map(|check| match check.outcome {
        Ok(found) => passed(check.name, found),
        Err(error) => failed(check.name, refusal(&error, &client)),
    }));
    let username = claims
        .get("sub")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let user = context.directory.user(username).await?;
    checks.extend(subject(user.as_deref(), claims, organization.as_deref()));
    if let Some(jti) = claims.get("jti").and_then(Value::as_str) {
        let id = AssertionId::of_user_assertion(&client.client_id, jti);
        if context.store.is_jti_claimed(id, context.now).await? {
            let reason = AssertionError::Replayed.description();
            checks.push(failed("single use", reason));
        }
    }
    Ok(checks)
}

/// The description for the client, with details that the client does not get.
fn refusal(error: &AssertionError, client: &Client) -> String {
    let description = error.description();
    match error {
        AssertionError::UnknownThumbprint | AssertionError::UnknownAlias => {
            let certificates = client.certificates().iter();
            let known: Vec<String> = certificates
                .map(|certificate| format!("{} (x5t {})", certificate.alias, certificate.x5t()))
                .collect();
            format!("{description}; registered: {}", known.join(", "))
        }
        _ => description.into_owned(),
    }
}

fn subject(
    user: Option<&User>,
    claims: &Map<String, Value>,
    organization: Option<&str>,
) -> Vec<CheckView> {
    let claim = |name: &str| claims.get(name).and_then(Value::as_str);
    let username = claim("sub").unwrap_or_default();
    let Some(user) = user else {
        let reason = format!("there is no enabled user {username:?}");
        return vec![failed("user", reason)];
    };
    if !jwt_bearer::is_subject(user, organization) {
        let reason = format!("{username} is not of the client's organization (D-19)");
        return vec![failed("user", reason)];
    }
    let named = account_selection::NamedAccount {
        user_id: claim("user_id"),
        user_site: claim("user_site"),
    };
    vec![
        passed("user", "is enabled"),
        match account_selection::select(&user.accounts, named) {
            Ok(account) => passed(
                "linked account",
                format!("{} at {}", account.user_id, account.site),
            ),
            Err(error) => failed("linked account", error.description()),
        },
    ]
}
