//! Assertions that clients bring: about a user, or in place of a secret.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{CheckView, failed, passed};
use domain::{Client, Identity, IntegrationType};
use protocol::Context;
use protocol::identity_provider::IdentityProvider;
use protocol::oauth::account_selection;
use protocol::oauth::assertion::identity::IdentityAssertion;
use protocol::oauth::assertion::provider::ProviderToken;
use protocol::oauth::assertion::{AssertionError, Finding, Subject, Unverified};
use protocol::oauth::grants::jwt_bearer;
use store::{OnceId, StoreError};

pub(super) async fn user_assertion(
    context: &Context<'_>,
    assertion: &Unverified<'_>,
) -> Result<Vec<CheckView>, StoreError> {
    let client = match client(context, assertion.claims(), "iss").await? {
        Ok(client) => client,
        Err(unknown) => return Ok(vec![unknown]),
    };
    let IntegrationType::NonInteractive { certificates, .. } = &client.integration else {
        return Ok(vec![not_for(&client)]);
    };
    let case = assertion.of_user(
        &client.client_id,
        certificates,
        context.settings,
        context.now,
    );
    let checks = views(&client, case.explain());
    let subject = |name: &str| Subject::Username(name.to_owned());
    about_user(context, &client, assertion.claims(), checks, subject).await
}

/// An assertion of an identity provider of the configuration, from the client in `client_id`.
pub(super) async fn provider_assertion(
    context: &Context<'_>,
    provider: &IdentityProvider,
    assertion: &Unverified<'_>,
) -> Result<Vec<CheckView>, StoreError> {
    let client = match client(context, assertion.claims(), "client_id").await? {
        Ok(client) => client,
        Err(unknown) => return Ok(vec![unknown]),
    };
    if !matches!(client.integration, IntegrationType::NonInteractive { .. }) {
        return Ok(vec![not_for(&client)]);
    }
    let named = match assertion.provider(&client, context.settings) {
        Ok(Some(_)) => passed("identity provider", provider.id.clone()),
        _ => failed(
            "identity provider",
            format!(
                "{} does not accept assertions of {} (identity_providers of the client)",
                client.client_id, provider.issuer
            ),
        ),
    };
    let found = ProviderToken::find(assertion, provider, context.provider_keys).await;
    let token = match found {
        Ok(token) => token,
        Err(unavailable) => return Ok(vec![named, failed("key", unavailable.to_string())]),
    };
    let by_provider = IdentityAssertion {
        token,
        client: &client,
    };
    let case = by_provider.case(context.settings, context.now);
    let mut checks = views(&client, case.explain());
    checks.insert(1, named);
    let subject = |name: &str| {
        Subject::Identity(Identity {
            issuer: provider.issuer.clone(),
            subject: name.to_owned(),
        })
    };
    about_user(context, &client, assertion.claims(), checks, subject).await
}

fn not_for(client: &Client) -> CheckView {
    failed(
        "client",
        format!(
            "{} is of type {}; assertions are for non_interactive",
            client.client_id,
            client.integration.name()
        ),
    )
}

/// The checks of an assertion about a user, with those that need the store.
async fn about_user(
    context: &Context<'_>,
    client: &Client,
    claims: &Map<String, Value>,
    mut checks: Vec<CheckView>,
    subject: impl Fn(&str) -> Subject,
) -> Result<Vec<CheckView>, StoreError> {
    let subject = subject(text(claims, "sub").unwrap_or_default());
    checks.extend(user(context, client, claims, &subject).await?);
    let id = |jti: &str| jwt_bearer::once_id(&client.client_id, &subject, jti);
    checks.extend(used_before(context, claims, id).await?);
    Ok(checks)
}

pub(super) async fn client_assertion(
    context: &Context<'_>,
    assertion: &Unverified<'_>,
) -> Result<Vec<CheckView>, StoreError> {
    let claims = assertion.claims();
    let client = match client(context, claims, "iss").await? {
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
    let id = |jti: &str| OnceId::of_client_assertion(&client.client_id, jti);
    checks.extend(used_before(context, claims, id).await?);
    Ok(checks)
}

fn text<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    claims.get(name).and_then(Value::as_str)
}

/// The client in `claim`, or the check that fails without it.
async fn client(
    context: &Context<'_>,
    claims: &Map<String, Value>,
    claim: &str,
) -> Result<Result<Arc<Client>, CheckView>, StoreError> {
    let client_id = text(claims, claim).unwrap_or_default();
    let found = context.directory.client(client_id).await?;
    Ok(found.ok_or_else(|| {
        let or = match claim {
            "iss" => ", or an issuer of [[identity_providers]]",
            _ => "",
        };
        failed(
            "client",
            format!(
                "{claim} must be the Client ID of an enabled client{or}; {client_id:?} is none"
            ),
        )
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
    claims: &Map<String, Value>,
    id: impl Fn(&str) -> OnceId,
) -> Result<Option<CheckView>, StoreError> {
    let Some(jti) = text(claims, "jti") else {
        return Ok(None);
    };
    let is_used = context.store.is_used(id(jti), context.now).await?;
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

async fn user(
    context: &Context<'_>,
    client: &Client,
    claims: &Map<String, Value>,
    subject: &Subject,
) -> Result<Vec<CheckView>, StoreError> {
    let Some(user) = jwt_bearer::user(context, subject).await? else {
        let reason = match subject {
            Subject::Username(name) => format!("there is no enabled user {name:?}"),
            Subject::Identity(Identity { issuer, subject }) => {
                format!(
                    "no enabled user is linked to {subject:?} of {issuer} (identities of the user)"
                )
            }
        };
        return Ok(vec![failed("user", reason)]);
    };
    let username = &user.username;
    let organization = match &client.integration {
        IntegrationType::NonInteractive { organization, .. } => organization.as_deref(),
        _ => None,
    };
    if !jwt_bearer::is_subject(&user, organization) {
        let reason = format!(
            "{username} is of {}, and the client {} names only users of {}",
            user.organization.as_deref().unwrap_or("no organization"),
            client.client_id,
            organization.unwrap_or_default()
        );
        return Ok(vec![failed("user", reason)]);
    }
    let named = account_selection::NamedAccount {
        user_id: text(claims, "user_id"),
        user_site: text(claims, "user_site"),
    };
    Ok(vec![
        passed("user", format!("{username} is enabled")),
        match account_selection::select(&user.accounts, named) {
            Ok(account) => passed(
                "linked account",
                format!("{} at {}", account.user_id, account.site),
            ),
            Err(error) => failed("linked account", error.to_string()),
        },
    ])
}
