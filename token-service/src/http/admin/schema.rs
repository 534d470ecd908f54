//! Registrations and views of objects, and their schemas, from the objects' descriptions.

use std::borrow::Cow;
use std::marker::PhantomData;

use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::Object;
use domain::object::ObjectKind;
use domain::{Client, LegacyInstance, LinkedAccount, User};
use registration::describe::{Field, Record, Registered, Shape};
use registration::objects::ACCOUNT;

/// An object as JSON, with the keys of its description: a view, or with `GIVEN` a registration, which is an entry of a
/// registrations file.
#[derive(Debug, Serialize)]
#[serde(transparent, bound = "")]
pub struct Described<T, const GIVEN: bool>(Object, #[serde(skip)] PhantomData<fn() -> T>);

pub type View<T> = Described<T, false>;
pub type Given<T> = Described<T, true>;
pub type ClientView = View<Client>;
pub type UserView = View<User>;
pub type LegacyInstanceView = View<LegacyInstance>;
pub type ClientRegistration = Given<Client>;
pub type UserRegistration = Given<User>;
pub type LegacyInstanceRegistration = Given<LegacyInstance>;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AccountView(pub LinkedAccount);

/// Name, shape, whether all objects have it, and description.
type Key = (&'static str, Shape, bool, String);

type Schemas = Vec<(String, RefOr<Schema>)>;

impl<T> View<T> {
    pub const fn new(object: Object) -> Self {
        Self(object, PhantomData)
    }
}

impl<T: Registered, const GIVEN: bool> Described<T, GIVEN> {
    /// Name and description of the schema.
    const NAME: (&'static str, &'static str) = match GIVEN {
        true => T::DESCRIPTION.registration,
        false => T::DESCRIPTION.view,
    };

    fn keys() -> impl Iterator<Item = Key> {
        let fields = T::DESCRIPTION.fields.iter();
        fields.filter_map(|field| {
            let (required, help) = match GIVEN {
                // The path contains the name of a legacy instance.
                true if T::DESCRIPTION.kind == ObjectKind::LegacyInstance
                    && !field.can_change() =>
                {
                    return None;
                }
                true => (field.registered()?, meaning(field)),
                false => (field.viewed()?, field.help.to_owned()),
            };
            Some((field.key, field.shape, required, help))
        })
    }
}

impl<T: Registered, const GIVEN: bool> PartialSchema for Described<T, GIVEN> {
    fn schema() -> RefOr<Schema> {
        object(Self::NAME.1, Self::keys())
    }
}

impl<T: Registered, const GIVEN: bool> ToSchema for Described<T, GIVEN> {
    fn name() -> Cow<'static, str> {
        Self::NAME.0.into()
    }

    fn schemas(schemas: &mut Schemas) {
        for (_, shape, _, _) in Self::keys() {
            if let Shape::Records(record) = shape {
                schemas.push((record.name.to_owned(), of_record(record)));
            }
        }
    }
}

impl PartialSchema for AccountView {
    fn schema() -> RefOr<Schema> {
        of_record(&ACCOUNT)
    }
}

impl ToSchema for AccountView {
    fn name() -> Cow<'static, str> {
        ACCOUNT.name.into()
    }
}

/// The description of a field: its integration types and its value.
fn meaning(field: &Field) -> String {
    let types: Vec<String> = field
        .types
        .iter()
        .map(|kind| format!("`{}`", kind.name()))
        .collect();
    let types = match types.as_slice() {
        // Another form of a field has the types of the field.
        types if types.is_empty() || !field.can_change() => String::new(),
        types => format!("For {}.", types.join(", ")),
    };
    let parts = [field.help, field.given, &types];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(" ")
}

fn of_record(record: &Record) -> RefOr<Schema> {
    let key = |(key, help): &(&'static str, &str)| {
        (*key, Shape::Text, record.required, (*help).to_owned())
    };
    object(record.help, record.keys.iter().map(key))
}

fn object(help: &str, keys: impl Iterator<Item = Key>) -> RefOr<Schema> {
    let object = ObjectBuilder::new().description(Some(help));
    let with = |object: ObjectBuilder, (key, shape, required, help): Key| {
        let object = object.property(key, property(shape, required, &help));
        match required {
            true => object.required(key),
            false => object,
        }
    };
    keys.fold(object, with).into()
}

fn property(shape: Shape, required: bool, help: &str) -> RefOr<Schema> {
    let single = |kind: Type| match required {
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
    match shape {
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
