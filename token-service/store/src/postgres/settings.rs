//! The URL of the database, and the settings of the connection.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use zeroize::Zeroizing;

/// The port if the URL contains none.
const DEFAULT_PORT: u16 = 5432;

/// A URL such as `postgres://user:password@host:5432/database`, with the libpq parameters that the driver supports.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl(Config);

impl PostgresUrl {
    /// Parses a URL.
    ///
    /// The connection is encrypted and the server's certificate fully verified (`sslmode=verify-full`), unless the URL
    /// has another `sslmode` or all servers run on this machine. `hostaddr` is the address of a server, and `host` the
    /// name that its certificate must contain.
    ///
    /// # Errors
    /// A description of the error without the values of the URL, because they may be secret.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (known, has_ssl_mode) = with_known_ssl_modes(text);
        let mut config: Config = known.parse().map_err(|error| format!("{error}"))?;
        let (hosts, addresses) = (config.get_hosts().len(), config.get_hostaddrs().len());
        if hosts == 0 {
            return Err("the host is missing".into());
        }
        if addresses > 0 && addresses != hosts {
            return Err(format!(
                "hostaddr has {addresses} addresses for {hosts} hosts: each host needs its own"
            ));
        }
        let ports = config.get_ports().len();
        if ports > 1 && ports != hosts {
            return Err(format!("there are {ports} ports for {hosts} hosts"));
        }
        if !has_ssl_mode {
            let mode = if is_this_machine(&config) {
                SslMode::Disable
            } else {
                SslMode::Require
            };
            config.ssl_mode(mode);
        }
        Ok(Self(config))
    }

    /// Hosts with ports, and the database: the part of the URL that operators need, without secrets.
    pub fn place(&self) -> String {
        let ports = self.0.get_ports();
        let addresses = self.0.get_hostaddrs();
        let hosts = self.0.get_hosts().iter().enumerate();
        let hosts = hosts.map(|(index, host)| {
            let port = ports.get(index).or(ports.first()).copied();
            let port = port.unwrap_or(DEFAULT_PORT);
            let server = match host {
                Host::Tcp(name) if name.contains(':') => format!("[{name}]:{port}"),
                Host::Tcp(name) => format!("{name}:{port}"),
                #[cfg(unix)]
                Host::Unix(folder) => format!("{} (port {port})", folder.display()),
            };
            match addresses.get(index) {
                Some(address) => format!("{server} (at {address})"),
                None => server,
            }
        });
        let hosts: Vec<String> = hosts.collect();
        // Without a database name, PostgreSQL uses the username.
        let database = self.0.get_dbname().or(self.0.get_user());
        format!(
            "{}, database {}",
            hosts.join(", "),
            database.unwrap_or("postgres")
        )
    }

    /// True if the connection to another machine is not encrypted, or may be unencrypted (`sslmode=prefer`).
    pub fn is_plain_to_another_machine(&self) -> bool {
        self.0.get_ssl_mode() != SslMode::Require && !is_this_machine(&self.0)
    }

    pub(super) const fn config(&self) -> &Config {
        &self.0
    }
}

/// Contains host names and ports, but no secrets.
impl fmt::Debug for PostgresUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PostgresUrl")
            .field("hosts", &self.0.get_hosts())
            .field("ports", &self.0.get_ports())
            .field("database", &self.0.get_dbname())
            .finish_non_exhaustive()
    }
}

/// True if all servers run on this machine. Checks the address before the name, because the driver connects to the
/// address.
fn is_this_machine(config: &Config) -> bool {
    let addresses = config.get_hostaddrs();
    if !addresses.is_empty() {
        return addresses.iter().all(IpAddr::is_loopback);
    }
    config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => {
            name == "localhost"
                || name
                    .parse()
                    .is_ok_and(|address: IpAddr| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    })
}

/// The URL with only the modes that the driver knows, and whether the URL has a mode. Verification is always full, so
/// both stronger modes become `require`. Only the parameter is replaced, because a password may contain the same text.
fn with_known_ssl_modes(text: &str) -> (Zeroizing<String>, bool) {
    // Like the driver: everything before the first "@" is user and password.
    let credentials = text.find('@').map_or(0, |at| at + 1);
    let Some(query) = text[credentials..].find('?') else {
        return (Zeroizing::new(text.to_owned()), false);
    };
    let (before, parameters) = text.split_at(credentials + query + 1);
    let mut known = Zeroizing::new(before.to_owned());
    let mut has_ssl_mode = false;
    for (index, parameter) in parameters.split('&').enumerate() {
        if index > 0 {
            known.push('&');
        }
        let is_stronger = |value: &str| {
            ["verify-ca", "verify-full"].contains(&&*percent_decode_str(value).decode_utf8_lossy())
        };
        match parameter.split_once('=') {
            Some((name, value)) if percent_decode_str(name).decode_utf8_lossy() == "sslmode" => {
                has_ssl_mode = true;
                let value = if is_stronger(value) { "require" } else { value };
                known.push_str("sslmode=");
                known.push_str(value);
            }
            _ => known.push_str(parameter),
        }
    }
    (known, has_ssl_mode)
}

