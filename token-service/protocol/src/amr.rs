//! The values of `amr` (D-11, RFC 8176).

pub(crate) const PASSWORD: &str = "USERNAME_PASSWORD";
/// A code of an authenticator app.
pub(crate) const TOTP: &str = "TOTP";
pub(crate) const RECOVERY_CODE: &str = "RECOVERY_CODE";
/// An assertion of a non-interactive client (protocol.md §2.3).
pub(crate) const USER_ASSERTION: &str = "USER_ASSERTION";
/// A user-bound client, without the user.
pub(crate) const CLIENT_CREDENTIALS: &str = "CLIENT_CREDENTIALS";
