//! Documents that people write: the configuration of the guard in JSON, the files of the token service in TOML with the
//! environment laid over them, and the JSON bodies of its administration.
//!
//! A [`Table`] holds the values of a document and where each of them was written. A [`Section`] reads one table key by
//! key. Whatever is missing, wrong or unknown becomes a [`Problem`] with its place, and all problems are reported
//! together. Messages of this crate name keys and types, never values, because a value may be a secret.

mod key_path;
#[cfg(feature = "toml")]
mod lines;
mod place;
mod problem;
mod section;
#[cfg(feature = "toml")]
mod sent;
mod table;
#[cfg(test)]
mod tests;
#[cfg(feature = "toml")]
mod toml;
#[cfg(feature = "toml")]
mod variables;

pub use place::{Located, Place};
pub use problem::{InvalidDocument, Problem, Problems};
pub use section::Section;
pub use table::Table;
