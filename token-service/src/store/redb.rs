//! The default store: one redb file.
