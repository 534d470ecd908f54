//! Values that the chart refuses.

use super::RENDERED;

#[test]
fn wrong_values_are_refused_with_every_problem() {
    let error = |case: &str| RENDERED[case]["error"].as_str().unwrap();
    for (case, said) in [
        (
            "unknown-key",
            "additional properties 'tokenServce' not allowed",
        ),
        (
            "open",
            "'/gateway/istio/failStrategy': value must be one of 'FAIL_RELOAD', 'FAIL_CLOSE'",
        ),
        (
            "wrong-store",
            "'/tokenService/store/kind': value must be one of 'redb', 'postgres'",
        ),
        (
            "guard-key",
            "'/guard/configuration/rules/0': additional properties 'path_prefx' not allowed",
        ),
        (
            "guard-range",
            "'/guard/configuration/clock_skew_seconds': maximum: got 301, want 300",
        ),
        (
            "guard-choice",
            "'/guard/revocations/when_stale': value must be one of 'deny', 'allow'",
        ),
        ("guard-rules", "'/guard/configuration/rules': minItems"),
        (
            "guard-issuers",
            "'/guard/configuration': additional properties 'issuers' not allowed",
        ),
        (
            "guard-issuer",
            "'/guard/issuers/0': missing property 'issuer'",
        ),
        ("no-resolver", "'/networkPolicy/dns/peers/0'"),
        // A new encryption key could not unseal the store.
        ("upgrade", "The Secret token-service-keys is missing"),
    ] {
        assert!(error(case).contains(said), "{}", error(case));
    }
    for (case, places) in [
        (
            "nothing",
            vec![
                "tokenService.issuer:",
                "tokenService.apiAudience:",
                "tokenService.trustedProxies:",
                "networkPolicy.gateways:",
            ],
        ),
        (
            "many",
            vec![
                "tokenService.issuer: \"https://lobby.example.com/\":",
                "tokenService.mutualTlsUrl: \"https://MTLS.example.com\":",
                "tokenService.apiAudience:",
                "tokenService.trustedProxies: \"*\":",
                "tokenService.mutualTlsGateways: \"envoy\":",
                "tokenService.registrations:",
                "tokenService.store.postgres.urlSecret.name:",
                "networkPolicy.egress:",
                "tokenService.httpRoute.parentRefs:",
                "networkPolicy.gateways:",
                "gateway.namespace:",
                "gateway.selector:",
            ],
        ),
        // Whoever reaches the listener from the gateway's network can be any client with a certificate.
        (
            "mutual-tls",
            vec![
                "tokenService.mutualTlsUrl: set networkPolicy.enabled",
                "tokenService.mutualTlsGateways:",
            ],
        ),
        (
            "traefik",
            vec![
                "networkPolicy.monitoring:",
                "gateway.enforcement:",
                "gateway.namespace:",
                "guard.issuers:",
            ],
        ),
        (
            "token-guard",
            vec![
                "guard.issuers:",
                "gateway.tokenGuard.egress:",
                "gateway.tokenGuard.resources.requests.cpu:",
                "gateway.tokenGuard.autoscaling:",
            ],
        ),
        ("filter-secret", vec!["guard.existingSecret:"]),
        // Each rendering would make another encryption key.
        ("offline", vec!["tokenService.keys.existingSecret:"]),
        (
            "alone",
            vec!["gateway.tokenGuard.trustedPeers:", "guard.issuers:"],
        ),
    ] {
        let problems: Vec<&str> = error(case).split("\n- ").skip(1).collect();
        assert_eq!(problems.len(), places.len(), "{problems:?}");
        for (problem, place) in problems.iter().zip(places) {
            assert!(problem.starts_with(place), "{problem}");
        }
    }
    assert!(RENDERED["offline with keys"]["documents"].is_array());
}
