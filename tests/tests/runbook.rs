//! The commands of `docs/runbook.md` after a theft, as printed and in the order of the page.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tests::SigningKey;
use tests::proofs::ProofKey;

use crate::api::until;
use crate::support::{
    Assertion, Browser, Form, INSTALLED, JWT_BEARER, NON_INTERACTIVE, OwnPair, Pkce, Reply, WEB,
    file, lasting_code,
};

/// The commands of a chapter.
fn commands(page: &str, chapter: &str) -> Vec<String> {
    let (_, chapter) = page.split_once(&format!("\n### {chapter}\n")).unwrap();
    let end = chapter.find("\n##").unwrap();
    let lines = chapter[..end].lines();
    let commands = lines.filter(|line| line.starts_with("token-service "));
    commands.map(str::to_owned).collect()
}

/// Runs a command of the page in a shell of an operator. `variables` are the shell's.
#[track_caller]
fn run(pair: &OwnPair, command: &str, variables: &[(&str, &str)]) -> String {
    let program = &pair.pair.artifacts().token_service;
    let command = command.replacen("token-service", "\"$PROGRAM\"", 1);
    let output = Command::new("sh")
        .args(["-c", &command])
        .env("PROGRAM", program)
        .envs(pair.environment())
        .envs(variables.iter().copied())
        .current_dir(pair.state())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn refreshes(lobby: &str, tokens: &Reply) -> bool {
    WEB.refresh(lobby, &tokens.text("refresh_token")).status == 200
}

#[test]
fn a_stolen_token_ends() {
    let pair = OwnPair::start(&[]);
    let (lobby, page) = (pair.pair.lobby_url(), file("docs/runbook.md"));
    let commands = commands(&page, "A token was stolen");
    let [explain, revoke, revoke_all] = &commands[..] else {
        panic!("{commands:?}");
    };
    let (stolen, other) = (WEB.grant(&lobby), WEB.grant(&lobby));
    pair.write("token.txt", stolen.text("access_token"));
    let explained = run(&pair, explain, &[]);
    let (_, grant) = explained.split_once("\"grant_id\": \"").unwrap();
    let (grant, _) = grant.split_once('"').unwrap();
    run(&pair, revoke, &[("GRANT_ID", grant)]);
    assert!(!refreshes(&lobby, &stolen));
    assert!(refreshes(&lobby, &other), "another grant");
    let other = WEB.grant(&lobby);
    run(&pair, revoke_all, &[]);
    assert!(!refreshes(&lobby, &other));
    for line in page
        .lines()
        .filter(|line| line.starts_with("token-service audit --since 7days"))
    {
        assert!(run(&pair, line, &[]).contains("web-demo"), "{line}");
    }
}

#[test]
fn a_stolen_secret_and_key_end() {
    let pair = OwnPair::start(&[]);
    let (lobby, page) = (pair.pair.lobby_url(), file("docs/runbook.md"));
    let commands = commands(
        &page,
        "A Client Secret or a client's private key was stolen",
    );
    let (of_secret, of_keys) = commands.split_at(3);
    let (of_key, of_client) = of_keys.split_at(4);
    let stolen = WEB.grant(&lobby);
    for command in of_secret {
        run(&pair, command, &[]);
    }
    let refused = WEB.refresh(&lobby, &stolen.text("refresh_token"));
    refused.assert_error(401, "invalid_client");

    let bearer = |assertion: &str| {
        let form = [("grant_type", JWT_BEARER), ("assertion", assertion)];
        NON_INTERACTIVE.token(&lobby, &form)
    };
    let stolen = || Assertion::of("ada@example.com").sign();
    assert_eq!(bearer(&stolen()).status, 200);
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["next".to_owned()]).unwrap();
    let certificate = certificate.self_signed(&key).unwrap();
    pair.write("next.pem", certificate.pem());
    for command in of_key {
        run(&pair, command, &[]);
    }
    bearer(&stolen()).assert_error(400, "invalid_grant");
    let key = SigningKey::rs256(&key.serialize_der()).unwrap();
    until("the new key works", || {
        let mut assertion = Assertion::of("ada@example.com");
        assertion.header["kid"] = json!("next");
        bearer(&assertion.sign_with(&key)).status == 200
    });

    let demo = pair.pair.artifacts().repository.join("demo");
    let next = pair.state().join("next.pub.pem");
    fs::copy(demo.join("key-demo.pub.pem"), next).unwrap();
    for command in of_client {
        run(&pair, command, &[]);
    }
    assert!(pair.done("client show key-demo").contains("next"));
}

