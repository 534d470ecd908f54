//! What the rule for a request requires, and whether the request has it.

use std::borrow::Cow;
use std::sync::Arc;

use super::decision::{Decision, Outcome, Request};
use crate::answers::Denial;
use crate::authorization::{self, Credentials};
use crate::cache::CachedToken;
use crate::rules::{Access, AmbiguousPath, Rules};

pub(super) enum Needed<'a> {
    /// Nothing: the path is anonymous.
    Nothing { forward_authorization: bool },
    /// A token that fulfils this.
    Token(Cow<'a, Access>),
}

/// Returns what the rule for a request requires.
pub(super) fn needed<'a>(rules: &'a Rules, request: &Request<'_>) -> Result<Needed<'a>, Denial> {
    match rules.find(request.method, request.target) {
        Err(AmbiguousPath) => Err(Denial::Path),
        Ok(None) => Err(Denial::NoRule),
        Ok(Some(access)) => match *access {
            Access::Anonymous {
                forward_authorization,
            } => Ok(Needed::Nothing {
                forward_authorization,
            }),
            Access::Token { .. } => Ok(Needed::Token(access)),
        },
    }
}

/// Returns the bearer credentials of a request, which must be the only ones (RFC 6750 §2).
pub(super) fn presented<'a>(request: &Request<'a>) -> Result<&'a [u8], Denial> {
    match authorization::read(request.authorization) {
        Err(malformed) => Err(Denial::Credentials(malformed)),
        Ok(Credentials::None) => Err(Denial::NoToken),
        Ok(Credentials::Bearer(_)) if has_query_token(request.target) => Err(Denial::TwoTokens),
        Ok(Credentials::Bearer(credentials)) => Ok(credentials),
    }
}

/// Allows the request if the verified token has what is needed.
pub(super) fn permitted(needed: &Access, token: &CachedToken) -> Outcome {
    let decision = match require(needed, token) {
        Ok(()) => Decision::Allow(Arc::clone(&token.headers)),
        Err(denial) => Decision::Deny(denial),
    };
    Outcome {
        decision,
        token: Some(Arc::clone(&token.reference)),
    }
}

fn require(needed: &Access, token: &CachedToken) -> Result<(), Denial> {
    let Access::Token { scopes, claims } = needed else {
        return Ok(());
    };
    if !scopes.iter().all(|scope| token.scopes.contains(scope)) {
        return Err(Denial::Scope(scopes.clone()));
    }
    match claims.iter().all(|claim| token.claims.contains(claim)) {
        true => Ok(()),
        false => Err(Denial::ClaimValue),
    }
}

/// RFC 6750 §2.3 allows tokens in the query. The guard never accepts such a token, and refuses a request that
/// also has the header.
fn has_query_token(target: &[u8]) -> bool {
    let mut parts = target.splitn(2, |byte| *byte == b'?');
    parts.next();
    parts.next().is_some_and(|query| {
        query
            .split(|byte| *byte == b'&')
            .any(|pair| pair.starts_with(b"access_token="))
    })
}
