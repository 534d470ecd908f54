//! Clients that authenticate with certificates, and the gateway that hands them over (RFC 8705 §2.2, D-48, D-51).

use std::process::Command;
use std::slice::from_ref;

use serde_json::{Value, json};

use super::{HEADER, MutualTls, Shown, assert_gives, hexadecimal, identity, key, named, shared};
use crate::support::{CREDENTIALS, Client, Reply, get, post};

const MEDIA: (&str, &str) = ("content-type", tests::browsing::FORM);

/// A request of `client` to the token service's own listener, with these headers.
fn past_the_gateway(pair: &MutualTls, client: &Client, headers: &[(&str, String)]) -> Reply {
    let url = format!("http://127.0.0.1:{}/auth/token", pair.service);
    post(&url, headers, &named(client))
}

/// RFC 8705 §5, §3.3, RFC 8414 §2. Without the listener, the metadata do not mention mutual TLS.
#[test]
fn rfc8705_s5_the_metadata_name_the_aliases() {
    let pair = shared();
    let metadata = |lobby: &str| {
        let url = format!("{lobby}/.well-known/oauth-authorization-server");
        get(&url, &[]).json()
    };
    let told = metadata(&pair.own.lobby());
    let at = |path: &str| format!("https://localhost:{}{path}", pair.lobby);
    assert_eq!(
        told["mtls_endpoint_aliases"],
        json!({
            "token_endpoint": at("/auth/token"),
            "revocation_endpoint": at("/auth/revoke"),
            "introspection_endpoint": at("/auth/introspect"),
            "pushed_authorization_request_endpoint": at("/auth/par"),
        })
    );
    let bound = "tls_client_certificate_bound_access_tokens";
    assert_eq!(told[bound], true);
    let without = metadata(&crate::support::lobby());
    for absent in ["mtls_endpoint_aliases", bound] {
        assert_eq!(without.get(absent), None);
    }
    for endpoint in ["token", "revocation", "introspection"] {
        let methods = format!("{endpoint}_endpoint_auth_methods_supported");
        let has = |metadata: &Value| {
            let methods = metadata[&methods].as_array().unwrap();
            methods.contains(&json!("self_signed_tls_client_auth"))
        };
        assert!(has(&told) && !has(&without), "{methods}");
    }
}

#[test]
fn rfc8705_s2_2_a_registered_certificate_authenticates_at_each_endpoint() {
    let pair = shared();
    let own = identity();
    let shown = Shown::certificate(&own);
    let client = pair.certified(&own, json!({}));
    let tokens = pair.token(shown, &client, &CREDENTIALS);
    // A proof for the usual endpoint is none for the alias.
    let usual = format!("{}/auth/token", pair.base(Shown::NOTHING));
    let proof = key().prove("POST", &usual, None).unwrap();
    let proof = [("dpop", proof)];
    let reply = pair.post_with(Some(&own), &client, "/auth/token", &CREDENTIALS, &proof);
    reply.assert_error(400, "invalid_dpop_proof");
    let folder = tempfile::tempdir().unwrap();
    for (name, identity) in [("server.pem", &pair.server), ("client.pem", &own)] {
        std::fs::write(folder.path().join(name), &identity.pem).unwrap();
    }
    let alias = format!("https://localhost:{}/auth/token", pair.lobby);
    let curl = Command::new("curl")
        .args("--silent --show-error --fail --cacert server.pem --cert client.pem".split(' '))
        .args(["--data", &named(&client), &alias])
        .current_dir(&folder)
        .output();
    let issued: Value = serde_json::from_slice(&curl.unwrap().stdout).unwrap();
    assert_eq!(issued["token_type"], "Bearer");
    // The client is not registered for bound tokens.
    assert_gives(&tokens, "bearer", shown);
    let token = tokens.text("access_token");
    assert_eq!(pair.own.call(&token), 200);
    let at = |path: &str| pair.post(shown, &client, path, &[("token", &token)]);
    assert_eq!(at("/auth/introspect").json()["active"], true);
    assert_eq!(at("/auth/revoke").status, 200);
    assert_eq!(at("/auth/introspect").json()["active"], false);

    let web = json!({
        "redirect_uris": ["https://app.example.com/callback"],
        "tls_client_certificates": [super::thumbprint(&own)],
    });
    let web = pair.own.register("web_server", web);
    let request = web.request(&[]);
    let request: Vec<_> = request
        .into_iter()
        .filter(|(name, _)| *name != "client_id")
        .collect();
    let pushed = pair.post(shown, &web, "/auth/par", &request);
    assert_eq!(pushed.status, 201, "{}", pushed.body);
    // People and gateways have nothing to look for at this listener.
    for path in [
        "/auth/authorize",
        "/auth/jwks",
        "/admin/clients",
        "/metrics",
    ] {
        let reply = pair.send(pair.lobby, Some(&own), &format!("GET {path}"), &[], "");
        assert_eq!(reply.unwrap().status, 404, "{path}");
    }
}