#[test]
fn a_stolen_laptop_has_nothing_left() {
    let pair = OwnPair::start(&[]);
    let (lobby, page) = (pair.pair.lobby_url(), file("docs/runbook.md"));
    let request = [
        ("response_type", "code"),
        ("client_id", WEB.id),
        ("redirect_uri", WEB.redirect_uri),
    ];
    let laptop = Browser::new(&lobby);
    let form = laptop.sign_in(
        &laptop.authorize(&request),
        "joan@example.com",
        "demo-password-of-joan",
    );
    let code = lasting_code("JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP");
    let signed_in = laptop.submit(&Form::of(&form), &[("code", &code)]);
    assert_eq!(signed_in.status, 303, "{}", signed_in.body);
    assert_eq!(laptop.authorize(&request).status, 302, "signed in");

    let password = "a new password of Joan";
    pair.write("password.txt", password);
    for command in commands(&page, "The laptop or the password of a person was stolen") {
        run(&pair, &command, &[]);
    }
    let form = Form::of(&laptop.authorize(&request));
    assert_eq!(form.fields, ["username", "password"], "signed out");
    let old = [
        ("username", "joan@example.com"),
        ("password", "demo-password-of-joan"),
    ];
    assert_eq!(laptop.submit(&form, &old).status, 403);
    let new = [("username", "joan@example.com"), ("password", password)];
    assert_eq!(laptop.submit(&form, &new).status, 303);
}

#[test]
fn a_lost_device_ends_and_the_others_go_on() {
    let pair = OwnPair::start(&[]);
    let (lobby, page) = (pair.pair.lobby_url(), file("docs/runbook.md"));
    let url = format!("{lobby}/auth/token");
    let pkce = Pkce::of(&"p".repeat(43));
    let [lost, kept] = [(); 2].map(|()| ProofKey::new("ES256").unwrap());
    let proof = |key: &ProofKey| vec![key.prove("POST", &url, None).unwrap()];
    let [on_lost, on_kept] = [&lost, &kept].map(|key| {
        let code = Browser::new(&lobby).code_for(&INSTALLED, Some(&pkce));
        let fields = INSTALLED.exchange_fields(&code, Some(&pkce));
        INSTALLED.proven(&lobby, &fields, &proof(key))
    });
    let chapter = "A device was lost, and the person's other devices shall stay signed in";
    let commands = commands(&page, chapter);
    let [list, revoke] = &commands[..] else {
        panic!("{commands:?}");
    };
    let thumbprint = lost.thumbprint();
    assert!(run(&pair, list, &[]).contains(&thumbprint));
    run(&pair, revoke, &[("THUMBPRINT", &thumbprint)]);
    let refresh = |tokens: &Reply, key: &ProofKey| {
        let token = tokens.text("refresh_token");
        INSTALLED.refresh_with(&lobby, &token, &proof(key)).status
    };
    assert_eq!(refresh(&on_lost, &lost), 400);
    assert_eq!(refresh(&on_kept, &kept), 200);
}

#[test]
fn keys_in_wrong_hands_end() {
    let pair = OwnPair::start(&[]);
    let (lobby, page) = (pair.pair.lobby_url(), file("docs/runbook.md"));
    let stolen = WEB.grant(&lobby).text("access_token");
    let commands = commands(&page, "The laptop of an operator was stolen");
    let [rotate, list, remove] = &commands[..] else {
        panic!("{commands:?}");
    };
    let list_json = format!("{list} --json");
    let before = run(&pair, &list_json, &[]);
    let before: Value = serde_json::from_str(&before).unwrap();
    let kid = before[0]["kid"].as_str().unwrap();
    run(&pair, rotate, &[]);
    assert!(run(&pair, list, &[]).contains(kid));
    run(&pair, remove, &[("KID", kid)]);
    let introspected = WEB.post(&lobby, "/auth/introspect", &[("token", &stolen)]);
    assert_eq!(introspected.json()["active"], false);
}

/// protocol.md §4.12.
#[test]
fn signing_out_leaves_tokens_of_applications_alone() {
    let pair = OwnPair::start(&[]);
    let lobby = pair.pair.lobby_url();
    let browser = Browser::new(&lobby);
    let code = browser.code_for(&WEB, None);
    let tokens = WEB.exchange(&lobby, &code, None);
    let signed_out = browser.submit(&Form::of(&browser.open("/auth/")), &[]);
    assert_eq!(signed_out.status, 303);
    assert!(!browser.open("/auth/").body.contains("ada@example.com"));
    let tokens = WEB.refresh(&lobby, &tokens.text("refresh_token"));
    assert_eq!(tokens.status, 200);
    let (access, refresh) = (tokens.text("access_token"), tokens.text("refresh_token"));
    let ended = WEB.post(&lobby, "/auth/revoke", &[("token", &refresh)]);
    assert_eq!(ended.status, 200);
    let introspected = WEB.post(&lobby, "/auth/introspect", &[("token", &access)]);
    assert_eq!(introspected.json()["active"], false);
}
