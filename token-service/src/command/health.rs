//! `token-service health`: for container health checks without curl.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;

use super::ConfigFile;
use super::admin::reachable;
use crate::http::paths;

/// Time limit for the response.
const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) fn run(arguments: &ConfigFile) -> anyhow::Result<ExitCode> {
    let address = reachable(arguments.load()?.internal_listen);
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(TIMEOUT))
        // Ignores proxies from the environment, because the request stays on this machine.
        .proxy(None)
        .build()
        .into();
    let url = format!("http://{address}{}", paths::READYZ);
    agent
        .get(&url)
        .call()
        .with_context(|| format!("{url} does not report that the service is ready"))?;
    Ok(ExitCode::SUCCESS)
}
