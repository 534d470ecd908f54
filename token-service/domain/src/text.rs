//! What types share that are a text.

/// The text of a type, as a reference, as a string and for people.
macro_rules! text {
    ($name:ident) => {
        impl $name {
            pub const fn as_str(&self) -> &str {
                self.0.as_str()
            }
        }

        impl From<$name> for String {
            fn from(text: $name) -> Self {
                text.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    };
}

pub(crate) use text;
