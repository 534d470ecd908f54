//! Authorization code (protocol.md §4.2, RFC 6749 §4.1.3, RFC 7636 §4.5).
//!
//! Parameters: `code`, `redirect_uri`, `code_verifier`, `scope`.

use super::{answer_step, redeemed, requested_scope};
use crate::Context;
use crate::oauth::client_authentication::PresentedClient;
use crate::oauth::error::{TokenError, required};
use crate::oauth::parameter::Parameter;
use crate::oauth::parameters::Parameters;
use crate::oauth::sealed_code;
use crate::oauth::token_response::TokenResponse;
use domain::digest::Digest;
use domain::{IntegrationType, PresentedCode, RefreshStep, TokenId};

/// Exchanges a code for tokens.
///
/// # Errors
/// A [`TokenError`]; a code that does not match the request stays valid for its client (D-2).
pub async fn exchange(
    context: &Context<'_>,
    presented: &PresentedClient,
    form: &Parameters<'_>,
) -> Result<TokenResponse, TokenError> {
    let client = presented.client();
    let verifier = form.get(Parameter::CodeVerifier);
    match client.integration {
        IntegrationType::Installed { .. } => {}
        // D-25: the verifier replaces the secret.
        IntegrationType::WebServer { .. } if presented.is_authenticated() || verifier.is_some() => {
        }
        IntegrationType::WebServer { .. } => return Err(TokenError::SecretRequired),
        IntegrationType::NonInteractive { .. }
        | IntegrationType::UserBound { .. }
        | IntegrationType::Legacy { .. } => return Err(TokenError::GrantNotPermitted),
    }
    let code = required(form, Parameter::Code)?;
    let redirect_uri = required(form, Parameter::RedirectUri)?;
    let verifier_digest = verifier.map(challenge_of).transpose()?;
    let presented = PresentedCode {
        client_id: client.client_id.clone(),
        redirect_uri: redirect_uri.to_owned(),
        verifier_digest,
        client_authenticated: presented.is_authenticated(),
    };
    let (issuer, key) = (&context.settings.issuer, context.encryption_key);
    let code = sealed_code::open(code, issuer, key).ok_or(TokenError::UnknownCode)?;
    let requested = requested_scope(form)?;
    let first = RefreshStep {
        refresh_id: TokenId::generate(context.random)?,
        access_id: TokenId::generate(context.random)?,
        scope: requested.clone().unwrap_or_default(),
        issued_at: context.now,
        refresh_expires_at: context.now + context.settings.lifetimes.refresh_token,
    };
    // Without a requested scope, the client requests what the user authorized.
    let asked = requested.unwrap_or_else(|| code.record.scope.clone());
    let store = context.store;
    let redemption = store.redeem_code(code, presented, first, context.now);
    let issued = redeemed(redemption.await?, asked)?;
    answer_step(context, &issued)
}

/// SHA-256 of a well-formed verifier (RFC 7636 §4.1: 43 to 128 unreserved characters; protocol.md §4.2 rule 4).
fn challenge_of(verifier: &str) -> Result<Digest, TokenError> {
    let unreserved =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    if (43..=128).contains(&verifier.len()) && verifier.bytes().all(unreserved) {
        Ok(Digest::of(verifier.as_bytes()))
    } else {
        Err(TokenError::MalformedVerifier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7636 appendix B.
    #[test]
    fn rfc7636_appendix_b() {
        let digest = challenge_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk").unwrap();
        let challenge = Digest::from_base64url("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        assert_eq!(Some(digest), challenge);
    }

    #[test]
    fn rfc7636_s4_1_verifiers_have_43_to_128_unreserved_characters() {
        assert!(challenge_of(&"a".repeat(43)).is_ok());
        assert!(challenge_of(&"~".repeat(128)).is_ok());
        for bad in [
            "a".repeat(42),
            "a".repeat(129),
            format!("{}+", "a".repeat(50)),
            format!("{}é", "a".repeat(50)),
        ] {
            assert_eq!(
                challenge_of(&bad),
                Err(TokenError::MalformedVerifier),
                "{bad}"
            );
        }
    }
}
