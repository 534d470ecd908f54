//! Keys in the data that the VMs of a gateway share.

use sha2::{Digest as _, Sha256};

/// The prefix of the keys for `what`, with the version of its format. It contains a hash of `texts`: everything that two
/// VMs must share so that a value means the same to both.
pub(crate) fn prefix<'a>(
    what: &str,
    version: &str,
    texts: impl IntoIterator<Item = &'a str>,
) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    let mut prefix = format!("gatepass.{what}.{version}.");
    for byte in hash.finalize().iter().take(16) {
        prefix.push_str(&format!("{byte:02x}"));
    }
    prefix
}
