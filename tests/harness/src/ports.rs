//! The ports of a pair.

use std::env;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::num::NonZeroU16;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result, bail};

/// The ports of a pair, all on 127.0.0.1.
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
    /// Public keys and metadata through Envoy, for gateways elsewhere.
    pub keys: u16,
    /// The page at the redirect URI of the demo's clients.
    pub callback: u16,
    /// Envoy's admin interface.
    pub envoy_admin: u16,
    /// The token service's public listener.
    pub public: u16,
    /// The token service's internal listener.
    pub internal: u16,
    /// The public listener of a second token service with the same state.
    pub public_replica: u16,
    /// The internal listener of that second token service.
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
            keys: 8084,
            callback: 8090,
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
    /// The default ports. An environment variable replaces each.
    ///
    /// # Errors
    /// When a variable is not a port number.
    pub fn from_env() -> Result<Self> {
        let port = |name: &str, default| match env::var(name) {
            Ok(text) => text
                .parse()
                .map(NonZeroU16::get)
                .with_context(|| format!("{name}={text}: expected a port number from 1 to 65535")),
            Err(_) => Ok(default),
        };
        let default = Self::default();
        Ok(Self {
            api: port("API_PORT", default.api)?,
            lobby: port("LOBBY_PORT", default.lobby)?,
            lobby_ea: port("LOBBY_EA_PORT", default.lobby_ea)?,
            legacy: port("LEGACY_PORT", default.legacy)?,
            keys: port("KEYS_PORT", default.keys)?,
            callback: port("CALLBACK_PORT", default.callback)?,
            envoy_admin: port("ENVOY_ADMIN_PORT", default.envoy_admin)?,
            public: port("PUBLIC_PORT", default.public)?,
            internal: port("INTERNAL_PORT", default.internal)?,
            public_replica: default.public_replica,
            internal_replica: default.internal_replica,
            public_ea: port("PUBLIC_EA_PORT", default.public_ea)?,
            internal_ea: port("INTERNAL_EA_PORT", default.internal_ea)?,
        })
    }

    /// Checks that no program listens at these ports, and that they differ. Call this before anything starts: two Envoys
    /// would share a port silently, and each would get some of the connections.
    ///
    /// # Errors
    /// One line for each problem, with the address and the environment variable that changes the port.
    pub(crate) fn check_free(&self, early_access: bool) -> Result<()> {
        let mut named = vec![
            ("LOBBY_PORT", self.lobby),
            ("LOBBY_EA_PORT", self.lobby_ea),
            ("LEGACY_PORT", self.legacy),
            ("KEYS_PORT", self.keys),
            ("API_PORT", self.api),
            ("CALLBACK_PORT", self.callback),
            ("ENVOY_ADMIN_PORT", self.envoy_admin),
            ("PUBLIC_PORT", self.public),
            ("INTERNAL_PORT", self.internal),
        ];
        if early_access {
            named.extend([
                ("PUBLIC_EA_PORT", self.public_ea),
                ("INTERNAL_EA_PORT", self.internal_ea),
            ]);
        }
        let mut problems = Vec::new();
        for (position, (name, port)) in named.iter().enumerate() {
            if let Some((other, _)) = named[..position].iter().find(|(_, other)| other == port) {
                problems.push(format!(
                    "{other} and {name} are both {port}: set one of them to another port"
                ));
                continue;
            }
            let Err(error) = TcpListener::bind(("127.0.0.1", *port)) else {
                continue;
            };
            problems.push(match error.kind() {
                ErrorKind::AddrInUse => format!(
                    "127.0.0.1:{port} is in use: stop the program that listens there, or set {name} to a free port"
                ),
                _ => format!("127.0.0.1:{port}: {error}: set {name} to another port"),
            });
        }
        if !problems.is_empty() {
            bail!("{}", problems.join("\n"));
        }
        Ok(())
    }

    /// Ports that are free now and that no other pair of this process gets.
    ///
    /// # Errors
    /// If no port is free.
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
            keys: free_port()?,
            callback: free_port()?,
            public_ea: free_port()?,
            internal_ea: free_port()?,
        })
    }
}

/// A port that is free now. No other caller gets the same port, in this process or in another process that runs these
/// tests: each process locks a file for each of its ports until the process ends.
///
/// Candidates lie below the range from which systems take the ports of outgoing connections (32768 and up),
/// so that no connection takes a port between this check and its use.
///
/// # Errors
/// If no port is free.
pub fn free_port() -> Result<u16> {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 10_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);

    // Two processes start the search far from each other.
    let start = (std::process::id() % 97) as u16 * 103;
    (0..COUNT)
        .map(|_| {
            let offset = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(start);
            FIRST + offset % COUNT
        })
        .find(|port| reserve(*port) && TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .context("no free port")
}

/// True if this process may use the port. If the lock file belongs to another user, only the port itself is checked.
fn reserve(port: u16) -> bool {
    static RESERVED: Mutex<Vec<File>> = Mutex::new(Vec::new());

    let folder = env::temp_dir().join("token-pair-ports");
    let file =
        fs::create_dir_all(&folder).and_then(|()| File::create(folder.join(port.to_string())));
    let Ok(file) = file else {
        return true;
    };
    match file.try_lock() {
        Ok(()) => {
            if let Ok(mut reserved) = RESERVED.lock() {
                reserved.push(file);
            }
            true
        }
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(_)) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_that_is_taken_or_named_twice_is_told() {
        let free = Ports::free().unwrap();
        free.check_free(true).unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let ports = Ports {
            legacy: port,
            internal_ea: port,
            public: free.api,
            ..free
        };
        let problems = ports.check_free(true).unwrap_err().to_string();
        let problems: Vec<&str> = problems.lines().collect();
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[0].starts_with(&format!("127.0.0.1:{port} is in use: ")));
        assert!(problems[0].ends_with("set LEGACY_PORT to a free port"));
        assert!(problems[1].starts_with("API_PORT and PUBLIC_PORT are both "));
        assert!(problems[2].starts_with("LEGACY_PORT and INTERNAL_EA_PORT are both "));
    }

    #[test]
    fn a_port_is_taken_once() {
        let port = free_port().unwrap();
        let file = File::open(
            env::temp_dir()
                .join("token-pair-ports")
                .join(port.to_string()),
        )
        .unwrap();
        assert!(matches!(file.try_lock(), Err(TryLockError::WouldBlock)));
        assert_ne!(free_port().unwrap(), port);
    }
}
