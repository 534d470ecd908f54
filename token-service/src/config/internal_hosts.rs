//! `internal_hosts`: host names of the internal listener.

use document::internal_host::HostPattern;
use document::{Located, Section};

pub(super) fn read(root: &mut Section<'_>) -> Option<Vec<HostPattern>> {
    let mut patterns = Vec::new();
    for Located { value, place } in root.texts("internal_hosts")? {
        match HostPattern::parse(&value) {
            Some(pattern) => patterns.push(pattern),
            None => {
                let message = format!(
                    "internal_hosts: {value} is neither a host name nor *. and the end of host names; give it without \
                     scheme and port"
                );
                root.report(&place, message);
            }
        }
    }
    Some(patterns)
}
