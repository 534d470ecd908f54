//! Metadata of an issuer: whatever it says, the keys come from a host that is configured.

#![cfg_attr(fuzzing, no_main)]

use keys::discovery::{Discovery, KeyHost};
use keys::endpoint::Endpoint;
#[cfg(fuzzing)]
use libfuzzer_sys::fuzz_target;

const ISSUER: &str = "https://sso.example.com/a";

fuzz_target!(|input: &[u8]| {
    let discovery = Discovery {
        endpoint: Endpoint {
            cluster: "sso".into(),
            authority: "sso.internal".into(),
            path: "/a/.well-known/openid-configuration".into(),
        },
        jwks_hosts: vec![KeyHost {
            authority: "keys.example.com".into(),
            cluster: "keys".into(),
        }],
        refresh_seconds: 300,
    };
    if let Ok(keys) = discovery.keys_of(ISSUER, input) {
        let place = (keys.cluster.as_str(), keys.authority.as_str());
        assert!([("sso", "sso.internal"), ("keys", "keys.example.com")].contains(&place));
        assert!(
            keys.path.starts_with('/') && keys.path.bytes().all(|byte| byte.is_ascii_graphic())
        );
    }
});
