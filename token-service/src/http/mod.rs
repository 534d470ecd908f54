//! HTTP: routes, extraction, rendering. Contains no decisions.

pub mod admin;
mod body;
mod client_call;
mod cors;
mod discovery;
mod error;
pub(crate) mod health;
mod internal_host;
mod introspection;
mod legacy;
mod line;
mod lost;
mod method;
mod metrics;
mod observe;
mod origin;
mod pages;
pub mod paths;
mod pushed;
mod report;
mod revocation;
mod revocation_feed;
mod token;
mod tokens;
mod uncancelled;

use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use actix_web::body::BoxBody;
use actix_web::dev::{Server, ServiceRequest, ServiceResponse};
use actix_web::http::header::{HeaderValue, STRICT_TRANSPORT_SECURITY};
use actix_web::middleware::{Next, from_fn};
use actix_web::{App, Error, HttpServer, web};
use process::{Connections, Opener, PassedSockets, Running};

use crate::service::Service;
use crate::upkeep;

/// Time limit for running requests after SIGTERM, in seconds.
const SHUTDOWN_SECONDS: u64 = 30;

/// Time from the first byte of a request to the end of its headers.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);

/// Idle timeout of a connection to the public listener: longer than the gateways' idle timeout.
const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// Maximum number of connections to the public listener, for all workers together. A gateway needs as many as its
/// circuit breakers allow.
const MAX_PUBLIC_CONNECTIONS: usize = 16_384;

/// Maximum number of connections to the internal listener: gateways that poll or hold a request, monitoring, operators.
const MAX_INTERNAL_CONNECTIONS: usize = 16_384;

/// The service with both listeners bound: what `serve` runs and tests start.
pub struct Application {
    public: Server,
    internal: Server,
    public_address: SocketAddr,
    internal_address: SocketAddr,
    connections: [Connections; 2],
    opener: Opener,
    service: Arc<Service>,
}

impl Application {
    /// Listens with the passed sockets, or binds both listeners; port 0 selects a free port.
    ///
    /// # Errors
    /// If an address cannot be bound, or if sockets with other addresses were passed. The message names the address and its
    /// configuration key.
    pub fn bind(service: Arc<Service>, passed: PassedSockets) -> std::io::Result<Self> {
        let addresses = (service.config.listen, service.config.internal_listen);
        let (opener, [public_socket, internal_socket]) =
            passed.take([("listen", addresses.0), ("internal_listen", addresses.1)])?;
        let connections = [Connections::default(), Connections::default()];
        let [of_public, of_internal] = connections.clone();
        let data = web::Data::from(Arc::clone(&service));
        let public_data = data.clone();
        let workers = std::thread::available_parallelism().map_or(2, NonZero::get);
        let public = HttpServer::new(move || {
            App::new()
                .configure(|routes| public_routes(routes, &public_data))
                .wrap(from_fn(observe::observe))
                .wrap(from_fn(uncancelled::run))
                // Outermost, because pages replace responses.
                .wrap(from_fn(strict_transport))
        })
        .disable_signals()
        .shutdown_timeout(SHUTDOWN_SECONDS)
        .workers(workers)
        .max_connections(MAX_PUBLIC_CONNECTIONS.div_ceil(workers))
        .client_request_timeout(HEAD_DEADLINE)
        .keep_alive(KEEP_ALIVE)
        .on_connect(move |_, data| of_public.begin(data));
        let public = match public_socket {
            Some(socket) => public.listen(socket),
            None => public.bind(addresses.0),
        }
        .map_err(cannot_listen("listen", addresses.0))?;
        let internal = HttpServer::new(move || {
            App::new()
                .app_data(data.clone())
                .configure(internal_routes)
                .wrap(from_fn(internal_host::check))
                .wrap(from_fn(observe::observe))
        })
        .workers(1)
        .max_connections(MAX_INTERNAL_CONNECTIONS)
        .client_request_timeout(HEAD_DEADLINE)
        .disable_signals()
        .shutdown_timeout(SHUTDOWN_SECONDS)
        .on_connect(move |_, data| of_internal.begin(data));
        let internal = match internal_socket {
            Some(socket) => internal.listen(socket),
            None => internal.bind(addresses.1),
        }
        .map_err(cannot_listen("internal_listen", addresses.1))?;
        let bound = |addresses: Vec<SocketAddr>| {
            addresses
                .first()
                .copied()
                .ok_or_else(|| std::io::Error::other("nothing was bound"))
        };
        Ok(Self {
            public_address: bound(public.addrs())?,
            internal_address: bound(internal.addrs())?,
            public: public.run(),
            internal: internal.run(),
            connections,
            opener,
            service,
        })
    }

