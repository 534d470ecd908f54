//! Administration: registration and the operators' daily tasks. Plain functions over the running service; HTTP and the
//! command line only call them.

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

use std::sync::Arc;

pub use error::AdminError;
use serde_json::{Map, Value};

use crate::audit_log::{Entry, Origin};
use crate::service::Service;
use domain::AuditEvent;

/// Default number of entries per page.
pub const DEFAULT_PAGE: usize = 50;
/// Maximum number of entries per page.
pub const MAX_PAGE: usize = 500;

/// A JSON object, such as a request body.
pub type Object = Map<String, Value>;

/// The running service and the administrator who uses it.
#[derive(Debug, Clone, Copy)]
pub struct Administration<'a> {
    pub service: &'a Arc<Service>,
    pub origin: &'a Origin,
    /// The name of the admin token, if it has one.
    pub name: Option<&'a str>,
}

impl Administration<'_> {
    /// The entry of the audit log, by this administrator, for the transaction of a change.
    fn events(&self, entry: Entry) -> Arc<[AuditEvent]> {
        let entry = entry.by_administrator(self.name);
        [self.service.event(self.origin, entry)].into()
    }
}

/// A page of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageRequest {
    /// Only entries after this entry.
    pub after: Option<String>,
    /// Maximum number of entries, 1 to [`MAX_PAGE`].
    pub limit: Option<usize>,
}

impl PageRequest {
    /// Number of entries for the page.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_PAGE)
    }
}

/// Makes a page of `found`, which has one entry more than the page if there is a next page.
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
