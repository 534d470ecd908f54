//! The OpenAPI descriptions of the administration and of the public endpoints.

use std::process::Command;

use crate::client_libraries::python;
use crate::support::{OwnPair, pair};

/// A real validator accepts the description, and a client generated from it calls the service.
#[test]
fn the_description_is_valid_and_a_generated_client_works() {
    let pair = OwnPair::start(&[]);
    let output = succeeds(
        python("openapi_client.py")
            .arg(pair.pair.internal_url())
            .arg(pair.state().join("admin-token"))
            .arg(pair.state()),
    );
    assert!(output.contains("web-demo"), "{output}");
}

/// Real requests of all shapes get what the description of the public endpoints says.
#[test]
fn the_public_endpoints_answer_as_described() {
    let pair = pair();
    succeeds(python("public_description.py").args([pair.lobby_url(), pair.legacy_url()]));
}

/// The collection is as its program writes it, and each of its requests gets what its tests expect.
#[test]
fn the_collection_is_generated_and_passes() {
    let pair = pair();
    let repository = &pair.artifacts().repository;
    let [lobby, api] = [pair.lobby_url(), pair.api_url()];
    let mut generator = Command::new(repository.join(".cache/venv/bin/python"));
    generator.arg(repository.join("tests/tools/write_collections.py"));
    succeeds(generator.args([&lobby, "--check"]));
    let mut runner = Command::new(repository.join(".cache/node"));
    runner.arg(repository.join(".cache/node_modules/.bin/newman"));
    runner
        .arg("run")
        .arg(repository.join("examples/collections/postman.json"));
    for (name, address) in [("lobby", &lobby), ("api", &api)] {
        runner.args(["--env-var", &format!("{name}={address}")]);
    }
    let output = succeeds(&mut runner);
    // The last request depends on all others.
    assert!(output.contains("API without a proof"), "{output}");
}

/// Runs a program to its end, and returns its standard output.
fn succeeds(program: &mut Command) -> String {
    let ended = program.output().unwrap();
    let output = String::from_utf8_lossy(&ended.stdout).into_owned();
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{output}{errors}");
    output
}
