//! Reading and checking the configuration: file, then environment, then every problem at once.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use claims::Algorithm;
use ipnet::IpNet;
use protocol::settings::Settings;
use registration::legacy_instance;
use url::{Host, Url};

use super::{
    Audit, Config, DAY, HOUR, HostPattern, Lifetimes, Limits, LogFormat, MINUTE, Signing, StoreUrl,
};
use document::{InvalidDocument, Located, Place, Problems, Section, Table};
use domain::LegacyInstance;
use store::postgres::{PostgresSettings, PostgresUrl};

/// Every key can also be set by a variable: `TOKEN_SERVICE__LIFETIMES__SESSION` is `lifetimes.session`.
const VARIABLE_PREFIX: &str = "TOKEN_SERVICE__";

const SECOND: Duration = Duration::from_secs(1);

impl Config {
    /// Reads the configuration from `file`, or takes the development defaults without one, and lays the
    /// variables of `environment` over it.
    ///
    /// # Errors
    /// [`InvalidDocument`] with every problem: unknown keys and variables too.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, InvalidDocument> {
        let problems = Problems::default();
        let mut table = match file {
            Some(path) => Table::read(path, &problems),
            None => Table::empty(Place::Default),
        };
        table.overlay(VARIABLE_PREFIX, environment, &problems);
        let development = file.is_none();
        let config = read(Section::root(table, &problems), development);
        problems.none_or(config)
    }

    /// The registrations file that `file` or the variables of `environment` name, whatever problems the configuration
    /// has otherwise.
    #[must_use]
    pub fn registrations_of(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Option<PathBuf> {
        let problems = Problems::default();
        let mut table = match file {
            Some(path) => Table::read(path, &problems),
            None => Table::empty(Place::Default),
        };
        table.overlay(VARIABLE_PREFIX, environment, &problems);
        Section::root(table, &problems).path("registrations")
    }
}

fn read(mut root: Section<'_>, development: bool) -> Config {
    let defaults = Config::default();
    let issuer = or_default(root.parsed("issuer", issuer), defaults.protocol.issuer);
    let api_audience = or_default(
        root.parsed("api_audience", audience),
        defaults.protocol.api_audience,
    );
    let identity_audience = or_default(
        root.parsed("identity_audience", audience),
        defaults.protocol.identity_audience,
    );
    let listen = or_default(root.parsed("listen", listen_address), defaults.listen);
    let internal_listen = or_default(
        root.parsed("internal_listen", listen_address),
        defaults.internal_listen,
    );
    let allow_insecure_http = root
        .flag("allow_insecure_http")
        .map_or(defaults.allow_insecure_http, |flag| flag.value);

    check_audiences(&root, &issuer, &api_audience, &identity_audience);
    if listen.value == internal_listen.value && listen.value.port() != 0 {
        let message =
            "internal_listen: must differ from listen: the internal listener is not for the public";
        root.report(&internal_listen.place, message);
    }
    if !allow_insecure_http {
        check_insecure_http(&root, &issuer, &[&listen, &internal_listen], development);
    }

    let config = Config {
        protocol: Settings {
            name: root
                .parsed("name", name)
                .map_or(defaults.protocol.name, |name| name.value),
            issuer: issuer.value,
            api_audience: api_audience.value,
            identity_audience: identity_audience.value,
            signing: signing(root.section("signing"), defaults.protocol.signing),
            lifetimes: lifetimes(root.section("lifetimes"), defaults.protocol.lifetimes),
        },
        service_documentation: root
            .parsed("service_documentation", service_documentation)
            .map(|address| address.value),
        internal_hosts: internal_hosts(&mut root).unwrap_or(defaults.internal_hosts),
        trusted_proxies: trusted_proxies(&mut root).unwrap_or(defaults.trusted_proxies),
        registrations: root.path("registrations"),
        admin_token_file: root
            .path("admin_token_file")
            .unwrap_or(defaults.admin_token_file),
        encryption_key_file: root
            .path("encryption_key_file")
            .unwrap_or(defaults.encryption_key_file),
        store: store(root.section("store")).unwrap_or(defaults.store),
        legacy_instances: legacy_instances(&mut root),
        limits: limits(root.section("limits"), defaults.limits),
        audit: audit(root.section("audit"), defaults.audit),
        drain_for: duration(
            &mut root,
            "drain_for",
            defaults.drain_for,
            Duration::ZERO..=10 * MINUTE,
        ),
        otlp_endpoint: root
            .parsed("otlp_endpoint", otlp_endpoint)
            .map(|endpoint| endpoint.value),
        log_format: root
            .parsed("log_format", log_format)
            .map_or(defaults.log_format, |format| format.value),
        listen: listen.value,
        internal_listen: internal_listen.value,
        allow_insecure_http,
    };
    root.finish();
    config
}

