//! Registrations files (protocol.md §1, §5): reading them, and the changes that applying one makes.

pub mod apply;
pub mod legacy_instance;
pub mod protection;
pub mod registrations;
