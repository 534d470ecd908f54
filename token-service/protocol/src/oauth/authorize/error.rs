use super::destination::Destination;
use super::redirect_error::RedirectError;
use crate::oauth::parameters::ParameterError;

/// Reason why an authorization request is refused, and where the service may report the error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthorizeError {
    /// The request has no safe redirect URI, so a page shows the error (RFC 6749 §4.1.2.1, D-5).
    Unsafe(UnsafeRequest),
    /// The redirect URI receives the error.
    Redirect(Destination, RedirectError),
}

impl From<UnsafeRequest> for AuthorizeError {
    fn from(reason: UnsafeRequest) -> Self {
        Self::Unsafe(reason)
    }
}

/// The request does not have both a known client and a redirect URI that this client registered. Tells the application's
/// developers what to change (D-5).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnsafeRequest {
    /// The query is not `application/x-www-form-urlencoded` in UTF-8.
    #[error("{}", match .0 {
        ParameterError::NotUtf8 => "The query must be percent-encoded UTF-8.",
        _ => "Each percent sign in the query must be followed by two hexadecimal digits.",
    })]
    Unreadable(ParameterError),
    #[error("Send the parameter client_id with the registered Client ID.")]
    ClientIdMissing,
    #[error("Send the parameter client_id once.")]
    ClientIdRepeated,
    /// No enabled client of the current flows has this `client_id`.
    #[error(
        "Compare client_id with the registration: it must be an enabled Web Server or Installed Application of this server. \
         The early-access server has separate registrations."
    )]
    ClientUnknown,
    /// The client's integration type has no browser step (protocol.md §1).
    #[error(
        "Only Web Server and Installed Applications use this endpoint (unauthorized_client). Other integrations ask the token \
         endpoint directly."
    )]
    ClientUnauthorized,
    /// No `redirect_uri` (protocol.md §4.1).
    #[error(
        "Send the parameter redirect_uri with a redirect URI that is registered for this client."
    )]
    RedirectUriMissing,
    #[error("Send the parameter redirect_uri once.")]
    RedirectUriRepeated,
    /// The client did not register this `redirect_uri`.
    #[error(
        "redirect_uri must equal a registered redirect URI of this client character by character; only the port of a \
         loopback URI that is registered with a wildcard may differ."
    )]
    RedirectUriUnregistered,
    /// This service did not return the `request_uri` to this client (RFC 9126 §4).
    #[error(
        "request_uri must be one that the endpoint for pushed authorization requests of this server returned to this client."
    )]
    RequestUriUnknown,
    /// The query is too long for the sign-in pages to pass on.
    #[error(
        "The parameters of the request, percent-encoded, may have 12288 bytes together. Send a shorter state."
    )]
    TooLarge,
    /// Another flow refused the request; contains its message.
    #[error("{0}")]
    OfAnotherFlow(&'static str),
}
