//! Runs the pair: the real token service and the real Envoy with the filter, on any ports.
//!
//! `make up`, the end-to-end tests and the laboratory share this code, so the tests check what people run.

mod artifacts;
pub mod browsing;
mod chromedriver;
pub mod envoy;
mod log;
mod pair;
mod ports;
mod postgres;
mod process;
mod runbook;
mod series;
mod tour;

pub use artifacts::{Artifacts, Form};
pub use chromedriver::Chromedriver;
pub use log::Log;
pub use pair::{Pair, Setup, demo_registrations, has_tls, setting, state_in, status_of};
pub use ports::{Ports, free_port};
pub use postgres::Postgres;
pub use process::{PATIENCE, Process, listens, pace};
pub use runbook::store_causes;
pub use series::Series;
pub use tour::{Tour, follow};
