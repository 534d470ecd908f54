//! Reads bodies and queries of the administration.

use std::collections::BTreeSet;
use std::time::Duration;

use actix_web::web::{self, Bytes, BytesMut, Payload};
use claims::json::{self, JsonError};
use document::{InvalidDocument, Problems, Section, Table};
use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::Value;

use super::answer::AdminError;
use super::{Object, blocking};
use crate::telemetry::visible::bounded;

/// Maximum size of a registrations document, in bytes: about 100,000 users.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Time limit from a request's head to the end of its body.
const DEADLINE: Duration = Duration::from_secs(60);

/// A body that is read key by key, so that every problem has its place.
pub(super) trait Form {
    /// Reads the known keys. Absent keys have defaults.
    fn read(section: &mut Section<'_>) -> Self;
}

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
    let body = bytes(payload).await?;
    blocking(move || parse(&body)).await?
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

/// Reads the body as a `T`. A missing body has no keys.
pub(super) async fn form<T: Form>(payload: Payload) -> Result<T, AdminError> {
    let body = bytes(payload).await?;
    let body = match body.is_empty() {
        true => Object::new(),
        false => blocking(move || parse(&body)).await??,
    };
    Ok(read(body)?)
}

fn read<T: Form>(body: Object) -> Result<T, InvalidDocument> {
    let problems = Problems::default();
    let mut section = Section::root(Table::from_json(body), &problems);
    let form = T::read(&mut section);
    section.finish();
    problems.none_or(form)
}

/// Reads the query as a `T`. An empty parameter counts as omitted (D-31), but an empty flag is wrong: `?dry_run` must not
/// change anything.
pub(super) fn query<T: for<'de> Deserialize<'de>>(query: &str) -> Result<T, AdminError> {
    let is_flag = |name: &str| {
        let reads = |value| web::Query::<T>::from_query(&format!("{name}={value}")).is_ok();
        reads("true") && !reads("other")
    };
    let given = || {
        let all = url::form_urlencoded::parse(query.as_bytes());
        all.filter(|(name, value)| !value.is_empty() || is_flag(name))
    };
    // No name contains the character, and PostgreSQL fails if it gets one.
    if let Some((name, _)) = given().find(|(_, value)| value.contains('\0')) {
        let message = format!("{}: contains a NUL character", bounded(&name));
        return Err(AdminError::Malformed(message));
    }
    let given = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(given())
        .finish();
    web::Query::<T>::from_query(&given)
        .map(web::Query::into_inner)
        .map_err(|_| AdminError::Malformed(wrong_parameter::<T>(&given)))
}

fn wrong_parameter<T: for<'de> Deserialize<'de>>(query: &str) -> String {
    if let Err(error) = web::Query::<T>::from_query(query)
        && let Some(name) = missing(&error.to_string())
    {
        return format!("{name} is missing");
    }
    let mut seen = BTreeSet::new();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let alone = url::form_urlencoded::Serializer::new(String::new())
            .append_pair(&name, &value)
            .finish();
        let wrong = web::Query::<T>::from_query(&alone).err();
        let Some(error) = wrong.filter(|error| missing(&error.to_string()).is_none()) else {
            if !seen.insert(name.clone()) {
                return format!("{}: occurs twice", bounded(&name));
            }
            continue;
        };
        // The parameters are texts, flags, words and numbers, and every text is right.
        let error = error.to_string();
        let words = error.split_once("expected one of ");
        let expected = match words {
            Some((_, words)) => format!("one of {}", words.replace('`', "")),
            None if error.contains("true") => "true or false".to_owned(),
            None => "a whole number".to_owned(),
        };
        let found = match value.is_empty() {
            true => "nothing".into(),
            false => bounded(&value),
        };
        return format!("{}: expected {expected}, found {found}", bounded(&name));
    }
    "the query cannot be read".to_owned()
}

/// The required parameter that the query lacks, from the message of the parser.
fn missing(error: &str) -> Option<&str> {
    let (_, name) = error.split_once("missing field `")?;
    Some(name.split_once('`')?.0)
}

#[cfg(test)]
mod tests {
    use super::super::keys::RotationRequest;
    use super::super::objects::Without;
    use super::*;

    #[test]
    fn the_message_says_which_parameter_is_wrong() {
        #[derive(Debug, Deserialize)]
        struct Some {
            after: Option<String>,
            limit: Option<usize>,
            #[serde(default)]
            prune: bool,
            without: Option<Without>,
        }
        for (text, expected) in [
            (
                "without=nosuch",
                "without: expected one of password, second-factor, account, sign-in, found nosuch",
            ),
            (
                "after=a&limit=many",
                "limit: expected a whole number, found many",
            ),
            ("limit=-1", "limit: expected a whole number, found -1"),
            ("prune=yes", "prune: expected true or false, found yes"),
            ("prune=", "prune: expected true or false, found nothing"),
            (
                "limit=1&prune",
                "prune: expected true or false, found nothing",
            ),
            ("limit=1&limit=2", "limit: occurs twice"),
            ("after=a%00b", "after: contains a NUL character"),
        ] {
            let error = query::<Some>(text).unwrap_err();
            assert_eq!(error.to_string(), expected, "{text}");
        }
        #[derive(Debug, Deserialize)]
        #[expect(dead_code, reason = "only read")]
        struct Both {
            issuer: String,
            subject: String,
        }
        for (text, expected) in [
            ("issuer=a", "subject is missing"),
            ("", "issuer is missing"),
            ("issuer=a&subject=b&subject=c", "subject: occurs twice"),
        ] {
            let error = query::<Both>(text).unwrap_err();
            assert_eq!(error.to_string(), expected, "{text}");
        }
        let empty = query::<Some>("after=&limit=&without=").unwrap();
        assert!(empty.after.is_none() && empty.limit.is_none() && !empty.prune);
        assert!(empty.without.is_none());
    }

    #[test]
    fn the_message_says_which_member_is_wrong() {
        let body = br#"{"imediate": true, "cut_off": "yes"}"#;
        let invalid = read::<RotationRequest>(parse(body).unwrap()).unwrap_err();
        let expected = "cut_off: expected true or false, found a string\n\
                        imediate: unknown key; did you mean immediate?";
        assert_eq!(invalid.to_string(), expected);
    }

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
