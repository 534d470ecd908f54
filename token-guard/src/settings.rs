//! The command line. The rules for requests are in the guard's configuration, which is that of the filter.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use actix_web::http::header::HeaderName;
use clap::{Parser, Subcommand, ValueEnum};
use document::internal_host::HostPattern;
use guard::config::Config;
use ipnet::IpNet;
use process::networks;
use url::{Host, Url};

/// A forward-auth server: gateways ask it about each request.
#[derive(Debug, Clone, Parser)]
#[command(version, subcommand_negates_reqs = true)]
pub(crate) struct Settings {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// Configuration of the guard: the JSON that the filter has as plugin configuration
    #[arg(long, env = "TOKEN_GUARD_CONFIG", value_name = "FILE", required = true)]
    pub(crate) config: Option<PathBuf>,

    /// Origin of a cluster in the configuration, for example token-service=https://lobby.example.com; one for each cluster
    #[arg(
        long = "cluster",
        env = "TOKEN_GUARD_CLUSTERS",
        value_name = "NAME=URL",
        value_delimiter = ',',
        value_parser = cluster
    )]
    clusters: Vec<(String, Origin)>,

    /// Address of the listener for gateways
    #[arg(long, env = "TOKEN_GUARD_LISTEN", default_value = "127.0.0.1:9090")]
    pub(crate) listen: SocketAddr,

    /// Address of the listener for /healthz, /readyz and /metrics
    #[arg(
        long,
        env = "TOKEN_GUARD_INTERNAL_LISTEN",
        default_value = "127.0.0.1:9091"
    )]
    pub(crate) internal_listen: SocketAddr,

    /// Addresses and networks of the gateways; other addresses are refused
    #[arg(
        long,
        env = "TOKEN_GUARD_TRUSTED_PEERS",
        value_name = "CIDR",
        value_delimiter = ',',
        value_parser = network,
        default_value = "127.0.0.0/8,::1/128"
    )]
    trusted_peers: Vec<IpNet>,

    /// Header in which the gateways hand over the client's certificate: X-Token-Guard-Client-Certificate, for Traefik
    /// X-Forwarded-Tls-Client-Cert. The gateways must replace or remove this header of the client in every request. Without
    /// this option, tokens bound to a certificate (RFC 8705) are refused
    #[arg(
        long,
        env = "TOKEN_GUARD_CLIENT_CERTIFICATE_HEADER",
        value_name = "NAME"
    )]
    pub(crate) client_certificate_header: Option<HeaderName>,

    /// Names under which callers reach the internal listener, such as gatepass.ops.example.com or *.ops.example.com.
    /// Addresses, names without a dot and private names need no entry
    #[arg(
        long,
        env = "TOKEN_GUARD_INTERNAL_HOSTS",
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = internal_host
    )]
    pub(crate) internal_hosts: Vec<HostPattern>,

    /// Threads that answer gateways, each with its own keys, revocations and cache
    #[arg(long, env = "TOKEN_GUARD_WORKERS", default_value = "2")]
    pub(crate) workers: NonZeroUsize,

    /// PEM file with the CA certificates to trust for https clusters [default: the system's]
    #[arg(long, env = "TOKEN_GUARD_CA_FILE", value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,

    /// Time between SIGTERM and shutdown. Set it longer than the interval in which your load balancer checks /readyz
    #[arg(
        long,
        env = "TOKEN_GUARD_DRAIN_FOR",
        value_name = "DURATION",
        default_value = "1s",
        value_parser = humantime::parse_duration
    )]
    pub(crate) drain_for: Duration,

    /// Format of the log on standard error; TOKEN_GUARD_LOG sets its level, for example debug
    #[arg(long, env = "TOKEN_GUARD_LOG_FORMAT", default_value = "json")]
    pub(crate) log_format: LogFormat,

    /// Check the configuration, print every problem and warning, and exit. With --check=filter: check the configuration
    /// of a filter in Envoy, which has the clusters itself
    #[arg(
        long,
        value_name = "READER",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "token-guard"
    )]
    pub(crate) check: Option<Reader>,
}

#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub(crate) enum Command {
    /// Ask a running token-guard whether it can decide about requests; exit with 1 if not
    Health {
        /// Internal listener of a token-guard on another machine, such as http://token-guard:9091 [default: the one on
        /// this machine]
        #[arg(long, value_name = "URL", value_parser = origin)]
        url: Option<Origin>,
    },
}

