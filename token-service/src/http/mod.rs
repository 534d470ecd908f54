//! HTTP: routes, extraction, rendering. Contains no decisions.

pub(crate) mod admin;
mod body;
mod client_call;
mod cors;
mod description;
mod discovery;
mod error;
#[expect(dead_code, reason = "types and functions that only describe")]
mod forms;
pub(crate) mod health;
mod internal_host;
mod introspection;
mod legacy;
mod line;
mod lost;
mod method;
mod metrics;
mod mutual_tls;
mod observe;
mod openapi;
mod origin;
mod pages;
pub(crate) mod paths;
mod provider_logout;
mod pushed;
mod report;
mod revocation;
mod revocation_feed;
mod token;
mod tokens;
mod uncancelled;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use actix_web::body::BoxBody;
use actix_web::dev::{Server, ServiceRequest, ServiceResponse};
use actix_web::http::header::{HeaderValue, STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS};
use actix_web::middleware::{Next, from_fn};
use actix_web::{App, Error, HttpServer, web};
use futures_util::future::try_join_all;
use process::{Connections, Opener, PassedSockets, Running, StopSignals};

use self::mutual_tls::MutualTls;
use crate::config::MUTUAL_TLS_LISTEN;
use crate::service::Service;
use crate::service::upkeep;

/// Time limit for running requests after SIGTERM, in seconds.
const SHUTDOWN_SECONDS: u64 = 30;

/// Time from the first byte of a request to the end of its headers.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);

/// Idle timeout of a connection to these listeners: longer than the gateways' idle timeout.
const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// Maximum number of connections to the public listener, and to that for mutual TLS, for all workers together. A gateway
/// needs as many as its circuit breakers allow.
const MAX_PUBLIC_CONNECTIONS: usize = 16_384;

/// Maximum number of connections to the internal listener: gateways that poll or hold a request, monitoring, operators.
const MAX_INTERNAL_CONNECTIONS: usize = 16_384;

/// The service with its listeners bound: what `serve` runs and tests start.
pub(crate) struct Application {
    public: Listening,
    internal: Listening,
    mutual_tls: Option<Listening>,
    opener: Opener,
    signals: StopSignals,
    service: Arc<Service>,
}

impl Application {
    /// Listens with the passed sockets, or binds the listeners; port 0 selects a free port.
    ///
    /// # Errors
    /// If an address cannot be bound, or if sockets with other addresses were passed. The message names the address and its
    /// configuration key.
    pub(crate) fn bind(service: Arc<Service>, passed: PassedSockets) -> std::io::Result<Self> {
        let signals = StopSignals::begin()?;
        let config = &service.config;
        let addresses = (config.listen, config.internal_listen);
        let mutual_tls = config.mutual_tls.as_ref();
        let (opener, [public_socket, internal_socket, mutual_tls_socket]) = passed.take([
            ("listen", Some(addresses.0)),
            ("internal_listen", Some(addresses.1)),
            (MUTUAL_TLS_LISTEN, mutual_tls.map(|config| config.listen)),
        ])?;
        let data = web::Data::from(Arc::clone(&service));
        let public = serve_public(
            Place::of("listen", addresses.0, public_socket),
            &data,
            public_routes,
        )?;
        let mutual_tls = mutual_tls.map(|config| {
            let place = Place::of(MUTUAL_TLS_LISTEN, config.listen, mutual_tls_socket);
            serve_public(place, &data, mutual_tls_routes)
        });
        let place = Place::of("internal_listen", addresses.1, internal_socket);
        let connections = Connections::default();
        let of_internal = connections.clone();
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
        let internal = match place.socket {
            Some(socket) => internal.listen(socket),
            None => internal.bind(place.address),
        }
        .map_err(cannot_listen(place.key, place.address))?;
        Ok(Self {
            public,
            internal: Listening::of(&internal.addrs(), internal.run(), connections)?,
            mutual_tls: mutual_tls.transpose()?,
            opener,
            signals,
            service,
        })
    }

    pub(crate) const fn public_address(&self) -> SocketAddr {
        self.public.address
    }

    pub(crate) const fn internal_address(&self) -> SocketAddr {
        self.internal.address
    }

    /// `None` if the listener is not configured.
    pub(crate) fn mutual_tls_address(&self) -> Option<SocketAddr> {
        let listening = self.mutual_tls.as_ref();
        listening.map(|listening| listening.address)
    }

