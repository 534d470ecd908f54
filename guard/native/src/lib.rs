//! What the guard needs of its host, for hosts that are programs or libraries of this machine.

mod clocks;
mod shared_data;

pub use clocks::Clocks;
pub use shared_data::ProcessData;
