//! The registrations file (TOML).
