//! Clients, users and legacy instances: their fields (protocol.md §1, §5), registrations files, and the changes from
//! applying a file.

pub mod apply;
pub mod describe;
pub mod file;
pub mod objects;
pub mod registrations;
