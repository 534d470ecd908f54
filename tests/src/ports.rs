//! The ports of a pair.

use std::env;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result};

/// Where the parts of a pair listen, all on 127.0.0.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    /// {api_url}: the resource server behind the filter.
    pub api: u16,
    /// {lobby_url}: the authorization server through Envoy.
    pub lobby: u16,
    /// {lobby_ea_url}: the early-access authorization server through Envoy.
    pub lobby_ea: u16,
    /// The hosts of the legacy flow through Envoy.
    pub legacy: u16,
    /// Envoy's admin interface.
    pub envoy_admin: u16,
    /// The token service's public listener.
    pub public: u16,
    /// The token service's internal listener.
    pub internal: u16,
    /// The public listener of a second token service with the same state.
    pub public_replica: u16,
    /// Its internal listener.
    pub internal_replica: u16,
    /// The early-access token service's public listener.
    pub public_ea: u16,
    /// The early-access token service's internal listener.
    pub internal_ea: u16,
}

impl Default for Ports {
    fn default() -> Self {
        Self {
            api: 8080,
            lobby: 8081,
            lobby_ea: 8082,
            legacy: 8083,
            envoy_admin: 9901,
            public: 9080,
            internal: 9081,
            public_replica: 9084,
            internal_replica: 9085,
            public_ea: 9082,
            internal_ea: 9083,
        }
    }
}

impl Ports {
    /// The default ports, each moved by its environment variable.
    ///
    /// # Errors
    /// When a variable is not a port number.
    pub fn from_env() -> Result<Self> {
        let port = |name: &str, default| match env::var(name) {
            Ok(text) => text
                .parse()
                .with_context(|| format!("{name}={text} is not a port number")),
            Err(_) => Ok(default),
        };
        let default = Self::default();
        Ok(Self {
            api: port("API_PORT", default.api)?,
            lobby: port("LOBBY_PORT", default.lobby)?,
            lobby_ea: port("LOBBY_EA_PORT", default.lobby_ea)?,
            legacy: port("LEGACY_PORT", default.legacy)?,
            envoy_admin: port("ENVOY_ADMIN_PORT", default.envoy_admin)?,
            public: port("PUBLIC_PORT", default.public)?,
            internal: port("INTERNAL_PORT", default.internal)?,
            public_replica: default.public_replica,
            internal_replica: default.internal_replica,
            public_ea: port("PUBLIC_EA_PORT", default.public_ea)?,
            internal_ea: port("INTERNAL_EA_PORT", default.internal_ea)?,
        })
    }

    /// Ports that are free now and that no other pair of this process gets.
    ///
    /// # Errors
    /// When there are none.
    pub fn free() -> Result<Self> {
        Ok(Self {
            api: free_port()?,
            lobby: free_port()?,
            envoy_admin: free_port()?,
            public: free_port()?,
            internal: free_port()?,
            public_replica: free_port()?,
            internal_replica: free_port()?,
            lobby_ea: free_port()?,
            legacy: free_port()?,
            public_ea: free_port()?,
            internal_ea: free_port()?,
        })
    }
}

/// A port that is free now and that nobody else in this process gets.
///
/// Candidates lie below the range from which systems take the ports of outgoing connections (32768 and up),
/// so that no connection takes one between the look and its use.
///
/// # Errors
/// When there is none.
pub fn free_port() -> Result<u16> {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 10_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);

    // Two processes start far from each other.
    let start = (std::process::id() % 97) as u16 * 103;
    (0..COUNT)
        .map(|_| {
            let offset = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(start);
            FIRST + offset % COUNT
        })
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .context("no free port")
}
