//! What the OpenAPI descriptions of the public and of the internal listener have in common.

use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{OpenApi, RefOr, ServerBuilder};

/// Descriptions of parameters that have no doc comment, such as those in paths.
const PARAMETERS: [(&str, &str); 7] = [
    ("action", "Only entries of this action."),
    ("alias", "Alias of the certificate."),
    ("client_id", "Client ID."),
    ("grant_id", "The claim `grant_id` of the tokens."),
    ("hostname", "Host name of the legacy instance."),
    ("kid", "Id of the signing key."),
    ("username", "Username."),
];

/// Adds the descriptions of tags and parameters. Doc comments of handlers arrive as summaries: the first sentence stays there, and the
/// description has all.
pub(super) fn complete(openapi: &mut OpenApi, tags: &[(&str, &str)]) {
    let tags = tags.iter().map(|(name, description)| {
        let tag = TagBuilder::new().name(*name);
        tag.description(Some(*description)).build()
    });
    openapi.tags = Some(tags.collect());
    for operation in openapi.paths.paths.values_mut().flat_map(operations) {
        let texts = [operation.summary.take(), operation.description.take()];
        let text = texts.into_iter().flatten().collect::<Vec<_>>().join(" ");
        let first = text.find(". ").map_or(&*text, |end| &text[..=end]);
        operation.summary = Some(first.to_owned());
        operation.description = Some(text);
        for parameter in operation.parameters.iter_mut().flatten() {
            if let RefOr::T(parameter) = parameter
                && parameter.description.is_none()
            {
                let known = PARAMETERS.iter().find(|(name, _)| *name == parameter.name);
                parameter.description = known.map(|(_, description)| (*description).to_owned());
            }
        }
    }
}

pub(super) fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let operations = [
        &mut item.get,
        &mut item.put,
        &mut item.post,
        &mut item.delete,
        &mut item.patch,
    ];
    operations.into_iter().flatten()
}

/// Names the server by its absolute URL, because people save the description.
pub(super) fn at(mut openapi: OpenApi, url: &str, description: &str) -> OpenApi {
    let server = ServerBuilder::new().url(url).description(Some(description));
    openapi.servers = Some(vec![server.build()]);
    openapi
}

/// What is missing in a description, and texts that mean nothing outside the source.
#[cfg(test)]
pub(super) fn problems(openapi: &OpenApi) -> Vec<String> {
    use serde_json::Value;

    fn texts<'a>(path: &str, value: &'a Value, found: &mut Vec<(String, &'a str)>) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    texts(&format!("{path}/{name}"), value, found);
                }
            }
            Value::Array(values) => {
                for value in values {
                    texts(path, value, found);
                }
            }
            Value::String(text) => found.push((path.to_owned(), text)),
            _ => {}
        }
    }
    let openapi = serde_json::to_value(openapi).unwrap();
    let mut all = Vec::new();
    texts("", &openapi, &mut all);
    let is_decision = |text: &str| {
        let mut after = text.split("D-").skip(1);
        after.any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let is_of_source = |text: &str| {
        let marks = ["[`", "`]", "](", "::", ".md"];
        is_decision(text) || marks.iter().any(|mark| text.contains(mark))
    };
    let of_source = all.iter().filter(|(_, text)| is_of_source(text));
    let mut problems: Vec<String> = of_source
        .map(|(path, text)| format!("{path}: {text}"))
        .collect();
    let mut needs = |path: &str, value: &Value, names: &[&str]| {
        for name in names {
            if value[name].as_str().is_none_or(str::is_empty) {
                problems.push(format!("{path}: no {name}"));
            }
        }
    };
    let members = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let described = &["description"];
    needs("info", &openapi["info"], described);
    let url = openapi["servers"][0]["url"].as_str();
    assert!(url.is_some_and(|url| url.starts_with("http")), "{url:?}");
    let tags = openapi["tags"].as_array().cloned().unwrap_or_default();
    for tag in &tags {
        needs("tag", tag, described);
    }
    for (path, item) in members(&openapi["paths"]) {
        for (method, operation) in members(&item) {
            let path = format!("{method} {path}");
            needs(&path, &operation, &["summary", "description"]);
            let tag = &operation["tags"][0];
            assert!(tags.iter().any(|known| known["name"] == *tag), "{path}");
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                needs(&format!("{path} {parameter}"), parameter, described);
            }
            for (status, response) in members(&operation["responses"]) {
                needs(&format!("{path} {status}"), &response, described);
            }
        }
    }
    for (name, schema) in members(&openapi["components"]["schemas"]) {
        needs(&name, &schema, described);
    }
    problems
}
