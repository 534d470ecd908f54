//! What the rule for a request requires, and whether the request has it.

use std::borrow::Cow;
use std::rc::Rc;

use super::decision::{Decision, Outcome, Request};
use crate::answers::Denial;
use crate::authorization::{self, Credentials};
use crate::forward::Header;
use crate::rules::{Access, AmbiguousPath, Rules};
use crate::verify::TokenReference;

pub(super) enum Needed<'a> {
    /// Nothing: the path is anonymous.
    Nothing,
    /// A token with all of these scopes.
    Token(Cow<'a, [String]>),
}

/// Returns what the rule for a request requires.
pub(super) fn needed<'a>(rules: &'a Rules, request: &Request<'_>) -> Result<Needed<'a>, Denial> {
    match rules.find(request.method, request.target) {
        Err(AmbiguousPath) => Err(Denial::Path),
        Ok(None) => Err(Denial::NoRule),
        Ok(Some(Cow::Borrowed(Access::Token { scopes }))) => Ok(Needed::Token(scopes.into())),
        Ok(Some(Cow::Owned(Access::Token { scopes }))) => Ok(Needed::Token(scopes.into())),
        Ok(Some(_)) => Ok(Needed::Nothing),
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

/// Allows the request if the scopes of the verified token suffice.
pub(super) fn permitted(
    needed: &[String],
    scopes: &[String],
    headers: &Rc<[Header]>,
    token: &Rc<TokenReference>,
) -> Outcome {
    let decision = match require(needed, scopes) {
        Ok(()) => Decision::Allow(Rc::clone(headers)),
        Err(denial) => Decision::Deny(denial),
    };
    Outcome {
        decision,
        token: Some(Rc::clone(token)),
    }
}

fn require(needed: &[String], scopes: &[String]) -> Result<(), Denial> {
    if needed.iter().all(|scope| scopes.contains(scope)) {
        Ok(())
    } else {
        Err(Denial::Scope(needed.to_vec()))
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
