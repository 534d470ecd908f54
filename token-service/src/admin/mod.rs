//! Administration: registration, and what operators do in a day. Plain functions over the running service; HTTP and the
//! command line only carry them.

pub mod audit;
pub mod clients;
pub mod encryption_key;
mod error;
pub mod explain;
pub mod forms;
pub mod grants;
pub mod keys;
pub mod legacy_instances;
pub mod objects;
pub mod registrations;
pub mod revocations;
pub mod schema;
pub mod service;
pub mod users;
pub mod views;

pub use error::AdminError;
use serde_json::{Map, Value};

use crate::audit_log::Origin;
use crate::service::Service;

/// Entries of a page when the caller does not say.
pub const DEFAULT_PAGE: usize = 50;
/// Entries of a page at most.
pub const MAX_PAGE: usize = 500;

/// A JSON object, as bodies are.
pub type Object = Map<String, Value>;

/// The running service, and who asks.
#[derive(Debug, Clone, Copy)]
pub struct Administration<'a> {
    /// The service.
    pub service: &'a std::sync::Arc<Service>,
    /// Where the request comes from.
    pub origin: &'a Origin,
    /// The name of the admin token, if it has one.
    pub name: Option<&'a str>,
}

/// Which part of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageRequest {
    /// Behind this entry.
    pub after: Option<String>,
    /// At most so many, 1 to [`MAX_PAGE`].
    pub limit: Option<usize>,
}

impl PageRequest {
    /// The number of entries to answer.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_PAGE)
    }
}

/// The page of `found`, which has an entry behind the page if there are more.
fn page<T>(
    mut found: Vec<T>,
    request: &PageRequest,
    name: impl Fn(&T) -> String,
) -> views::Page<T> {
    let has_next = found.len() > request.limit();
    found.truncate(request.limit());
    views::Page {
        next: found.last().filter(|_| has_next).map(name),
        items: found,
    }
}
