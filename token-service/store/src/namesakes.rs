//! Users of earlier versions whose names differ in case alone (D-43).

/// Logs names with the same folded form, if there are several.
pub(crate) fn warn(names: &[String]) {
    if names.len() > 1 {
        tracing::warn!(
            users = names.join(", "),
            "names of users differ in letter case alone: each of these users signs in with exactly the registered \
             spelling. Register all but one under another name"
        );
    }
}