fn or_default<T>(read: Option<Located<T>>, default: T) -> Located<T> {
    read.unwrap_or_else(|| Located::default_value(default))
}

/// Authenticator apps split issuer and account at a colon.
fn name(text: &str) -> Result<String, &'static str> {
    let legal = (1..=64).contains(&text.chars().count())
        && text.trim() == text
        && !text
            .chars()
            .any(|character| character.is_control() || character == ':');
    if legal {
        Ok(text.to_owned())
    } else {
        Err(
            "must be one line of 1 to 64 characters without a colon and without white space at its ends",
        )
    }
}

fn service_documentation(text: &str) -> Result<String, &'static str> {
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "https" | "http") && url.host().is_some() => {
            Ok(text.to_owned())
        }
        _ => Err("expected an https or http URL"),
    }
}

/// RFC 8414 §2: a URL without query and fragment. Clients compare it as text, so only the normal form will do.
fn issuer(text: &str) -> Result<String, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "https" | "http") || url.host().is_none() {
        return Err("must be an https URL, or an http one for development".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must have neither query nor fragment (RFC 8414 §2)".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must have neither user name nor password".to_owned());
    }
    if text.ends_with('/') {
        return Err("must not end with a slash".to_owned());
    }
    let normal = url.as_str().trim_end_matches('/');
    if normal != text {
        return Err(format!("must be in its normal form: {normal}"));
    }
    Ok(text.to_owned())
}

fn audience(text: &str) -> Result<String, &'static str> {
    if text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err("must be printable ASCII without spaces")
    }
}

/// An access token, a refresh token and an identity token must not be alike in their audience, so that none
/// is taken for another even by a verifier that ignores `typ`.
fn check_audiences(
    root: &Section<'_>,
    issuer: &Located<String>,
    api: &Located<String>,
    identity: &Located<String>,
) {
    let all = [
        ("issuer", issuer),
        ("api_audience", api),
        ("identity_audience", identity),
    ];
    for (index, (key, audience)) in all.iter().enumerate() {
        for (other, earlier) in all.iter().take(index) {
            if audience.value == earlier.value {
                root.report(&audience.place, format!("{key}: must differ from {other}"));
            }
        }
    }
}

fn listen_address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse()
        .map_err(|_| "expected an address and a port, such as 127.0.0.1:9080 or [::]:9080")
}

/// Tokens over plain http are for one machine alone (RFC 8414 §2, RFC 9700 §2.6).
fn check_insecure_http(
    root: &Section<'_>,
    issuer: &Located<String>,
    listeners: &[&Located<SocketAddr>],
    development: bool,
) {
    const REMEDY: &str =
        "; use https, or set allow_insecure_http = true for a test on a trusted network";
    let http = issuer.value.starts_with("http:");
    if http && !is_loopback(&issuer.value) {
        let message = format!("issuer: plain http beyond this machine{REMEDY}");
        root.report(&issuer.place, message);
    }
    for listener in listeners {
        if listener.value.ip().is_loopback() {
            continue;
        }
        let address = listener.value;
        if development {
            let message = format!(
                "{address}: the development defaults (no --config) do not listen beyond this machine unless \
                 allow_insecure_http = true"
            );
            root.report(&listener.place, message);
        } else if http {
            let message =
                format!("{address}: listens beyond this machine with an http issuer{REMEDY}");
            root.report(&listener.place, message);
        }
    }
}

fn is_loopback(url: &str) -> bool {
    match Url::parse(url).as_ref().map(Url::host) {
        Ok(Some(Host::Ipv4(address))) => address.is_loopback(),
        Ok(Some(Host::Ipv6(address))) => address.is_loopback(),
        Ok(Some(Host::Domain(name))) => name == "localhost",
        Ok(None) | Err(_) => false,
    }
}

fn otlp_endpoint(text: &str) -> Result<String, &'static str> {
    const EXPECTED: &str = "expected an http URL, such as http://127.0.0.1:4318";
    let url = Url::parse(text).map_err(|_| EXPECTED)?;
    if url.scheme() == "http" && url.host().is_some() {
        Ok(text.to_owned())
    } else {
        Err(EXPECTED)
    }
}

fn internal_hosts(root: &mut Section<'_>) -> Option<Vec<HostPattern>> {
    let mut patterns = Vec::new();
    for Located { value, place } in root.texts("internal_hosts")? {
        match HostPattern::parse(&value) {
            Some(pattern) => patterns.push(pattern),
            None => {
                let message = format!(
                    "internal_hosts: {value} is neither a host name nor *. and the end of host names; give it without \
                     scheme and port"
                );
                root.report(&place, message);
            }
        }
    }
    Some(patterns)
}