    pub const fn public_address(&self) -> SocketAddr {
        self.public_address
    }

    pub const fn internal_address(&self) -> SocketAddr {
        self.internal_address
    }

    /// Who has opened the sockets.
    pub const fn opener(&self) -> Opener {
        self.opener
    }

    /// Serves until SIGTERM or SIGINT. Then the service reports that it is not ready, continues to serve for
    /// `drain_for`, so that load balancers stop sending requests and connections close in order, and completes running
    /// requests. A second signal stops the service at once. If the parent opened the sockets, the service stays ready,
    /// because the next process serves what the load balancers send.
    ///
    /// # Errors
    /// If a listener fails, or if a background task or the store has stopped after a panic. Otherwise the service would
    /// still seem healthy.
    pub async fn run(self) -> std::io::Result<()> {
        let service = self.service;
        let mut upkeep = actix_web::rt::spawn(upkeep::run(Arc::clone(&service)));
        let [of_public, of_internal] = self.connections;
        let servers = [
            Running {
                server: self.public.handle(),
                connections: of_public,
            },
            Running {
                server: self.internal.handle(),
                connections: of_internal,
            },
        ];
        let stop = process::stop_on_signals(servers, self.opener, service.config.drain_for, || {
            service.start_draining(self.opener);
        });
        let (public, internal) = (self.public, self.internal);
        let outcome = tokio::select! {
            () = stop => Ok(()),
            outcome = async { tokio::try_join!(public, internal) } => outcome.map(|_| ()),
            stopped = &mut upkeep => Err(stopped.map_or_else(
                |error| std::io::Error::other(format!("upkeep has stopped: {error}")),
                |()| std::io::Error::other("upkeep has stopped"),
            )),
            reason = service.store.failed() => Err(std::io::Error::other(reason)),
        };
        upkeep.abort();
        service.audit.tell_of_left_out(service.clock.now());
        if let Err(error) = service.audit.write(&*service.store).await {
            tracing::error!(%error, "the last entries of the audit log are on standard output only");
        }
        let uses = &service.secret_uses;
        if let Err(error) = uses.write(&*service.store, service.clock.now()).await {
            tracing::warn!(%error, "the last uses of client secrets are not noted");
        }
        service.store.close().await;
        outcome
    }
}

/// Sends `Strict-Transport-Security` for one year if the issuer is https (RFC 6797 §6.1). Browsers ignore the header on
/// plain http (RFC 6797 §8.1). Does not include sub-domains, which may belong to others.
async fn strict_transport(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let service = request.app_data::<web::Data<Service>>().cloned();
    let is_https =
        service.is_some_and(|service| service.config.protocol.issuer.starts_with("https://"));
    let mut response = next.call(request).await?;
    if is_https {
        let year = HeaderValue::from_static("max-age=31536000");
        let headers = response.headers_mut();
        headers.insert(STRICT_TRANSPORT_SECURITY, year);
    }
    Ok(response)
}

/// Adds the address and its configuration key to the error.
fn cannot_listen(key: &'static str, address: SocketAddr) -> impl FnOnce(io::Error) -> io::Error {
    move |error| {
        let variable = key.to_uppercase();
        let advice = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "stop the program that listens there, or set another address"
            }
            _ => "set another address",
        };
        let message = format!(
            "cannot listen on {address}: {error}: {advice} as `{key}` (TOKEN_SERVICE__{variable})"
        );
        io::Error::new(error.kind(), message)
    }
}

pub fn public_routes(routes: &mut web::ServiceConfig, service: &web::Data<Service>) {
    routes
        .app_data(service.clone())
        .configure(token::routes)
        .configure(pushed::routes)
        .configure(revocation::routes)
        .configure(introspection::routes)
        .configure(discovery::routes)
        .configure(legacy::routes)
        .configure(pages::routes)
        .default_service(web::to(lost::not_found));
}

pub fn internal_routes(routes: &mut web::ServiceConfig) {
    routes
        .configure(health::routes)
        .configure(revocation_feed::routes)
        .configure(metrics::routes)
        .configure(admin::routes)
        .default_service(web::to(error::not_found));
}
