//! Lines of the log about fetches, feeds and the clock.

use std::fmt::{self, Display, Formatter};

use keys::endpoint::Endpoint;
use keys::failures::Severity;

/// A line for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    pub severity: Severity,
    /// `None` if the line is about the clock.
    pub issuer: Option<String>,
    /// Name and address of what was fetched. `None` if the line is about the revocations that the guard holds.
    pub fetch: Option<(&'static str, Endpoint)>,
    pub what: String,
}

impl Display for Remark {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let what = &self.what;
        match (&self.issuer, &self.fetch) {
            (None, _) => formatter.write_str(what),
            (Some(issuer), None) => write!(formatter, "revocations of {issuer}: {what}"),
            (Some(issuer), Some((subject, Endpoint { cluster, path, .. }))) => write!(
                formatter,
                "{subject} of {issuer} from cluster {cluster} at {path}: {what}"
            ),
        }
    }
}
