//! The OpenAPI descriptions of the administration and of the public endpoints.

use crate::client_libraries::python;
use crate::support::{OwnPair, pair};

/// A real validator accepts the description, and a client generated from it calls the service.
#[test]
fn the_description_is_valid_and_a_generated_client_works() {
    let pair = OwnPair::start(&[]);
    let checked = python("openapi_client.py")
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

/// Real requests of all shapes get what the description of the public endpoints says.
#[test]
fn the_public_endpoints_answer_as_described() {
    let pair = pair();
    let checked = python("public_description.py")
        .args([pair.lobby_url(), pair.legacy_url()])
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&checked.stdout);
    let errors = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{output}{errors}");
}