fn trusted_proxies(root: &mut Section<'_>) -> Option<Vec<IpNet>> {
    let mut networks = Vec::new();
    for Located { value, place } in root.texts("trusted_proxies")? {
        let network = value
            .parse()
            .or_else(|_| value.parse::<IpAddr>().map(IpNet::from));
        match network {
            // Such a network holds clients, not only proxies: each of them could claim any address.
            Ok(network) if is_wide(network) => {
                let message = format!(
                    "trusted_proxies: {value} covers addresses of clients, who could then claim any address; name \
                     the addresses of your gateways"
                );
                root.report(&place, message);
            }
            Ok(network) => networks.push(network),
            Err(_) => {
                let message = format!(
                    "trusted_proxies: {value} is neither an address nor a network such as 10.0.0.0/8"
                );
                root.report(&place, message);
            }
        }
    }
    Some(networks)
}

/// True for networks wider than the widest private ones: 10.0.0.0/8 (RFC 1918) and fc00::/7 (RFC 4193).
fn is_wide(network: IpNet) -> bool {
    match network {
        IpNet::V4(network) => network.prefix_len() < 8,
        IpNet::V6(network) => network.prefix_len() < 7,
    }
}

fn store(mut section: Section<'_>) -> Option<StoreUrl> {
    let mut url = section.text("url");
    let mut url_file = section.text("url_file");
    // A variable takes the place of either key of the file.
    let is_variable = |text: &Option<Located<String>>| {
        text.as_ref()
            .is_some_and(|text| matches!(text.place, Place::Variable(_)))
    };
    match (is_variable(&url), is_variable(&url_file)) {
        (true, false) => url_file = None,
        (false, true) => url = None,
        _ => {}
    }
    let ca_file = section.path("ca_file");
    let store = match (url, url_file) {
        (Some(url), Some(_)) => Err((url.place, "url: give either url or url_file".to_owned())),
        (Some(url), None) => store_url(&url.value, &url.place, ca_file)
            .map(Some)
            .map_err(|problem| (url.place, format!("url: {problem}"))),
        (None, Some(file)) => std::fs::read_to_string(file.place.resolve(&file.value))
            .map_err(|error| error.to_string())
            .and_then(|text| store_url(text.trim(), &Place::Default, ca_file))
            .map(Some)
            .map_err(|problem| (file.place, format!("url_file: {}: {problem}", file.value))),
        (None, None) => Ok(None),
    };
    let store = store.unwrap_or_else(|(place, problem)| {
        section.report(&place, problem);
        None
    });
    section.finish();
    store
}

/// A postgres URL may hold a password: no problem repeats the value.
fn store_url(url: &str, place: &Place, ca_file: Option<PathBuf>) -> Result<StoreUrl, String> {
    if let Some(path) = url.strip_prefix("redb:").filter(|path| !path.is_empty()) {
        return Ok(StoreUrl::Redb(place.resolve(path)));
    }
    let schemes = ["postgres://", "postgresql://"];
    if !schemes.iter().any(|scheme| url.starts_with(scheme)) {
        return Err("expected redb:PATH or postgres://USER:PASSWORD@HOST/DATABASE".to_owned());
    }
    let url = PostgresUrl::parse(url)?;
    Ok(StoreUrl::Postgres(Box::new(PostgresSettings {
        url,
        ca_file,
    })))
}

fn signing(mut section: Section<'_>, default: Signing) -> Signing {
    let algorithm = section.parsed("algorithm", |name| {
        Algorithm::from_name(name).ok_or_else(|| {
            let names = Algorithm::ALL.map(Algorithm::name).join(", ");
            format!("expected one of {names}")
        })
    });
    let signing = Signing {
        algorithm: algorithm.map_or(default.algorithm, |algorithm| algorithm.value),
        rotate_every: duration(
            &mut section,
            "rotate_every",
            default.rotate_every,
            HOUR..=365 * DAY,
        ),
        // A successor is announced while its forerunner signs: never two of them at once.
        announce_for: duration(
            &mut section,
            "announce_for",
            default.announce_for,
            SECOND..=HOUR,
        ),
    };
    section.finish();
    signing
}

fn limits(mut section: Section<'_>, default: Limits) -> Limits {
    let mut read = |key, default| section.positive(key).map_or(default, |number| number.value);
    let limits = Limits {
        revocations_per_second: read("revocations_per_second", default.revocations_per_second),
        revocations_burst: read("revocations_burst", default.revocations_burst),
    };
    section.finish();
    limits
}