    /// Who has opened the sockets.
    pub(crate) const fn opener(&self) -> Opener {
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
    pub(crate) async fn run(self) -> std::io::Result<()> {
        let service = self.service;
        let mut upkeep = actix_web::rt::spawn(upkeep::run(Arc::clone(&service)));
        // The internal listener stops last: gateways read the feed there.
        let public = std::iter::once(self.public).chain(self.mutual_tls);
        let (servers, running) = public
            .chain([self.internal])
            .map(|listening| {
                let running = Running {
                    server: listening.server.handle(),
                    connections: listening.connections,
                };
                (listening.server, running)
            })
            .collect::<(Vec<_>, Vec<_>)>();
        let drain_for = service.config.drain_for;
        let stop = process::stop_on_signals(self.signals, running, self.opener, drain_for, || {
            service.start_draining(self.opener);
        });
        let outcome = tokio::select! {
            () = stop => Ok(()),
            outcome = try_join_all(servers) => outcome.map(|_| ()),
            stopped = &mut upkeep => Err(stopped.map_or_else(
                |error| std::io::Error::other(format!("upkeep has stopped: {error}")),
                |()| std::io::Error::other("upkeep has stopped"),
            )),
            reason = service.store.failed() => Err(std::io::Error::other(reason)),
        };
        upkeep.abort();
        service.audit.tell_of_left_out(service.clock.now());
        if let Err(error) = service.audit.write(&service.store).await {
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
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if is_https {
        let year = HeaderValue::from_static("max-age=31536000");
        headers.insert(STRICT_TRANSPORT_SECURITY, year);
    }
    Ok(response)
}

/// Where a server listens.
struct Place {
    /// The configuration key of the address.
    key: &'static str,
    address: SocketAddr,
    /// The socket, if the parent has opened it.
    socket: Option<TcpListener>,
}

impl Place {
    const fn of(key: &'static str, address: SocketAddr, socket: Option<TcpListener>) -> Self {
        Self {
            key,
            address,
            socket,
        }
    }
}

/// A server with its listener bound.
struct Listening {
    server: Server,
    address: SocketAddr,
    connections: Connections,
}

impl Listening {
    fn of(addresses: &[SocketAddr], server: Server, connections: Connections) -> io::Result<Self> {
        let address = addresses.first().copied();
        Ok(Self {
            server,
            address: address.ok_or_else(|| io::Error::other("nothing was bound"))?,
            connections,
        })
    }
}

/// Binds a server for gateways, with these routes.
fn serve_public(
    place: Place,
    service: &web::Data<Service>,
    routes: fn(&mut web::ServiceConfig, &web::Data<Service>),
) -> io::Result<Listening> {
    let connections = Connections::default();
    let of_server = connections.clone();
    let service = service.clone();
    let workers = std::thread::available_parallelism().map_or(2, NonZero::get);
    let server = HttpServer::new(move || {
        App::new()
            .app_data(origin::BehindGateway)
            .configure(|config| routes(config, &service))
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
    .on_connect(move |_, data| of_server.begin(data));
    let server = match place.socket {
        Some(socket) => server.listen(socket),
        None => server.bind(place.address),
    }
    .map_err(cannot_listen(place.key, place.address))?;
    Listening::of(&server.addrs(), server.run(), connections)
}

/// Adds the address and its configuration key to the error.
fn cannot_listen(key: &'static str, address: SocketAddr) -> impl FnOnce(io::Error) -> io::Error {
    move |error| {
        let variable = key.to_uppercase().replace('.', "__");
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

pub(crate) fn public_routes(routes: &mut web::ServiceConfig, service: &web::Data<Service>) {
    routes
        .app_data(service.clone())
        .configure(client_routes)
        .configure(discovery::routes)
        .configure(description::routes)
        .configure(legacy::routes)
        .service(
            web::resource(paths::provider_logout("{id}"))
                .route(web::post().to(provider_logout::end))
                .default_service(error::other_methods("POST")),
        )
        .configure(pages::routes)
        .default_service(web::to(lost::not_found));
}

/// The endpoints of `mtls_endpoint_aliases`, and nothing else: people sign in at the public listener.
fn mutual_tls_routes(routes: &mut web::ServiceConfig, service: &web::Data<Service>) {
    routes
        .app_data(service.clone())
        .app_data(MutualTls)
        .configure(client_routes)
        .default_service(web::to(error::not_found));
}

/// The endpoints with client authentication.
fn client_routes(routes: &mut web::ServiceConfig) {
    routes
        .service(cors::post(paths::TOKEN, token::token))
        .service(cors::post(paths::PUSHED, pushed::push))
        .service(cors::post(paths::REVOKE, revocation::revoke))
        .service(
            web::resource(paths::INTROSPECT)
                .route(web::post().to(introspection::introspect))
                .default_service(error::other_methods("POST")),
        );
}

pub(crate) fn internal_routes(routes: &mut web::ServiceConfig) {
    routes
        .configure(health::routes)
        .configure(revocation_feed::routes)
        .configure(metrics::routes)
        .configure(admin::routes)
        .default_service(web::to(error::not_found));
}
