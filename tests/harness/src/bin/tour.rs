//! Runs the tour of `README.md` and `docs/tour.md` against a running pair: `tour` against `make up`, `tour
//! containers` against `docker compose up`, `tour replicas` and `tour tls` against its profiles. The
//! environment variables for the pair's ports apply here too. With TLS=1 the pair of `make up` has TLS.

use std::env;

use anyhow::{Context, Result, bail};
use harness::{Artifacts, Ports, Tour, has_tls};

fn main() -> Result<()> {
    let http = |port: u16| format!("http://127.0.0.1:{port}");
    let https = |port: u16| format!("https://127.0.0.1:{port}");
    let ports = Ports::from_env()?;
    let profile = |api, lobby| Tour {
        api,
        lobby,
        lobby_ea: None,
        legacy: None,
        callback: http(ports.callback),
        in_containers: true,
        programs: None,
        ca: None,
    };
    let artifacts = Artifacts::find()?;
    let tour = match env::args().nth(1).as_deref() {
        place @ (None | Some("containers")) => {
            let has_tls = place.is_none() && has_tls();
            let at = |port| if has_tls { https(port) } else { http(port) };
            Tour {
                ca: has_tls.then(|| artifacts.repository.join("demo/data/tls/ca.pem")),
                lobby_ea: Some(at(ports.lobby_ea)),
                legacy: Some(at(ports.legacy)),
                in_containers: place.is_some(),
                ..profile(at(ports.api), at(ports.lobby))
            }
        }
        Some("replicas") => profile(
            http(moved("REPLICAS_API_PORT", 8180)?),
            http(moved("REPLICAS_LOBBY_PORT", 8181)?),
        ),
        Some("tls") => profile(
            https(moved("TLS_API_PORT", 8280)?),
            https(moved("TLS_LOBBY_PORT", 8281)?),
        ),
        Some(other) => bail!("{other}: expected no argument, `containers`, `replicas` or `tls`"),
    };
    let steps = tour.go(&artifacts)?;
    println!("The tour's {steps} steps work as printed.");
    Ok(())
}

fn moved(name: &str, default: u16) -> Result<u16> {
    match env::var(name) {
        Ok(port) => port
            .parse()
            .with_context(|| format!("{name}={port} is not a port")),
        Err(_) => Ok(default),
    }
}
