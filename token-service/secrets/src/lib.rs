//! The secrets of the service: key files and the encryption key of a store, values that the service seals or tags,
//! passwords, and the stored forms of what users have registered.

pub mod encryption_key;
pub mod key_file;
pub mod password;
mod password_hash;
pub mod password_rules;
pub mod protection;
pub mod sealing;
pub mod text_file;
