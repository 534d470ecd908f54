//! Reads the configuration: the file, then the environment, which overrides the file. Reports all problems together.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use document::internal_host::HostPattern;
use document::{InvalidDocument, Located, Place, Problem, Problems, Section, Table};
use protocol::flow::TokenName;
use protocol::flows;
use protocol::settings::Settings;
use registry::objects::read_legacy_instances;
use url::Url;

use super::duration::{MINUTE, duration};
use super::paths::{absolute, default_path};
use super::{
    Config, LogFormat, audit, branding, dpop, identity_providers, issuer, lifetimes, listen, mail,
    mutual_tls, passwords, scopes, second_factor, sign_in_page, signing, site_labels, store,
    trusted_proxies,
};

/// Every key can also be set by a variable: `TOKEN_SERVICE__LIFETIMES__SESSION` is `lifetimes.session`.
const VARIABLE_PREFIX: &str = "TOKEN_SERVICE__";

impl Config {
    /// Reads the configuration from `file`, or uses the development defaults without a file. Variables of `environment`
    /// override both.
    ///
    /// # Errors
    /// [`InvalidDocument`] with every problem, unknown keys and variables included.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, InvalidDocument> {
        let problems = Problems::default();
        let table = table(file, environment, &problems);
        let config = read(Section::root(table, &problems), file);
        problems.none_or(config)
    }

    /// The format of the log, even if the configuration has problems: they are reported in this format.
    pub fn log_format_of(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> LogFormat {
        let problems = Problems::default();
        let table = table(file, environment, &problems);
        let format = Section::root(table, &problems).parsed("log_format", log_format);
        format.map_or_else(|| Self::default().log_format, |format| format.value)
    }

    /// True if the configuration has the key in capitals, outside of all tables.
    pub fn is_key(capitals: &str) -> bool {
        let variable = format!("{VARIABLE_PREFIX}{capitals}");
        let without = Self::load(None, [(variable.into(), OsString::from("?"))]);
        let unknown = |problem: &Problem| problem.to_string().contains(": unknown ");
        !without.is_err_and(|invalid| invalid.problems.iter().any(unknown))
    }

    /// The registrations file that `file` or the variables of `environment` name, even if the configuration has problems.
    pub fn registrations_of(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Option<PathBuf> {
        let problems = Problems::default();
        let table = table(file, environment, &problems);
        let registrations = Section::root(table, &problems).path("registrations");
        registrations.map(absolute)
    }
}

/// The values of `file`, overridden by the variables of `environment`.
fn table(
    file: Option<&Path>,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    problems: &Problems,
) -> Table {
    let mut table = match file {
        Some(path) => Table::read(path, problems),
        None => Table::empty(Place::Default),
    };
    table.overlay(VARIABLE_PREFIX, environment, problems);
    table
}

fn read(mut root: Section<'_>, file: Option<&Path>) -> Config {
    let defaults = Config::default();
    let issuer = or_default(
        root.parsed("issuer", issuer::parse),
        defaults.protocol.issuer,
    );
    let api_audience = or_default(
        root.parsed("api_audience", issuer::parse_audience),
        defaults.protocol.api_audience,
    );
    let identity_audience = or_default(
        root.parsed("identity_audience", issuer::parse_audience),
        defaults.protocol.identity_audience,
    );
    let listen = or_default(root.parsed("listen", listen::parse), defaults.listen);
    let internal_listen = or_default(
        root.parsed("internal_listen", listen::parse),
        defaults.internal_listen,
    );
    let allow_insecure_http = root
        .flag("allow_insecure_http")
        .map_or(defaults.allow_insecure_http, |flag| flag.value);

    issuer::check_audiences(&root, &issuer, &api_audience, &identity_audience);
    let (mutual_tls, mutual_tls_listen) = mutual_tls::read(&mut root, &issuer).unzip();
    let mut listeners = vec![("listen", &listen), ("internal_listen", &internal_listen)];
    listeners.extend(
        mutual_tls_listen
            .as_ref()
            .map(|listen| (mutual_tls::LISTEN, listen)),
    );
    listen::check_listeners(&root, &listeners);
    if !allow_insecure_http {
        listen::check_insecure_http(&root, &issuer, &listeners, file.is_none());
    }

    let store = store::read(root.section("store"), file);
    let (store, store_url_file) = store.unwrap_or((defaults.store, None));
    let mail = mail::read(&mut root, allow_insecure_http);
    let (settings, connections): (Vec<_>, Vec<_>) =
        identity_providers::read(&mut root, &issuer.value, allow_insecure_http)
            .into_iter()
            .unzip();
    let bound = |number: Located<_>| u8::try_from(number.value).unwrap_or(u8::MAX);
    let config = Config {
        protocol: Settings {
            name: root
                .parsed("name", name)
                .map_or(defaults.protocol.name, |name| name.value),
            issuer: issuer.value,
            api_audience: api_audience.value,
            identity_audience: identity_audience.value,
            legacy_user_id_max: root
                .number("legacy_user_id_max", 1..=255)
                .map_or(defaults.protocol.legacy_user_id_max, bound),
            legacy_hostname_max: root
                .number("legacy_hostname_max", 1..=255)
                .map_or(defaults.protocol.legacy_hostname_max, bound),
            signing: signing::read(root.section("signing"), defaults.protocol.signing),
            dpop: dpop::read(root.section("dpop"), defaults.protocol.dpop),
            lifetimes: lifetimes::read(root.section("lifetimes"), defaults.protocol.lifetimes),
            second_factor: Arc::new(second_factor::read(&mut root)),
            identity_providers: settings.into(),
        },
        service_documentation: root
            .parsed("service_documentation", service_documentation)
            .map(|address| address.value),
        mutual_tls,
        internal_hosts: internal_hosts(&mut root).unwrap_or(defaults.internal_hosts),
        trusted_proxies: trusted_proxies::read(&mut root).unwrap_or(defaults.trusted_proxies),
        registrations: root.path("registrations").map(absolute),
        admin_token_file: path(
            &mut root,
            "admin_token_file",
            &defaults.admin_token_file,
            file,
        ),
        encryption_key_file: path(
            &mut root,
            "encryption_key_file",
            &defaults.encryption_key_file,
            file,
        ),
        store,
        store_url_file,
        legacy_instances: read_legacy_instances(&mut root),
        branding: branding::read(root.section("branding")),
        sign_in_page: sign_in_page::read(root.section("sign_in_page")),
        site_labels: site_labels::read(root.section("site_labels")),
        scopes: scopes::read(root.section("scopes")),
        revocations_per_second: revocations_per_second(root.section("limits"))
            .unwrap_or(defaults.revocations_per_second),
        passwords: passwords::read(root.section("passwords"), defaults.passwords),
        mail,
        identity_providers: connections,
        audit: audit::read(root.section("audit"), defaults.audit),
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
    let place = file.map_or(Place::Default, Place::file);
    for instance in &config.legacy_instances {
        if let Some(reason) =
            flows::misfit(TokenName::Hostname(&instance.hostname), &config.protocol)
        {
            root.report(&place, format!("legacy_instances: {reason}"));
        }
    }
    root.finish();
    config
}

fn path(root: &mut Section<'_>, key: &'static str, default: &Path, file: Option<&Path>) -> PathBuf {
    match root.path(key) {
        Some(path) => absolute(path),
        None => default_path(default, file),
    }
}

fn or_default<T>(read: Option<Located<T>>, default: T) -> Located<T> {
    read.unwrap_or_else(|| Located::default_value(default))
}

/// Reads the name of the service. The name must not contain a colon, because authenticator apps separate issuer and
/// account by a colon.
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

fn revocations_per_second(mut limits: Section<'_>) -> Option<NonZeroU32> {
    let number = limits.positive("revocations_per_second");
    limits.finish();
    number.map(|number| number.value)
}

fn service_documentation(text: &str) -> Result<String, &'static str> {
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "https" | "http") && url.host().is_some() => {
            Ok(text.to_owned())
        }
        _ => Err("expected an https or http URL"),
    }
}

fn otlp_endpoint(text: &str) -> Result<String, &'static str> {
    const EXPECTED: &str = "expected an http URL without a query, such as http://127.0.0.1:4318";
    let url = Url::parse(text).map_err(|_| EXPECTED)?;
    let is_address = url.query().is_none() && url.fragment().is_none();
    if url.scheme() == "http" && url.host().is_some() && is_address {
        Ok(text.to_owned())
    } else {
        Err(EXPECTED)
    }
}

fn log_format(text: &str) -> Result<LogFormat, &'static str> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("expected text or json"),
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
