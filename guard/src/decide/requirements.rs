//! What the rule for a request requires, and whether the request has it.

use std::borrow::Cow;

use claims::dpop::Proof;

use super::effect::Request;
use crate::authorization::{self, Credentials, Scheme};
use crate::cache::CachedToken;
use crate::config::{Config, DpopConfig};
use crate::rules::{Access, AmbiguousPath, Rules};
use crate::verdict::Denial;

/// Returns what the rule for a request requires.
pub(super) fn needed<'a>(
    rules: &'a Rules,
    request: &Request<'_>,
) -> Result<Cow<'a, Access>, Denial> {
    let access = rules.find(request.method, request.target);
    access
        .map_err(|AmbiguousPath| Denial::Path)?
        .ok_or(Denial::NoRule)
}

/// The scopes that the rule for a request requires.
#[cold]
pub(super) fn scopes_of(rules: &Rules, request: &Request<'_>) -> Vec<String> {
    match needed(rules, request).map(Cow::into_owned) {
        Ok(Access::Token { scopes, .. }) => scopes,
        _ => Vec::new(),
    }
}

/// A token as the client presents it.
#[derive(Debug)]
pub(super) struct Presented<'r> {
    pub(super) scheme: Scheme,
    /// The text in the place of a token.
    pub(super) credentials: &'r [u8],
    /// Only with [`Scheme::Dpop`]. Requests with other tokens do not pay for its size.
    pub(super) proof: Option<Box<Proof<'r>>>,
}

/// Returns the credentials of a request, which must be the only ones (RFC 6750 §2), with the proof if the scheme is DPoP.
/// `scheme` gets the scheme, also of credentials that are refused.
pub(super) fn presented<'a>(
    config: &Config,
    request: &Request<'a>,
    scheme: &mut Scheme,
) -> Result<Presented<'a>, Denial> {
    let credentials = match authorization::read(request.authorization) {
        Err(malformed) => return Err(Denial::Credentials(malformed)),
        Ok(Credentials::None) => return Err(Denial::NoToken),
        Ok(Credentials::Token(of, credentials)) => {
            *scheme = of;
            credentials
        }
    };
    if has_query_token(request.target) {
        return Err(Denial::TwoTokens);
    }
    let proof = match (*scheme, &config.dpop) {
        (Scheme::Bearer, _) => None,
        (Scheme::Dpop, None) => return Err(Denial::DpopNotConfigured),
        (Scheme::Dpop, Some(dpop)) => Some(proof(dpop, request)?),
    };
    Ok(Presented {
        scheme: *scheme,
        credentials,
        proof,
    })
}

#[inline(never)]
fn proof<'a>(dpop: &DpopConfig, request: &Request<'a>) -> Result<Box<Proof<'a>>, Denial> {
    let proof = Proof::parse(request.dpop, &dpop.algorithms);
    Ok(Box::new(
        proof.map_err(|refusal| Denial::Proof(refusal.into()))?,
    ))
}

/// Whether the token has what is needed. `skew`: tolerated difference between clocks, in seconds.
pub(super) fn require(
    needed: &Access,
    token: &CachedToken,
    skew: u64,
    now: impl FnOnce() -> u64,
) -> Result<(), Denial> {
    let Access::Token {
        scopes,
        claims,
        sign_in,
    } = needed
    else {
        return Ok(());
    };
    if !scopes.iter().all(|scope| token.scopes.contains(scope)) {
        return Err(Denial::Scope(scopes.clone()));
    }
    let has = |claim| token.claims.contains(claim);
    if !claims.iter().all(has) {
        return Err(Denial::ClaimValue);
    }
    let is_recent = |max_age: u64| {
        let signed_in_at = token.authenticated_at;
        let now = now();
        signed_in_at.is_some_and(|at| {
            at <= now.saturating_add(skew) && now <= at.saturating_add(max_age).saturating_add(skew)
        })
    };
    match sign_in.claims.iter().all(has) && sign_in.max_age.is_none_or(is_recent) {
        true => Ok(()),
        false => Err(Denial::SignIn(Box::new(sign_in.clone()))),
    }
}

/// RFC 6750 §2.3 allows tokens in the query. The guard never accepts such a token, and refuses a request that
/// also has the header.
fn has_query_token(target: &[u8]) -> bool {
    let question = target.iter().position(|byte| *byte == b'?');
    let query = question.and_then(|start| target.get(start + 1..));
    query.is_some_and(|query| {
        query
            .split(|byte| *byte == b'&')
            .any(|pair| pair.starts_with(b"access_token="))
    })
}
