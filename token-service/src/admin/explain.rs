//! `explain`: a token or an assertion, decoded, with every check that decides about it and its reason in words. The checks
//! are the ones that really decide.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::token::{ACCESS_TOKEN_TYPE, REFRESH_TOKEN_TYPE};
use claims::{CompactJws, RefreshTokenClaims};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::Administration;
use domain::clock::Timestamp;
use domain::grant::RotationDecision;
use domain::{Client, Grant, IntegrationType, RefreshRotation, Registry, RotationRefusal};
use protocol::Context;
use protocol::flow::{Current, Flow, OpaqueRefreshToken};
use protocol::flows;
use protocol::oauth::account_selection;
use protocol::oauth::assertion::{self, AssertionError};
use protocol::oauth::grants::{jwt_bearer, refresh_token};
use protocol::token::IssuedToken;
use store::StoreError;

/// What was found out about a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// `access token`, `refresh token`, `legacy refresh token`, `user assertion` or `unknown`.
    pub kind: String,
    /// The JOSE header, if the token has one that can be read.
    #[schema(value_type = Object)]
    pub header: Value,
    /// The claims, if the token has some that can be read.
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
    /// Explains an access token, a refresh token, one of the legacy flow or a user assertion. Nothing is used up: an assertion's `jti` stays free.
    ///
    /// # Errors
    /// The store's.
    pub async fn explain(&self, token: &str) -> Result<Explanation, StoreError> {
        let token = token.trim();
        let token = match token.split_at_checked(7) {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("Bearer ") => rest.trim_start(),
            _ => token,
        };
        let moment = self.service.moment();
        let context = self.service.context(&moment);
        if let Some((flow, token)) = flows::opaque_refresh_token(&context, token) {
            let checks = opaque_refresh_token(&context, flow, token).await?;
            return Ok(Explanation {
                kind: token.kind.to_owned(),
                header: Value::Null,
                claims: Value::Null,
                accepted: checks.iter().all(|check| check.passed),
                checks,
            });
        }
        let jws = match CompactJws::parse(token) {
            Ok(jws) => jws,
            Err(error) => {
                let reason = format!(
                    "{error}; a JWT has three parts of base64url without padding, joined by dots, with a strict JSON header"
                );
                return Ok(Explanation {
                    kind: "unknown".to_owned(),
                    header: header_as_sent(token),
                    claims: Value::Null,
                    checks: vec![failed("structure", reason)],
                    accepted: false,
                });
            }
        };
        let header = header_as_sent(token);
        let typ = jws.header.typ.as_deref();
        let kind = match typ {
            Some(ACCESS_TOKEN_TYPE) => "access token",
            Some(REFRESH_TOKEN_TYPE) => "refresh token",
            _ => "user assertion",
        };
        let claims = match jws.claims() {
            Ok(claims) => claims,
            Err(error) => {
                return Ok(Explanation {
                    kind: kind.to_owned(),
                    header,
                    claims: Value::Null,
                    checks: vec![failed("structure", error.to_string())],
                    accepted: false,
                });
            }
        };
        let checks = match typ {
            Some(typ @ (ACCESS_TOKEN_TYPE | REFRESH_TOKEN_TYPE)) => {
                issued(&context, token, &jws, &claims, typ).await?
            }
            _ => user_assertion(&context, token, &claims).await?,
        };
        Ok(Explanation {
            kind: kind.to_owned(),
            header,
            claims: Value::Object(claims),
            accepted: checks.iter().all(|check| check.passed),
            checks,
        })
    }
}

/// The checks of a token that this service signs, in the order in which the gateway or the token endpoint makes them.
/// What depends on a check that failed is left out: the failed check is the cause.
async fn issued(
    context: &Context<'_>,
    token: &str,
    jws: &CompactJws<'_>,
    claims: &Map<String, Value>,
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
        // Anybody could have written the claims.
        return Ok(checks);
    }
    checks.extend(match typ {
        REFRESH_TOKEN_TYPE => refresh_token(context, claims).await?,
        // The gateway knows of clients, users and linked accounts by the feed of revocations alone.
        _ => access_token(context, claims).await?,
    });
    Ok(checks)
}

