//! Where the database is, and how it is reached.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// The port of a PostgreSQL server that the URL gives none for.
const DEFAULT_PORT: u16 = 5432;

/// A URL such as `postgres://user:password@host:5432/database`, with the parameters of libpq that the driver knows.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl(Config);

impl PostgresUrl {
    /// Reads a URL.
    ///
    /// The connection is encrypted and the server's certificate verified in full (`sslmode=verify-full`), unless the
    /// URL has another `sslmode` or all hosts are this machine.
    ///
    /// # Errors
    /// What is wrong with it, without its values: they may be secret.
    pub fn parse(text: &str) -> Result<Self, String> {
        // There is no weaker way to verify here, so the names of the stronger ones are all the same.
        let known = text
            .replace("sslmode=verify-full", "sslmode=require")
            .replace("sslmode=verify-ca", "sslmode=require");
        let mut config: Config = known.parse().map_err(|error| format!("{error}"))?;
        if config.get_hosts().is_empty() {
            return Err("the host is missing".into());
        }
        if !known.contains("sslmode=") {
            let local = config.get_hosts().iter().all(is_this_machine);
            config.ssl_mode(if local {
                SslMode::Disable
            } else {
                SslMode::Require
            });
        }
        Ok(Self(config))
    }

    /// Hosts with their ports, and the database: what an operator must see of the URL, and nothing that is secret.
    #[must_use]
    pub fn place(&self) -> String {
        let ports = self.0.get_ports();
        let hosts = self.0.get_hosts().iter().enumerate();
        let hosts = hosts.map(|(index, host)| {
            let port = ports.get(index).or(ports.first()).copied();
            let port = port.unwrap_or(DEFAULT_PORT);
            match host {
                Host::Tcp(name) if name.contains(':') => format!("[{name}]:{port}"),
                Host::Tcp(name) => format!("{name}:{port}"),
                #[cfg(unix)]
                Host::Unix(folder) => format!("{} (port {port})", folder.display()),
            }
        });
        let hosts: Vec<String> = hosts.collect();
        // PostgreSQL opens the database with the user's name if none is given.
        let database = self.0.get_dbname().or(self.0.get_user());
        format!(
            "{}, database {}",
            hosts.join(", "),
            database.unwrap_or("postgres")
        )
    }

    /// True if the connection to some other machine is not encrypted.
    #[must_use]
    pub fn is_plain_to_another_machine(&self) -> bool {
        let mut hosts = self.0.get_hosts().iter();
        self.0.get_ssl_mode() == SslMode::Disable && !hosts.all(is_this_machine)
    }

    /// The driver's form.
    pub(super) const fn config(&self) -> &Config {
        &self.0
    }
}

/// Host names and ports, and nothing that is secret.
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

fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost"
                || name
                    .parse()
                    .is_ok_and(|address: IpAddr| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

/// What `[store]` says of a PostgreSQL database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresSettings {
    /// Where it is.
    pub url: PostgresUrl,
    /// Certificates (PEM) that its certificate must lead to; `None` for those that the system trusts.
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
        ] {
            assert_eq!(ssl_mode(url), SslMode::Require, "{url}");
        }
        for url in [
            "postgres://a:b@127.0.0.1/tokens",
            "postgresql://a:b@localhost/tokens",
            "postgres://a@/tokens?host=/run/postgresql",
            "postgres://a:b@db.example.com/tokens?sslmode=disable",
        ] {
            assert_eq!(ssl_mode(url), SslMode::Disable, "{url}");
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
