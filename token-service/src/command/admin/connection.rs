//! The connection of commands to the running service.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::builder::NonEmptyStringValueParser;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::http::{Method, Request, StatusCode, header};
use zeroize::Zeroizing;

use crate::admin_tokens;
use crate::command::{ConfigFile, output};
use crate::http::paths;

/// Time limit for a response. It is long because the service hashes the passwords of a large registrations file before
/// it responds.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Maximum size of a response, in bytes.
const MAX_ANSWER: u64 = 256 * 1024 * 1024;

/// How to reach the running service.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Connection {
    #[command(flatten)]
    config: ConfigFile,
    /// URL of the service's internal listener. Default: the one in the configuration.
    #[arg(long, value_name = "URL", env = "TOKEN_SERVICE_ADMIN_URL", value_parser = NonEmptyStringValueParser::new())]
    url: Option<String>,
    /// File with the admin token. Default: the one in the configuration.
    #[arg(long, value_name = "FILE", env = "TOKEN_SERVICE_ADMIN_TOKEN_FILE")]
    admin_token_file: Option<PathBuf>,
    /// Print the service's answer as JSON.
    #[arg(long)]
    json: bool,
}

impl Connection {
    pub(super) fn open(&self) -> anyhow::Result<Administration> {
        let (url, token_file) = match (&self.url, &self.admin_token_file) {
            (Some(url), Some(file)) => (url.clone(), file.clone()),
            (url, file) => {
                let config = self.config.load()?;
                let address = reachable(config.internal_listen);
                (
                    url.clone().unwrap_or_else(|| format!("http://{address}")),
                    file.clone().unwrap_or(config.admin_token_file),
                )
            }
        };
        // Without a configuration, the command looks for the token and the address of the development defaults.
        let has_config = self.config.path().is_some();
        let hint = (!has_config && (self.url.is_none() || self.admin_token_file.is_none()))
            .then_some(NO_CONFIG);
        let (presented, problems) =
            admin_tokens::newest(&token_file).map_err(|error| match hint {
                Some(hint) => anyhow::anyhow!("{error}; {hint}"),
                None => error.into(),
            })?;
        for problem in problems {
            eprintln!("warning: the service refuses {problem}");
        }
        let presented =
            presented.with_context(|| format!("{} holds no admin token", token_file.display()))?;
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(TIMEOUT))
            // Ignores proxies from the environment: a proxy must not receive the admin token.
            .proxy(None)
            .build()
            .into();
        Ok(Administration {
            hint,
            agent,
            url: url.trim_end_matches('/').to_owned(),
            authorization: Zeroizing::new(format!("Bearer {}", *presented)),
            json: self.json,
        })
    }
}

/// Replaces an unspecified listener address by loopback.
pub(in crate::command) fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

#[derive(Debug, thiserror::Error)]
#[error("no token service answers at {url}: {error}{}", .hint.map_or(String::new(), |hint| format!("; {hint}")))]
pub(in crate::command) struct Unreachable {
    url: String,
    error: ureq::Error,
    hint: Option<&'static str>,
}

/// How the service begins the refusal of an object that it does not have.
const NONE: &str = "there is no ";

const PUBLIC: &str = "is the public address of the service, which has no administration: --url (or TOKEN_SERVICE_ADMIN_URL) names the \
    internal listener, internal_listen in the configuration, such as http://127.0.0.1:9081";

const NO_CONFIG: &str = "without --config FILE (or TOKEN_SERVICE_CONFIG), the development defaults apply: name the service's configuration";

/// An open connection to the service.
pub(super) struct Administration {
    /// What to add if the service cannot be reached.
    hint: Option<&'static str>,
    agent: ureq::Agent,
    url: String,
    authorization: Zeroizing<String>,
    json: bool,
}

impl Administration {
    pub(super) fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<Answer<T>> {
        self.call(Method::GET, path, None, &[])
    }

    pub(super) fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<Answer<T>> {
        let body = Zeroizing::new(serde_json::to_vec(body)?);
        self.call(method, path, Some("application/json"), &body)
    }

