//! The guard for gateways without WebAssembly. A gateway asks token-guard about each request (forward auth),
//! and passes on the requests that token-guard allows.
//!
//! It reads the filter's configuration and applies the same rules, because both contain the same [`guard`]. The
//! gateway must do what the filter would do to a request: remove headers that only the guard may set, and copy
//! the headers that the guard sets. `examples/` contains a configuration for each gateway.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::unreachable,
        clippy::string_slice
    )
)]

mod fetch;
mod handover;
mod health;
mod http;
mod log;
mod metrics;
mod settings;
mod worker;

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use actix_web::dev::Extensions;
use actix_web::middleware::from_fn;
use actix_web::web::Data;
use actix_web::{App, HttpServer};
use anyhow::Context as _;
use clap::Parser as _;
use guard::config::Config;
use process::{Connections, PassedSockets, Running, StopSignals};

use crate::fetch::Fetcher;
use crate::http::{Health, State};
use crate::metrics::Metrics;
use crate::settings::{Command, Origin, Reader, Settings};
use crate::worker::Worker;
use guard_native::ProcessData;
use keys_native::NativeSignatures;

/// Time for running requests to finish after draining, in seconds. A request may wait up to 30 seconds for a
/// feed.
const SHUTDOWN_SECONDS: u64 = 31;

/// Time from the first byte of a request to the end of its headers.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);

/// Time for which an idle connection is kept. It is longer than that of nginx (60 s), Traefik (90 s) and Caddy
/// (120 s), so that none of them sends a request on a connection that is just being closed.
const KEEP_ALIVE: Duration = Duration::from_secs(180);