/// Reader of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Reader {
    TokenGuard,
    Filter,
}

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// A JSON object in each line.
    Json,
}

/// Scheme, host and port: a URL without a final slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin(String);

impl Origin {
    /// Takes the origin of a URL that has no other parts.
    pub(crate) fn of(url: &Url) -> Self {
        Self(url.as_str().trim_end_matches('/').to_owned())
    }

    /// The origin of a listener with plain http.
    pub(crate) fn of_listener(address: SocketAddr) -> Self {
        Self(format!("http://{address}"))
    }

    /// The URL of a path on this origin. The path starts with a slash.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }
}

fn cluster(text: &str) -> Result<(String, Origin), String> {
    let (name, url) = text
        .trim()
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or("expected NAME=URL")?;
    Ok((name.to_owned(), origin(url)?))
}

fn origin(url: &str) -> Result<Origin, String> {
    let parsed = Url::parse(url).map_err(|error| format!("{url}: {error}"))?;
    let is_origin = matches!(parsed.scheme(), "http" | "https")
        && parsed.host().is_some_and(|host| host != Host::Domain(""))
        && parsed.username().is_empty()
        && parsed.password().is_none()
        && parsed.path() == "/"
        && parsed.query().is_none()
        && parsed.fragment().is_none();
    if !is_origin {
        return Err(format!(
            "{url}: expected http:// or https://, a host and an optional port, and no path"
        ));
    }
    Ok(Origin::of(&parsed))
}

fn network(text: &str) -> Result<IpNet, &'static str> {
    networks::parse(text.trim())
        .ok_or("expected an address or a network, such as 10.1.2.3 or 10.1.2.0/24")
}

fn internal_host(text: &str) -> Result<HostPattern, &'static str> {
    HostPattern::parse(text.trim())
        .ok_or("expected a host name, or *. and the end of host names, without scheme and port")
}

impl Settings {
    /// The origins by cluster name.
    ///
    /// # Errors
    /// Every cluster of the configuration without an origin, and every name with two origins.
    pub(crate) fn origins(&self, config: &Config) -> Result<BTreeMap<String, Origin>, Vec<String>> {
        let mut origins = BTreeMap::new();
        let mut problems = Vec::new();
        for (name, origin) in &self.clusters {
            if origins.insert(name.clone(), origin.clone()).is_some() {
                problems.push(format!("--cluster {name}: is given twice"));
            }
        }
        for name in config.clusters() {
            if !origins.contains_key(name) {
                problems.push(format!(
                    "the configuration fetches from cluster {name}: say where it is with --cluster {name}=URL"
                ));
            }
        }
        if problems.is_empty() {
            Ok(origins)
        } else {
            Err(problems)
        }
    }

