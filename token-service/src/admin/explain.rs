//! `explain`: a token or an assertion, decoded, with every check that decides about it and its reason in words. The checks
//! are the ones that really decide.

use claims::CompactJws;
use claims::token::{ACCESS_TOKEN_TYPE, REFRESH_TOKEN_TYPE};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::views::rfc3339;
use super::{Administration, Object};
use crate::clock::Timestamp;
use crate::oauth::Context;
use crate::oauth::account_selection;
use crate::oauth::assertion::{self, AssertionError};
use crate::oauth::grants::jwt_bearer;
use crate::oauth::issued_token::IssuedToken;
use crate::registry::{Client, IntegrationType, Registry, User};
use crate::store::{StoreError, TokenReference, TokenSubject};

/// What was found out about a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// `access token`, `refresh token`, `user assertion` or `unknown`.
    pub kind: String,
    /// The JOSE header, if it can be read.
    #[schema(value_type = Object)]
    pub header: Value,
    /// The claims, if they can be read.
    #[schema(value_type = Object)]
    pub claims: Value,
    /// Every check.
    pub checks: Vec<CheckView>,
    /// Whether it would be accepted now.
    pub accepted: bool,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckView {
    /// What is looked at.
    pub check: String,
    /// Whether it is right.
    pub passed: bool,
    /// What was found, or what is wrong with it.
    pub reason: String,
}

fn passed(check: &str, reason: impl Into<String>) -> CheckView {
    CheckView {
        check: check.to_owned(),
        passed: true,
        reason: reason.into(),
    }
}

fn failed(check: &str, reason: impl Into<String>) -> CheckView {
    CheckView {
        passed: false,
        ..passed(check, reason)
    }
}

fn judged(check: &str, right: bool, found: &str, wrong: &str) -> CheckView {
    if right {
        passed(check, found)
    } else {
        failed(check, wrong)
    }
}

impl Administration<'_> {
    /// Explains an access token, a refresh token or a user assertion. Nothing is used up: an assertion's `jti` stays free.
    ///
    /// # Errors
    /// The store's.
    pub async fn explain(&self, token: &str) -> Result<Explanation, StoreError> {
        let token = token.trim();
        let token = match token.split_at_checked(7) {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("Bearer ") => rest.trim_start(),
            _ => token,
        };
        let (registry, keys) = (self.service.registry(), self.service.keys());
        let context = self.service.context(&registry, &keys);
        let Ok(jws) = CompactJws::parse(token) else {
            return Ok(Explanation {
                kind: "unknown".to_owned(),
                header: Value::Null,
                claims: Value::Null,
                checks: vec![failed(
                    "structure",
                    "this is not a JWT: three parts of base64url without padding, joined by dots, with a strict JSON header",
                )],
                accepted: false,
            });
        };
        let mut header = Object::from_iter([("alg".to_owned(), json!(jws.header.alg))]);
        for (name, value) in [
            ("typ", &jws.header.typ),
            ("kid", &jws.header.kid),
            ("x5t", &jws.header.x5t),
        ] {
            if let Some(value) = value {
                header.insert(name.to_owned(), json!(value));
            }
        }
        let header = Value::Object(header);
        let claims = jws.claims().map_or(Value::Null, Value::Object);
        let (kind, checks) = match jws.header.typ.as_deref() {
            Some(ACCESS_TOKEN_TYPE) => {
                let checks = issued(&context, token, &jws, ACCESS_TOKEN_TYPE).await?;
                ("access token", checks)
            }
            Some(REFRESH_TOKEN_TYPE) => {
                let checks = issued(&context, token, &jws, REFRESH_TOKEN_TYPE).await?;
                ("refresh token", checks)
            }
            _ => ("user assertion", user_assertion(&context, token, &claims)),
        };
        Ok(Explanation {
            kind: kind.to_owned(),
            header,
            claims,
            accepted: checks.iter().all(|check| check.passed),
            checks,
        })
    }
}

