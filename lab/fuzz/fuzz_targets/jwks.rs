//! JWK sets: what is read can be read again, and every key survives a set that still has it.

#![cfg_attr(fuzzing, no_main)]

use keys::KeySet;
use keys::algorithm::Algorithm;
#[cfg(fuzzing)]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let algorithms = Algorithm::ALL.iter().copied().collect();
    let Ok((keys, skipped)) = KeySet::parse(input, &algorithms, &KeySet::default()) else {
        return;
    };
    assert!(skipped.count <= input.len());
    let (again, _) = KeySet::parse(input, &algorithms, &keys).expect("it was read before");
    assert_eq!(again.is_empty(), keys.is_empty());
    for kid in ["a", "EdDSA", "ES256", "RS256"] {
        for algorithm in Algorithm::ALL.iter().copied() {
            if let Some(key) = keys.get(kid, algorithm) {
                assert!(again.trusts(key));
            }
        }
    }
});
