//! The OpenAPI description of the operations on objects.

use utoipa::openapi::path::{HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, Required, ResponseBuilder, Schema};
use utoipa::{IntoParams as _, ToSchema};

use super::{Administered, ChangeQuery, FilterQuery, paths};
use crate::http::admin::answer::ErrorBody;
use crate::http::admin::pages::PageQuery;
use domain::object::ObjectKind;
use registry::describe::Registered;

fn operation<T: Registered>(id: &str, summary: &str, failures: &[&str]) -> OperationBuilder {
    let operation = OperationBuilder::new()
        .operation_id(Some(id))
        .summary(Some(summary))
        .tag(T::LIST.replace('-', " "));
    let failures = failures.iter();
    failures.fold(operation, |operation, status| {
        operation.response(*status, failed())
    })
}

fn name<T: Registered>() -> ParameterBuilder {
    ParameterBuilder::new()
        .name(T::NAME_KEY)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .schema(Some(of_type(Type::String)))
}

/// Adds the operations that hand an object over to the OpenAPI description of the administration.
pub(in crate::http::admin) fn describe_owner<T: Registered>(openapi: &mut OpenApi) {
    let [_, one] = paths::<T>();
    for (id, summary) in [
        (
            "release",
            "Lets commands define an object that a file manages, as it is now. A file that lists it does not change it.",
        ),
        (
            "adopt",
            "Lets a file define an object that no file manages, from when the file is applied next.",
        ),
    ] {
        let operation = operation::<T>(id, summary, &["404", "409"])
            .parameter(name::<T>())
            .response("200", response(Some(reference::<T::View>())));
        let (path, method) = (format!("/admin{one}/{id}"), vec![HttpMethod::Post]);
        let paths = &mut openapi.paths;
        paths.add_path_operation(path, method, operation);
    }
}

/// Adds the operations to the OpenAPI description of the administration.
pub(in crate::http::admin) fn describe<T: Administered>(
    openapi: &mut OpenApi,
    summaries: [&str; 5],
) {
    describe_owner::<T>(openapi);
    let operation = operation::<T>;
    let name = name::<T>;
    let view = || response(Some(reference::<T::View>()));
    let page = Ref::from_schema_name(format!("Page_{}", T::View::name()));
    let [list, create, show, update, delete] = summaries;
    let filters = FilterQuery::into_params(|| Some(ParameterIn::Query)).into_iter();
    let list = operation("list", list, &[])
        .parameters(Some(PageQuery::into_params(|| Some(ParameterIn::Query))))
        .parameters(Some(filters.filter(|filter| {
            !["without", "identity_provider", "cannot_sign_in"].contains(&&*filter.name)
                || T::KIND == ObjectKind::User
        })))
        .response("200", response(Some(page.into())));
    let create = operation("create", create, &["400", "409"])
        .request_body(Some(request_body(reference::<T::Keys>())))
        .response("201", response(Some(reference::<T::Created>())));
    let show = operation("show", show, &["404"])
        .parameter(name())
        .response("200", view());
    let update = operation("update", update, &["400", "404", "409"])
        .parameter(name())
        .parameters(Some(ChangeQuery::into_params(|| Some(ParameterIn::Query))))
        .request_body(Some(request_body(of_type(Type::Object))))
        .response("200", view());
    let delete = operation("delete", delete, &["404", "409"])
        .parameter(name())
        .response("204", response(None));
    let [all, one] = paths::<T>().map(|path| format!("/admin{path}"));
    for (path, method, operation) in [
        (&all, HttpMethod::Get, list),
        (&all, HttpMethod::Post, create),
        (&one, HttpMethod::Get, show),
        (&one, HttpMethod::Patch, update),
        (&one, HttpMethod::Delete, delete),
    ] {
        let paths = &mut openapi.paths;
        paths.add_path_operation(path, vec![method], operation);
    }
}

pub(in crate::http::admin) fn failed() -> ResponseBuilder {
    response(Some(reference::<ErrorBody>()))
}

fn reference<S: ToSchema>() -> RefOr<Schema> {
    Ref::from_schema_name(S::name()).into()
}

fn of_type(kind: Type) -> RefOr<Schema> {
    let kind = SchemaType::Type(kind);
    ObjectBuilder::new().schema_type(kind).into()
}

fn request_body(schema: RefOr<Schema>) -> RequestBody {
    let content = Content::new(Some(schema));
    let body = RequestBodyBuilder::new().content("application/json", content);
    body.required(Some(Required::True)).build()
}

fn response(schema: Option<RefOr<Schema>>) -> ResponseBuilder {
    let response = ResponseBuilder::new();
    match schema {
        Some(schema) => response.content("application/json", Content::new(Some(schema))),
        None => response,
    }
}
