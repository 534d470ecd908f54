//! What concerns the service as a whole: registrations, backup, explanations.

use actix_files::NamedFile;
use actix_web::http::StatusCode;
use actix_web::http::header::{ContentDisposition, DispositionParam, DispositionType};
use actix_web::web::{self, Payload};
use actix_web::{HttpRequest, HttpResponse};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::access::{Administrator, Reader};
use super::answer::{self, ErrorBody};
use super::body;
use crate::admin::AdminError;
use crate::admin::explain::Explanation;
use crate::admin::forms::RegistrationsDocument;
use crate::admin::registrations::{Conflicts, Run, Unlisted};
use crate::admin::views::Applied;

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes
        .service(web::resource("/registrations").route(web::put().to(apply)))
        .service(web::resource("/backup").route(web::get().to(backup)))
        .service(web::resource("/explain").route(web::post().to(explain)));
}

/// How to apply registrations.
#[derive(Debug, Clone, Copy, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ApplyQuery {
    /// Return what would change, and change nothing.
    #[serde(default)]
    dry_run: bool,
    /// Remove clients and users that the document does not list, and revoke everything issued to them.
    #[serde(default)]
    prune: bool,
    /// On a conflict, use the value of the document instead of the value that a command set.
    #[serde(default)]
    overwrite: bool,
}

/// A token or assertion to explain.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ExplainRequest {
    /// The JWT.
    token: String,
}

/// Applies what changed in the document since the last applied document. Applying it again changes nothing.
#[utoipa::path(put, path = "/admin/registrations", tag = "service", params(ApplyQuery),
    request_body = RegistrationsDocument,
    responses((status = 200, body = Applied), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody)))]
async fn apply(
    administrator: Administrator,
    http: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, AdminError> {
    let query = body::query::<ApplyQuery>(http.query_string())?;
    let document = body::object(payload).await?;
    let unlisted = if query.prune {
        Unlisted::Remove
    } else {
        Unlisted::Keep
    };
    let conflicts = if query.overwrite {
        Conflicts::Overwrite
    } else {
        Conflicts::Keep
    };
    let run = if query.dry_run { Run::Dry } else { Run::Real };
    let administration = administrator.administration();
    let applied = administration
        .apply(document, unlisted, conflicts, run)
        .await;
    Ok(answer::json(StatusCode::OK, applied?))
}

/// Returns a consistent copy of the running store. Restoring it needs the encryption key, which the copy lacks.
#[utoipa::path(get, path = "/admin/backup", tag = "service",
    responses((status = 200, content_type = "application/octet-stream", body = String),
        (status = 401, body = ErrorBody), (status = 500, body = ErrorBody)))]
async fn backup(
    administrator: Administrator,
    http: HttpRequest,
) -> Result<HttpResponse, AdminError> {
    let backup = administrator.administration().backup().await?;
    let file = NamedFile::open_async(backup.file())
        .await
        .map_err(|error| AdminError::Internal(error.to_string()))?;
    // The open file outlives its name.
    Ok(file
        .set_content_disposition(ContentDisposition {
            disposition: DispositionType::Attachment,
            parameters: vec![DispositionParam::Filename(
                "token-service.backup".to_owned(),
            )],
        })
        .into_response(&http))
}

/// Decodes an access token, refresh token or user assertion, and returns the result of each check with its reason.
#[utoipa::path(post, path = "/admin/explain", tag = "service", request_body = ExplainRequest,
    responses((status = 200, body = Explanation), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody)))]
async fn explain(reader: Reader, payload: Payload) -> Result<HttpResponse, AdminError> {
    let bytes = body::bytes(payload).await?;
    // The parser's message might repeat the token.
    let request: ExplainRequest = serde_json::from_slice(&bytes)
        .map_err(|_| AdminError::Malformed("expected {\"token\": \"...\"}".to_owned()))?;
    let explanation = reader.administration().explain(&request.token).await?;
    Ok(answer::json(StatusCode::OK, explanation))
}
