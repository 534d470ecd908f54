//! Shapes of JSON values.

/// A key of a JSON object.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The key.
    pub key: &'static str,
    /// What the value means.
    pub help: &'static str,
    /// Shape of the value.
    pub shape: Shape,
    /// Whether the key is always there.
    pub required: bool,
}

impl Key {
    /// A key that may be absent.
    pub(crate) const fn new(key: &'static str, help: &'static str, shape: Shape) -> Self {
        let required = false;
        Self {
            key,
            help,
            shape,
            required,
        }
    }

    /// A key that is always there.
    pub(crate) const fn always(key: &'static str, help: &'static str, shape: Shape) -> Self {
        let required = true;
        Self {
            required,
            ..Self::new(key, help, shape)
        }
    }
}

/// Shape of a JSON value.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// A string.
    Text,
    /// A boolean.
    Flag,
    /// A whole number.
    Count,
    /// An object.
    Record(fn() -> Record),
    /// A list.
    List(&'static Self),
}

/// A described JSON object within another one.
#[derive(Debug, Clone)]
pub struct Record {
    /// Name of the schema.
    pub name: &'static str,
    /// What the object is.
    pub help: &'static str,
    /// The keys, in the order in which people see them.
    pub keys: Vec<Key>,
}
