//! Reads the headers that carry claims.

use document::Section;
use serde_json::Value;

use super::{Config, one_of, text, texts_of};
use crate::forward::{ForwardedHeader, ListForm};

pub(super) fn read(root: &mut Section<'_>) -> Vec<ForwardedHeader> {
    let mut headers = Vec::new();
    root.optional("forward", |forward| {
        while let Some((name, value)) = forward.take_any() {
            if let Err(why) = check_header_name(&name) {
                forward.problem(&name, why);
            }
            let form = match value {
                value @ (Value::String(_) | Value::Array(_)) => {
                    claim_names(forward, &name, &value).map(|claims| (claims, ListForm::Comma))
                }
                Value::Object(members) => {
                    let mut object = forward.within(&name, members);
                    object.required("claim");
                    let claims = object
                        .take("claim")
                        .and_then(|claim| claim_names(&object, "claim", &claim.value));
                    let forms = [
                        ("comma", ListForm::Comma),
                        ("space", ListForm::Space),
                        ("json", ListForm::Json),
                    ];
                    let lists = one_of(&mut object, "lists", forms, ListForm::Comma);
                    object.finish();
                    claims.map(|claims| (claims, lists))
                }
                _ => {
                    forward.problem(
                        &name,
                        "must be the name of a claim, a list of names, or an object with claim and lists",
                    );
                    None
                }
            };
            if let Some((claims, lists)) = form {
                headers.push(ForwardedHeader {
                    name,
                    claims,
                    lists,
                });
            }
        }
        Some(())
    });
    headers
}

/// The name of a claim, or a list of names: the guard forwards the first claim that the token has.
fn claim_names(object: &Section<'_>, key: &str, value: &Value) -> Option<Vec<String>> {
    let names = match value {
        Value::Array(names) => names.as_slice(),
        name => std::slice::from_ref(name),
    };
    let names = texts_of(names);
    if names.is_none() {
        object.problem(
            key,
            "must be the name of a claim, or a list of at least one name",
        );
    }
    names
}

/// Headers that no claim may replace, because the gateway or the guard gives them a meaning.
const RESERVED_HEADERS: [&str; 32] = [
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "dpop",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-method",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
    "x-forwarded-uri",
    "x-guard-authorization",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-request-id",
    "x-rewrite-url",
    "x-token-filter",
    "x-token-guard-body",
    "x-token-guard-status",
];

fn check_header_name(name: &str) -> Result<(), &'static str> {
    let token = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || !name.bytes().all(token) {
        return Err("is not a header name in lower case");
    }
    if RESERVED_HEADERS.contains(&name) || name.starts_with("x-envoy-") {
        return Err("is a header with a fixed meaning");
    }
    Ok(())
}

pub(super) fn name(root: &mut Section<'_>, key: &'static str) -> Option<String> {
    let name = text(root, key)?;
    if let Err(why) = check_header_name(&name) {
        root.problem(key, why);
    }
    Some(name)
}

/// Reports a header that would carry both a claim and the whole payload.
pub(super) fn check(root: &Section<'_>, config: &Config) {
    if let Some(payload) = &config.forward_payload
        && config.forward.iter().any(|header| header.name == *payload)
    {
        root.problem("forward_payload", "is also in forward");
    }
}