fn audit(mut section: Section<'_>, default: Audit) -> Audit {
    let audit = Audit {
        keep_for: duration(
            &mut section,
            "keep_for",
            default.keep_for,
            HOUR..=3650 * DAY,
        ),
        standard_output: section
            .flag("standard_output")
            .map_or(default.standard_output, |flag| flag.value),
    };
    section.finish();
    audit
}

fn lifetimes(mut section: Section<'_>, default: Lifetimes) -> Lifetimes {
    let mut read = |key, default, range| duration(&mut section, key, default, range);
    let lifetimes = Lifetimes {
        access_token: read("access_token", default.access_token, SECOND..=DAY),
        refresh_token: read("refresh_token", default.refresh_token, SECOND..=365 * DAY),
        // RFC 6749 §4.1.2: ten minutes at most.
        authorization_code: read(
            "authorization_code",
            default.authorization_code,
            SECOND..=10 * MINUTE,
        ),
        legacy_access_token: read(
            "legacy_access_token",
            default.legacy_access_token,
            SECOND..=DAY,
        ),
        refresh_reuse_grace: read(
            "refresh_reuse_grace",
            default.refresh_reuse_grace,
            Duration::ZERO..=5 * MINUTE,
        ),
        session: read("session", default.session, SECOND..=90 * DAY),
        session_idle: read("session_idle", default.session_idle, SECOND..=90 * DAY),
        assertion_max: read("assertion_max", default.assertion_max, SECOND..=30 * DAY),
        clock_skew: read(
            "clock_skew",
            default.clock_skew,
            Duration::ZERO..=5 * MINUTE,
        ),
    };
    section.finish();
    lifetimes
}

fn duration(
    section: &mut Section<'_>,
    key: &'static str,
    default: Duration,
    range: RangeInclusive<Duration>,
) -> Duration {
    let read = section.parsed(key, |text| {
        let duration = humantime::parse_duration(text)
            .map_err(|_| format!("{text} is not a duration such as 60s, 10m, 1h or 7d"))?;
        if duration.subsec_nanos() != 0 {
            return Err("must be whole seconds".to_owned());
        }
        if !range.contains(&duration) {
            let [least, most] = [range.start(), range.end()].map(|limit| spell(*limit));
            return Err(format!("must be from {least} to {most}"));
        }
        Ok(duration)
    });
    read.map_or(default, |duration| duration.value)
}

/// Days rather than the library's months and years, which nobody writes for a lifetime.
fn spell(limit: Duration) -> String {
    let days = limit.as_secs() / DAY.as_secs();
    if days >= 1 {
        format!("{days}d")
    } else {
        humantime::format_duration(limit).to_string()
    }
}

fn legacy_instances(root: &mut Section<'_>) -> Vec<LegacyInstance> {
    let mut seen = BTreeSet::new();
    root.sections("legacy_instances")
        .into_iter()
        .filter_map(|section| legacy_instance::read(section, &mut seen))
        .collect()
}

fn log_format(text: &str) -> Result<LogFormat, &'static str> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("expected text or json"),
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::path::PathBuf;

    use super::*;

    fn load(text: &str, environment: &[(&str, &str)]) -> Result<Config, Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        load_from(Some(&path), environment).map_err(|problems| {
            let folder = format!("{}/", folder.path().display());
            let lines = problems.into_iter();
            lines.map(|line| line.replace(&folder, "")).collect()
        })
    }

    fn load_from(file: Option<&Path>, environment: &[(&str, &str)]) -> Result<Config, Vec<String>> {
        let environment = environment
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)));
        Config::load(file, environment)
            .map_err(|error| error.to_string().lines().map(str::to_owned).collect())
    }

    /// An example configuration, as text.
    const EXAMPLE: &str = r#"
issuer = "http://127.0.0.1:8081"
api_audience = "http://127.0.0.1:8080"
identity_audience = "https://identity.example.com/"
listen = "127.0.0.1:9080"
internal_listen = "127.0.0.1:9081"
internal_hosts = []
trusted_proxies = ["127.0.0.1/32"]
registrations = "registrations.toml"
admin_token_file = "data/admin-token"
encryption_key_file = "/keys/encryption-key"
drain_for = "1s"
log_format = "text"

[limits]
revocations_per_second = 20
revocations_burst = 1000

[audit]
keep_for = "90d"
standard_output = true

[store]
url = "redb:data/token-service.redb"

[signing]
algorithm = "EdDSA"
rotate_every = "30d"
announce_for = "10m"

[lifetimes]
access_token = "1h"
refresh_token = "7d"
authorization_code = "60s"
legacy_access_token = "1h"
refresh_reuse_grace = "10s"
session = "8h"
assertion_max = "24h"
clock_skew = "30s"