async fn issued(
    context: &Context<'_>,
    token: &str,
    jws: &CompactJws<'_>,
    typ: &str,
) -> Result<Vec<CheckView>, StoreError> {
    let kid = jws.header.kid.as_deref().unwrap_or_default();
    let known = context.keys.sealed().iter().any(|key| key.kid == kid);
    let mut checks = vec![
        passed("typ", typ),
        judged(
            "key",
            known,
            "one of this service's",
            "kid names no key of this service: the token is of another issuer, or its key is forgotten",
        ),
    ];
    if !known {
        // Without its key nothing else can be said.
        return Ok(checks);
    }
    let signed = context.keys.verify(token, typ).is_some();
    checks.push(judged(
        "signature",
        signed,
        "the key's",
        "is not the key's, or alg is not the key's",
    ));
    if !signed {
        // The claims are anybody's.
        return Ok(checks);
    }
    let Some(token) = IssuedToken::read(context, token) else {
        let config = context.config;
        let expected = if typ == ACCESS_TOKEN_TYPE {
            &config.api_audience
        } else {
            &config.issuer
        };
        checks.push(failed(
            "iss, aud",
            format!(
                "expected the issuer {} and the audience {expected}, and all claims of such a token",
                config.issuer
            ),
        ));
        return Ok(checks);
    };
    checks.push(passed("iss, aud", "as configured"));
    let expires_at = Timestamp::from_seconds(token.expires_at());
    checks.push(judged(
        "exp",
        context.now < expires_at,
        &format!(
            "{}, {} s from now",
            rfc3339(expires_at),
            expires_at.since(context.now).as_secs()
        ),
        &format!("expired at {}", rfc3339(expires_at)),
    ));
    let Some(reference) = token.reference() else {
        checks.push(failed(
            "ids",
            "jti, grant_id, client_id or sub is not of this service's form",
        ));
        return Ok(checks);
    };
    let client = reference.client_id.as_str();
    checks.push(match context.registry.client_of_any_flow(client) {
        Some(client) => passed("client", client.name.clone()),
        None => failed("client", "is unknown or disabled"),
    });
    let username = match &reference.subject {
        TokenSubject::User { username, .. } => Some(username.clone()),
        // Only its grant knows the user.
        TokenSubject::Legacy { .. } => {
            let grant = context.store.grant(reference.grant_id).await?;
            grant.map(|grant| grant.username)
        }
    };
    let user = username.and_then(|name| context.registry.user(name.as_str()));
    checks.push(judged(
        "user",
        user.is_some(),
        "is enabled",
        "is unknown or disabled",
    ));
    checks.push(judged(
        "revocation",
        !context.store.is_revoked(reference.clone()).await?,
        "neither the token nor its grant, client, user, account or issuer is revoked",
        "the token, or its grant, client, user, account or issuer, is revoked",
    ));
    checks.extend(account(context, &token, &reference, user.map(|user| &**user)).await?);
    Ok(checks)
}

/// The linked account, and for a refresh token its place in the rotation.
async fn account(
    context: &Context<'_>,
    token: &IssuedToken,
    reference: &TokenReference,
    user: Option<&User>,
) -> Result<Vec<CheckView>, StoreError> {
    let linked = |right: bool, id: &str| {
        judged(
            "linked account",
            right,
            &format!("{id} is linked"),
            &format!("{id} is not linked to the user any more"),
        )
    };
    match token {
        IssuedToken::Access(claims) => {
            let right = user.is_some_and(|user| {
                let mut accounts = user.accounts.iter();
                accounts.any(|account| {
                    account.user_id == claims.user_id && account.site == claims.user_site
                })
            });
            Ok(vec![linked(right, &claims.user_id)])
        }
        IssuedToken::Legacy(claims) => {
            let right = user.is_some_and(|user| {
                let mut accounts = user.accounts.iter();
                accounts.any(|account| account.user_id == claims.sub)
            });
            Ok(vec![linked(right, &claims.sub)])
        }
        IssuedToken::Refresh(_) => {
            let Some(grant) = context.store.grant(reference.grant_id).await? else {
                return Ok(vec![failed(
                    "grant",
                    "is unknown: it ended and is forgotten",
                )]);
            };
            let current = grant.current.refresh_id == reference.token_id;
            let right = user.is_some_and(|user| user.accounts.contains(&grant.account));
            Ok(vec![
                judged("grant", grant.revoked_at.is_none(), "is live", "is revoked"),
                judged(
                    "rotation",
                    current,
                    "is the grant's live refresh token",
                    "was used: within the grace it gets the same answer again, after it the grant is revoked (D-3)",
                ),
                linked(right, &grant.account.user_id),
            ])
        }
    }
}

fn user_assertion(context: &Context<'_>, token: &str, claims: &Value) -> Vec<CheckView> {
    let issuer = claims
        .get("iss")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let Some(client) = context.registry.client(issuer) else {
        return vec![failed(
            "client",
            format!("iss must be the Client ID of an enabled client; {issuer:?} is none"),
        )];
    };
    let IntegrationType::NonInteractive {
        certificates,
        organization,
        ..
    } = &client.integration
    else {
        return vec![failed(
            "client",
            format!(
                "{issuer} is of type {}; assertions are for non_interactive",
                client.integration.name()
            ),
        )];
    };
    let mut checks = vec![passed("client", client.name.clone())];
    let found = assertion::explain(
        token,
        &client.client_id,
        certificates,
        context.config,
        context.now,
    );
    checks.extend(found.into_iter().map(|check| match check.outcome {
        Ok(found) => passed(check.name, found),
        Err(error) => failed(check.name, refusal(error, client)),
    }));
    checks.extend(subject(context.registry, claims, organization.as_deref()));
    checks
}

/// The description that the client gets, and what the client cannot know.
fn refusal(error: AssertionError, client: &Client) -> String {
    let description = error.description();
    match error {
        AssertionError::UnknownThumbprint | AssertionError::UnknownAlias => {
            let certificates = client.certificates().iter();
            let known: Vec<String> = certificates
                .map(|certificate| format!("{} (x5t {})", certificate.alias, certificate.x5t()))
                .collect();
            format!("{description}; registered: {}", known.join(", "))
        }
        _ => description.to_owned(),
    }
}

fn subject(registry: &Registry, claims: &Value, organization: Option<&str>) -> Vec<CheckView> {
    let claim = |name: &str| claims.get(name).and_then(Value::as_str);
    let username = claim("sub").unwrap_or_default();
    let Some(user) = jwt_bearer::find_subject(registry, username, organization) else {
        let reason = match registry.user(username) {
            None => format!("there is no enabled user {username:?}"),
            Some(_) => format!("{username} is not of the client's organization (D-19)"),
        };
        return vec![failed("user", reason)];
    };
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
