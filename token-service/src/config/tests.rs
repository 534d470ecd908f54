//! The configuration as a whole.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use actix_web::http::header::HeaderName;
use claims::Algorithm;
use domain::SecondFactorRules;
use protocol::lifetimes::Lifetimes;
use protocol::settings::{Dpop, NoncePolicy, Signing, SingleUse};

use super::duration::{HOUR, MINUTE};
use super::mail::Login;
use super::*;
use crate::branding::Accent;
use secrets::password_rules::Lengths;

pub(super) fn load(text: &str, environment: &[(&str, &str)]) -> Result<Config, Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    std::fs::write(&path, text).unwrap();
    load_from(Some(&path), environment).map_err(|problems| {
        let folder = format!("{}/", folder.path().display());
        let lines = problems.into_iter();
        lines.map(|line| line.replace(&folder, "")).collect()
    })
}

pub(super) fn load_from(
    file: Option<&Path>,
    environment: &[(&str, &str)],
) -> Result<Config, Vec<String>> {
    let environment = environment
        .iter()
        .map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let config = Config::load(file, environment)
        .map_err(|error| error.to_string().lines().map(str::to_owned).collect());
    config.map(|mut config: Config| {
        for instance in &mut config.legacy_instances {
            let managed = instance.managed.take().unwrap();
            assert_eq!(managed.disables, !instance.enabled);
        }
        config
    })
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
refresh_reuse_grace = "60s"
session = "8h"
assertion_max = "24h"
clock_skew = "30s"

[[legacy_instances]]
hostname = "us1.legacy.example"
auth_server_hostname = "sso-us1.legacy.example"
enabled = false
"#;

#[test]
fn without_a_file_the_development_defaults_hold() {
    let in_folder = |folder: &Path| Config {
        admin_token_file: folder.join("data/admin-token"),
        encryption_key_file: folder.join("data/encryption-key"),
        store: StoreUrl::Redb(folder.join("data/token-service.redb")),
        ..Config::default()
    };
    let current = std::env::current_dir().unwrap();
    assert_eq!(load_from(None, &[]), Ok(in_folder(&current)));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    std::fs::write(&path, "").unwrap();
    assert_eq!(load_from(Some(&path), &[]), Ok(in_folder(folder.path())));
}

#[test]
fn key_files_that_a_group_may_read_are_warned_of_outside_containers() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    std::fs::write(&path, "").unwrap();
    let config = load_from(Some(&path), &[]).unwrap();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    for (key, file) in [
        ("encryption_key_file", &config.encryption_key_file),
        ("admin_token_file", &config.admin_token_file),
    ] {
        std::fs::write(file, "").unwrap();
        let set = |mode| std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode));
        set(0o640).unwrap();
        let path = file.display();
        let warning = format!(
            "{key} {path} may be read by everybody in its group (mode 640): chmod 600 {path}"
        );
        assert_eq!(config.warnings(false), [warning]);
        assert_eq!(config.warnings(true), [""; 0]);
        set(0o600).unwrap();
        assert_eq!(config.warnings(false), [""; 0]);
    }
}

/// A variable's path starts at the current folder, whatever file there is.
#[test]
fn every_path_is_absolute() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    std::fs::write(&path, "registrations = 'r.toml'").unwrap();
    let variable = ("TOKEN_SERVICE__ADMIN_TOKEN_FILE", "tokens");
    let config = load_from(Some(&path), &[variable]).unwrap();
    let current = std::env::current_dir().unwrap();
    assert_eq!(config.admin_token_file, current.join("tokens"));
    assert_eq!(config.registrations, Some(folder.path().join("r.toml")));
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
            managed: None,
        }],
        ..Config::default()
    };
    assert_eq!(load_from(Some(&path), &[]), Ok(expected));
}

