//! Delays that slow down guesses of client secrets, per client and client address (RFC 6749 §10.10). Client assertions with
//! a wrong signature count too.
//!
//! Only wrong secrets count, and the right secret never waits: otherwise one worker with an old secret would stop all
//! workers of its client at the same address. The right secret needs no protection by delays, because it has at least 32
//! bytes and its check is cheap. The store keeps the counts, so they survive restarts and apply to all replicas.

use std::net::IpAddr;
use std::time::Duration;

use super::error::TokenError;
use crate::Context;
use crate::sign_in::network;
use domain::digest::Digest;
use domain::{Admission, Pace, PacedKey};

/// Wrong secrets of one client from one address. A client with a wrong configuration fails at once and continues to
/// fail.
const PACE: Pace = Pace {
    free: 20,
    longest: Duration::from_mins(5),
    forget_one_after: Duration::from_mins(1),
};

/// Counts a guess for `client_id` from `address` that was refused with `error`. Returns the error of the response: `error`,
/// or [`TokenError::TooManyGuesses`]. If the store fails, the guess is refused but not counted.
pub async fn count_wrong(
    context: &Context<'_>,
    client_id: &str,
    address: Option<IpAddr>,
    error: TokenError,
) -> TokenError {
    let key = context.encryption_key;
    let network = network(address, key);
    let parts = [b"client secret", client_id.as_bytes(), network.as_bytes()];
    let paced = PacedKey {
        key: Digest::from_bytes(key.tag(&parts)),
        pace: PACE,
    };
    match context.store.admit_attempt(vec![paced], context.now).await {
        Ok(Admission::Wait(wait)) => TokenError::TooManyGuesses(wait),
        Ok(Admission::Admitted(_)) => error,
        Err(failure) => {
            tracing::warn!(error = %failure, "a wrong client secret is not counted");
            error
        }
    }
}
