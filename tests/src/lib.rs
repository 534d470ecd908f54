//! Runs the pair: the real token service and the real Envoy with the filter, on any ports.
//!
//! `make up` and the end-to-end tests share this code, so the tests check what people run.

mod artifacts;
pub mod browsing;
#[cfg(test)]
mod builds;
mod chromedriver;
#[cfg(test)]
mod documents;
pub mod envoy;
#[cfg(feature = "load")]
pub mod flood;
#[cfg(feature = "load")]
pub mod gateways;
#[cfg(feature = "load")]
pub mod http2;
#[cfg(feature = "load")]
mod issuer;
#[cfg(test)]
mod layers;
#[cfg(feature = "load")]
pub mod load;
mod log;
mod pair;
mod ports;
mod postgres;
mod process;
#[cfg(feature = "load")]
pub mod proofs;
#[path = "../../token-service/benches/support/quartiles.rs"]
pub mod quartiles;
mod runbook;
mod series;
#[path = "../../token-service/benches/support/short.rs"]
pub mod short;
#[cfg(feature = "load")]
pub mod tls;
mod tour;
#[cfg(feature = "load")]
mod upstream;
#[cfg(feature = "load")]
pub mod visitor;
#[cfg(feature = "load")]
pub mod wire;

pub use artifacts::{Artifacts, Form};
pub use chromedriver::Chromedriver;
#[cfg(feature = "load")]
pub use issuer::{Issuer, SigningKey};
pub use log::Log;
pub use pair::{Pair, Setup, setting, state_in};
pub use ports::{Ports, free_port};
pub use postgres::Postgres;
pub use process::{Process, pace};
pub use runbook::store_causes;
pub use series::Series;
pub use tour::Tour;
#[cfg(feature = "load")]
pub use upstream::{Arrived, Upstream};