/// The values in the demo's configuration, including the defaults after `# `, are the defaults.
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
        managed: None,
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
        let read = load_from(Some(&path), &[]).map(|read| Config {
            // Words of the demo, which people see on its pages.
            site_labels: BTreeMap::new(),
            scopes: ScopeTexts::default(),
            ..read
        });
        (read, Ok(expected))
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
        ("TOKEN_SERVICE__ISSUER", "https://lobby-ea.example.com"),
        ("TOKEN_SERVICE__API_AUDIENCE", "https://api.example.com"),
        (
            "TOKEN_SERVICE__IDENTITY_AUDIENCE",
            "https://identity.example.com",
        ),
        (
            "TOKEN_SERVICE__SITE_LABELS__HTTPS://US1.EXAMPLE.COM",
            "Austin",
        ),
        ("TOKEN_SERVICE__BRANDING__ACCENT", "#006400"),
        ("TOKEN_SERVICE__SIGN_IN_PAGE__OFFER", "providers_first"),
        (
            "TOKEN_SERVICE__BRANDING__HELP_URL",
            "mailto:help@example.com",
        ),
        ("TOKEN_SERVICE__LISTEN", "[::]:1"),
        ("TOKEN_SERVICE__INTERNAL_LISTEN", "0.0.0.0:2"),
        ("TOKEN_SERVICE__MUTUAL_TLS__LISTEN", "127.0.0.1:3"),
        (
            "TOKEN_SERVICE__MUTUAL_TLS__URL",
            "https://mtls.lobby.example.com",
        ),
        ("TOKEN_SERVICE__MUTUAL_TLS__GATEWAYS", "10.1.2.3, fd00::/64"),
        (
            "TOKEN_SERVICE__MUTUAL_TLS__CERTIFICATE_HEADER",
            "X-Client-Cert",
        ),
        ("TOKEN_SERVICE__INTERNAL_HOSTS", "a.example, *.B.example"),
        ("TOKEN_SERVICE__TRUSTED_PROXIES", "10.0.0.0/8,::1"),
        ("TOKEN_SERVICE__REGISTRATIONS", "r.toml"),
        ("TOKEN_SERVICE__ADMIN_TOKEN_FILE", "a"),
        ("TOKEN_SERVICE__ENCRYPTION_KEY_FILE", "e"),
        ("TOKEN_SERVICE__LOG_FORMAT", "json"),
        ("TOKEN_SERVICE__SECOND_FACTOR", "required"),
        (
            "TOKEN_SERVICE__ORGANIZATIONS__CONTOSO__SECOND_FACTOR",
            "required",
        ),
        ("TOKEN_SERVICE__STORE__URL", "redb:s"),
        ("TOKEN_SERVICE__SIGNING__ALGORITHM", "RS256"),
        ("TOKEN_SERVICE__SIGNING__ROTATE_EVERY", "1d"),
        ("TOKEN_SERVICE__SIGNING__ANNOUNCE_FOR", "7m"),
        ("TOKEN_SERVICE__PASSWORDS__MIN_LENGTH", "12"),
        (
            "TOKEN_SERVICE__PASSWORDS__MIN_LENGTH_WITH_SECOND_FACTOR",
            "9",
        ),
        ("TOKEN_SERVICE__MAIL__HOST", "smtp.example.com"),
        ("TOKEN_SERVICE__MAIL__PORT", "2465"),
        ("TOKEN_SERVICE__MAIL__TLS", "implicit"),
        ("TOKEN_SERVICE__MAIL__CA_FILE", "c"),
        ("TOKEN_SERVICE__MAIL__USERNAME", "u"),
        ("TOKEN_SERVICE__MAIL__PASSWORD_FILE", "p"),
        ("TOKEN_SERVICE__MAIL__SENDER", "g@example.com"),
        ("TOKEN_SERVICE__MAIL__LINK_LIFETIME", "10m"),
        ("TOKEN_SERVICE__MAIL__TIMEOUT", "8s"),
        ("TOKEN_SERVICE__DPOP__NONCE", "required"),
        ("TOKEN_SERVICE__DPOP__SINGLE_USE", "store"),
        ("TOKEN_SERVICE__LIMITS__REVOCATIONS_PER_SECOND", "2"),
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
        ("TOKEN_SERVICE__LEGACY_USER_ID_MAX", "10"),
        ("TOKEN_SERVICE__LEGACY_HOSTNAME_MAX", "18"),
        ("TOKEN_SERVICE__LEGACY_INSTANCES__0__HOSTNAME", "h"),
        (
            "TOKEN_SERVICE__LEGACY_INSTANCES__0__AUTH_SERVER_HOSTNAME",
            "https://a:1",
        ),
        ("TOKEN_SERVICE__LEGACY_INSTANCES__0__ENABLED", "true"),
        ("PATH", "/bin"),
    ];
    let seconds = Duration::from_secs;
    let current = std::env::current_dir().unwrap();
    let expected = Config {
        protocol: Settings {
            name: "Building Site Login".into(),
            issuer: "https://lobby-ea.example.com".into(),
            api_audience: "https://api.example.com".into(),
            identity_audience: "https://identity.example.com".into(),
            legacy_user_id_max: 10,
            legacy_hostname_max: 18,
            signing: Signing {
                algorithm: Algorithm::Rs256,
                rotate_every: DAY,
                announce_for: 7 * MINUTE,
            },
            dpop: Dpop {
                nonce: NoncePolicy::Required,
                single_use: SingleUse::Store,
            },
            lifetimes: Lifetimes {
                access_token: seconds(2),
                refresh_token: seconds(3),
                authorization_code: seconds(4),
                legacy_access_token: seconds(5),
                refresh_reuse_grace: Duration::ZERO,
                session: seconds(6),
                session_idle: HOUR,
                recent_sign_in: 10 * MINUTE,
                assertion_max: seconds(7),
                clock_skew: seconds(65),
            },
            identity_providers: Arc::default(),
            second_factor: Arc::new(SecondFactorRules {
                everybody: true,
                organizations: [("contoso".to_owned(), true)].into(),
            }),
        },
        service_documentation: Some("https://docs.example.com/".into()),
        listen: "[::]:1".parse().unwrap(),
        internal_listen: "0.0.0.0:2".parse().unwrap(),
        mutual_tls: Some(MutualTls {
            listen: "127.0.0.1:3".parse().unwrap(),
            url: "https://mtls.lobby.example.com".into(),
            gateways: vec!["10.1.2.3/32".parse().unwrap(), "fd00::/64".parse().unwrap()],
            certificate_header: HeaderName::from_static("x-client-cert"),
        }),
        internal_hosts: ["a.example", "*.b.example"]
            .map(|text| HostPattern::parse(text).unwrap())
            .to_vec(),
        trusted_proxies: vec!["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()],
        allow_insecure_http: false,
        registrations: Some(current.join("r.toml")),
        admin_token_file: current.join("a"),
        encryption_key_file: current.join("e"),
        store: StoreUrl::Redb(current.join("s")),
        store_url_file: None,
        branding: Branding {
            help_url: Some("mailto:help@example.com".into()),
            ..Branding::with_accent(Accent::parse("#006400").ok())
        },
        scopes: ScopeTexts::default(),
        sign_in_page: SignInForms {
            all: SignInForm::ProvidersFirst,
            ..SignInForms::default()
        },
        site_labels: [("https://us1.example.com".into(), "Austin".into())].into(),
        revocations_per_second: NonZeroU32::new(2).unwrap(),
        passwords: Lengths {
            alone: 12,
            with_second_factor: 9,
        },
        mail: Some(Mail {
            host: "smtp.example.com".into(),
            port: 2465,
            tls: MailTls::Implicit,
            ca_file: Some(current.join("c")),
            login: Some(Login {
                username: "u".into(),
                password_file: current.join("p"),
            }),
            sender: "g@example.com".parse().unwrap(),
            link_lifetime: 10 * MINUTE,
            timeout: seconds(8),
        }),
        identity_providers: Vec::new(),
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
            managed: None,
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
            "config.toml:26: hostname: x.example is already at config.toml:23",
            "config.toml:28: other: unknown key",
            "TOKEN_SERVICE__LIFETIMES__SESSIONS: unknown setting; did you mean TOKEN_SERVICE__LIFETIMES__SESSION?",
        ]
    );
}

