//! What the guard finds out about a token, and why it denies a request.

use std::sync::Arc;

use claims::dpop::{ProofRefusal, RefusedProof};
use strum::{IntoStaticStr, VariantArray as _, VariantNames};

use crate::authorization::MalformedCredentials;
use crate::rules::SignIn;
use crate::verify::{Refusal, TokenReference};

/// What the guard finds out about a token. `W`: what a wait is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict<T, W> {
    Accepted(T),
    Wait(W),
    /// Has the token if it is verified.
    Deny(Denial, Option<Arc<TokenReference>>),
}

#[derive(Debug, Clone, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Denial {
    /// Servers could read the path in different ways.
    Path,
    /// No rule allows the path and method (D-23).
    NoRule,
    /// The path needs a token.
    NoToken,
    /// The `Authorization` header cannot be read.
    Credentials(MalformedCredentials),
    /// The request has a token in the header and another in the query (RFC 6750 §2).
    TwoTokens,
    /// The scheme is DPoP, but `dpop` with the origins of the API is not configured.
    DpopNotConfigured,
    Token(Refusal),
    /// The proof of the client is refused.
    Proof(RefusedProof),
    /// The token lacks scopes. Contains all scopes that the rule requires.
    Scope(Vec<String>),
    /// A claim of the token lacks a value that the rule requires, such as a role.
    ClaimValue,
    /// The person must sign in again, or in another way (RFC 9470). Contains what the rule requires.
    SignIn(Box<SignIn>),
    /// The issuer's keys are not known yet.
    KeysUnavailable,
    /// The guard cannot know whether the token is revoked.
    RevocationsUnavailable,
    /// Too many requests wait.
    Busy,
    /// The host did not return, remove or add headers.
    Host,
}

impl Denial {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Credentials(malformed) => malformed.into(),
            Self::Token(refusal) => refusal.into(),
            Self::Proof(refused) => refused.refusal.name(),
            other => other.into(),
        }
    }

    /// All values of [`Denial::name`] that are counted as denials.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let own = Self::VARIANTS.iter();
        let proofs = ProofRefusal::VARIANTS.iter().copied();
        own.filter(|name| !["credentials", "token", "proof"].contains(name))
            .chain(MalformedCredentials::VARIANTS)
            .copied()
            .chain(Refusal::VARIANTS.iter().map(Into::into))
            .chain(
                proofs
                    .filter(|refusal| !is_step(*refusal))
                    .map(ProofRefusal::name),
            )
    }

    /// True if the answer is a step of the protocol, and no denial: the nonce for a proof (D-54, RFC 9449 §9).
    pub(crate) const fn is_step(&self) -> bool {
        matches!(self, Self::Proof(refused) if is_step(refused.refusal))
    }
}

const fn is_step(refusal: ProofRefusal) -> bool {
    matches!(refusal, ProofRefusal::Nonce)
}
