//! `lab corpus`: runs each fuzz target over its corpus, compiled without cargo-fuzz. `make fuzz` looks for more.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "this is how a target reports what it found"
)]

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

/// Makes a function of a target, in place of the macro of libfuzzer.
macro_rules! fuzz_target {
    (|$input:ident: &[u8]| $body:expr) => {
        pub(super) fn run($input: &[u8]) {
            $body
        }
    };
    (|$input:ident: &str| $body:expr) => {
        pub(super) fn run(input: &[u8]) {
            if let Ok($input) = std::str::from_utf8(input) {
                $body
            }
        }
    };
}

#[path = "../fuzz/fuzz_targets/authorization.rs"]
mod authorization;
#[path = "../fuzz/fuzz_targets/configuration.rs"]
mod configuration;
#[path = "../fuzz/fuzz_targets/introspection.rs"]
mod introspection;
#[path = "../fuzz/fuzz_targets/jwks.rs"]
mod jwks;
#[path = "../fuzz/fuzz_targets/metadata.rs"]
mod metadata;
#[path = "../fuzz/fuzz_targets/proof.rs"]
mod proof;
#[path = "../fuzz/fuzz_targets/revocations.rs"]
mod revocations;
#[path = "../fuzz/fuzz_targets/token.rs"]
mod token;

type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 8] = [
    ("authorization", authorization::run),
    ("configuration", configuration::run),
    ("introspection", introspection::run),
    ("jwks", jwks::run),
    ("metadata", metadata::run),
    ("proof", proof::run),
    ("revocations", revocations::run),
    ("token", token::run),
];

/// Returns true: a target that finds something panics.
pub(crate) fn run() -> Result<bool> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let targets = fs::read_dir(folder.join("fuzz_targets"))?.count();
    ensure!(
        targets == TARGETS.len(),
        "{targets} targets: name each in TARGETS"
    );
    for (name, target) in TARGETS {
        let mut inputs = 0;
        for input in fs::read_dir(folder.join("corpus").join(name))? {
            let input = input?;
            println!("{name}/{}", input.file_name().display());
            target(&fs::read(input.path())?);
            inputs += 1;
        }
        ensure!(inputs > 0, "{name} has no corpus");
    }
    Ok(true)
}
