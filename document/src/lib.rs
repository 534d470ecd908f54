//! Reads documents that people write: the JSON configuration of the guard, the TOML files of the token service
//! with environment variables, and the JSON bodies of its administration API.
//!
//! A [`Table`] holds the values of a document and the place of each. A [`Section`] reads one table key by key.
//! A missing, wrong or unknown value becomes a [`Problem`] with its place, and all problems are reported
//! together. Messages of this crate contain keys and types, but no values, because a value may be a secret.
//!
//! [`internal_host`] decides which host names an internal listener accepts: those that its operator configured, and private
//! ones.

pub mod internal_host;
mod key_path;
#[cfg(feature = "toml")]
mod lines;
mod place;
mod problem;
mod schema;
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
pub use section::{Section, unknown, unknown_word};
pub use table::Table;
#[cfg(feature = "toml")]
pub use toml::read_text;
