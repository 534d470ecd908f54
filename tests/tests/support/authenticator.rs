//! An authenticator app (RFC 6238): codes of six digits, one for each step of 30 seconds. The service also accepts the
//! codes of the step before and the step after.

use super::now;

const STEP: u64 = 30;

/// The code that an app with this secret (BASE32) shows at `seconds` since 1970.
pub(crate) fn code_at(secret: &str, seconds: u64) -> String {
    let secret = totp_rs::Secret::try_from_base32(secret).unwrap();
    let totp = totp_rs::Builder::new().with_secret(secret).build().unwrap();
    totp.generate(seconds).to_string()
}

/// A code that is valid for at least a minute. The current code may be refused after 30 seconds, which is too short on
/// a busy machine.
pub(crate) fn lasting_code(secret: &str) -> String {
    code_at(secret, now() + STEP - 1)
}

/// True if the service still accepts the code that an app showed at `seconds`.
pub(crate) fn is_accepted(seconds: u64) -> bool {
    now() / STEP <= seconds / STEP + 1
}

/// A code that is wrong for this secret for some minutes.
pub(crate) fn wrong_code(secret: &str) -> String {
    let now = now();
    let near: Vec<String> = (0..20)
        .map(|step| code_at(secret, now - 2 * STEP + step * STEP))
        .collect();
    (0..=near.len())
        .map(|number| format!("{number:06}"))
        .find(|code| !near.contains(code))
        .unwrap()
}
