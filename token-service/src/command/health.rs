//! `token-service health`: for container health checks without curl.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;

use super::ConfigFile;
use super::admin::reachable;
use crate::http::paths;

/// Time limit for the response.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    file: ConfigFile,

    /// Internal listener of a service on another machine, such as http://token-service:9081. Default: the service of
    /// the configuration, on this machine.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let origin = match &arguments.url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => format!(
            "http://{}",
            reachable(arguments.file.load()?.internal_listen)
        ),
    };
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(TIMEOUT))
        // Ignores proxies from the environment, because the request stays on this machine or in its cluster.
        .proxy(None)
        .build()
        .into();
    let url = format!("{origin}{}", paths::READYZ);
    agent
        .get(&url)
        .call()
        .with_context(|| format!("{url} does not report that the service is ready"))?;
    Ok(ExitCode::SUCCESS)
}