/// Nobody is the client who has not shown its certificate to the gateway, whatever else the request says. `changed`: Envoy Gateway
/// can set a header from the connection, but neither remove it before nor keep an empty value (the chart does this for
/// token-guard).
#[test]
fn rfc8705_s2_2_whoever_lacks_the_certificate_is_refused() {
    let set = format!(
        r#"- append: {{ header: {{ key: {HEADER}, value: "sha256:%DOWNSTREAM_PEER_FINGERPRINT_256%" }}, append_action: OVERWRITE_IF_EXISTS_OR_ADD }}"#
    );
    let early = format!("- remove: x-real-ip\n                        {set}");
    let route = format!("header: {{ key: {HEADER}, ");
    let changes = [
        (route.as_str(), "header: { key: x-other, "),
        ("- remove: x-real-ip", &early),
    ];
    let changed = MutualTls::start(&[], &changes);
    for pair in [shared(), &changed] {
        let (own, other) = (identity(), identity());
        let client = pair.certified(&own, json!({}));
        let form = named(&client);
        let media = (MEDIA.0, MEDIA.1.to_owned());
        let forged = (HEADER, hexadecimal(&own));
        for (shown, status) in [(None, 401), (Some(&other), 401), (Some(&own), 200)] {
            for headers in [&[media.clone()][..], &[media.clone(), forged.clone()]] {
                let reply = pair.send(pair.lobby, shown, "POST /auth/token", headers, &form);
                let reply = reply.unwrap();
                assert_eq!(reply.status, status, "{shown:?} {headers:?}");
                if status == 401 {
                    reply.assert_error(401, "invalid_client");
                }
            }
        }
        let respelled = ("x_token_service_client_certificate", forged.1.clone());
        let headers = [media, respelled];
        let respelled = pair.send(
            pair.lobby,
            Some(&other),
            "POST /auth/token",
            &headers,
            &form,
        );
        respelled.unwrap().assert_error(400, "invalid_request");
        // At the other listeners the header means nothing.
        for base in [
            pair.own.lobby(),
            format!("http://127.0.0.1:{}", pair.own.pair.ports().public),
        ] {
            let reply = post(&format!("{base}/auth/token"), from_ref(&forged), &form);
            let why = reply.assert_error(401, "invalid_client");
            assert!(why.contains("mtls_endpoint_aliases"), "{why}");
        }
    }
}

/// What the token service itself takes from its gateway. `process::certificate` has the forms of a certificate.
#[test]
fn the_header_of_the_gateway_has_one_certificate() {
    let pair = shared();
    let own = identity();
    let client = pair.certified(&own, json!({}));
    let header = |value: &str| (HEADER, value.to_owned());
    let own = hexadecimal(&own);
    for (headers, outcome) in [
        (vec![header(&own)], None),
        (vec![], Some((401, "invalid_client"))),
        (vec![header("sha256:")], Some((401, "invalid_client"))),
        (vec![header("-")], Some((400, "invalid_request"))),
        (vec![header(&own); 2], Some((400, "invalid_request"))),
        (
            vec![header(""), header(&own)],
            Some((400, "invalid_request")),
        ),
    ] {
        let reply = past_the_gateway(pair, &client, &headers);
        let Some((status, error)) = outcome else {
            assert_eq!(reply.status, 200, "{}", reply.body);
            continue;
        };
        let why = reply.assert_error(status, error);
        assert!(
            status == 401 || why.contains("The gateway handed over"),
            "{why}"
        );
    }
}

/// D-51. The gateway is among `trusted_proxies`, which does not suffice.
#[test]
fn only_gateways_for_mutual_tls_hand_over_certificates() {
    let elsewhere = [("TOKEN_SERVICE__MUTUAL_TLS__GATEWAYS", "10.1.2.3")];
    let pair = MutualTls::start(&elsewhere, &[]);
    let own = identity();
    let client = pair.certified(&own, json!({}));
    let direct = past_the_gateway(&pair, &client, &[(HEADER, hexadecimal(&own))]);
    let shown = Shown::certificate(&own);
    for reply in [direct, pair.token(shown, &client, &CREDENTIALS)] {
        let why = reply.assert_error(400, "invalid_request");
        assert!(why.contains("mutual_tls.gateways"), "{why}");
    }
    let bare = past_the_gateway(&pair, &client, &[]);
    bare.assert_error(401, "invalid_client");
}
