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

/// A sign-in at an identity provider. What the provider says of its methods follows.
pub const IDENTITY_PROVIDER: &str = "IDENTITY_PROVIDER";

/// Most values of a provider, and the longest, in bytes.
const MAX_OF_PROVIDER: (usize, usize) = (10, 32);

/// The methods of a sign-in at a provider whose ID token has these `amr`. Values of RFC 8176 are in lower case and the service's own in
/// upper case: a provider's value that is not in lower case is left out, so that it is never taken for a factor of this service.
pub fn of_provider(values: &[String]) -> Vec<String> {
    let (most, longest) = MAX_OF_PROVIDER;
    let is_legal = |value: &&String| {
        let legal = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.:/".contains(&byte)
        };
        (1..=longest).contains(&value.len()) && value.bytes().all(legal)
    };
    let own = std::iter::once(IDENTITY_PROVIDER.to_owned());
    own.chain(values.iter().filter(is_legal).take(most).cloned())
        .collect()
}

/// True if a second factor was used: a code of an app, or a recovery code.
pub fn has_second_factor(amr: &[String]) -> bool {
    amr.iter().any(|method| is_second_factor(method))
}

pub fn is_second_factor(method: &str) -> bool {
    method == TOTP || method == RECOVERY_CODE
}

/// The value of `acr` for these methods; `None` for one factor.
pub fn acr(amr: &[String]) -> Option<&'static str> {
    has_second_factor(amr).then_some(MULTI_FACTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_cannot_claim_a_factor_of_this_service() {
        let claimed =
            ["pwd", "TOTP", "RECOVERY_CODE", "mfa", "", "a b", "TOTP "].map(str::to_owned);
        let methods = of_provider(&claimed);
        assert_eq!(methods, [IDENTITY_PROVIDER, "pwd", "mfa"]);
        assert!(!has_second_factor(&methods));
        let many: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        assert_eq!(of_provider(&many).len(), 11);
        assert_eq!(of_provider(&["a".repeat(33)]), [IDENTITY_PROVIDER]);
    }
}
