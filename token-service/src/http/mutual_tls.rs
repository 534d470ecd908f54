//! The listener for clients that authenticate their connection with a certificate (RFC 8705). The gateway ends TLS, and hands the
//! certificate over in a header, which only this listener reads.

use actix_web::HttpRequest;
use actix_web::http::header::HeaderName;
use process::certificate;

use super::origin;
use crate::service::Service;
use protocol::oauth::connection::{Connection, Shown};

/// Marks the requests of this listener.
#[derive(Debug, Clone, Copy)]
pub(super) struct MutualTls;

/// The connection of a request to any listener.
pub(super) fn connection<'a>(http: &HttpRequest, service: &'a Service) -> Connection<'a> {
    match (&service.config.mutual_tls, http.app_data::<MutualTls>()) {
        (Some(config), Some(MutualTls)) => Connection::MutualTls {
            url: &config.url,
            certificate: shown(http, &config.certificate_header, service),
        },
        _ => Connection::Public,
    }
}

/// What the gateway says about the client's certificate. Nobody else is believed.
fn shown(http: &HttpRequest, header: &HeaderName, service: &Service) -> Shown {
    let values: Vec<_> = http.headers().get_all(header).collect();
    let peer = http.peer_addr().map(|address| address.ip());
    let is_trusted = |peer| origin::is_trusted(peer, &service.config.trusted_proxies);
    if !values.is_empty() && !peer.is_some_and(is_trusted) {
        return Shown::Untrusted;
    }
    let read = match values.as_slice() {
        [] => Ok(None),
        [value] => certificate::read(value.as_bytes()),
        [_, _, ..] => return Shown::Unreadable,
    };
    match read {
        Ok(Some(thumbprint)) => Shown::Certificate(thumbprint),
        Ok(None) => Shown::Nothing,
        Err(certificate::Unreadable) => Shown::Unreadable,
    }
}
