//! Tokens that this service issued.

use std::sync::Arc;
use std::time::Duration;

use claims::RefreshTokenClaims;
use claims::token::{ACCESS_TOKEN_TYPE, REFRESH_TOKEN_TYPE};
use serde_json::{Map, Value};

use super::proof::{SentProof, possession};
use super::{CheckView, failed, judged, passed};
use domain::clock::Timestamp;
use domain::refresh_rotation::RotationDecision;
use domain::{ClientId, Grant, RefreshRotation, Rotation, RotationRefusal, TokenId};
use protocol::Context;
use protocol::flow::{Current, Flow, OpaqueRefreshToken};
use protocol::flows;
use protocol::oauth::grants::refresh_token;
use protocol::token::IssuedToken;
use store::StoreError;

/// The checks of a token signed by this service, in the order of the gateway or the token endpoint. Checks that depend
/// on a failed check are omitted: the failed check is the cause.
pub(super) async fn issued(
    context: &Context<'_>,
    token: &str,
    kid: &str,
    claims: &Map<String, Value>,
    typ: &str,
    proof: Option<&SentProof>,
) -> Result<Vec<CheckView>, StoreError> {
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
        REFRESH_TOKEN_TYPE => refresh_token(context, claims).await?,
        // The gateway knows about clients, users and linked accounts only from the revocation feed.
        _ => access_token(context, claims).await?,
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

/// The checks of the token endpoint for the next use of a refresh token.
async fn refresh_token(
    context: &Context<'_>,
    claims: &Map<String, Value>,
) -> Result<Vec<CheckView>, StoreError> {
    let issuer = &context.settings.issuer;
    let mut checks = frame(context, claims, issuer, issuer);
    // The expiry in the store decides; the claim only repeats it.
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
    let client = context.directory.client(reference.client_id.as_str());
    checks.push(match client.await? {
        Some(client) if refresh_token::may_refresh(&client) => {
            passed("client", client.name.clone())
        }
        Some(_) => failed("client", "is of a type that does not refresh"),
        None => failed("client", "is unknown or disabled"),
    });
    let grace = context.settings.lifetimes.refresh_reuse_grace;
    let (id, client_id) = (reference.token_id, reference.client_id);
    let grant = context.store.grant(reference.grant_id).await?;
    next_use(context, grant, (id, client_id, grace), expiry, &mut checks).await?;
    Ok(checks)
}

/// The checks of the flow's token endpoint for the next use of a refresh token that is not a JWT.
pub(super) async fn opaque_refresh_token(
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
    let client = context.directory.client_of_any_flow(client_id.as_str());
    checks.push(
        match client.await?.filter(|client| flow.serves(client, host)) {
            Some(client) => passed("client", client.name.clone()),
            None => failed(
                "client",
                format!("{client_id} is unknown at {host}, or disabled"),
            ),
        },
    );
    let expiry = expiry(grant.current.refresh_expires_at, context.now);
    let used = (token.refresh_id, client_id, token.reuse_grace);
    next_use(context, Some(grant), used, Some(expiry), &mut checks).await?;
    Ok(checks)
}

fn forgotten() -> CheckView {
    failed("grant", "is unknown: it ended and is forgotten")
}

/// Checks the grant of a refresh token with this id, client and grace, and the token's position in the grant. Disabling a client or user and unlinking
/// an account also revoke the grants. If one of these is the cause, the revoked grant is not reported.
async fn next_use(
    context: &Context<'_>,
    grant: Option<Grant>,
    (refresh_id, client_id, grace): (TokenId, ClientId, Duration),
    expiry: Option<CheckView>,
    checks: &mut Vec<CheckView>,
) -> Result<(), StoreError> {
    if !checks.iter().all(|check| check.passed) {
        return Ok(());
    }
    let Some(mut grant) = grant else {
        checks.push(forgotten());
        return Ok(());
    };
    let user = context.directory.user(grant.username.as_str());
    let Some(user) = user.await? else {
        checks.push(failed("user", "is unknown or disabled"));
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
        refresh_id,
        client_id,
        // The explanation is for whoever has the key and the certificate.
        proven: grant.bound,
        scope: None,
        second_factor: Arc::clone(&context.settings.second_factor),
        // These ids are never used, because nothing is written.
        next_refresh_id: refresh_id,
        next_access_id: refresh_id,
        now: context.now,
        lifetime: context.settings.lifetimes.refresh_token,
        grace,
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
    match grant.rotate(&rotation, client.await?.as_deref(), Some(&user)) {
        RotationDecision::Refuse(RotationRefusal::Expired) => {
            checks.push(failed("exp", "has passed without a refresh"));
        }
        RotationDecision::Refuse(RotationRefusal::Revoked)
        | RotationDecision::Revoke(Rotation::Refused(_)) => {
            checks.push(failed("revocation", "the grant of the token is revoked"));
        }
        RotationDecision::Refuse(RotationRefusal::SecondFactorMissing) => {
            let why =
                "a second factor is required, and the grant is from a sign-in without one (D-56)";
            checks.push(failed("second factor", why));
        }
        RotationDecision::Refuse(_) => {
            checks.push(failed("grant", "belongs to another client"));
        }
        RotationDecision::Revoke(_) => checks.push(failed(
            "rotation",
            "was used before, and the grace is over: another use revokes the grant (D-3)",
        )),
        RotationDecision::Repeat { .. } => checks.push(passed(
            "rotation",
            "was used before; within the grace the same answer is given again (D-3)",
        )),
        RotationDecision::Rotate { .. } => {
            checks.extend(expiry);
            checks.push(passed("revocation", "the grant of the token is live"));
            checks.push(passed("rotation", "is the grant's live refresh token"));
        }
    }
    Ok(())
}
