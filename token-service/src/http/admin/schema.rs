//! Registrations and views of objects, and their schemas, from the objects' descriptions.

use std::borrow::Cow;
use std::marker::PhantomData;

use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::Object;
use domain::remembered::ObjectKind;
use domain::{Client, LegacyInstance, LinkedAccount, User};
use registration::describe::{Field, Key, Record, Registered, Shape};
use registration::objects::ACCOUNT;

/// A view of an object, with the keys of the description.
#[derive(Debug, Serialize)]
#[serde(transparent, bound = "")]
pub struct View<T>(Object, #[serde(skip)] PhantomData<fn() -> T>);

impl<T> View<T> {
    pub const fn new(object: Object) -> Self {
        Self(object, PhantomData)
    }
}

/// The registration of an object: an entry of a registrations file. The reader of registrations checks each key.
#[derive(Debug, Clone, Copy)]
pub struct Given<T>(PhantomData<fn() -> T>);

pub type ClientView = View<Client>;
pub type UserView = View<User>;
pub type LegacyInstanceView = View<LegacyInstance>;
pub type ClientRegistration = Given<Client>;
pub type UserRegistration = Given<User>;
pub type LegacyInstanceRegistration = Given<LegacyInstance>;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AccountView(pub LinkedAccount);

type Schemas = Vec<(String, RefOr<Schema>)>;

impl<T: Registered> PartialSchema for View<T> {
    fn schema() -> RefOr<Schema> {
        object(T::DESCRIPTION.view.1, &viewed::<T>())
    }
}

impl<T: Registered> ToSchema for View<T> {
    fn name() -> Cow<'static, str> {
        T::DESCRIPTION.view.0.into()
    }

    fn schemas(schemas: &mut Schemas) {
        records(&viewed::<T>(), schemas);
    }
}

impl<T: Registered> PartialSchema for Given<T> {
    fn schema() -> RefOr<Schema> {
        let help = T::DESCRIPTION.registration.1;
        let mut schema = ObjectBuilder::new().description(Some(help));
        for field in T::DESCRIPTION.fields {
            // The path contains the name of a legacy instance.
            if T::DESCRIPTION.kind == ObjectKind::LegacyInstance && !field.can_change() {
                continue;
            }
            if let Some(key) = field.registered() {
                schema = with_key(schema, &key, &meaning(field));
            }
        }
        schema.into()
    }
}

impl<T: Registered> ToSchema for Given<T> {
    fn name() -> Cow<'static, str> {
        T::DESCRIPTION.registration.0.into()
    }

    fn schemas(schemas: &mut Schemas) {
        let fields = T::DESCRIPTION.fields.iter();
        let keys: Vec<Key> = fields.filter_map(Field::registered).collect();
        records(&keys, schemas);
    }
}

impl PartialSchema for AccountView {
    fn schema() -> RefOr<Schema> {
        object(ACCOUNT.help, ACCOUNT.keys)
    }
}

impl ToSchema for AccountView {
    fn name() -> Cow<'static, str> {
        ACCOUNT.name.into()
    }
}

fn viewed<T: Registered>() -> Vec<Key> {
    let fields = T::DESCRIPTION.fields.iter();
    fields.filter_map(Field::viewed).collect()
}

/// The description of a field: its integration types and its value.
fn meaning(field: &Field) -> String {
    let types: Vec<String> = field
        .types
        .iter()
        .map(|kind| format!("`{}`", kind.name()))
        .collect();
    let types = match types.as_slice() {
        types if types.is_empty() || !field.can_change() => String::new(),
        types => format!("For {}.", types.join(", ")),
    };
    let parts = [field.help, field.given, &types];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(" ")
}

/// Adds the schemas of nested objects.
fn records(keys: &[Key], schemas: &mut Schemas) {
    for key in keys {
        if let Shape::Records(Record { name, help, keys }) = key.shape {
            schemas.push(((*name).to_owned(), object(help, keys)));
        }
    }
}

fn object(help: &str, keys: &[Key]) -> RefOr<Schema> {
    let object = ObjectBuilder::new().description(Some(help));
    let with = |object, key: &Key| with_key(object, key, key.help);
    keys.iter().fold(object, with).into()
}

fn with_key(object: ObjectBuilder, key: &Key, help: &str) -> ObjectBuilder {
    let object = object.property(key.key, property(key, help));
    if key.required {
        object.required(key.key)
    } else {
        object
    }
}

fn property(key: &Key, help: &str) -> RefOr<Schema> {
    let single = |kind: Type| match key.required {
        true => SchemaType::Type(kind),
        false => SchemaType::Array(vec![kind, Type::Null]),
    };
    let of = |kind| {
        ObjectBuilder::new()
            .schema_type(single(kind))
            .description(Some(help))
    };
    let list = |items: RefOr<Schema>| {
        ArrayBuilder::new()
            .schema_type(single(Type::Array))
            .description(Some(help))
            .items(items)
            .into()
    };
    match key.shape {
        Shape::Text => of(Type::String).into(),
        Shape::Flag => of(Type::Boolean).into(),
        Shape::Count => of(Type::Integer).minimum(Some(0)).into(),
        Shape::Texts => list(of_type(SchemaType::Type(Type::String))),
        Shape::Records(record) => list(Ref::from_schema_name(record.name).into()),
    }
}

fn of_type(kind: SchemaType) -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(kind).into()
}