[[legacy_instances]]
hostname = "us1.legacy.example"
auth_server_hostname = "sso-us1.legacy.example"
enabled = false
"#;

    #[test]
    fn registrations_that_others_read_or_change_are_warned_of() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("registrations.toml");
        std::fs::write(&path, "").unwrap();
        let warned = |issuer: &str, mode: u32| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let path = path.display().to_string();
            let environment = [
                ("TOKEN_SERVICE__ISSUER", issuer),
                ("TOKEN_SERVICE__REGISTRATIONS", &path),
            ];
            let warnings = load_from(None, &environment).unwrap().warnings();
            warnings
                .iter()
                .any(|warning| warning.contains("registrations"))
        };
        for (mode, expected) in [(0o600, false), (0o640, false), (0o644, true), (0o660, true)] {
            assert_eq!(
                warned("https://lobby.example.com", mode),
                expected,
                "{mode:o}"
            );
        }
        assert!(!warned("http://127.0.0.1:8081", 0o644));
    }

    #[test]
    fn without_a_file_the_development_defaults_hold() {
        assert_eq!(load_from(None, &[]), Ok(Config::default()));
        assert_eq!(load("", &[]), Ok(Config::default()));
    }

    #[test]
    fn the_example_states_the_defaults_and_paths_are_relative_to_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, EXAMPLE).unwrap();
        let expected = Config {
            registrations: Some(folder.path().join("registrations.toml")),
            admin_token_file: folder.path().join("data/admin-token"),
            encryption_key_file: PathBuf::from("/keys/encryption-key"),
            store: StoreUrl::Redb(folder.path().join("data/token-service.redb")),
            legacy_instances: vec![LegacyInstance {
                hostname: "us1.legacy.example".into(),
                auth_server_hostname: "sso-us1.legacy.example".into(),
                enabled: false,
            }],
            ..Config::default()
        };
        assert_eq!(load_from(Some(&path), &[]), Ok(expected));
    }

    /// What the demo's configuration says and, behind `# `, shows as defaults.
    #[test]
    fn the_demo_states_the_defaults() {
        let text = include_str!("../../../demo/config.toml");
        let uncommented: Vec<&str> = text
            .lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(setting)
                    if setting
                        .split_once(" = ")
                        .is_some_and(|(key, _)| is_key(key)) =>
                {
                    setting
                }
                _ => line,
            })
            .collect();
        let instance = |name: &str, enabled| LegacyInstance {
            hostname: format!("{name}.legacy.example"),
            auth_server_hostname: format!("sso-{name}.legacy.example"),
            enabled,
        };
        let relative = |text: &str| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("config.toml");
            std::fs::write(&path, text).unwrap();
            let expected = Config {
                registrations: Some(folder.path().join("registrations.toml")),
                admin_token_file: folder.path().join("data/admin-token"),
                encryption_key_file: folder.path().join("data/encryption-key"),
                store: StoreUrl::Redb(folder.path().join("data/token-service.redb")),
                legacy_instances: vec![instance("us1", true), instance("us2", false)],
                ..Config::default()
            };
            (load_from(Some(&path), &[]), Ok(expected))
        };
        let (read, expected) = relative(text);
        assert_eq!(read, expected);
        let (read, expected) = relative(&uncommented.join("\n"));
        assert_eq!(read, expected);
        assert!(
            uncommented
                .iter()
                .any(|line| line.starts_with("clock_skew = "))
        );
    }

    fn is_key(text: &str) -> bool {
        text.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    }

    #[test]
    fn every_key_of_the_example_is_also_a_variable() {
        let environment = [
            ("TOKEN_SERVICE__NAME", "Building Site Login"),
            (
                "TOKEN_SERVICE__SERVICE_DOCUMENTATION",
                "https://docs.example.com/",
            ),
            ("TOKEN_SERVICE__ISSUER", "https://lobby.example.com/ea"),
            ("TOKEN_SERVICE__API_AUDIENCE", "https://api.example.com"),
            (
                "TOKEN_SERVICE__IDENTITY_AUDIENCE",
                "https://identity.example.com",
            ),
            ("TOKEN_SERVICE__LISTEN", "[::]:1"),
            ("TOKEN_SERVICE__INTERNAL_LISTEN", "0.0.0.0:2"),
            ("TOKEN_SERVICE__INTERNAL_HOSTS", "a.example, *.B.example"),
            ("TOKEN_SERVICE__TRUSTED_PROXIES", "10.0.0.0/8,::1"),
            ("TOKEN_SERVICE__REGISTRATIONS", "r.toml"),
            ("TOKEN_SERVICE__ADMIN_TOKEN_FILE", "a"),
            ("TOKEN_SERVICE__ENCRYPTION_KEY_FILE", "e"),
            ("TOKEN_SERVICE__LOG_FORMAT", "json"),
            ("TOKEN_SERVICE__STORE__URL", "redb:s"),
            ("TOKEN_SERVICE__SIGNING__ALGORITHM", "RS256"),
            ("TOKEN_SERVICE__SIGNING__ROTATE_EVERY", "1d"),
            ("TOKEN_SERVICE__SIGNING__ANNOUNCE_FOR", "7m"),
            ("TOKEN_SERVICE__LIMITS__REVOCATIONS_PER_SECOND", "2"),
            ("TOKEN_SERVICE__LIMITS__REVOCATIONS_BURST", "3"),
            ("TOKEN_SERVICE__AUDIT__KEEP_FOR", "30d"),
            ("TOKEN_SERVICE__AUDIT__STANDARD_OUTPUT", "false"),
            ("TOKEN_SERVICE__DRAIN_FOR", "20s"),
            ("TOKEN_SERVICE__OTLP_ENDPOINT", "http://otel:4318"),
            ("TOKEN_SERVICE__LIFETIMES__ACCESS_TOKEN", "2s"),
            ("TOKEN_SERVICE__LIFETIMES__REFRESH_TOKEN", "3s"),
            ("TOKEN_SERVICE__LIFETIMES__AUTHORIZATION_CODE", "4s"),
            ("TOKEN_SERVICE__LIFETIMES__LEGACY_ACCESS_TOKEN", "5s"),
            ("TOKEN_SERVICE__LIFETIMES__REFRESH_REUSE_GRACE", "0s"),
            ("TOKEN_SERVICE__LIFETIMES__SESSION", "6s"),
            ("TOKEN_SERVICE__LIFETIMES__ASSERTION_MAX", "7s"),
            ("TOKEN_SERVICE__LIFETIMES__CLOCK_SKEW", "1m 5s"),
            ("TOKEN_SERVICE__LEGACY_INSTANCES__0__HOSTNAME", "h"),
            (
                "TOKEN_SERVICE__LEGACY_INSTANCES__0__AUTH_SERVER_HOSTNAME",
                "https://a:1",
            ),
            ("TOKEN_SERVICE__LEGACY_INSTANCES__0__ENABLED", "true"),
            ("PATH", "/bin"),
        ];
        let seconds = Duration::from_secs;
        let expected = Config {
            protocol: Settings {
                name: "Building Site Login".into(),
                issuer: "https://lobby.example.com/ea".into(),
                api_audience: "https://api.example.com".into(),
                identity_audience: "https://identity.example.com".into(),
                signing: Signing {
                    algorithm: Algorithm::Rs256,
                    rotate_every: DAY,
                    announce_for: 7 * MINUTE,
                },
                lifetimes: Lifetimes {
                    access_token: seconds(2),
                    refresh_token: seconds(3),
                    authorization_code: seconds(4),
                    legacy_access_token: seconds(5),
                    refresh_reuse_grace: Duration::ZERO,
                    session: seconds(6),
                    session_idle: HOUR,
                    assertion_max: seconds(7),
                    clock_skew: seconds(65),
                },
            },
            service_documentation: Some("https://docs.example.com/".into()),
            listen: "[::]:1".parse().unwrap(),
            internal_listen: "0.0.0.0:2".parse().unwrap(),
            internal_hosts: ["a.example", "*.b.example"]
                .map(|text| HostPattern::parse(text).unwrap())
                .to_vec(),
            trusted_proxies: vec!["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()],
            allow_insecure_http: false,
            registrations: Some("r.toml".into()),
            admin_token_file: "a".into(),
            encryption_key_file: "e".into(),
            store: StoreUrl::Redb("s".into()),
            limits: Limits {
                revocations_per_second: NonZeroU32::new(2).unwrap(),
                revocations_burst: NonZeroU32::new(3).unwrap(),
            },
            audit: Audit {
                keep_for: 30 * DAY,
                standard_output: false,
            },
            drain_for: seconds(20),
            otlp_endpoint: Some("http://otel:4318".into()),
            legacy_instances: vec![LegacyInstance {
                hostname: "h".into(),
                auth_server_hostname: "https://a:1".into(),
                enabled: true,
            }],
            log_format: LogFormat::Json,
        };
        assert_eq!(load(EXAMPLE, &environment), Ok(expected));
    }

    #[test]
    fn every_problem_is_reported_at_once_with_its_place() {
        let text = r#"issuer = "http://127.0.0.1:8081/"
api_audience = "with space"
identity_audience = 5
listen = "localhost:80"
trusted_proxies = ["127.0.0.1/33"]
registration = "r.toml"
allow_insecure_http = "true"
log_format = "xml"
[store]
url = "mysql://a:secret@db/tokens"
[signing]
algorithm = "HS256"
rotate_every = "1s"
[lifetimes]
access_token = "0s"
refresh_token = "7 fortnights"
authorization_code = "11m"
refresh_reuse_grace = "1500ms"
assertions_max = "1h"
[[legacy_instances]]
hostname = "A/b"
[[legacy_instances]]
hostname = "x.example"
auth_server_hostname = "y.example"
[[legacy_instances]]
hostname = "x.example"
auth_server_hostname = "z.example"
[other]
"#;
        let environment = [("TOKEN_SERVICE__LIFETIMES__SESSIONS", "1h")];
        assert_eq!(
            load(text, &environment).unwrap_err(),
            [
                "config.toml:1: issuer: must not end with a slash",
                "config.toml:2: api_audience: must be printable ASCII without spaces",
                "config.toml:3: identity_audience: expected a string, found an integer",
                "config.toml:4: listen: expected an address and a port, such as 127.0.0.1:9080 or [::]:9080",
                "config.toml:5: trusted_proxies: 127.0.0.1/33 is neither an address nor a network such as 10.0.0.0/8",
                "config.toml:6: registration: unknown key; did you mean registrations?",
                "config.toml:7: allow_insecure_http: expected true or false, found a string",
                "config.toml:8: log_format: expected text or json",
                "config.toml:10: url: expected redb:PATH or postgres://USER:PASSWORD@HOST/DATABASE",
                "config.toml:12: algorithm: expected one of EdDSA, ES256, RS256",
                "config.toml:13: rotate_every: must be from 1h to 365d",
                "config.toml:15: access_token: must be from 1s to 1d",
                "config.toml:16: refresh_token: 7 fortnights is not a duration such as 60s, 10m, 1h or 7d",
                "config.toml:17: authorization_code: must be from 1s to 10m",
                "config.toml:18: refresh_reuse_grace: must be whole seconds",
                "config.toml:19: assertions_max: unknown key; did you mean assertion_max?",
                "config.toml:20: auth_server_hostname is missing",
                "config.toml:21: hostname: expected a host name in lower case, with its port if it has one",
                "config.toml:26: hostname: x.example is listed twice",
                "config.toml:28: other: unknown key",
                "TOKEN_SERVICE__LIFETIMES__SESSIONS: unknown setting; did you mean TOKEN_SERVICE__LIFETIMES__SESSION?",
            ]
        );
    }

    #[test]
    fn networks_of_clients_are_no_trusted_proxies() {
        for wide in ["0.0.0.0/0", "128.0.0.0/1", "::/0", "2000::/3"] {
            let problems = load(&format!("trusted_proxies = [\"{wide}\"]"), &[]).unwrap_err();
            let expected = format!(
                "config.toml:1: trusted_proxies: {wide} covers addresses of clients, who could then claim any \
                 address; name the addresses of your gateways"
            );
            assert_eq!(problems, [expected]);
        }
        for private in ["10.0.0.0/8", "fc00::/7", "192.168.1.0/24", "::1"] {
            load(&format!("trusted_proxies = [\"{private}\"]"), &[]).unwrap();
        }
    }

    #[test]
    fn a_missing_file_is_one_problem() {
        let problems = load_from(Some(Path::new("/nowhere/config.toml")), &[]).unwrap_err();
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("/nowhere/config.toml: cannot be read: "));
    }

    /// RFC 8414 §2; clients compare the issuer as text.
    #[test]
    fn an_issuer_has_one_form() {
        for text in [
            "https://lobby.example.com",
            "https://lobby.example.com:8443",
            "https://example.com/tenant/a",
            "http://127.0.0.1:8081",
            "http://[::1]:8081",
        ] {
            assert_eq!(issuer(text).as_deref(), Ok(text));
        }
        for text in [
            "https://lobby.example.com/",
            "https://lobby.example.com/a/",
            "https://lobby.example.com?x",
            "https://lobby.example.com#x",
            "https://user@lobby.example.com",
            "https://LOBBY.example.com",
            "https://lobby.example.com:443",
            "https://lobby.example.com/a/../b",
            "ftp://lobby.example.com",
            "lobby.example.com",
            "https://",
            " https://lobby.example.com",
        ] {
            assert!(issuer(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_limit_is_a_positive_number() {
        let text = "[limits]\nrevocations_per_second = 0\nrevocations_burst = '3'\n";
        assert_eq!(
            load(text, &[]).unwrap_err(),
            [
                "config.toml:2: revocations_per_second: must be a whole number from 1 to 4294967295",
                "config.toml:3: revocations_burst: expected an integer, found a string",
            ]
        );
    }

    #[test]
    fn audiences_differ() {
        let text = "issuer = 'https://a.example'\napi_audience = 'https://a.example'\n\
                    identity_audience = 'https://a.example'\n";
        assert_eq!(
            load(text, &[]).unwrap_err(),
            [
                "config.toml:2: api_audience: must differ from issuer",
                "config.toml:3: identity_audience: must differ from api_audience",
                "config.toml:3: identity_audience: must differ from issuer",
            ]
        );
    }

    #[test]
    fn the_listeners_differ_unless_the_system_chooses_their_ports() {
        let text = "listen = '127.0.0.1:9081'";
        assert_eq!(load(text, &[]).unwrap_err().len(), 1);
        assert!(
            load(
                "listen = '127.0.0.1:0'\ninternal_listen = '127.0.0.1:0'",
                &[]
            )
            .is_ok()
        );
    }

    /// Plain http and development defaults stay on this machine unless they are forced.
    #[test]
    fn the_store_is_a_file_or_a_database_whose_url_may_be_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config.toml");
        let url = "postgres://service:secret@db.example.com/tokens";
        std::fs::write(folder.path().join("url"), format!("{url}\n")).unwrap();
        let load = |store: &str| {
            std::fs::write(&config, format!("[store]\n{store}\n")).unwrap();
            load_from(Some(&config), &[])
        };
        let expected = StoreUrl::Postgres(Box::new(PostgresSettings {
            url: PostgresUrl::parse(url).unwrap(),
            ca_file: Some(folder.path().join("ca.pem")),
        }));
        for store in [&format!("url = \"{url}\""), "url_file = \"url\""] {
            let config = load(&format!("{store}\nca_file = \"ca.pem\"")).unwrap();
            assert_eq!(config.store, expected);
        }
        let problems = load("url = \"redb:x\"\nurl_file = \"url\"")
            .unwrap_err()
            .join("\n");
        assert!(problems.contains("either url or url_file"), "{problems}");
        let path = folder.path().join("config.toml");
        std::fs::write(&path, "[store]\nurl = \"redb:x\"").unwrap();
        let file = folder.path().join("url").display().to_string();
        let variable = ("TOKEN_SERVICE__STORE__URL_FILE", file.as_str());
        let store = load_from(Some(&path), &[variable]).unwrap().store;
        assert!(matches!(store, StoreUrl::Postgres(_)), "{store:?}");
        std::fs::write(&path, "[store]\nurl_file = \"url\"").unwrap();
        let variable = ("TOKEN_SERVICE__STORE__URL", "redb:x");
        let store = load_from(Some(&path), &[variable]).unwrap().store;
        assert_eq!(store, StoreUrl::Redb("x".into()));
        let problems = load("url_file = \"missing\"").unwrap_err().join("\n");
        assert!(problems.contains("url_file: missing: "), "{problems}");
    }

    #[test]
    fn insecure_http_beyond_loopback_must_be_asked_for() {
        let places = |file: Option<&str>, environment: &[(&str, &str)]| -> Vec<String> {
            let result = match file {
                Some(text) => load(text, environment),
                None => load_from(None, environment),
            };
            let problems = result.err().unwrap_or_default().into_iter();
            problems
                .map(|problem| problem.split(": ").next().unwrap().to_owned())
                .collect()
        };
        let listen = ("TOKEN_SERVICE__LISTEN", "0.0.0.0:9080");
        let internal = ("TOKEN_SERVICE__INTERNAL_LISTEN", "0.0.0.0:9081");
        let forced = ("TOKEN_SERVICE__ALLOW_INSECURE_HTTP", "true");
        let https = "issuer = 'https://lobby.example.com'";
        let http = "issuer = 'http://lobby.example.com'";

        assert_eq!(places(Some(http), &[]), ["config.toml:1"]);
        assert_eq!(places(Some(http), &[forced]), [""; 0]);
        assert_eq!(places(Some(https), &[listen, internal]), [""; 0]);
        assert_eq!(places(Some(""), &[listen]), ["TOKEN_SERVICE__LISTEN"]);
        assert_eq!(places(Some(""), &[listen, internal, forced]), [""; 0]);
        let secure_issuer = ("TOKEN_SERVICE__ISSUER", "https://lobby.example.com");
        assert_eq!(
            places(None, &[secure_issuer, listen, internal]),
            ["TOKEN_SERVICE__INTERNAL_LISTEN", "TOKEN_SERVICE__LISTEN"]
        );
        assert_eq!(places(None, &[secure_issuer, listen, forced]), [""; 0]);
        assert_eq!(places(Some("issuer = 'http://localhost:1'"), &[]), [""; 0]);
    }
}
