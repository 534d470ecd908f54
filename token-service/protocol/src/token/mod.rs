//! Signed tokens, and the keys that sign them.

mod binding;
mod identity;
mod issued;
mod jwt;
mod key;
mod key_ring;
mod mint;
pub mod rotation;

pub use binding::Binding;
pub use identity::IdentityTokens;
pub use issued::{IssuedToken, TokenUse};
pub use jwt::{header, sign};
pub use key::{KeyError, SigningKey};
pub use key_ring::{KeyRing, KeyRingError, carry_out};
pub use mint::{AccessToken, GrantedTo, Mint};
