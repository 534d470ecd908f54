//! `/admin/explain`: decodes a token or an assertion and runs every check, with its reason in words. The checks are the same
//! functions that decide about requests.

mod assertion;
mod issued;
mod proof;
mod revocation;

use actix_web::web::{self, Payload};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::CompactJws;
use claims::token::{ACCESS_TOKEN_TYPE, REFRESH_TOKEN_TYPE};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::access::Reader;
use super::answer::{self, AdminError, Answer, ErrorBody};
use super::{Administration, body};
use assertion::{client_assertion, provider_assertion, user_assertion};
use issued::{issued, opaque_refresh_token};
use proof::SentProof;
use protocol::flows;
use protocol::oauth::assertion::Unverified;

const ACCESS_TOKEN: &str = "access token";

/// A token or assertion to explain.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ExplainRequest {
    /// The JWT, or a refresh token of the legacy flow.
    token: String,
    /// For an access token that is bound to a key: the proof of a request.
    proof: Option<SentProof>,
}

/// What was found out about a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Explanation {
    /// `access token`, `refresh token`, `legacy refresh token`, `user assertion`, `provider assertion`, `client assertion` or
    /// `unknown`.
    pub kind: String,
    /// The JOSE header; null if the token has none that can be read.
    #[schema(value_type = Option<Object>, required)]
    pub header: Value,
    /// The claims; null if the token has none that can be read.
    #[schema(value_type = Option<Object>, required)]
    pub claims: Value,
    /// Every check.
    pub checks: Vec<CheckView>,
    /// Whether it would be accepted now.
    pub accepted: bool,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct CheckView {
    /// What is looked at.
    pub check: String,
    /// Whether it is right.
    pub passed: bool,
    /// What was found, or what is wrong with it.
    pub reason: String,
}

impl Explanation {
    fn new(kind: &str, header: Value, claims: Value, checks: Vec<CheckView>) -> Self {
        Self {
            kind: kind.to_owned(),
            header,
            claims,
            accepted: checks.iter().all(|check| check.passed),
            checks,
        }
    }
}

fn passed(check: &str, reason: impl Into<String>) -> CheckView {
    CheckView {
        check: check.to_owned(),
        passed: true,
        reason: reason.into(),
    }
}

fn failed(check: &str, reason: impl Into<String>) -> CheckView {
    CheckView {
        passed: false,
        ..passed(check, reason)
    }
}

fn judged(check: &str, right: bool, found: &str, wrong: &str) -> CheckView {
    if right {
        passed(check, found)
    } else {
        failed(check, wrong)
    }
}

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes.service(web::resource("/explain").route(web::post().to(explain)));
}

/// Decodes an access token, refresh token, user assertion (also of an identity provider) or client assertion, and returns the
/// result of each check with its reason.
#[utoipa::path(post, path = "/admin/explain", tag = "service", request_body = ExplainRequest,
    responses((status = 200, body = Explanation), (status = 400, body = ErrorBody)))]
async fn explain(reader: Reader, payload: Payload) -> Answer {
    let bytes = body::bytes(payload).await?;
    // The parser's message might repeat the token.
    let request: ExplainRequest = serde_json::from_slice(&bytes)
        .map_err(|_| {
            let expected = "expected {\"token\": \"...\"}, and perhaps \"proof\": {\"proof\": \"...\", \"method\": \"...\", \"url\": \"...\"}";
            AdminError::Malformed(expected.to_owned())
        })?;
    let proof = request.proof.as_ref();
    let mut explanation = reader.explained(&request.token, proof).await?;
    if proof.is_some() && explanation.kind != ACCESS_TOKEN {
        let kind = &explanation.kind;
        let reason = format!("only an access token is explained with a proof; this is: {kind}");
        explanation.checks.push(failed("proof", reason));
        explanation.accepted = false;
    }
    answer::ok(explanation)
}

impl Administration {
    /// Explains an access token, a refresh token, a legacy refresh token, a user assertion or a client assertion. The `jti`
    /// of an assertion stays unused.
    pub(crate) async fn explained(
        &self,
        token: &str,
        proof: Option<&SentProof>,
    ) -> Result<Explanation, AdminError> {
        let token = token.trim();
        let is_scheme = |scheme: &str| ["bearer", "dpop"].contains(&&*scheme.to_ascii_lowercase());
        let token = match token.split_once(' ') {
            Some((scheme, rest)) if is_scheme(scheme) => rest.trim_start(),
            _ => token,
        };
        let moment = self.service.moment();
        let context = self.service.context(&moment);
        if let Some((flow, token)) = flows::opaque_refresh_token(&context, token) {
            let checks = opaque_refresh_token(self, &context, flow, token).await?;
            return Ok(Explanation::new(
                token.kind,
                Value::Null,
                Value::Null,
                checks,
            ));
        }
        let header = header_as_sent(token);
        let broken = |kind, header, reason: String| {
            let checks = vec![failed("structure", reason)];
            Ok(Explanation::new(kind, header, Value::Null, checks))
        };
        let (typ, kid, jws) = match CompactJws::parse(token) {
            Ok(jws) => (
                jws.header
                    .type_among([ACCESS_TOKEN_TYPE, REFRESH_TOKEN_TYPE]),
                jws.header.kid.clone(),
                jws,
            ),
            Err(error) => {
                let reason = format!(
                    "{error}; a JWT has three parts of base64url without padding, joined by dots, with a strict JSON header"
                );
                return broken("unknown", header, reason);
            }
        };
        let typ = typ.unwrap_or_default();
        let kind = match typ {
            ACCESS_TOKEN_TYPE => ACCESS_TOKEN,
            REFRESH_TOKEN_TYPE => "refresh token",
            _ => "user assertion",
        };
        let assertion = match Unverified::read(jws) {
            Ok(assertion) => assertion,
            Err(error) => return broken(kind, header, error.to_string()),
        };
        let claims = assertion.claims();
        let issuer = claims.get("iss").and_then(Value::as_str);
        let provider = issuer.and_then(|issuer| context.settings.identity_provider(issuer));
        let (kind, checks) = match (typ, provider) {
            (_, Some(provider)) => (
                "provider assertion",
                provider_assertion(&context, provider, &assertion).await?,
            ),
            (ACCESS_TOKEN_TYPE | REFRESH_TOKEN_TYPE, None) => {
                let kid = kid.unwrap_or_default();
                let checks = issued(self, &context, token, &kid, claims, typ, proof).await?;
                (kind, checks)
            }
            _ if assertion.is_likely(context.settings) => (
                "client assertion",
                client_assertion(&context, &assertion).await?,
            ),
            _ => (kind, user_assertion(&context, &assertion).await?),
        };
        Ok(Explanation::new(
            kind,
            header,
            Value::Object(claims.clone()),
            checks,
        ))
    }
}

/// The header with all members as sent, because the operator may be looking for a misspelt member.
fn header_as_sent(token: &str) -> Value {
    let header = token.split('.').next().unwrap_or_default();
    let bytes = URL_SAFE_NO_PAD.decode(header).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or(Value::Null)
}
