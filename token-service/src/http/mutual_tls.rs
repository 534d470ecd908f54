//! The listener for clients that authenticate their connection with a certificate (RFC 8705). The gateway ends TLS, and hands the
//! certificate over in a header, which only this listener reads.

use actix_web::HttpRequest;
use process::certificate::{self, Unreadable};
use process::networks;

use crate::config;
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
            certificate: shown(http, config),
        },
        _ => Connection::Public,
    }
}

/// What the gateway says about the client's certificate. Nobody else is believed (D-51).
fn shown(http: &HttpRequest, config: &config::MutualTls) -> Shown {
    let values: Vec<_> = http.headers().get_all(&config.certificate_header).collect();
    let peer = http.peer_addr().map(|address| address.ip());
    let is_gateway = |peer| networks::contain(&config.gateways, peer);
    if !values.is_empty() && !peer.is_some_and(is_gateway) {
        return Shown::Untrusted;
    }
    let read = match values.as_slice() {
        [] => Ok(None),
        [value] => certificate::read(value.as_bytes()),
        [_, _, ..] => Err(Unreadable::Repeated),
    };
    match read {
        Ok(Some(thumbprint)) => Shown::Certificate(thumbprint),
        Ok(None) => Shown::Nothing,
        Err(unreadable) => Shown::Unreadable(unreadable.reason()),
    }
}
