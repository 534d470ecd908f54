//! Keys that one VM leaves in the shared data for VMs that start later, so that a change of the configuration refuses no
//! request while the issuer is away.

use keys::KeySet;

use crate::config::{IssuerConfig, KeySource};
use crate::shared_data::SharedData;
use crate::shared_key;

/// The version of the format: the time of the fetch in seconds of the steady clock, little endian, and the JWK set.
const VERSION: &str = "1";

/// The key for the keys of an issuer; `None` for inline keys. It depends on everything that decides where keys come from.
fn name(config: &IssuerConfig) -> Option<String> {
    let mut texts = vec![config.issuer.as_str()];
    match &config.keys {
        KeySource::Inline(_) => return None,
        KeySource::Fetched { endpoint, .. } => texts.extend(endpoint.texts()),
        KeySource::Discovered(discovery) => {
            texts.push("discovery");
            texts.extend(discovery.endpoint.texts());
            for host in &discovery.jwks_hosts {
                texts.extend([host.authority.as_str(), host.cluster.as_str()]);
            }
        }
    }
    Some(shared_key::prefix("keys", VERSION, texts))
}

/// Leaves the JWK set that was fetched at `now`.
pub(super) fn keys(config: &IssuerConfig, data: &dyn SharedData, jwks: &[u8], now: u64) {
    if let Some(name) = name(config) {
        let value = [&now.to_le_bytes(), jwks].concat();
        // If the host refuses, later VMs fetch the keys themselves.
        let _ = data.set(&name, &value, None);
    }
}

/// The keys that an earlier VM has left, and the time when it fetched them.
pub(super) fn inherited_keys(
    config: &IssuerConfig,
    data: &dyn SharedData,
) -> Option<(KeySet, u64)> {
    let (value, _) = data.get(&name(config)?).ok()??;
    let (now, jwks) = value.split_first_chunk()?;
    let (keys, _) = KeySet::parse(jwks, &config.algorithms, &KeySet::default()).ok()?;
    (!keys.is_empty()).then_some((keys, u64::from_le_bytes(*now)))
}