    pub(super) fn send_bytes<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &[u8],
    ) -> anyhow::Result<Answer<T>> {
        self.call(method, path, Some("application/octet-stream"), body)
    }

    /// Prints a value assembled from several responses: as JSON if requested, otherwise as formatted by `text`.
    pub(super) fn print<T: Serialize>(
        &self,
        value: &T,
        text: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        if self.json {
            output::json(value)
        } else {
            output::line(text(value))
        }
    }

    pub(super) fn delete(&self, path: &str) -> anyhow::Result<()> {
        self.raw(Method::DELETE, path, None, &[]).map(drop)
    }

    pub(super) fn act<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
    ) -> anyhow::Result<Answer<T>> {
        self.call(method, path, None, &[])
    }

    /// The response body of a `GET`, as a stream.
    pub(super) fn download(&self, path: &str) -> anyhow::Result<ureq::Body> {
        self.raw(Method::GET, path, None, &[])
    }

    fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&str>,
        body: &[u8],
    ) -> anyhow::Result<Answer<T>> {
        let mut answer = self.raw(method, path, content_type, body)?;
        let text = answer
            .with_config()
            .limit(MAX_ANSWER)
            .read_to_string()
            .context("the service's answer")?;
        let raw: Value = serde_json::from_str(&text).context("the service's answer")?;
        let value = serde_json::from_value(raw.clone()).context(
            "cannot read the response; the service may have another version than this command",
        )?;
        Ok(Answer {
            value,
            raw,
            json: self.json,
        })
    }

    fn raw(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&str>,
        body: &[u8],
    ) -> anyhow::Result<ureq::Body> {
        let url = format!("{}{}{path}", self.url, paths::ADMIN);
        let mut request = Request::builder()
            .method(method)
            .uri(&url)
            .header(header::AUTHORIZATION, self.authorization.as_str());
        if let Some(content_type) = content_type {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let response = self
            .agent
            .run(request.body(body)?)
            .map_err(|error| Unreachable {
                url: self.url.clone(),
                error,
                hint: self.hint,
            })?;
        let status = response.status();
        let mut body = response.into_body();
        if status.is_success() {
            return Ok(body);
        }
        let text = body.read_to_string().unwrap_or_default();
        let refusal = refusal(status.as_u16(), &text);
        let elsewhere = status.is_redirection()
            || status == StatusCode::NOT_FOUND
                && !refusal.0.iter().any(|line| line.starts_with(NONE));
        anyhow::ensure!(!elsewhere || !self.is_public(), "{} {PUBLIC}", self.url);
        Err(refusal.into())
    }

    /// True if the address is one at which clients find the service.
    fn is_public(&self) -> bool {
        let url = format!("{}{}", self.url, paths::METADATA);
        let found = self.agent.get(&url).call();
        found.is_ok_and(|found| found.status().is_success() || found.status().is_redirection())
    }
}

/// The service's refusal of a request: every problem, or the description.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub(in crate::command) struct Refusal(pub(in crate::command) Vec<String>);

fn refusal(status: u16, body: &str) -> Refusal {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let texts = |list: &Vec<Value>| {
        let texts = list.iter().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    };
    let problems: Vec<String> = body
        .get("problems")
        .and_then(Value::as_array)
        .map(texts)
        .unwrap_or_default();
    if !problems.is_empty() {
        return Refusal(problems);
    }
    let description = body.get("error_description").and_then(Value::as_str);
    let description =
        description.map_or_else(|| format!("the service answers {status}"), str::to_owned);
    Refusal(vec![description])
}

pub(super) struct Answer<T> {
    pub(super) value: T,
    raw: Value,
    json: bool,
}

impl<T> Answer<T> {
    /// Prints the response: as JSON if requested, otherwise as formatted by `text`.
    pub(super) fn print(&self, text: impl FnOnce(&T) -> String) -> anyhow::Result<()> {
        if self.json {
            output::json(&self.raw)
        } else {
            output::line(text(&self.value))
        }
    }
}

/// Encodes a name as a path segment.
pub(super) fn segment(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

/// The value of a parameter that is there only if the flag is.
pub(super) fn flag(flag: bool) -> Option<String> {
    flag.then(|| "true".to_owned())
}

/// Encodes parameters as a query with `?`; empty if there are no parameters.
pub(super) fn query(parameters: &[(&str, Option<String>)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in parameters {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    let query = query.finish();
    if query.is_empty() {
        query
    } else {
        format!("?{query}")
    }
}

/// Which page of a list.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Paging {
    /// Continue after this entry, which the previous page prints at its end.
    #[arg(long, value_name = "ENTRY", allow_hyphen_values = true)]
    after: Option<String>,
    /// Maximum number of entries, 1 to 500. Default: 50.
    #[arg(long, value_parser = at_least_one)]
    limit: Option<usize>,
}

/// Reads a limit.
pub(super) fn at_least_one(text: &str) -> Result<usize, String> {
    let limit = text.parse().ok().filter(|limit| *limit > 0);
    limit.ok_or_else(|| "expected a whole number, 1 or more".to_owned())
}

impl Paging {
    /// The query for this page, with the parameters in `more`.
    pub(super) fn query(&self, more: &[(&str, Option<String>)]) -> String {
        let page = [
            ("after", self.after.clone()),
            ("limit", self.limit.map(|limit| limit.to_string())),
        ];
        query(&[&page, more].concat())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        connection: Connection,
    }

    #[test]
    fn a_command_without_a_configuration_says_so() {
        for (more, has_hint) in [
            (&[][..], true),
            (&["--url", "http://127.0.0.1:1"], false),
            (&["--config", "/nowhere/config.toml"], false),
        ] {
            let words = ["client", "--admin-token-file", "/nowhere/token"];
            let words = words.iter().chain(more);
            let line = Line::try_parse_from(words).unwrap();
            let error = line.connection.open().err().unwrap().to_string();
            assert_eq!(error.ends_with(NO_CONFIG), has_hint, "{error}");
        }
    }
}
