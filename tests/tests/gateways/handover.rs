//! What gateways hand over to token-guard about a request: headers, proofs, and their own word about certificates.

use tests::gateways::{Gateway, Kind, Neighbours};
use tests::tls::{self, Identity};
use tests::{Upstream, wire};

use super::{asking, at_every_gateway};

/// A question has no more than what token-guard reads: it takes at most 96 headers, and others may be secret. Caddy hands
/// over all headers but cookies, because token-guard refuses the spellings that Caddy cannot remove.
#[test]
fn gateways_hand_over_only_what_token_guard_needs() {
    let head = "GET /api/projects HTTP/1.1\r\nHost: localhost\r\nX-Test: handover\r\nConnection: close\r\n";
    let others: String = (0..80).map(|number| format!("X-{number}: x\r\n")).collect();
    let request = format!("{head}Authorization: Bearer x\r\nCookie: a=secret\r\n{others}\r\n");
    for kind in asking() {
        let [guard, resource_server] = [(); 2].map(|()| Upstream::start(true).unwrap());
        let neighbours = Neighbours::of_guard(guard.port(), resource_server.port());
        let gateway = Gateway::start(kind, &neighbours, &[]).unwrap();
        let name = kind.name();
        let answer = wire::send(gateway.port(), &request).unwrap().unwrap();
        assert_eq!(answer.status, 200, "{name}");
        let arrived = resource_server.arrived("handover").unwrap();
        assert_eq!(arrived.values("cookie"), ["a=secret"], "{name}");
        let test = match kind {
            Kind::Caddy => "handover",
            _ => "",
        };
        let asked = guard.arrived(test).unwrap();
        assert_eq!(asked.values("authorization"), ["Bearer x"], "{name}");
        assert!(asked.values("cookie").is_empty(), "{name}");
        let has_others = !asked.values("x-0").is_empty();
        assert_eq!(has_others, kind == Kind::Caddy, "{name}");
        if matches!(kind, Kind::Nginx | Kind::DebianNginx) {
            let [id] = asked.values("x-request-id")[..] else {
                panic!("{name}: {asked:?}");
            };
            assert_eq!(answer.values("x-request-id"), [id], "{name}: {answer:?}");
        }
    }
}

/// What a client sends in place of the gateway, in the spellings that some server takes for the same.
const FORGED: &str = "X-Token-Guard-Client-Certificate: forged\r\n\
                      X-Token-Guard-Client-Certificate: forged\r\n\
                      X_Token_Guard_Client_Certificate: forged\r\n\
                      x-token-guard_client-certificate: forged\r\n\
                      X.Token.Guard.Client.Certificate: forged\r\n\
                      X-Forwarded-Tls-Client-Cert: forged\r\n\
                      X_Forwarded_Tls_Client_Cert: forged\r\n\
                      X-Forwarded-Uri: /forged\r\n\
                      X-Forwarded-Method: FORGED\r\n";

fn request(test: &str, headers: &str) -> String {
    format!(
        "GET /api/projects HTTP/1.1\r\nHost: localhost\r\nX-Test: {test}\r\nAuthorization: DPoP token\r\n{headers}\r\n"
    )
}

/// RFC 9449 §4.3, check 1; RFC 8705 §3. A recorder stands in for token-guard: it allows everything, and repeats nothing.
#[test]
fn gateways_hand_over_every_proof_and_their_own_word_about_the_certificate() {
    let [server, client] = [(); 2].map(|()| Identity::new().unwrap());
    at_every_gateway(|kind| {
        handed_over(kind, &server, &client);
        Vec::new()
    });
}

fn handed_over(kind: Kind, server: &Identity, client: &Identity) {
    let name = kind.name();
    let [guard, resource_server] = [(); 2].map(|()| Upstream::start(true).unwrap());
    let neighbours = Neighbours::of_guard(guard.port(), resource_server.port());
    let gateway = Gateway::start_with_tls(kind, &neighbours, &[], server).unwrap();
    let header = certificate_header(kind);
    // All but Caddy hand over only what token-guard reads: not the name of the test.
    let asked = |test: &str, shown: Option<&Identity>, headers: &str| {
        let request = request(test, &format!("Connection: close\r\n{headers}"));
        let answer = tls::send(gateway.port(), server, shown, &request).unwrap();
        let answer = answer.unwrap_or_else(|| panic!("{name}: {test}: no answer"));
        assert_eq!(answer.status, 200, "{name}: {test}: {answer:?}");
        let arrived = resource_server.arrived(test).unwrap();
        let withheld: &[&str] = match kind {
            // A recorder does not tell Envoy which headers to remove.
            Kind::EnvoyExtAuthz => &["x-token-guard-client-certificate"],
            _ => &["authorization", "dpop", "x-token-guard-client-certificate"],
        };
        for withheld in withheld {
            assert!(
                arrived.values(withheld).is_empty(),
                "{name}: {test}: {arrived:?}"
            );
        }
        let asked = guard.arrived(if kind == Kind::Caddy { test } else { "" });
        let asked = asked.unwrap();
        if kind != Kind::EnvoyExtAuthz {
            assert_eq!(asked.values("x-forwarded-method"), ["GET"], "{name}");
            assert_eq!(asked.values("x-forwarded-uri"), ["/api/projects"], "{name}");
        }
        let certificates = asked.values(header).into_iter();
        let certificates: Vec<String> = certificates.map(str::to_owned).collect();
        let proofs = asked.values("dpop").into_iter().map(str::to_owned);
        (proofs.collect::<Vec<String>>(), certificates)
    };
    let (proofs, certificates) = asked("forged", None, &format!("DPoP: one\r\n{FORGED}"));
    assert_eq!(proofs, ["one"], "{name}");
    let shown = certificates.concat();
    assert!(["", "sha256:"].contains(&&*shown), "{name}: {shown}");
    let (proofs, _) = asked("two", None, "DPoP: one\r\nDPoP: two\r\n");
    match kind {
        // Older than 1.23. The resource server gets the same one.
        Kind::DebianNginx => assert_eq!(proofs, ["one"], "{name}"),
        // No proof has a comma.
        Kind::Nginx | Kind::EnvoyExtAuthz => {
            assert_eq!(proofs.concat().replace(' ', ""), "one,two", "{name}");
        }
        _ => assert_eq!(proofs, ["one", "two"], "{name}"),
    }
    let (_, shown) = asked("shown", Some(client), FORGED);
    let [shown] = &shown[..] else {
        panic!("{name}: {shown:?}");
    };
    assert!(
        !shown.is_empty() && !shown.contains("forged"),
        "{name}: {shown}"
    );
}

/// The header in which a gateway hands over the certificate.
pub(super) const fn certificate_header(kind: Kind) -> &'static str {
    match kind {
        Kind::Traefik => "x-forwarded-tls-client-cert",
        _ => "x-token-guard-client-certificate",
    }
}
