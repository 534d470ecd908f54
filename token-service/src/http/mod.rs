//! The HTTP side: routes, extraction, rendering. Decides nothing.

mod body;
mod cors;
mod discovery;
mod endpoint_request;
mod error;
mod health;
mod host;
mod introspection;
mod legacy;
mod pages;
pub mod paths;
mod revocation;
mod revocation_feed;
mod token;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::Server;
use actix_web::{App, HttpServer, web};

use crate::service::Service;
use crate::upkeep;

/// How long running requests may take after SIGTERM, in seconds.
const SHUTDOWN_SECONDS: u64 = 30;

/// The service with both listeners bound: what `serve` runs and tests start.
pub struct Application {
    public: Server,
    internal: Server,
    public_address: SocketAddr,
    internal_address: SocketAddr,
    service: Arc<Service>,
}

impl Application {
    /// Binds both listeners; port 0 takes a free one.
    ///
    /// # Errors
    /// When an address cannot be bound.
    pub fn bind(service: Arc<Service>) -> std::io::Result<Self> {
        let data = web::Data::from(Arc::clone(&service));
        let public_data = data.clone();
        let public = HttpServer::new(move || {
            App::new().configure(|routes| public_routes(routes, &public_data))
        })
        .shutdown_timeout(SHUTDOWN_SECONDS)
        .keep_alive(Duration::from_secs(75))
        .bind(service.config.listen)?;
        let internal =
            HttpServer::new(move || App::new().app_data(data.clone()).configure(internal_routes))
                .workers(1)
                .shutdown_timeout(SHUTDOWN_SECONDS)
                .bind(service.config.internal_listen)?;
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
            service,
        })
    }

    /// Where the public listener is bound.
    #[must_use]
    pub const fn public_address(&self) -> SocketAddr {
        self.public_address
    }

    /// Where the internal listener is bound.
    #[must_use]
    pub const fn internal_address(&self) -> SocketAddr {
        self.internal_address
    }

    /// Serves until SIGINT or SIGTERM, then lets running requests finish.
    ///
    /// # Errors
    /// When a listener fails.
    pub async fn run(self) -> std::io::Result<()> {
        let upkeep = actix_web::rt::spawn(upkeep::run(self.service));
        let outcome = tokio::try_join!(self.public, self.internal);
        upkeep.abort();
        outcome.map(|_| ())
    }
}

/// The routes of the public listener.
pub fn public_routes(routes: &mut web::ServiceConfig, service: &web::Data<Service>) {
    routes
        .app_data(service.clone())
        .configure(|routes| token::routes(routes, service))
        .configure(|routes| revocation::routes(routes, service))
        .configure(introspection::routes)
        .configure(|routes| discovery::routes(routes, service))
        .configure(legacy::routes)
        .configure(pages::routes)
        .default_service(web::to(error::not_found));
}

/// The routes of the internal listener.
pub fn internal_routes(routes: &mut web::ServiceConfig) {
    routes
        .configure(health::routes)
        .configure(revocation_feed::routes)
        .default_service(web::to(error::not_found));
}
