//! Text from requests for error messages.

pub use claims::message::printable;
use domain::Scope;

/// The description of a parameter that occurs more than once.
pub fn repeated(name: &str) -> String {
    format!("The parameter {} is repeated", printable(name))
}

/// The description of a requested scope that exceeds the registration of the client by `excess` (D-9).
pub fn unregistered_scope(excess: &Scope) -> String {
    let excess = printable(excess.as_str());
    format!("scope exceeds what the client is registered for: {excess}")
}
