//! Proof Key for Code Exchange (RFC 7636): the challenge of an authorization request (protocol.md §4.1), and the verifier with
//! which the client redeems its code (protocol.md §4.2).

use super::parameters::Parameters;
use domain::digest::Digest;
use domain::{Client, IntegrationType};

/// Why the challenge of an authorization request is refused, with what the integrator has to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChallengeError {
    /// An Installed Application sent no `code_challenge` (protocol.md §4.1).
    #[error("An Installed Application must send code_challenge and code_challenge_method")]
    Required,
    /// `code_challenge` is not 43 characters of base64url (RFC 7636 §4.2).
    #[error(
        "code_challenge must be the SHA-256 of the code verifier in base64url without padding: 43 characters"
    )]
    Malformed,
    /// `code_challenge` without `code_challenge_method`, which would mean `plain` (RFC 7636 §4.3).
    #[error("code_challenge_method is missing; it must be S256")]
    MethodMissing,
    /// `code_challenge_method` is not `S256` (RFC 7636 §4.4.1).
    #[error("code_challenge_method must be S256")]
    MethodUnsupported,
    /// `code_challenge_method` without `code_challenge`.
    #[error("code_challenge_method was sent without code_challenge")]
    MissingForMethod,
}

/// The challenge: required for Installed Applications (protocol.md §4.1). Only S256 is allowed, and the method has no
/// default (RFC 7636 §4.3, D-8).
pub fn challenge(
    parameters: &Parameters<'_>,
    client: &Client,
) -> Result<Option<Digest>, ChallengeError> {
    match (
        parameters.get("code_challenge"),
        parameters.get("code_challenge_method"),
    ) {
        (Some(challenge), Some("S256")) => Digest::from_base64url(challenge)
            .map(Some)
            .ok_or(ChallengeError::Malformed),
        (Some(_), Some(_)) => Err(ChallengeError::MethodUnsupported),
        (Some(_), None) => Err(ChallengeError::MethodMissing),
        (None, Some(_)) => Err(ChallengeError::MissingForMethod),
        (None, None) => match client.integration {
            IntegrationType::Installed { .. } => Err(ChallengeError::Required),
            _ => Ok(None),
        },
    }
}

/// The challenge that belongs to a verifier: its SHA-256. `None` unless the verifier has 43 to 128 unreserved characters
/// (RFC 7636 §4.1; protocol.md §4.2 rule 4).
pub fn challenge_of(verifier: &str) -> Option<Digest> {
    let unreserved =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    let is_verifier = (43..=128).contains(&verifier.len()) && verifier.bytes().all(unreserved);
    is_verifier.then(|| Digest::of(verifier.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7636 appendix B.
    #[test]
    fn rfc7636_appendix_b() {
        let digest = challenge_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        let challenge = Digest::from_base64url("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        assert!(digest.is_some());
        assert_eq!(digest, challenge);
    }

    #[test]
    fn rfc7636_s4_1_verifiers_have_43_to_128_unreserved_characters() {
        assert!(challenge_of(&"a".repeat(43)).is_some());
        assert!(challenge_of(&"~".repeat(128)).is_some());
        for bad in [
            "a".repeat(42),
            "a".repeat(129),
            format!("{}+", "a".repeat(50)),
            format!("{}é", "a".repeat(50)),
        ] {
            assert_eq!(challenge_of(&bad), None, "{bad}");
        }
    }
}