/// Issuer, audience and expiry.
fn frame(
    context: &Context<'_>,
    claims: &Map<String, Value>,
    iss: &str,
    aud: &str,
) -> Vec<CheckView> {
    let equal = |name: &'static str, expected: &str| {
        let found = claims.get(name).and_then(Value::as_str);
        judged(
            name,
            found == Some(expected),
            expected,
            &format!("is {}; expected {expected:?}", shown(claims.get(name))),
        )
    };
    let expires_at = claims
        .get("exp")
        .and_then(claims::json::numeric_date)
        .map(Timestamp::from_seconds);
    let expiry = match expires_at {
        None => failed("exp", "is absent, or no number of seconds since 1970"),
        Some(at) => expiry(at, context.now),
    };
    vec![equal("iss", iss), equal("aud", aud), expiry]
}

fn expiry(at: Timestamp, now: Timestamp) -> CheckView {
    if now < at {
        let left = at.since(now).as_secs();
        passed("exp", format!("{}, {left} s from now", at.rfc3339()))
    } else {
        let ago = now.since(at).as_secs();
        failed("exp", format!("expired at {}, {ago} s ago", at.rfc3339()))
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "absent".to_owned(), Value::to_string)
}

async fn access_token(
    context: &Context<'_>,
    claims: &Map<String, Value>,
) -> Result<Vec<CheckView>, StoreError> {
    let named = claims.get("iss").and_then(Value::as_str);
    let flow = named.and_then(|issuer| Some((issuer, flows::of_issuer(context, issuer)?)));
    let (issuer, flow) = flow.unwrap_or((&context.settings.issuer, &Current));
    let mut checks = frame(context, claims, issuer, &context.settings.api_audience);
    let Some(token) = flow.access_token(Value::Object(claims.clone())) else {
        checks.push(failed(
            "claims",
            "are not those of an access token of this service",
        ));
        return Ok(checks);
    };
    checks.push(judged(
        "revocation",
        !context.store.is_revoked(token.reference).await?,
        "neither the token nor its grant, client, user, account or issuer is revoked",
        "the token, or its grant, client, user, account or issuer, is revoked",
    ));
    Ok(checks)
}

/// A refresh token: what the token endpoint would decide about its next use.
async fn refresh_token(
    context: &Context<'_>,
    claims: &Map<String, Value>,
) -> Result<Vec<CheckView>, StoreError> {
    let issuer = &context.settings.issuer;
    let mut checks = frame(context, claims, issuer, issuer);
    // The store knows the expiry; the claim only repeats it.
    let expiry = checks.pop();
    let read = serde_json::from_value::<RefreshTokenClaims>(Value::Object(claims.clone()));
    let Some(token) = read.ok().and_then(IssuedToken::refresh) else {
        checks.push(failed(
            "claims",
            "are not those of a refresh token of this service",
        ));
        return Ok(checks);
    };
    let reference = token.reference;
    let client = context.registry.client(reference.client_id.as_str());
    checks.push(match client {
        Some(client) if refresh_token::may_refresh(client) => passed("client", client.name.clone()),
        Some(_) => failed("client", "is of a type that does not refresh"),
        None => failed("client", "is unknown or disabled"),
    });
    let lifetimes = &context.settings.lifetimes;
    let rotation = RefreshRotation {
        grant_id: reference.grant_id,
        refresh_id: reference.token_id,
        client_id: reference.client_id,
        scope: None,
        // Nothing is written: these ids are never used.
        next_refresh_id: reference.token_id,
        next_access_id: reference.token_id,
        now: context.now,
        lifetime: lifetimes.refresh_token,
        grace: lifetimes.refresh_reuse_grace,
    };
    let grant = context.store.grant(reference.grant_id).await?;
    next_use(context, grant, &rotation, expiry, &mut checks);
    Ok(checks)
}

