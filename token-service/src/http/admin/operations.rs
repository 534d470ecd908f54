//! Refuses requests that are not in the description of the administration: other methods, and query parameters that the
//! operation does not have. A misspelt parameter would otherwise be ignored, and the operation would do more than asked.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::middleware::Next;
use actix_web::{Error, HttpRequest, HttpResponse, ResponseError as _, web};
use document::unknown;
use utoipa::OpenApi as _;
use utoipa::openapi::RefOr;
use utoipa::openapi::path::{Operation, ParameterIn};

use super::super::{error, paths};
use super::answer::AdminError;
use super::{Description, OPENAPI};
use crate::telemetry::visible::bounded;

struct Operations {
    /// Value of the header `Allow`.
    allow: String,
    /// Names of the query parameters, by method.
    parameters: BTreeMap<&'static str, Vec<String>>,
}

static ALL: LazyLock<BTreeMap<String, Operations>> = LazyLock::new(|| {
    let described = Description::openapi().paths.paths.into_iter();
    let described = described.map(|(path, item)| {
        let operations = [
            (Method::GET, item.get),
            (Method::POST, item.post),
            (Method::PUT, item.put),
            (Method::PATCH, item.patch),
            (Method::DELETE, item.delete),
        ];
        let operations = operations.into_iter();
        (
            path,
            operations
                .filter_map(|(method, one)| Some((method, one?)))
                .collect(),
        )
    });
    let of_description = vec![(Method::GET, Operation::new())];
    let own_path = format!("{}{OPENAPI}", paths::ADMIN);
    described
        .chain([(own_path, of_description)])
        .map(|(path, operations)| (path, of_path(operations)))
        .collect()
});

fn of_path(operations: Vec<(Method, Operation)>) -> Operations {
    let mut allow = Vec::new();
    let mut parameters = BTreeMap::new();
    for (method, operation) in operations {
        let name = super::super::method::name(&method);
        allow.push(name);
        if method == Method::GET {
            allow.push("HEAD");
        }
        let all = operation.parameters.unwrap_or_default().into_iter();
        let of_query = all.filter_map(|parameter| match parameter {
            RefOr::T(one) if matches!(one.parameter_in, ParameterIn::Query) => Some(one.name),
            _ => None,
        });
        parameters.insert(name, of_query.collect());
    }
    Operations {
        allow: allow.join(", "),
        parameters,
    }
}

pub(super) async fn check(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    match refusal(request.request()) {
        Some(response) => Ok(request.into_response(response)),
        None => next.call(request).await,
    }
}

fn refusal(request: &HttpRequest) -> Option<HttpResponse> {
    // Other paths are answered 404.
    let operations = ALL.get(&request.match_pattern()?)?;
    let Some(known) = operations.parameters.get(request.method().as_str()) else {
        return Some(error::method_not_allowed(request, &operations.allow));
    };
    let unknown = unknown_parameter(request.query_string(), known)?;
    Some(AdminError::Malformed(unknown).error_response())
}

/// What is wrong with the first parameter that is not in `known`.
fn unknown_parameter(query: &str, known: &[String]) -> Option<String> {
    let given = web::Query::<Vec<(String, String)>>::from_query(query).ok()?;
    let (name, _) = given.iter().find(|(name, _)| !known.contains(name))?;
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let message = unknown("query parameter", name, &known);
    Some(format!("{}: {message}", bounded(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_no_operation_are_refused() {
        let known = ["dry_run", "prune"].map(str::to_owned);
        for (query, expected) in [
            ("", None),
            ("prune=true&dry_run=", None),
            (
                "prune=true&dry_runs=true",
                Some("dry_runs: unknown query parameter; did you mean dry_run?"),
            ),
            ("colour", Some("colour: unknown query parameter")),
        ] {
            let found = unknown_parameter(query, &known);
            assert_eq!(found.as_deref(), expected, "{query}");
        }
        let client_id = ["client_id", "username"].map(str::to_owned);
        assert_eq!(
            unknown_parameter("client=web", &client_id).as_deref(),
            Some("client: unknown query parameter; did you mean client_id?")
        );
    }
}
