//! Bound tokens (RFC 9449, RFC 8705): what a gateway hands over of proofs and certificates.

use tests::Upstream;
use tests::gateways::{Gateway, Kind, Neighbours};
use tests::tls::{self, Identity};

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
    std::thread::scope(|scope| {
        for kind in Kind::ALL {
            if kind == Kind::EnvoyFilter {
                continue;
            }
            let (server, client) = (&server, &client);
            scope.spawn(move || handed_over(kind, server, client));
        }
    });
}

fn handed_over(kind: Kind, server: &Identity, client: &Identity) {
    let name = kind.name();
    let [guard, resource_server] = [(); 2].map(|()| Upstream::start(true).unwrap());
    let neighbours = Neighbours {
        guard: guard.port(),
        resource_server: resource_server.port(),
        ..Neighbours::default()
    };
    let gateway = Gateway::start_with_tls(kind, &neighbours, server).unwrap();
    let header = certificate_header(kind);
    // All but Caddy hand over what token-guard reads alone: not the name of the test.
    let asked = |test: &str, shown: Option<&Identity>, headers: &str| {
        let request = request(test, &format!("Connection: close\r\n{headers}"));
        let answer = tls::send(gateway.port(), server, shown, &request).unwrap();
        let answer = answer.unwrap_or_else(|| panic!("{name}: {test}: no answer"));
        assert_eq!(answer.status, 200, "{name}: {test}: {}", answer.head);
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
    assert!(
        certificates.is_empty() || certificates == [""],
        "{name}: {certificates:?}"
    );
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

const fn certificate_header(kind: Kind) -> &'static str {
    match kind {
        Kind::Traefik => "x-forwarded-tls-client-cert",
        _ => "x-token-guard-client-certificate",
    }
}
