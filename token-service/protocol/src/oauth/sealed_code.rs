//! The text of a code of the current flows: the base64url of a sealed [`SelfContainedCode`] (RFC 6749 §1.4 calls such
//! tokens self-contained). Clients and browsers can neither read nor change what it contains.

use domain::SelfContainedCode;
use secrets::sealing::{EncryptionKey, SealingError, open_text, seal_text};

const PURPOSE: &str = "authorization code";

/// A service with a copy of the store and another issuer, such as a test system, has the same keys, but its codes are none
/// here. No issuer contains a space.
fn purpose(issuer: &str) -> String {
    format!("{PURPOSE} {issuer}")
}

/// The code of `issuer` as the client receives it. `nonce` must be random.
pub(crate) fn seal(
    code: &SelfContainedCode,
    issuer: &str,
    nonce: [u8; 12],
    key: &EncryptionKey,
) -> Result<String, SealingError> {
    let content = store::row::encode(code).map_err(|_| SealingError::Failed)?;
    seal_text(&purpose(issuer), nonce, &content, key)
}

/// Reads a code; `None` if `issuer` did not issue the code.
pub(crate) fn open(text: &str, issuer: &str, key: &EncryptionKey) -> Option<SelfContainedCode> {
    let content = open_text(&purpose(issuer), text, key)?;
    store::row::decode(&content).ok()
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;
    use domain::clock::Timestamp;
    use domain::digest::Digest;
    use domain::testing::{self, client_id, scope, username};
    use domain::{ClientVersion, CodeRecord, CredentialsVersion, GrantId};

    const ISSUER: &str = "https://lobby.example.com";

    fn code() -> SelfContainedCode {
        SelfContainedCode {
            grant_id: GrantId::from_bytes([5; 16]),
            record: CodeRecord {
                client_id: client_id("web"),
                redirect_uri: "https://app.example.com/callback".into(),
                code_challenge: Some(Digest::of(b"verifier")),
                username: username("ada"),
                account: testing::account("1"),
                scope: scope("projects"),
                amr: vec!["USERNAME_PASSWORD".into()],
                authenticated_at: Timestamp::from_seconds(1_800_000_000),
                issued_at: Timestamp::from_seconds(1_800_000_000),
                expires_at: Timestamp::from_seconds(1_800_000_060),
                credentials_version: CredentialsVersion::new(7),
                client_version: ClientVersion::new(8),
                provider: None,
                session: None,
            },
            dpop_jkt: None,
        }
    }

    #[test]
    fn only_the_service_that_issued_a_code_reads_it() {
        let key = EncryptionKey::new(&[1; 32]).unwrap();
        let text = seal(&code(), ISSUER, [3; 12], &key).unwrap();
        assert_eq!(open(&text, ISSUER, &key), Some(code()));
        let other = EncryptionKey::new(&[2; 32]).unwrap();
        assert_eq!(open(&text, ISSUER, &other), None);
        assert_eq!(open(&text, "https://test.example.com", &key), None);
        let content = URL_SAFE_NO_PAD.decode(&text).unwrap();
        for secret in ["ada", "hat-1", "app.example.com"] {
            let found = content
                .windows(secret.len())
                .any(|at| at == secret.as_bytes());
            assert!(!found, "{secret} is readable");
        }
    }

    #[test]
    fn a_code_has_one_text() {
        let key = EncryptionKey::new(&[1; 32]).unwrap();
        let text = seal(&code(), ISSUER, [3; 12], &key).unwrap();
        for position in 0..text.len() {
            for other in ["A", "B", "_", "=", "+", " ", ""] {
                let mut changed = text.clone();
                changed.replace_range(position..=position, other);
                if changed != text {
                    assert_eq!(open(&changed, ISSUER, &key), None, "{changed}");
                }
            }
        }
        for changed in [format!("{text}="), format!("{text}A"), String::new()] {
            assert_eq!(open(&changed, ISSUER, &key), None);
        }
    }

    /// If this fails, the layout has changed: see [`domain::Layout`].
    #[test]
    fn the_layout_is_known() {
        let key = EncryptionKey::new(&[1; 32]).unwrap();
        assert_eq!(seal(&code(), ISSUER, [3; 12], &key).unwrap(), KNOWN);
    }

    /// Another implementation of AES-256-GCM-SIV opens this too.
    const KNOWN: &str = "AwMDAwMDAwMDAwMDkMrajlK1G8ls-6jXNlUpa0vzmYj-XMYB6l-whx4Dy2AqN2t4tR_stWdXnKnciecYUcSmCBpId_yJ\
        mjy7Ycw8KeL9sqvwjFTdiitxtiJUkgX_GvDKZt4HlxSyr4WHZPWYaGy5JcKoux1-jr3frdaMKjTlseiatmExesREfL30\
        kRg1n_2cT5wXdx1LmHyC_s93XTfGOYpryRcDOW4zdll2GfUrTMJ5DTtvDLIvT6QMWLmnmlGZuE0-2AVN61E";
}
