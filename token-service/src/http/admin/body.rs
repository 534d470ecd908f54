//! Reads bodies and queries of the administration.

use std::time::Duration;

use actix_web::web::{self, Bytes, BytesMut, Payload};
use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::Value;
use utoipa::IntoParams;

use crate::admin::{AdminError, Object, PageRequest};

/// Maximum size of a registrations document, in bytes: about 100,000 users.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Time limit from a request's head to the end of its body.
const DEADLINE: Duration = Duration::from_secs(60);

/// Which part of a list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PageQuery {
    /// The `next` of the page before.
    after: Option<String>,
    /// Entries at most, 1 to 500; 50 when absent.
    limit: Option<usize>,
}

impl From<PageQuery> for PageRequest {
    fn from(query: PageQuery) -> Self {
        Self {
            after: query.after,
            limit: query.limit,
        }
    }
}

/// Reads the body.
pub(super) async fn bytes(payload: Payload) -> Result<Bytes, AdminError> {
    let read = tokio::time::timeout(DEADLINE, collect(payload)).await;
    read.unwrap_or(Err(AdminError::TooSlow))
}

async fn collect(mut payload: Payload) -> Result<Bytes, AdminError> {
    let mut body = BytesMut::new();
    while let Some(chunk) = payload.next().await {
        let chunk =
            chunk.map_err(|_| AdminError::Malformed("the body cannot be read".to_owned()))?;
        if body.len() + chunk.len() > MAX_BYTES {
            return Err(AdminError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// Reads the body as a JSON object.
pub(super) async fn object(payload: Payload) -> Result<Object, AdminError> {
    let bytes = bytes(payload).await?;
    let malformed = AdminError::Malformed;
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(malformed("the body must be a JSON object".to_owned())),
        Err(error) => Err(malformed(format!("the body is not JSON: {error}"))),
    }
}

/// Reads the query as `T`.
pub(super) fn query<T: for<'de> Deserialize<'de>>(query: &str) -> Result<T, AdminError> {
    web::Query::<T>::from_query(query)
        .map(web::Query::into_inner)
        .map_err(|error| AdminError::Malformed(error.to_string()))
}
