//! Tokens that this service issued.

use std::sync::Arc;
use std::time::Duration;

use claims::RefreshTokenClaims;
use claims::token::{ACCESS_TOKEN_TYPE, REFRESH_TOKEN_TYPE};
use serde_json::{Map, Value};

use super::proof::{SentProof, possession};
use super::revocation::Of;
use super::{CheckView, failed, judged, passed};
use crate::http::admin::Administration;
use crate::http::admin::answer::AdminError;
use domain::clock::Timestamp;
use domain::refresh_rotation::RotationDecision;
use domain::{ClientId, Grant, RefreshRotation, Rotation, RotationRefusal, TokenId, Username};
use protocol::Context;
use protocol::flow::{Current, Flow, OpaqueRefreshToken};
use protocol::flows;
use protocol::oauth::grants::refresh_token;
use protocol::token::IssuedToken;

/// The checks of a token signed by this service, in the order of the gateway or the token endpoint. Checks that depend
/// on a failed check are omitted: the failed check is the cause.
pub(super) async fn issued(
    administration: &Administration,
    context: &Context<'_>,
    token: &str,
    kid: &str,
    claims: &Map<String, Value>,
    typ: &str,
    proof: Option<&SentProof>,
) -> Result<Vec<CheckView>, AdminError> {
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
        // Without the key no other check is possible.
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
        // The claims cannot be trusted.
        return Ok(checks);
    }
    checks.extend(match typ {
        REFRESH_TOKEN_TYPE => refresh_token(administration, context, claims).await?,
        // The gateway knows about clients, users and linked accounts only from the revocation feed.
        _ => access_token(administration, context, claims).await?,
    });
    if typ == ACCESS_TOKEN_TYPE {
        checks.extend(possession(token, claims, proof, context.now));
    }
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
        let found = claims.get(name);
        let shown = found.map_or_else(|| "absent".to_owned(), Value::to_string);
        let wrong = format!("is {shown}; expected {expected:?}");
        let is_equal = found.is_some_and(|found| found == expected);
        judged(name, is_equal, expected, &wrong)
    };
    let expiry = match claims.get("exp").and_then(claims::json::numeric_date) {
        None => failed("exp", "is absent, or no number of seconds since 1970"),
        Some(at) => expiry(Timestamp::from_seconds(at), context.now),
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

async fn access_token(
    administration: &Administration,
    context: &Context<'_>,
    claims: &Map<String, Value>,
) -> Result<Vec<CheckView>, AdminError> {
    let named = claims.get("iss").and_then(Value::as_str);
    let flow = named.and_then(|issuer| Some((issuer, flows::of_issuer(context, issuer)?)));
    let (issuer, flow) = flow.unwrap_or((&context.settings.issuer, &Current));
    let mut checks = frame(context, claims, issuer, &context.settings.api_audience);
    let Some(token) = flow.access_token(Value::Object(claims.clone())) else {
        checks.push(failed(
            "claims",
            "are not the claims of an access token of this service",
        ));
        return Ok(checks);
    };
    checks.push(administration.revocation(token.reference).await?);
    Ok(checks)
}

/// The checks of the token endpoint for the next use of a refresh token.
async fn refresh_token(
    administration: &Administration,
    context: &Context<'_>,
    claims: &Map<String, Value>,
) -> Result<Vec<CheckView>, AdminError> {
    let issuer = &context.settings.issuer;
    let mut checks = frame(context, claims, issuer, issuer);
    // The expiry in the store decides; the claim only repeats it.
    let expiry = checks.pop();
    let read = serde_json::from_value::<RefreshTokenClaims>(Value::Object(claims.clone()));
    let Some(token) = read.ok().and_then(IssuedToken::refresh) else {
        checks.push(failed(
            "claims",
            "are not the claims of a refresh token of this service",
        ));
        return Ok(checks);
    };
    let reference = token.reference;
    let grant = context.store.grant(reference.grant_id).await?;
    let client = context.directory.client(reference.client_id.as_str());
    checks.push(match client.await? {
        Some(client) if refresh_token::may_refresh(&client) => {
            passed("client", client.name.clone())
        }
        Some(_) => failed("client", "is of a type that does not refresh"),
        None => no_client(administration, &reference.client_id, grant.as_ref()).await?,
    });
    let presented = Presented {
        refresh_id: reference.token_id,
        client_id: reference.client_id,
        grace: context.settings.lifetimes.refresh_reuse_grace,
        expiry,
    };
    next_use(administration, context, grant, presented, &mut checks).await?;
    Ok(checks)
}

/// The checks of the flow's token endpoint for the next use of a refresh token that is not a JWT.
pub(super) async fn opaque_refresh_token(
    administration: &Administration,
    context: &Context<'_>,
    flow: &dyn Flow,
    token: OpaqueRefreshToken<'_>,
) -> Result<Vec<CheckView>, AdminError> {
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
    let client = context.directory.client_of_any_flow(client_id.as_str());
    checks.push(match client.await? {
        Some(client) if flow.serves(&client, host) => passed("client", client.name.clone()),
        Some(_) => failed("client", format!("{client_id} is not for {host}")),
        None => no_client(administration, &client_id, Some(&grant)).await?,
    });
    let presented = Presented {
        refresh_id: token.refresh_id,
        client_id,
        grace: token.reuse_grace,
        expiry: Some(expiry(grant.current.refresh_expires_at, context.now)),
    };
    next_use(administration, context, Some(grant), presented, &mut checks).await?;
    Ok(checks)
}

/// The failed check of a client that is not registered, or disabled.
async fn no_client(
    administration: &Administration,
    client_id: &ClientId,
    grant: Option<&Grant>,
) -> Result<CheckView, AdminError> {
    let stored = administration.service.store.client(client_id.clone());
    let state = match stored.await? {
        Some(_) => "disabled",
        None => "not registered",
    };
    let of = Of::Client(client_id.as_str());
    let cause = ended(administration, &of, grant).await?;
    Ok(failed("client", format!("{client_id} is {state}{cause}")))
}

/// The same of a user.
async fn no_user(
    administration: &Administration,
    username: &Username,
    grant: &Grant,
) -> Result<CheckView, AdminError> {
    let stored = administration.service.store.user(username.clone());
    let state = match stored.await? {
        Some(_) => "disabled",
        None => "not registered",
    };
    let of = Of::User(username.as_str());
    let cause = ended(administration, &of, Some(grant)).await?;
    Ok(failed("user", format!("{username} is {state}{cause}")))
}

/// What the audit log says about the end of a grant; empty if the grant did not end.
async fn ended(
    administration: &Administration,
    of: &Of<'_>,
    grant: Option<&Grant>,
) -> Result<String, AdminError> {
    match grant.and_then(|grant| Some((grant.grant_id.to_string(), grant.revoked_at?))) {
        Some((id, at)) => administration.cause(of, Some(&id), at).await,
        None => Ok(String::new()),
    }
}

fn forgotten() -> CheckView {
    failed("grant", "is unknown: it ended and is forgotten")
}

/// A refresh token, for its next use.
struct Presented {
    refresh_id: TokenId,
    client_id: ClientId,
    /// Time in which a used token gets the same answer again.
    grace: Duration,
    /// The check of its expiry.
    expiry: Option<CheckView>,
}

/// Checks the grant of a refresh token, and the token's position in the grant. Disabling a client or user and unlinking an
/// account also revoke the grants. If one of these is the cause, the revoked grant is not reported.
async fn next_use(
    administration: &Administration,
    context: &Context<'_>,
    grant: Option<Grant>,
    presented: Presented,
    checks: &mut Vec<CheckView>,
) -> Result<(), AdminError> {
    if !checks.iter().all(|check| check.passed) {
        return Ok(());
    }
    let Some(mut grant) = grant else {
        checks.push(forgotten());
        return Ok(());
    };
    let user = context.directory.user(grant.username.as_str());
    let Some(user) = user.await? else {
        checks.push(no_user(administration, &grant.username, &grant).await?);
        return Ok(());
    };
    checks.push(passed("user", "is enabled"));
    let account = format!("{} at {}", grant.account.user_id, grant.account.site);
    let linked = user.accounts.contains(&grant.account);
    let unlinked = format!("{account} is not linked to the user any more");
    checks.push(judged("linked account", linked, &account, &unlinked));
    if !linked {
        return Ok(());
    }
    let client = context
        .directory
        .client_of_any_flow(grant.client_id.as_str());
    let rotation = RefreshRotation {
        grant_id: grant.grant_id,
        refresh_id: presented.refresh_id,
        client_id: presented.client_id,
        username: None,
        // The explanation assumes that the client has the key and the certificate.
        proven: grant.bound,
        scope: None,
        second_factor: Arc::clone(&context.settings.second_factor),
        // These ids are never used, because nothing is written.
        next_refresh_id: presented.refresh_id,
        next_access_id: presented.refresh_id,
        now: context.now,
        lifetime: context.settings.lifetimes.refresh_token,
        grace: presented.grace,
    };
    if let Some(key) = grant.bound.jkt {
        let needed = format!("the token is bound to the key {key}: a use needs a DPoP proof of it");
        checks.push(passed("key", &needed));
    }
    if let Some(certificate) = grant.bound.certificate {
        let needed = format!(
            "the token is bound to the certificate {certificate}: a use needs a connection with it"
        );
        checks.push(passed("certificate", &needed));
    }
    let last = match grant.rotate(&rotation, client.await?.as_deref(), Some(&user)) {
        RotationDecision::Refuse(refusal) => match refusal {
            RotationRefusal::Expired => failed("exp", "has passed without a refresh"),
            RotationRefusal::Revoked => {
                let of = Of::User(grant.username.as_str());
                let cause = ended(administration, &of, Some(&grant)).await?;
                let at = grant.revoked_at;
                let at = at.map_or_else(String::new, |at| format!(" at {}", at.rfc3339()));
                let id = grant.grant_id;
                failed(
                    "revocation",
                    format!("the grant {id} was revoked{at}{cause}"),
                )
            }
            RotationRefusal::SecondFactorMissing => failed(
                "second factor",
                "a second factor is required, and the grant is from a sign-in without one",
            ),
            RotationRefusal::OtherClient => failed(
                "grant",
                format!(
                    "is of the client {}, and the token names another one",
                    grant.client_id
                ),
            ),
            RotationRefusal::ScopeDiffers => passed(
                "rotation",
                "was used before, with another scope than the whole one; within the grace, the same request gets the same \
                 answer, and a request for another scope is refused",
            ),
            // The explained request proves everything, and asks for the whole scope.
            RotationRefusal::Unknown
            | RotationRefusal::OtherKey
            | RotationRefusal::OtherCertificate
            | RotationRefusal::ScopeExceeded(_) => failed("rotation", refusal.reason()),
        },
        RotationDecision::Revoke(Rotation::Refused(_)) => failed(
            "sign-in",
            "the password, the second factor or the identity of the sign-in has changed since: the next use revokes the grant",
        ),
        RotationDecision::Revoke(_) => failed(
            "rotation",
            "was used before, and the grace is over: another use revokes the grant",
        ),
        RotationDecision::Repeat { .. } => passed(
            "rotation",
            "was used before; within the grace the same answer is given again",
        ),
        RotationDecision::Rotate { .. } => {
            checks.extend(presented.expiry);
            checks.push(passed("revocation", "the grant of the token is live"));
            passed("rotation", "is the grant's live refresh token")
        }
    };
    checks.push(last);
    Ok(())
}
