//! `token-guard health`: for container health checks without curl.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use ureq::Agent;

use crate::settings::Origin;

/// Time limit for the response.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Asks the internal listener at `origin` whether it is ready.
///
/// # Errors
/// The listener does not answer, or is not ready.
pub(crate) fn run(origin: &Origin) -> anyhow::Result<ExitCode> {
    let agent: Agent = Agent::config_builder()
        .timeout_global(Some(TIMEOUT))
        // Ignores proxies from the environment, because the request stays on this machine or in its cluster.
        .proxy(None)
        .build()
        .into();
    let url = origin.url("/readyz");
    agent
        .get(&url)
        .call()
        .with_context(|| format!("{url} does not report that token-guard is ready"))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    /// The outcome for a listener that answers with `status`.
    fn asked(status: &'static str) -> anyhow::Result<ExitCode> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = Origin::of_listener(listener.local_addr().unwrap());
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let read = stream.read(&mut request).unwrap();
            assert!(request[..read].starts_with(b"GET /readyz HTTP/1.1\r\n"));
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let outcome = run(&origin);
        answering.join().unwrap();
        outcome
    }

    #[test]
    fn a_guard_that_is_not_ready_is_not_healthy() {
        assert!(asked("200 OK").is_ok());
        let error = asked("503 Service Unavailable").unwrap_err().to_string();
        assert!(error.contains("/readyz does not report"), "{error}");
        let away = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = Origin::of_listener(away.local_addr().unwrap());
        drop(away);
        assert!(run(&origin).is_err());
    }
}
