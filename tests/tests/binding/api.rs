//! Bound tokens at the gateway of the API.

use serde_json::json;
use tests::proofs::ProofKey;
use tests::tls::{Authority, Identity};

use super::{MutualTls, Shown, assert_gives, hexadecimal, identity, key, shared, thumbprint};
use crate::api::until;
use crate::client_libraries;
use crate::support::{CREDENTIALS, INSTALLED, Reply, get};

const PUBLIC: &str = "http://127.0.0.1:8765/callback";

/// What the token service binds, the gateway enforces: each binding separately, and both together.
#[forms::each]
fn the_api_takes_a_bound_token_only_with_what_it_is_bound_to() {
    let pair = shared();
    let [key, another] = [(); 2].map(|()| key());
    let [own, other] = [(); 2].map(|()| identity());
    let by_certificate = json!({
        "redirect_uris": [PUBLIC], "tls_client_certificate_bound_access_tokens": true,
    });
    let client = pair.own.register("installed", by_certificate);
    let both = Shown::both(&key, &own);
    for (client, owner, bound, strangers) in [
        (
            INSTALLED,
            Shown::key(&key),
            "key",
            &[
                ("DPoP", Shown::key(&another)),
                ("DPoP", Shown::NOTHING),
                ("Bearer", Shown::NOTHING),
                ("Bearer", Shown::key(&key)),
            ][..],
        ),
        (
            client,
            Shown::certificate(&own),
            "certificate",
            &[
                ("Bearer", Shown::certificate(&other)),
                ("Bearer", Shown::NOTHING),
                ("DPoP", both),
            ],
        ),
        (
            client,
            both,
            "both",
            &[
                ("DPoP", Shown::both(&key, &other)),
                ("DPoP", Shown::both(&another, &own)),
                ("DPoP", Shown::key(&key)),
                ("Bearer", Shown::certificate(&own)),
            ],
        ),
    ] {
        let tokens = pair.tokens(owner, &client);
        assert_gives(&tokens, bound, owner);
        let token = tokens.text("access_token");
        let scheme = if owner.key.is_some() {
            "DPoP"
        } else {
            "Bearer"
        };
        for (scheme, shown) in strangers {
            let status = pair.call(*shown, scheme, &token);
            assert_eq!(status, 401, "{bound}: {scheme} {shown:?}");
        }
        for _ in 0..2 {
            assert_eq!(pair.call(owner, scheme, &token), 200, "{bound}");
        }
    }
    // Sends the same proof again.
    let token = pair
        .tokens(Shown::key(&key), &INSTALLED)
        .text("access_token");
    let url = format!("{}/api/projects", pair.own.pair.api_url());
    let proof = key.prove("GET", &url, Some(&token)).unwrap();
    for status in [200, 401] {
        let proof = Some(proof.clone());
        assert_eq!(pair.call_with(None, "DPoP", &token, proof), status);
    }
}

/// With a CA at the gateway: the CA lets a client in, and the registered certificate says who it is.
#[test]
fn a_gateway_with_a_ca_lets_nobody_else_in() {
    let authority = Authority::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, authority.pem()).unwrap();
    let trusted = format!("trusted_ca: {{ filename: {} }}", ca.display());
    let gateway = [(
        "trust_chain_verification: ACCEPT_UNTRUSTED",
        trusted.as_str(),
    )];
    let pair = MutualTls::start(&[], &gateway);
    let [own, other] = [(); 2].map(|()| authority.issue("client").unwrap());
    let bound = json!({"tls_client_certificate_bound_access_tokens": true});
    let client = pair.certified(&own, bound);
    let [own, other] = [&own, &other].map(Shown::certificate);
    let tokens = pair.token(own, &client, &CREDENTIALS);
    assert_gives(&tokens, "certificate", own);
    let refused = pair.token(other, &client, &CREDENTIALS);
    refused.assert_error(401, "invalid_client");
    let token = tokens.text("access_token");
    for (shown, status) in [(own, 200), (other, 401), (Shown::NOTHING, 401)] {
        assert_eq!(pair.call(shown, "Bearer", &token), status, "{shown:?}");
    }
    let stranger = identity();
    for port in [pair.lobby, pair.api] {
        let reply = pair.send(port, Some(&stranger), "GET /api/projects", &[], "");
        assert!(reply.is_none(), "{reply:?}");
    }
}

