//! Reads bodies and queries of the administration.

use std::time::Duration;

use actix_web::web::{self, Bytes, BytesMut, Payload};
use claims::json::{self, JsonError};
use futures_util::StreamExt as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use utoipa::IntoParams;

use crate::admin::{AdminError, Object, PageRequest};

/// Maximum size of a registrations document, in bytes: about 100,000 users.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Time limit from a request's head to the end of its body.
const DEADLINE: Duration = Duration::from_secs(60);

/// Page of a list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PageQuery {
    /// `next` of the previous page.
    after: Option<String>,
    /// Maximum number of entries, 1 to 500. Default: 50.
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

/// Reads the body as a JSON object. A repeated member would hide another member, at every depth.
pub(super) async fn object(payload: Payload) -> Result<Object, AdminError> {
    parse(&bytes(payload).await?)
}

fn parse(body: &[u8]) -> Result<Object, AdminError> {
    json::parse_object(body).map_err(|error| {
        let why = match (error, serde_json::from_slice::<Value>(body)) {
            (JsonError::NotAnObject, Ok(_)) => "the body must be a JSON object".to_owned(),
            (JsonError::NotAnObject, Err(error)) => format!("the body is not JSON: {error}"),
            (error, _) => format!("the body cannot be read: {error}"),
        };
        AdminError::Malformed(why)
    })
}

/// Reads the body as `T`. A missing body is the default.
pub(super) async fn form<T: Default + DeserializeOwned>(payload: Payload) -> Result<T, AdminError> {
    let body = bytes(payload).await?;
    if body.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_value(parse(&body)?.into())
        .map_err(|error| AdminError::Malformed(error.to_string()))
}

/// Reads the query as `T`.
pub(super) fn query<T: for<'de> Deserialize<'de>>(query: &str) -> Result<T, AdminError> {
    web::Query::<T>::from_query(query)
        .map(web::Query::into_inner)
        .map_err(|error| AdminError::Malformed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_says_why_a_body_is_no_registration() {
        for (body, expected) in [
            (
                r#"{"a": {"b": 1, "b": 2}}"#,
                "the body cannot be read: the member \"b\" occurs twice",
            ),
            ("[1]", "the body must be a JSON object"),
            (
                "{",
                "the body is not JSON: EOF while parsing an object at line 1 column 1",
            ),
        ] {
            assert_eq!(parse(body.as_bytes()).unwrap_err().to_string(), expected);
        }
    }
}