#[test]
fn a_missing_file_is_one_problem() {
    let problems = load_from(Some(Path::new("/nowhere/config.toml")), &[]).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].starts_with("/nowhere/config.toml: cannot be read: "));
}

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
        let warnings = load_from(None, &environment).unwrap().warnings(true);
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

/// protocol.md §2.5.
#[test]
fn an_instance_without_room_in_a_legacy_token_is_a_problem() {
    let text = |host: &str, audience: &str| {
        format!(
            "api_audience = 'https://{audience}.example'\n[[legacy_instances]]\nhostname = '{host}'\n\
             auth_server_hostname = 'sso.example'\n"
        )
    };
    let problems = |host: &str, audience: &str| load(&text(host, audience), &[]).unwrap_err();
    let host = "h".repeat(25);
    assert_eq!(
        problems(&host, "api"),
        [format!(
            "config.toml: legacy_instances: hostname {host} has 25 characters; legacy_hostname_max is 24"
        )]
    );
    let problems = problems("us1.example", &"a".repeat(30));
    assert!(problems[0].contains("no client_id fits"), "{problems:?}");
}

#[test]
fn instances_that_differ_in_the_port_alone_are_refused() {
    let text = "[[legacy_instances]]\nhostname = 'a.example'\nauth_server_hostname = 'b.example'\n\
                [[legacy_instances]]\nhostname = 'a.example:8443'\nauth_server_hostname = 'b.example'";
    let problem = "config.toml:5: hostname: a.example:8443 differs from the instance a.example only in the port";
    assert_eq!(load(text, &[]).unwrap_err(), [problem]);
}

