//! The values of `amr` (D-11, RFC 8176), and of `acr`.

pub const PASSWORD: &str = "USERNAME_PASSWORD";
/// A code of an authenticator app.
pub const TOTP: &str = "TOTP";
pub const RECOVERY_CODE: &str = "RECOVERY_CODE";
/// An assertion of a non-interactive client (protocol.md §2.3).
pub const USER_ASSERTION: &str = "USER_ASSERTION";
/// A user-bound client, without the user.
pub const CLIENT_CREDENTIALS: &str = "CLIENT_CREDENTIALS";

/// The value of `acr` for a sign-in with a second factor (D-57). Other authorization servers use the same URI.
pub const MULTI_FACTOR: &str = "http://schemas.openid.net/pape/policies/2007/06/multi-factor";

/// True if a second factor was used: a code of an app, or a recovery code.
pub fn has_second_factor(amr: &[String]) -> bool {
    amr.iter()
        .any(|method| method == TOTP || method == RECOVERY_CODE)
}

/// The value of `acr` for these methods; `None` for one factor.
pub fn acr(amr: &[String]) -> Option<&'static str> {
    has_second_factor(amr).then_some(MULTI_FACTOR)
}
