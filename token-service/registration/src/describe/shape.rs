//! Shapes of JSON values.

#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub key: &'static str,
    pub help: &'static str,
    pub shape: Shape,
    /// True if the key is always present.
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

    /// A key that is always present.
    pub(crate) const fn always(key: &'static str, help: &'static str, shape: Shape) -> Self {
        let required = true;
        Self {
            required,
            ..Self::new(key, help, shape)
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub enum Shape {
    Text,
    Flag,
    Count,
    Record(fn() -> Record),
    List(&'static Self),
}

/// The description of a nested JSON object.
#[derive(Debug, Clone)]
pub struct Record {
    pub name: &'static str,
    pub help: &'static str,
    /// The keys in display order.
    pub keys: Vec<Key>,
}
