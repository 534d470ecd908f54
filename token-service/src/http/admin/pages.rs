//! Pages of lists.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

const DEFAULT_PAGE: usize = 50;
pub(super) const MAX_PAGE: usize = 500;

/// Page of a list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PageQuery {
    /// `next` of the previous page.
    pub(super) after: Option<String>,
    /// Maximum number of entries, 1 to 500. Default: 50.
    #[param(minimum = 1, maximum = 500)]
    pub(super) limit: Option<usize>,
}

/// Number of entries of a page for which `limit` is requested.
pub(super) fn entries(limit: Option<usize>) -> usize {
    limit.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_PAGE)
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Page<T> {
    /// The entries.
    pub items: Vec<T>,
    /// Pass it as `after` for the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// The first `limit` entries of `found`, which has one more if there is a next page.
    pub(super) fn of(mut found: Vec<T>, limit: usize, name: impl Fn(&T) -> String) -> Self {
        let has_next = found.len() > limit;
        found.truncate(limit);
        Self {
            next: found.last().filter(|_| has_next).map(name),
            items: found,
        }
    }
}