#[test]
fn common_mistakes_say_what_to_write() {
    for (text, problem) in [
        (
            "[lifetimes]\naccess_token = 3600",
            "config.toml:2: access_token: expected a duration in quotes, such as \"60s\", \"10m\", \"1h\" or \"7d\"; write \
             \"3600s\" for 3600 seconds",
        ),
        (
            "[store]\nurl = 'redb:x'\nissuer = 'https://a.example'",
            "config.toml:3: issuer: unknown key of [store]; keys that belong to no table stand above the first table",
        ),
        (
            "issuer = 'lobby.example.com'",
            "config.toml:1: issuer: has no scheme: write https://lobby.example.com",
        ),
    ] {
        assert_eq!(load(text, &[]).unwrap_err(), [problem]);
    }
}

#[test]
fn a_file_with_the_url_of_the_store_that_others_may_read_is_warned_of() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let (path, url) = (folder.path().join("config.toml"), folder.path().join("url"));
    std::fs::write(&path, "[store]\nurl_file = 'url'").unwrap();
    std::fs::write(&url, "postgres://service:secret@127.0.0.1/tokens").unwrap();
    let config = load_from(Some(&path), &[]).unwrap();
    for (mode, outside, inside) in [(0o600, 0, 0), (0o640, 1, 0), (0o644, 1, 0)] {
        std::fs::set_permissions(&url, std::fs::Permissions::from_mode(mode)).unwrap();
        let warnings = config.warnings(false);
        assert_eq!(warnings.len(), outside, "{warnings:?}");
        assert!(
            warnings
                .iter()
                .all(|warning| warning.starts_with("store.url_file "))
        );
        assert_eq!(config.warnings(true).len(), inside);
    }
}
