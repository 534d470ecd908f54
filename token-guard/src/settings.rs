//! The command line. The rules for requests are in the guard's configuration, which is that of the filter.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use guard::config::Config;
use ipnet::IpNet;
use url::{Host, Url};

/// A forward-auth server: gateways ask it about each request.
#[derive(Debug, Clone, Parser)]
#[command(version)]
pub(crate) struct Settings {
    /// Configuration of the guard: the JSON that the filter has as plugin configuration
    #[arg(long, env = "TOKEN_GUARD_CONFIG", value_name = "FILE")]
    pub(crate) config: PathBuf,

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

    /// Networks of the gateways; other addresses are refused
    #[arg(
        long,
        env = "TOKEN_GUARD_TRUSTED_PEERS",
        value_name = "CIDR",
        value_delimiter = ',',
        default_value = "127.0.0.0/8,::1/128"
    )]
    trusted_peers: Vec<IpNet>,

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

    /// Check the configuration, print every problem and warning, and exit
    #[arg(long)]
    pub(crate) check: bool,
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

    /// The URL of a path on this origin. The path starts with a slash.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }
}

fn cluster(text: &str) -> Result<(String, Origin), String> {
    let (name, url) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or("expected NAME=URL")?;
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
            "{url}: expected http:// or https://, a host and an optional port; the configuration has the path"
        ));
    }
    Ok((name.to_owned(), Origin::of(&parsed)))
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
                problems.push(format!("--cluster {name}: is there twice"));
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

    /// True if the peer's address belongs to a gateway.
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.trusted_peers.iter().any(|net| net.contains(&peer))
    }
}

#[cfg(test)]
mod tests {
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
        let config = Config::parse(CONFIG, &crate::signatures::NativeSignatures).unwrap();
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
        assert!(problems[0].contains("keys: is there twice"));
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
        let pods = settings(&["--trusted-peers", "10.0.0.0/8"]);
        assert!(pods.trusts("10.1.2.3".parse().unwrap()));
        assert!(!pods.trusts("127.0.0.1".parse().unwrap()));
    }
}
