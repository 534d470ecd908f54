//! Parts of the end-to-end tests: other gateways, upstreams, issuers and clients around the pair of [`harness`].

mod answer;
#[cfg(test)]
mod documents;
pub mod flood;
pub mod front;
pub mod gateways;
pub mod http2;
mod issuer;
mod jar;
#[cfg(test)]
mod layers;
pub mod load;
pub mod proofs;
pub mod tls;
mod upstream;
pub mod visitor;
pub mod wire;

pub use answer::Answer;
pub use harness::{
    Artifacts, Chromedriver, Form, Log, PATIENCE, Pair, Ports, Postgres, Process, Series, Setup,
    Tour, browsing, demo_registrations, envoy, follow, free_port, listens, pace, setting, state_in,
    status_of, store_causes,
};
pub use issuer::{Issuer, SigningKey};
pub use upstream::{Arrived, Upstream, response, serve};
