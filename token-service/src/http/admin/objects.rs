//! The common routes of clients and users, and their OpenAPI description.

use actix_web::http::StatusCode;
use actix_web::web::{self, Path, Payload};
use actix_web::{HttpRequest, HttpResponse};
use utoipa::openapi::path::{HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, Required, ResponseBuilder, Schema};
use utoipa::{IntoParams as _, ToSchema};

use super::access::{Administrator, Reader};
use super::answer::{self, ErrorBody};
use super::body::{self, PageQuery};
use crate::admin::AdminError;
use crate::admin::objects::{Administered, Listed};
use crate::admin::schema::{Given, View};
use domain::{Client, User};

/// Kinds of objects with their own path.
pub(super) trait Served: Listed {
    /// Last segment of the path of all objects, and tag of the operations.
    const SEGMENT: &'static str;
    /// Summaries of the operations: list, create, show, update, delete.
    const SUMMARIES: [&'static str; 5];
}

impl Served for Client {
    const SEGMENT: &'static str = "clients";
    const SUMMARIES: [&'static str; 5] = [
        "Lists clients in the order of their ids.",
        "Registers a client. A generated secret is in the answer, this once.",
        "Shows a client.",
        "Changes a client by a JSON merge patch (RFC 7396) of its registration. Disabling it revokes what was \
                 issued to it.",
        "Removes a client; everything issued to it is revoked, at the edge too.",
    ];
}

impl Served for User {
    const SEGMENT: &'static str = "users";
    const SUMMARIES: [&'static str; 5] = [
        "Lists users in the order of their names.",
        "Registers a user.",
        "Shows a user.",
        "Changes a user by a JSON merge patch (RFC 7396) of the registration. A new password or second factor, or \
                 being disabled, ends the user's sessions and revokes what was issued.",
        "Removes a user; everything issued to them is revoked, at the edge too.",
    ];
}

pub(super) fn routes<T: Served>(routes: &mut web::ServiceConfig) {
    let all = format!("/{}", T::SEGMENT);
    let one = format!("{all}/{{{}}}", T::DESCRIPTION.name_key);
    routes
        .service(
            web::resource(all)
                .route(web::get().to(list::<T>))
                .route(web::post().to(create::<T>)),
        )
        .service(
            web::resource(one)
                .route(web::get().to(show::<T>))
                .route(web::patch().to(update::<T>))
                .route(web::delete().to(delete::<T>)),
        );
}

async fn list<T: Served>(reader: Reader, http: HttpRequest) -> Result<HttpResponse, AdminError> {
    let query = body::query::<PageQuery>(http.query_string())?;
    let page = reader.administration().list::<T>(&query.into()).await?;
    Ok(answer::json(StatusCode::OK, page))
}

async fn create<T: Served>(
    administrator: Administrator,
    payload: Payload,
) -> Result<HttpResponse, AdminError> {
    let registration = body::object(payload).await?;
    let administration = administrator.administration();
    let created = administration.create::<T>(registration).await?;
    Ok(answer::json(StatusCode::CREATED, created))
}

async fn show<T: Served>(reader: Reader, name: Path<String>) -> Result<HttpResponse, AdminError> {
    let view = reader.administration().show::<T>(&name).await?;
    Ok(answer::json(StatusCode::OK, view))
}

async fn update<T: Served>(
    administrator: Administrator,
    name: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, AdminError> {
    let patch = body::object(payload).await?;
    let administration = administrator.administration();
    let view = administration.update::<T>(&name, patch).await?;
    Ok(answer::json(StatusCode::OK, view))
}

pub(super) async fn delete<T: Administered>(
    administrator: Administrator,
    name: Path<String>,
) -> Result<HttpResponse, AdminError> {
    administrator.administration().delete::<T>(&name).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Adds the operations to the OpenAPI description of the administration.
pub(super) fn describe<T: Served>(openapi: &mut OpenApi) {
    let all = format!("/admin/{}", T::SEGMENT);
    let one = format!("{all}/{{{}}}", T::DESCRIPTION.name_key);
    let page = Ref::from_schema_name(format!("Page_{}", View::<T>::name())).into();
    let [list, create, show, update, delete] = T::SUMMARIES;
    let name = ParameterBuilder::new()
        .name(T::DESCRIPTION.name_key)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .schema(Some(of_type(Type::String)))
        .build();
    let query = PageQuery::into_params(|| Some(ParameterIn::Query));
    let view = || Some(reference::<View<T>>());
    let patch = of_type(Type::Object);
    let operation =
        |name: &str, summary: &str, success, body: Option<RefOr<Schema>>, failures: &[&str]| {
            let operation = OperationBuilder::new()
                .operation_id(Some(name))
                .summary(Some(summary))
                .tag(T::SEGMENT)
                .request_body(body.map(request_body));
            let (status, answer) = success;
            let operation = operation.response(status, response(answer));
            failures.iter().fold(operation, |operation, status| {
                operation.response(*status, response(Some(reference::<ErrorBody>())))
            })
        };
    let created = ("201", Some(reference::<T::Created>()));
    let given = Some(reference::<Given<T>>());
    let operations = [
        (
            &all,
            HttpMethod::Get,
            operation("list", list, ("200", Some(page)), None, &["401"]).parameters(Some(query)),
        ),
        (
            &all,
            HttpMethod::Post,
            operation("create", create, created, given, &["400", "401", "409"]),
        ),
        (
            &one,
            HttpMethod::Get,
            operation("show", show, ("200", view()), None, &["401", "404"]).parameter(name.clone()),
        ),
        (
            &one,
            HttpMethod::Patch,
            operation(
                "update",
                update,
                ("200", view()),
                Some(patch),
                &["400", "401", "404", "409"],
            )
            .parameter(name.clone()),
        ),
        (
            &one,
            HttpMethod::Delete,
            operation(
                "delete",
                delete,
                ("204", None),
                None,
                &["401", "404", "409"],
            )
            .parameter(name),
        ),
    ];
    for (path, method, operation) in operations {
        openapi
            .paths
            .add_path_operation(path, vec![method], operation);
    }
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
