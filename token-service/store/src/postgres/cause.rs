//! Errors of the driver as text for operators.

/// The driver's error with its cause, because the error itself is only "db error". Neither contains parameters of the
/// statement.
pub(super) fn described(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(cause) => format!("{} ({})", cause.message(), cause.code().code()),
        None => chain(error),
    }
}

/// An error with all of its causes, without causes whose text the error already contains.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