    /// Settings that are allowed but unwise, each as a text for the operator.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let is_only_here = self
            .trusted_peers
            .iter()
            .all(|net| net.addr().is_loopback());
        let mut warnings = Vec::new();
        if is_only_here && !self.listen.ip().is_loopback() {
            warnings.push(format!(
                "--listen {} is for gateways on other machines, and --trusted-peers has only addresses of this machine: every \
                 such gateway gets 403. Set --trusted-peers (TOKEN_GUARD_TRUSTED_PEERS) to the networks of your gateways",
                self.listen
            ));
        }
        warnings
    }

    /// The address under which a program on this machine reaches the internal listener.
    pub(crate) fn own_internal(&self) -> SocketAddr {
        let ip = match self.internal_listen.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        SocketAddr::new(ip, self.internal_listen.port())
    }

    /// True if the peer's address belongs to a gateway.
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        networks::contain(&self.trusted_peers, peer)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    const CONFIG: &[u8] = br#"{
        "issuers": [{
            "issuer": "https://lobby.example.com", "audiences": ["https://api.example.com"],
            "jwks": {"cluster": "keys", "path": "/auth/jwks"},
            "revocations": {"cluster": "feed", "path": "/revocations"}
        }],
        "rules": [{"path_prefix": "/"}]
    }"#;

    fn settings(arguments: &[&str]) -> Settings {
        let program = ["token-guard", "--config", "guard.json"];
        Settings::try_parse_from(program.iter().chain(arguments)).unwrap()
    }

    #[test]
    fn every_cluster_has_an_origin() {
        let config = Config::parse(CONFIG, &keys_native::NativeSignatures).unwrap();
        let both = [
            "--cluster",
            "keys=https://lobby.example.com/,feed=http://10.0.0.1:9081",
        ];
        let origins = settings(&both).origins(&config).unwrap();
        let url = |name: &str| origins[name].url("/x?y");
        assert_eq!(url("keys"), "https://lobby.example.com/x?y");
        assert_eq!(url("feed"), "http://10.0.0.1:9081/x?y");

        let doubled = settings(&["--cluster", "keys=http://a", "--cluster", "keys=http://b"]);
        let problems = doubled.origins(&config).unwrap_err();
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("keys: is given twice"));
        assert!(problems[1].contains("--cluster feed=URL"));
    }

    #[test]
    fn an_origin_has_no_path() {
        for text in [
            "keys",
            "=http://a",
            "keys=a",
            "keys=ftp://a",
            "keys=http://a/b",
            "keys=http://a?b",
            "keys=http://a#b",
            "keys=http://u@a",
            "keys=http://u:p@a",
            "keys=unix:/a",
        ] {
            assert!(cluster(text).is_err(), "{text}");
        }
    }

    #[test]
    fn peers_beyond_loopback_are_trusted_where_told() {
        let default = settings(&[]);
        for (peer, trusted) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("10.1.2.3", false),
            ("::ffff:10.1.2.3", false),
        ] {
            assert_eq!(default.trusts(peer.parse().unwrap()), trusted, "{peer}");
        }
        for network in ["10.1.2.0/24", "10.1.2.3", "::ffff:10.1.2.3"] {
            let pods = settings(&["--trusted-peers", network]);
            assert!(pods.trusts("10.1.2.3".parse().unwrap()), "{network}");
            assert!(!pods.trusts("127.0.0.1".parse().unwrap()), "{network}");
        }
    }

    #[test]
    fn lists_may_have_blanks_and_nothing_may_be_empty() {
        let lists = [
            "--trusted-peers",
            "127.0.0.1, 10.1.2.0/24 ",
            "--internal-hosts",
            "a.example.com, *.b.example.com",
            "--cluster",
            "keys=http://a, feed=http://b",
        ];
        let settings = settings(&lists);
        assert!(settings.trusts("10.1.2.3".parse().unwrap()));
        assert_eq!(settings.internal_hosts.len(), 2);
        let names = settings.clusters.iter().map(|(name, _)| &**name);
        assert!(names.eq(["keys", "feed"]));
        // An empty variable counts as an empty option.
        for option in Settings::command()
            .get_arguments()
            .filter(|one| one.get_env().is_some())
        {
            let option = format!("--{}=", option.get_long().unwrap());
            let parsed = Settings::try_parse_from(["token-guard", "--config=a", &option]);
            assert!(parsed.is_err(), "{option}");
        }
    }

    #[test]
    fn a_listener_that_refuses_every_gateway_is_named() {
        let everywhere = ["--listen", "0.0.0.0:9090"];
        let warnings = settings(&everywhere).warnings();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("TOKEN_GUARD_TRUSTED_PEERS"));
        let peers = ["--listen", "0.0.0.0:9090", "--trusted-peers", "10.0.0.0/8"];
        assert!(settings(&peers).warnings().is_empty());
        assert!(settings(&[]).warnings().is_empty());
    }

    #[test]
    fn health_needs_no_configuration() {
        let asked = |arguments: &[&str]| {
            let program = ["token-guard"].iter().chain(arguments);
            Settings::try_parse_from(program)
        };
        let own = asked(&["health"]).unwrap();
        assert_eq!(own.command, Some(Command::Health { url: None }));
        assert_eq!(own.own_internal(), "127.0.0.1:9091".parse().unwrap());
        let everywhere = asked(&["--internal-listen", "[::]:1", "health"]).unwrap();
        assert_eq!(everywhere.own_internal(), "[::1]:1".parse().unwrap());
        assert!(asked(&["health", "--url", "http://guard:9091"]).is_ok());
        assert!(asked(&["health", "--url", "http://guard:9091/readyz"]).is_err());
        assert!(asked(&[]).is_err());
    }
}
