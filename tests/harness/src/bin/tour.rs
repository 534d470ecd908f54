//! Runs the tour of `README.md` and `docs/tour.md` against a running pair: `tour` against that of `make up`, `tour
//! containers` against that of `docker compose up`, `tour replicas` against that of its profile `replicas`. The
//! environment variables for the pair's ports apply here too.

use std::env;

use anyhow::{Context, Result, bail};
use harness::{Artifacts, Ports, Tour};

fn main() -> Result<()> {
    let at = |port: u16| format!("http://127.0.0.1:{port}");
    let ports = Ports::from_env()?;
    let tour = match env::args().nth(1).as_deref() {
        place @ (None | Some("containers")) => Tour {
            api: at(ports.api),
            lobby: at(ports.lobby),
            lobby_ea: Some(at(ports.lobby_ea)),
            legacy: Some(at(ports.legacy)),
            callback: at(ports.callback),
            in_containers: place.is_some(),
            programs: None,
        },
        Some("replicas") => Tour {
            api: at(moved("REPLICAS_API_PORT", 8180)?),
            lobby: at(moved("REPLICAS_LOBBY_PORT", 8181)?),
            lobby_ea: None,
            legacy: None,
            callback: at(ports.callback),
            in_containers: true,
            programs: None,
        },
        Some(other) => bail!("{other}: expected no argument, `containers` or `replicas`"),
    };
    let steps = tour.go(&Artifacts::find()?)?;
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
