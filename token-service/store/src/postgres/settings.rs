//! The URL of the database, and the settings of the connection.

use std::error::Error as _;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use zeroize::Zeroizing;

use super::servers::Server;

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
        let mut config: Config = known.parse().map_err(|error| problem(&error))?;
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
        let servers: Vec<String> = self.servers().into_iter().map(|one| one.name).collect();
        // Without a database name, PostgreSQL uses the username.
        let database = self.0.get_dbname().or(self.0.get_user());
        format!(
            "{}, database {}",
            servers.join(", "),
            database.unwrap_or("postgres")
        )
    }

    /// The servers of the URL, each with the other parameters.
    pub(super) fn servers(&self) -> Vec<Server> {
        let all = &self.0;
        let hosts = all.get_hosts().iter().enumerate();
        let servers = hosts.map(|(index, host)| {
            let mut config = without_servers(all);
            let ports = all.get_ports();
            let port = ports.get(index).or(ports.first()).copied();
            let name = server_name(host, port.unwrap_or(DEFAULT_PORT));
            match host {
                Host::Tcp(host) => config.host(host),
                #[cfg(unix)]
                Host::Unix(folder) => config.host_path(folder),
            };
            if let Some(port) = port {
                config.port(port);
            }
            let name = match all.get_hostaddrs().get(index) {
                Some(address) => {
                    config.hostaddr(*address);
                    format!("{name} (at {address})")
                }
                None => name,
            };
            Server { name, config }
        });
        servers.collect()
    }

    /// True if the connection to another machine is not encrypted, or may be unencrypted (`sslmode=prefer`).
    pub fn is_plain_to_another_machine(&self) -> bool {
        self.0.get_ssl_mode() != SslMode::Require && !is_this_machine(&self.0)
    }
}

/// The parameters of a URL.
const PARAMETERS: &str = "application_name, channel_binding, connect_timeout, dbname, host, hostaddr, keepalives, keepalives_idle, \
    keepalives_interval, keepalives_retries, load_balance_hosts, options, password, port, sslmode, sslnegotiation, \
    target_session_attrs, tcp_user_timeout, user";

/// What is wrong with a URL, with the name of a parameter and without its value. A name that is no word may be a part of a
/// password in which `@` or `?` was not escaped.
fn problem(error: &tokio_postgres::Error) -> String {
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    let name = |start: &str| Some(cause.strip_prefix(start)?.trim_matches('`').to_owned());
    if let Some(name) = name("invalid value for option ") {
        return format!("the parameter {name} has a wrong value");
    }
    match name("unknown option ") {
        Some(name) if name == "sslrootcert" => {
            "the parameter sslrootcert is unknown: name the file in store.ca_file".to_owned()
        }
        Some(name)
            if name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_') =>
        {
            format!("the parameter {name} is unknown; expected one of {PARAMETERS}")
        }
        Some(_) => format!("a parameter is unknown; expected one of {PARAMETERS}"),
        None => error.to_string(),
    }
}

fn server_name(host: &Host, port: u16) -> String {
    match host {
        Host::Tcp(name) if name.contains(':') => format!("[{name}]:{port}"),
        Host::Tcp(name) => format!("{name}:{port}"),
        #[cfg(unix)]
        Host::Unix(folder) => format!("{} (port {port})", folder.display()),
    }
}

/// All parameters of the driver but hosts, addresses and ports.
fn without_servers(all: &Config) -> Config {
    let mut config = Config::new();
    config
        .ssl_mode(all.get_ssl_mode())
        .ssl_negotiation(all.get_ssl_negotiation())
        .keepalives(all.get_keepalives())
        .keepalives_idle(all.get_keepalives_idle())
        .target_session_attrs(all.get_target_session_attrs())
        .channel_binding(all.get_channel_binding())
        .load_balance_hosts(all.get_load_balance_hosts());
    all.get_user().map(|user| config.user(user));
    all.get_password().map(|password| config.password(password));
    all.get_dbname().map(|name| config.dbname(name));
    all.get_options().map(|options| config.options(options));
    all.get_application_name()
        .map(|name| config.application_name(name));
    all.get_connect_timeout()
        .map(|time| config.connect_timeout(*time));
    all.get_tcp_user_timeout()
        .map(|time| config.tcp_user_timeout(*time));
    all.get_keepalives_interval()
        .map(|time| config.keepalives_interval(time));
    all.get_keepalives_retries()
        .map(|count| config.keepalives_retries(count));
    config
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

    /// Each server of a list has all other parameters of the URL.
    #[test]
    fn no_parameter_is_lost_between_the_servers_of_a_list() {
        let parameters = "sslmode=require&sslnegotiation=direct&keepalives=0&keepalives_idle=7&keepalives_interval=8\
            &keepalives_retries=9&tcp_user_timeout=10&connect_timeout=11&target_session_attrs=read-write\
            &channel_binding=require&load_balance_hosts=random&options=-cgeqo%3Doff&application_name=x";
        let url = |servers: &str, addresses: &str| {
            let text = format!("postgres://a:b@{servers}/d?{parameters}&hostaddr={addresses}");
            PostgresUrl::parse(&text).unwrap()
        };
        let list = url("one:1,two:2", "192.0.2.1,192.0.2.2").servers();
        let alone = [url("one:1", "192.0.2.1"), url("two:2", "192.0.2.2")];
        assert_eq!(list.len(), 2);
        for (server, alone) in list.iter().zip(alone) {
            assert_eq!(server.config, alone.0);
        }
        let socket = PostgresUrl::parse("postgres://a@/d?host=/run/postgresql").unwrap();
        assert_eq!(socket.servers()[0].config, socket.0);
    }

    #[test]
    fn problems_and_debug_output_keep_the_password() {
        for url in [
            "postgres://a:hunter2@db/tokens?sslmode=hunter2",
            "postgres://a:hunter2@db:x/tokens",
            "postgres://a:hunter2@db/tokens?what=hunter2",
            "postgres://a:b@c?hunter2=d@db/tokens",
        ] {
            let problem = PostgresUrl::parse(url).unwrap_err();
            assert!(!problem.contains("hunter2"), "{problem}");
        }
        for (parameter, expected) in [
            (
                "sslmod=require",
                "the parameter sslmod is unknown; expected one of application_name",
            ),
            ("sslrootcert=ca.pem", "store.ca_file"),
            ("sslmode=on", "the parameter sslmode has a wrong value"),
        ] {
            let problem = PostgresUrl::parse(&format!("postgres://a@db/t?{parameter}"));
            let problem = problem.unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
        let url = PostgresUrl::parse("postgres://a:hunter2@db/tokens").unwrap();
        assert!(!format!("{url:?}").contains("hunter2"));
    }
}
