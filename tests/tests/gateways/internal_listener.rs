//! The internal listener of token-guard.

use tests::Issuer;
use tests::gateways::TokenGuard;

use super::{clusters, configuration};
use crate::support::{PRIVATE_HOSTS, REBOUND_HOSTS, get};

/// A page whose host name resolves to the listener after the page was loaded (DNS rebinding).
#[test]
fn a_name_that_leads_to_the_internal_listener_of_token_guard_reads_nothing() {
    let configuration = configuration(&Issuer::new().unwrap());
    let hosts = [
        "--internal-hosts",
        "ops.example.com,*.monitoring.example.com",
    ];
    let guard = TokenGuard::start(&configuration, &clusters(), &hosts).unwrap();
    let ask = |path: &str, host: &str| {
        get(
            &format!("{}{path}", guard.internal_url()),
            &[("host", host)],
        )
    };
    for path in ["/metrics", "/nothing"] {
        for host in REBOUND_HOSTS {
            ask(path, host).assert_error(421, "invalid_request");
        }
    }
    let own = ["token-guard", "ops.example.com", "a.monitoring.example.com"];
    for host in own.iter().chain(PRIVATE_HOSTS) {
        assert_eq!(ask("/metrics", host).status, 200, "{host}");
    }
    assert_eq!(ask("/healthz", "health-check.example").status, 200);
    assert_ne!(ask("/readyz", "health-check.example").status, 421);
}
