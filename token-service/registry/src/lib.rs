//! Clients, users and legacy instances: their fields (protocol.md §1), registrations files, and the changes from
//! applying a file, at a start too.

pub mod apply;
pub mod audit;
pub mod change;
pub mod describe;
pub mod file;
pub mod identities;
pub mod objects;
pub mod planning;
pub mod registrations;
pub mod start;
