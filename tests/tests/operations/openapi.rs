//! The OpenAPI description of the administration.

use std::process::Command;

use crate::support::OwnPair;

/// A real validator accepts the description, and a client generated from it calls the service.
#[test]
fn the_description_is_valid_and_a_generated_client_works() {
    let pair = OwnPair::start(&[]);
    let repository = &pair.pair.artifacts().repository;
    let checked = Command::new(repository.join(".cache/venv/bin/python"))
        .arg(repository.join("tests/clients/openapi_client.py"))
        .arg(pair.pair.internal_url())
        .arg(pair.state().join("admin-token"))
        .arg(pair.state())
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&checked.stdout);
    let errors = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{output}{errors}");
    assert!(output.contains("web-demo"), "{output}");
}