fn main() -> ExitCode {
    if let Err(error) = process::end_on_signals() {
        eprintln!("token-guard: {error}");
        return ExitCode::FAILURE;
    }
    // Before the first thread.
    let passed = PassedSockets::from_environment();
    let settings = Settings::parse();
    if let Some(Command::Health { url }) = &settings.command {
        let own = || Origin::of_listener(settings.own_internal());
        return health::run(&url.clone().unwrap_or_else(own)).unwrap_or_else(|error| {
            eprintln!("token-guard: {error:#}");
            ExitCode::FAILURE
        });
    }
    let input = Input::read(&settings);
    if settings.check.is_some() {
        let (code, lines) = match input {
            Ok(input) => (ExitCode::SUCCESS, input.warnings),
            Err(problems) => (ExitCode::FAILURE, problems),
        };
        for line in lines {
            eprintln!("{line}");
        }
        return code;
    }
    let level = match log::start(settings.log_format) {
        Ok(started) => started,
        Err(error) => {
            eprintln!("token-guard: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    let served = level
        .map_err(|error| as_problem(&error))
        .and(input)
        .and_then(|input| {
            let passed = passed.map_err(|error| as_problem(&error.into()))?;
            run(settings, input, passed)
        });
    let code = match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(problems) => {
            for problem in problems {
                log::fatal(&problem);
            }
            ExitCode::FAILURE
        }
    };
    log::finish();
    code
}

fn as_problem(error: &anyhow::Error) -> Vec<String> {
    vec![format!("{error:#}")]
}

/// What the program reads before it serves.
struct Input {
    /// The configuration of the guard, which is valid.
    text: Vec<u8>,
    fetcher: Fetcher,
    /// One line each, with the file.
    warnings: Vec<String>,
}

impl Input {
    /// # Errors
    /// Every problem, one line each.
    fn read(settings: &Settings) -> Result<Self, Vec<String>> {
        let config = settings.config.as_deref();
        let config = config.ok_or_else(|| vec!["--config is missing".to_owned()])?;
        let path = config.display();
        let text = std::fs::read(config)
            .with_context(|| {
                format!(
                    "cannot read {path}: put the configuration there, or set --config (TOKEN_GUARD_CONFIG)"
                )
            })
            .map_err(|error| as_problem(&error))?;
        let in_file = |lines: Vec<String>, kind: &str| {
            let lines = lines.into_iter();
            lines.map(|line| format!("{path}: {kind}{line}")).collect()
        };
        let (origins, warnings) = Config::parse(&text, &NativeSignatures)
            .and_then(|config| {
                let rules = config.rules.warnings();
                // The gateway of a filter has the clusters and the peers.
                if settings.check == Some(Reader::Filter) {
                    return Ok((BTreeMap::new(), rules));
                }
                let warnings = [rules, settings.warnings()].concat();
                Ok((settings.origins(&config)?, warnings))
            })
            .map_err(|problems| in_file(problems, ""))?;
        let fetcher = Fetcher::new(origins, settings.ca_file.as_deref());
        Ok(Self {
            fetcher: fetcher.map_err(|error| as_problem(&error))?,
            warnings: in_file(warnings, "warning: "),
            text,
        })
    }
}

fn run(settings: Settings, input: Input, passed: PassedSockets) -> Result<(), Vec<String>> {
    for warning in input.warnings {
        tracing::warn!("{warning}");
    }
    let served = serve(settings, input.text, input.fetcher, passed);
    let served = actix_web::rt::System::new().block_on(served);
    served.map_err(|error| as_problem(&error))
}

/// Serves until SIGTERM or SIGINT. Then `/readyz` returns 503, the program serves for another `drain_for`, and
/// running requests finish. A second signal stops the program at once. If the parent opened the sockets, `/readyz` does not
/// change, because the next process serves what the gateways send.
async fn serve(
    settings: Settings,
    text: Vec<u8>,
    fetcher: Fetcher,
    passed: PassedSockets,
) -> anyhow::Result<()> {
    process::raise_open_files();
    let settings = Arc::new(settings);
    let metrics = Metrics::default();
    let health = Data::new(Health {
        metrics: metrics.clone(),
        workers: settings.workers.get(),
        draining: OnceLock::new(),
    });
    let signals = StopSignals::begin()?;
    let (opener, [gateways_socket, operators_socket]) = passed.take([
        ("--listen", Some(settings.listen)),
        ("--internal-listen", Some(settings.internal_listen)),
    ])?;
    let [of_gateways, of_operators] = [Connections::default(), Connections::default()];
    let gateways = {
        let (settings, text) = (Arc::clone(&settings), Arc::new(text));
        let data = ProcessData::default();
        let health = health.clone();
        move || {
            // The text was parsed successfully before. With `None`, every request would be refused.
            let worker = Config::parse(&text, &NativeSignatures).ok().map(|config| {
                let data = data.clone();
                Rc::new(Worker::new(config, data, fetcher.clone(), metrics.worker()))
            });
            let (settings, health) = (Arc::clone(&settings), health.clone());
            App::new().configure(move |routes| {
                if let Some(worker) = worker {
                    actix_web::rt::spawn(Rc::clone(&worker).watch());
                    let state = State {
                        worker,
                        settings,
                        health,
                    };
                    http::routes(routes, state);
                }
            })
        }
    };
    let server = |address| move |error| cannot_listen(address, &error);
    let on_connect = {
        let connections = of_gateways.clone();
        move |_: &dyn Any, data: &mut Extensions| connections.begin(data)
    };
    let gateways = HttpServer::new(gateways)
        .workers(settings.workers.get())
        .disable_signals()
        .shutdown_timeout(SHUTDOWN_SECONDS)
        .client_request_timeout(HEAD_DEADLINE)
        .keep_alive(KEEP_ALIVE)
        .on_connect(on_connect);
    let gateways = match gateways_socket {
        Some(socket) => gateways.listen(socket),
        None => gateways.bind(settings.listen),
    }
    .map_err(server(settings.listen))?;
    let operators = {
        let health = health.clone();
        let data = Data::from(Arc::clone(&settings));
        let connections = of_operators.clone();
        let operators = HttpServer::new(move || {
            App::new()
                .app_data(data.clone())
                .configure(|routes| http::internal_routes(routes, &health))
                .wrap(from_fn(http::check_host))
        })
        .workers(1)
        .disable_signals()
        .shutdown_timeout(SHUTDOWN_SECONDS)
        .client_request_timeout(HEAD_DEADLINE)
        .on_connect(move |_, data| connections.begin(data));
        match operators_socket {
            Some(socket) => operators.listen(socket),
            None => operators.bind(settings.internal_listen),
        }
        .map_err(server(settings.internal_listen))?
    };
    tracing::info!(
        gateways = ?gateways.addrs(),
        internal = ?operators.addrs(),
        workers = settings.workers,
        sockets_opened_by = ?opener,
        "listening"
    );
    let (gateways, operators) = (gateways.run(), operators.run());
    let servers =
        [(&gateways, of_gateways), (&operators, of_operators)].map(|(server, connections)| {
            Running {
                server: server.handle(),
                connections,
            }
        });
    let (servers, drain_for) = (servers.into(), settings.drain_for);
    let stop = process::stop_on_signals(signals, servers, opener, drain_for, || {
        let _ = health.draining.set(opener);
    });
    tokio::select! {
        () = stop => {}
        outcome = async { tokio::try_join!(gateways, operators) } => {
            outcome?;
        }
    }
    tracing::info!("stopped");
    Ok(())
}

fn cannot_listen(address: std::net::SocketAddr, error: &io::Error) -> anyhow::Error {
    anyhow::anyhow!(
        "cannot listen on {address}: {error}: set another address with --listen or --internal-listen"
    )
}