/// A refresh token that is no JWT: what the token endpoint of its flow would decide about its next use.
async fn opaque_refresh_token(
    context: &Context<'_>,
    flow: &dyn Flow,
    token: OpaqueRefreshToken<'_>,
) -> Result<Vec<CheckView>, StoreError> {
    let host = token.host;
    let mut checks = vec![judged(
        "instance",
        token.is_enabled,
        host,
        &format!("{host} is disabled"),
    )];
    let Some(grant) = context.store.grant(token.grant_id).await? else {
        checks.push(forgotten());
        return Ok(checks);
    };
    let client_id = grant.client_id.clone();
    let client = context.registry.client_of_any_flow(client_id.as_str());
    checks.push(match client.filter(|client| flow.serves(client, host)) {
        Some(client) => passed("client", client.name.clone()),
        None => failed(
            "client",
            format!("{client_id} is unknown at {host}, or disabled"),
        ),
    });
    let rotation = RefreshRotation {
        grant_id: token.grant_id,
        refresh_id: token.refresh_id,
        client_id,
        scope: None,
        // Nothing is written: these ids are never used.
        next_refresh_id: token.refresh_id,
        next_access_id: token.refresh_id,
        now: context.now,
        lifetime: context.settings.lifetimes.refresh_token,
        grace: token.reuse_grace,
    };
    let expiry = expiry(grant.current.refresh_expires_at, context.now);
    next_use(context, Some(grant), &rotation, Some(expiry), &mut checks);
    Ok(checks)
}

fn forgotten() -> CheckView {
    failed("grant", "is unknown: it ended and is forgotten")
}

/// The grant of a refresh token, and the token's place in it. Whoever disables a client or a user, or unlinks an account,
/// revokes the grants with it: where one of those is the cause, its consequence is left out.
fn next_use(
    context: &Context<'_>,
    grant: Option<Grant>,
    rotation: &RefreshRotation,
    expiry: Option<CheckView>,
    checks: &mut Vec<CheckView>,
) {
    if !checks.iter().all(|check| check.passed) {
        return;
    }
    let Some(mut grant) = grant else {
        checks.push(forgotten());
        return;
    };
    let Some(user) = context.registry.user(grant.username.as_str()) else {
        checks.push(failed("user", "is unknown or disabled"));
        return;
    };
    checks.push(passed("user", "is enabled"));
    let account = format!("{} at {}", grant.account.user_id, grant.account.site);
    let linked = user.accounts.contains(&grant.account);
    let unlinked = format!("{account} is not linked to the user any more");
    checks.push(judged("linked account", linked, &account, &unlinked));
    if !linked {
        return;
    }
    match grant.rotate(rotation) {
        RotationDecision::Refuse(RotationRefusal::Expired) => {
            checks.push(failed("exp", "has passed without a refresh"));
        }
        RotationDecision::Refuse(RotationRefusal::Revoked) => {
            checks.push(failed("revocation", "the grant of the token is revoked"));
        }
        RotationDecision::Refuse(_) => {
            checks.push(failed("grant", "belongs to another client"));
        }
        RotationDecision::Revoke => checks.push(failed(
            "rotation",
            "was used before, and the grace is over: another use revokes the grant (D-3)",
        )),
        RotationDecision::Repeat(_) => checks.push(passed(
            "rotation",
            "was used before; within the grace the same answer is given again (D-3)",
        )),
        RotationDecision::Rotate => {
            checks.extend(expiry);
            checks.push(passed("revocation", "the grant of the token is live"));
            checks.push(passed("rotation", "is the grant's live refresh token"));
        }
    }
}

/// The header with every member that was sent: a misspelt one is what the person looks for.
fn header_as_sent(token: &str) -> Value {
    let header = token.split('.').next().unwrap_or_default();
    let bytes = URL_SAFE_NO_PAD.decode(header).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or(Value::Null)
}

async fn user_assertion(
    context: &Context<'_>,
    token: &str,
    claims: &Map<String, Value>,
) -> Result<Vec<CheckView>, StoreError> {
    let issuer = claims
        .get("iss")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let Some(client) = context.registry.client(issuer) else {
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
        Err(error) => failed(check.name, refusal(&error, client)),
    }));
    checks.extend(subject(context.registry, claims, organization.as_deref()));
    if let Some(jti) = claims.get("jti").and_then(Value::as_str) {
        let (client_id, jti) = (client.client_id.clone(), jti.to_owned());
        if context
            .store
            .is_jti_claimed(client_id, jti, context.now)
            .await?
        {
            let reason = AssertionError::Replayed.description();
            checks.push(failed("single use", reason));
        }
    }
    Ok(checks)
}

/// The description that the client gets, and what the client cannot know.
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
    registry: &Registry,
    claims: &Map<String, Value>,
    organization: Option<&str>,
) -> Vec<CheckView> {
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
