//! Types of field values.

use serde_json::Value;

use super::shape::Shape;
use domain::client::ClientSecret;
use domain::remembered::Element;
use domain::{RedirectUriPattern, Scope, Username};

pub(crate) trait Item: Clone + 'static {
    /// Shape of the value in registrations.
    const SHAPE: Shape;

    /// The value for comparison and for people.
    fn text(&self) -> String;

    /// Identifies the value within a list.
    fn key(&self) -> String {
        self.text()
    }

    fn json(&self) -> Value {
        Value::String(self.text())
    }
}

impl Item for String {
    const SHAPE: Shape = Shape::Text;

    fn text(&self) -> String {
        self.clone()
    }
}

impl Item for Username {
    const SHAPE: Shape = Shape::Text;

    fn text(&self) -> String {
        self.to_string()
    }
}

impl Item for RedirectUriPattern {
    const SHAPE: Shape = Shape::Text;

    fn text(&self) -> String {
        self.to_string()
    }
}

impl Item for bool {
    const SHAPE: Shape = Shape::Flag;

    fn text(&self) -> String {
        self.to_string()
    }

    fn json(&self) -> Value {
        Value::Bool(*self)
    }
}

impl Item for ClientSecret {
    const SHAPE: Shape = Shape::Text;

    fn text(&self) -> String {
        self.digest().to_base64url()
    }
}

/// The content of a member of a domain type: one value, an optional value or a list.
pub(crate) trait Content: Sized + 'static {
    /// The type of a single value.
    type Item: Item;
    /// Shape in registrations.
    const SHAPE: Shape;
    /// True if the value may be absent.
    const OPTIONAL: bool = false;

    fn items(&self) -> Vec<Self::Item>;

    /// Assembles the values; `None` if a required value is missing.
    fn assemble(items: Vec<Self::Item>) -> Option<Self>;

    /// The values for comparison.
    fn elements(&self) -> Vec<Element> {
        let items = self.items();
        let elements = items.iter().map(|item| Element {
            key: match Self::SHAPE {
                Shape::List(_) => item.key(),
                _ => String::new(),
            },
            value: item.text(),
        });
        elements.collect()
    }

    fn json(&self) -> Value {
        let items = self.items();
        let mut values = items.iter().map(Item::json);
        match Self::SHAPE {
            Shape::List(_) => values.collect(),
            _ => values.next().unwrap_or_default(),
        }
    }
}

/// A value that is not in a list.
pub(crate) trait Single: Item {}

impl Single for String {}
impl Single for Username {}
impl Single for bool {}

impl<I: Single> Content for I {
    type Item = Self;
    const SHAPE: Shape = I::SHAPE;

    fn items(&self) -> Vec<Self> {
        vec![self.clone()]
    }

    fn assemble(items: Vec<Self>) -> Option<Self> {
        items.into_iter().next()
    }
}

impl<I: Single> Content for Option<I> {
    type Item = I;
    const SHAPE: Shape = I::SHAPE;
    const OPTIONAL: bool = true;

    fn items(&self) -> Vec<I> {
        self.iter().cloned().collect()
    }

    fn assemble(items: Vec<I>) -> Option<Self> {
        Some(items.into_iter().next())
    }
}

impl<I: Item> Content for Vec<I> {
    type Item = I;
    const SHAPE: Shape = Shape::List(&I::SHAPE);

    fn items(&self) -> Self {
        self.clone()
    }

    fn assemble(items: Self) -> Option<Self> {
        Some(items)
    }
}

impl Content for Scope {
    type Item = String;
    const SHAPE: Shape = Shape::List(&Shape::Text);

    fn items(&self) -> Vec<String> {
        self.tokens().map(str::to_owned).collect()
    }

    fn assemble(items: Vec<String>) -> Option<Self> {
        Self::try_from(items.join(" ")).ok()
    }
}