/// What is bound to the key or certificate of a lost device ends, at the gateway too, and nothing else.
#[forms::each]
fn a_lost_device_ends_with_its_key_or_certificate() {
    let pair = shared();
    let [lost_key, kept_key]: [ProofKey; 2] = [(); 2].map(|()| key());
    let [lost_identity, kept_identity]: [Identity; 2] = [(); 2].map(|()| identity());
    for (lost, kept, id, demand) in [
        (
            Shown::key(&lost_key),
            Shown::key(&kept_key),
            lost_key.thumbprint(),
            "dpop_bound_access_tokens",
        ),
        (
            Shown::certificate(&lost_identity),
            Shown::certificate(&kept_identity),
            thumbprint(&lost_identity),
            "tls_client_certificate_bound_access_tokens",
        ),
    ] {
        let app = json!({"redirect_uris": [PUBLIC], demand: true});
        let app = pair.own.register("installed", app);
        let program = json!({"bound_user": "grace@example.com", demand: true});
        let program = pair.own.register("user_bound", program);
        let [lost_app, kept_app] = [lost, kept].map(|shown| pair.tokens(shown, &app));
        let [lost_program, kept_program] =
            [lost, kept].map(|shown| pair.token(shown, &program, &CREDENTIALS));
        let status = |shown: Shown, tokens: &Reply| {
            let scheme = tokens.text("token_type");
            pair.call(shown, &scheme, &tokens.text("access_token"))
        };
        assert_eq!(status(lost, &lost_app), 200);
        let listed = pair.own.done(&format!("grant list --client {}", app.id));
        assert!(listed.contains(&id), "{listed}");
        let done = pair.own.done(&format!("grant revoke --key {id}"));
        assert!(done.starts_with("1 grant revoked"), "{done}");
        let refresh =
            |shown, tokens: &Reply| pair.refresh(shown, &app, &tokens.text("refresh_token"));
        refresh(lost, &lost_app).assert_error(400, "invalid_grant");
        assert_eq!(refresh(kept, &kept_app).status, 200);
        for (tokens, is_active) in [(&lost_program, false), (&kept_program, true)] {
            let told = pair.introspect(kept, &program, &tokens.text("access_token"));
            assert_eq!(told["active"], is_active);
        }
        for tokens in [&lost_app, &lost_program] {
            until("the gateway refuses tokens of the lost device", || {
                status(lost, tokens) == 401
            });
        }
        for tokens in [&kept_app, &kept_program] {
            assert_eq!(status(kept, tokens), 200);
        }
        let feed = get(
            &format!("{}/revocations", pair.own.pair.internal_url()),
            &[],
        )
        .json();
        let mut entries = feed["revocations"].as_array().unwrap().iter();
        assert!(entries.any(|entry| entry["kind"] == "key" && entry["id"] == id));
        let audit = pair.own.done("audit --action grant_revoked");
        assert!(audit.contains(&id), "{audit}");
    }
    pair.own.failed("grant revoke --key short");
}

/// A library that nobody here wrote. It finds the aliases in the metadata.
#[test]
fn openid_client_authenticates_with_a_certificate_and_uses_bound_tokens() {
    let pair = MutualTls::start(&[], &[]);
    let own = identity();
    pair.own.done(&format!(
        "client add tls-demo --type user_bound --bound-user ada@example.com --scope projects --certificate-bound \
         --tls-certificate {}",
        hexadecimal(&own)
    ));
    pair.own.release(&[&INSTALLED]);
    let update = format!("client update {} --certificate-bound", INSTALLED.id);
    pair.own.done(&update);
    let file = |name: &str, content: &str| pair.own.write(name, content);
    let mut program = client_libraries::node("mtls_client.mjs");
    program
        .env(
            "API",
            format!("https://localhost:{}/api/projects", pair.api),
        )
        .env("SERVER", file("server-of-node.pem", &pair.server.pem))
        .env("CERTIFICATE", file("own.pem", &own.pem));
    let grants = ["client_credentials", "pkce", "refresh_token_public"];
    client_libraries::drive(&pair.own.pair, program, &grants);
}