/// Settings of a PostgreSQL database from `[store]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresSettings {
    pub url: PostgresUrl,
    /// PEM file with the CA certificates that the service trusts for the database; `None` for the system's
    /// certificates.
    pub ca_file: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ssl_mode(url: &str) -> SslMode {
        PostgresUrl::parse(url).unwrap().0.get_ssl_mode()
    }

    #[test]
    fn other_machines_are_reached_by_tls() {
        for url in [
            "postgres://a:b@db.example.com/tokens",
            "postgres://a:b@127.0.0.1,db.example.com/tokens",
            "postgres://a:b@db.example.com/tokens?sslmode=verify-full",
            "postgres://a:b@127.0.0.1/tokens?sslmode=require",
            // Texts that only resemble the parameter.
            "postgres://a:sslmode=disable@db.example.com/tokens",
            "postgres://a:b?sslmode=disable@db.example.com/tokens",
            "postgres://sslmode=disable@db.example.com/sslmode=disable?application_name=sslmode=disable",
            "postgres://a:b@db.example.com/tokens?%73slmode=verify%2Dfull",
            // The name of this machine with the address of another machine.
            "postgres://a:b@localhost/tokens?hostaddr=192.0.2.1",
            "postgres://a:b@localhost,localhost/tokens?hostaddr=127.0.0.1,192.0.2.1",
        ] {
            assert_eq!(ssl_mode(url), SslMode::Require, "{url}");
        }
        for url in [
            "postgres://a:b@127.0.0.1/tokens",
            "postgresql://a:b@localhost/tokens",
            "postgres://a@/tokens?host=/run/postgresql",
            "postgres://a:b@db.example.com/tokens?sslmode=disable",
            "postgres://a:b@db.example.com/tokens?hostaddr=127.0.0.1",
            "postgres://a:sslmode=require@127.0.0.1/tokens",
        ] {
            assert_eq!(ssl_mode(url), SslMode::Disable, "{url}");
        }
    }

    #[test]
    fn a_password_stays_what_it_is() {
        for password in [
            "sslmode=verify-full",
            "sslmode=verify-ca&x",
            "?sslmode=verify-ca",
        ] {
            let url = format!("postgres://a:{password}@db/tokens?sslmode=verify-full");
            let url = PostgresUrl::parse(&url).unwrap();
            assert_eq!(url.0.get_password(), Some(password.as_bytes()));
            assert_eq!(url.0.get_ssl_mode(), SslMode::Require);
        }
    }

    #[test]
    fn hosts_addresses_and_ports_go_together() {
        for (url, problem) in [
            (
                "postgres://a:b@/tokens?hostaddr=192.0.2.1",
                "the host is missing",
            ),
            (
                "postgres://a:b@one,two/tokens?hostaddr=192.0.2.1",
                "each host needs",
            ),
            ("postgres://a:b@one,two/tokens?port=1", "3 ports for"),
        ] {
            let told = PostgresUrl::parse(url).unwrap_err();
            assert!(told.contains(problem), "{url}: {told}");
        }
    }

    #[test]
    fn the_place_is_told_without_secrets() {
        for (url, place, plain) in [
            (
                "postgres://a:hunter2@db.example.com/tokens?sslmode=disable",
                "db.example.com:5432, database tokens",
                true,
            ),
            (
                "postgres://a:hunter2@db1:5433,db2:5434/tokens",
                "db1:5433, db2:5434, database tokens",
                false,
            ),
            ("postgres://a@[::1]/", "[::1]:5432, database a", false),
            (
                "postgres://a@/tokens?host=/run/postgresql",
                "/run/postgresql (port 5432), database tokens",
                false,
            ),
            (
                "postgres://a@localhost/b?hostaddr=192.0.2.1&sslmode=prefer",
                "localhost:5432 (at 192.0.2.1), database b",
                true,
            ),
            (
                "postgres://a@127.0.0.1/b?sslmode=disable",
                "127.0.0.1:5432, database b",
                false,
            ),
        ] {
            let url = PostgresUrl::parse(url).unwrap();
            assert_eq!(url.place(), place);
            assert_eq!(url.is_plain_to_another_machine(), plain, "{place}");
        }
    }

    #[test]
    fn problems_and_debug_output_keep_the_password() {
        for url in [
            "postgres://a:hunter2@db/tokens?sslmode=hunter2",
            "postgres://a:hunter2@db:x/tokens",
            "postgres://a:hunter2@db/tokens?what=hunter2",
        ] {
            let problem = PostgresUrl::parse(url).unwrap_err();
            assert!(!problem.contains("hunter2"), "{problem}");
        }
        let url = PostgresUrl::parse("postgres://a:hunter2@db/tokens").unwrap();
        assert!(!format!("{url:?}").contains("hunter2"));
    }
}
