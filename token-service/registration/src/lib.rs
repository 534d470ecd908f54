//! Clients, users and legacy instances: what they consist of (protocol.md §1, §5), registrations files, and the changes that
//! applying a file makes.

pub mod apply;
pub mod describe;
pub mod objects;
pub mod protection;
pub mod registrations;
