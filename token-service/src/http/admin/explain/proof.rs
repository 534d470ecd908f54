//! What the client of a token must prove, and whether a DPoP proof does.

use claims::dpop::{Expected, Nonces, Proof, ProofRefusal, PublicOrigin, RefusedProof};
use claims::{Confirmation, Thumbprint};
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{CheckView, failed, judged, passed};
use domain::clock::Timestamp;
use protocol::oauth::proof::{ALGORITHMS, WINDOW, verifies};

/// A DPoP proof, and the request that it was made for.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SentProof {
    /// The `DPoP` header.
    proof: String,
    /// The method of the request.
    method: String,
    /// The URL of the request, as the client knows it.
    url: String,
}

/// The checks of a gateway that accepts every algorithm, with its default times (RFC 9449 §4.3, §7; RFC 8705 §3). Only the
/// gateway knows nonces and uses of the proof.
pub(super) fn possession(
    token: &str,
    claims: &Map<String, Value>,
    sent: Option<&SentProof>,
    now: Timestamp,
) -> Vec<CheckView> {
    let confirmation = match claims.get("cnf").map(Confirmation::read) {
        None => Confirmation::default(),
        Some(Some(confirmation)) => confirmation,
        Some(None) => {
            let reason = "asks for something that gateways do not know: they refuse the token";
            return vec![failed("cnf", reason)];
        }
    };
    let mut checks = Vec::new();
    if let Some(certificate) = confirmation.certificate {
        let reason = format!("needs a connection with the certificate {certificate} (SHA-256)");
        checks.push(passed("certificate", reason));
    }
    checks.extend(match (confirmation.jkt, sent) {
        (None, None) => None,
        (None, Some(_)) => {
            let reason = "is not bound to a key: send it with the scheme Bearer, without a proof";
            Some(failed("key", reason))
        }
        (Some(key), None) => {
            let reason = format!("needs the scheme DPoP and a proof of the key {key}");
            Some(passed("key", reason))
        }
        (Some(key), Some(sent)) => {
            let wrong = judge(token, key, sent, now).err();
            let right = format!("is of the key {key}, for this token, method and URL, and fresh");
            let wrong = wrong.map(|refused| refused.description);
            Some(judged(
                "proof",
                wrong.is_none(),
                &right,
                &wrong.unwrap_or_default(),
            ))
        }
    });
    checks
}

fn judge(
    token: &str,
    key: Thumbprint,
    sent: &SentProof,
    now: Timestamp,
) -> Result<(), RefusedProof> {
    let (origin, target) = split(&sent.url);
    let origin = PublicOrigin::parse(origin).ok_or(ProofRefusal::Url)?;
    let proof = Proof::parse(&[sent.proof.trim().as_bytes()], &ALGORITHMS)?;
    let expected = Expected {
        bound_to: Some(key),
        access_token: Some(token),
        method: sent.method.as_bytes(),
        target: target.as_bytes(),
        origins: &[origin],
        now: now.seconds(),
        window: WINDOW,
        nonces: Nonces::Off,
    };
    proof.check(&expected)?.verify(verifies)?;
    Ok(())
}

/// Scheme and authority of a URL, and the rest.
fn split(url: &str) -> (&str, &str) {
    let authority = url.find("://").map_or(0, |scheme| scheme + 3);
    let rest = url.get(authority..).unwrap_or_default();
    let length = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    url.split_at_checked(authority + length)
        .unwrap_or((url, ""))
}
