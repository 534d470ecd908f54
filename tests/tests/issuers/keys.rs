//! Discovery of keys.

use serde_json::json;
use tests::free_port;

use super::gate::{Gate, Kind};
use super::server::Issuer;
use crate::support::get;

/// An issuer whose metadata names another issuer, for example because of a wrong proxy.
#[test]
fn rfc8414_s3_3_metadata_of_another_issuer_is_not_used() {
    let issuer = Issuer::mock_server(&[]);
    let members = json!({
        "issuer": format!("http://localhost:{}", issuer.port),
        "discovery": {"cluster": issuer.cluster()},
    });
    for gate in Gate::all(&[issuer.configured(&members)], &[issuer.port]) {
        let mistake = "its issuer is not the configured one";
        gate.log().until_it_says(mistake).unwrap();
        let access = issuer.token("access");
        gate.refuses(0, access, "issuer that is not accepted");
    }
}

/// The metadata may name only key hosts that the configuration allows.
#[test]
fn keys_at_another_host_need_its_name_in_jwks_hosts() {
    let elsewhere = free_port().unwrap();
    let issuer = Issuer::authlib_with_keys_at(elsewhere);
    let host = format!("127.0.0.1:{elsewhere}");
    let discovered = |hosts: serde_json::Value| {
        issuer.configured(&json!({"discovery": {
            "cluster": issuer.cluster(), "document": "oauth-authorization-server", "jwks_hosts": hosts,
        }}))
    };
    let issuers = [
        discovered(json!([{"authority": host, "cluster": format!("at-{elsewhere}")}])),
        discovered(json!([])),
        discovered(
            json!([{"authority": "keys.example.com", "cluster": format!("at-{elsewhere}")}]),
        ),
    ];
    let asked = || get(&format!("http://{host}/asked"), &[]).json();
    for kind in Kind::ALL {
        let gate = Gate::start(kind, &issuers, &[issuer.port, elsewhere]);
        gate.accepts(0, issuer.token("access"));
        gate.refuses(0, issuer.token("id"), "not an access token");
        let before = asked();
        for entrance in [1, 2] {
            gate.cannot_tell(entrance, issuer.token("access"));
        }
        assert_eq!(
            asked(),
            before,
            "nobody asked the host that is not configured"
        );
        let reason = format!("its jwks_uri is at http://{host}, which is neither");
        gate.log().until_it_says(&reason).unwrap();
    }
}
