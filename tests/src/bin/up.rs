//! `make up`: runs the pair in the foreground and says how to use it.
fn main() {}
