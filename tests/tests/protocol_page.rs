//! The curl lines of `docs/protocol/`, in the order of the pages.

use std::collections::HashMap;
use std::process::Command;

use serde_json::Value;
use tests::proofs::ProofKey;

use crate::support::{
    Assertion, Browser, Client, INSTALLED, Instance, LEGACY, OwnPair, Pkce, WEB, file,
};

/// From RFC 7636, appendix B.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
/// Tokens of a page are used in the next one, which takes none that is bound.
const PAGES: [&str; 6] = [
    "clients",
    "assertions",
    "api",
    "bound-tokens",
    "legacy",
    "internal",
];
const CALLBACK: &str = "http://127.0.0.1:8090/callback";

#[test]
fn the_curl_lines_of_the_protocol_work() {
    let own = OwnPair::start(&[]);
    let pair = &own.pair;
    let addresses = [
        ("http://127.0.0.1:8080", pair.api_url()),
        ("http://127.0.0.1:8081", pair.lobby_url()),
        ("http://127.0.0.1:8083", pair.legacy_url()),
        ("http://127.0.0.1:9081", pair.internal_url()),
        ("demo/data", own.state().display().to_string()),
    ];
    let pages = PAGES.map(|page| file(&format!("docs/protocol/{page}.md")));
    let lines: Vec<&str> = pages
        .iter()
        .flat_map(|page| page.lines())
        .filter(|line| line.starts_with("curl "))
        .collect();
    assert!(lines.len() > 15, "{} lines", lines.len());

    let proof = ProofKey::new("ES256").unwrap();
    let token_url = format!("{}/auth/token", pair.lobby_url());
    let mut variables = HashMap::from([
        ("VERIFIER", VERIFIER.to_owned()),
        ("ASSERTION", Assertion::of("ada@example.com").sign()),
        (
            "CLIENT_ASSERTION",
            own.done(&format!(
                "assertion --client-assertion --key {} --client-id key-demo --audience {}",
                pair.artifacts()
                    .repository
                    .join("demo/key-demo.key.pem")
                    .display(),
                pair.lobby_url()
            ))
            .trim()
            .to_owned(),
        ),
        ("PROOF", proof.prove("POST", &token_url, None).unwrap()),
    ]);
    let legacy = Client {
        redirect_uri: "http://localhost:8090/callback",
        ..LEGACY
    };
    // Tokens of the legacy flow have variables of the same names.
    let mut legacy_variables = HashMap::new();
    for line in lines {
        let is_legacy = line.contains("sso-us1.legacy.example");
        let variables = match is_legacy {
            true => &mut legacy_variables,
            false => &mut variables,
        };
        if line.contains("$CODE") {
            let code = match is_legacy {
                true => Instance::of(pair).code(&legacy),
                false => code(&pair.lobby_url(), line.contains(INSTALLED.id)),
            };
            variables.insert("CODE", code);
        }
        let here = addresses
            .iter()
            .fold(line.to_owned(), |line, (from, to)| line.replace(from, to));
        let response = run(&here, variables);
        let (body, status) = response.rsplit_once('\n').unwrap();
        let expected = match line {
            _ if line.contains("prompt=none") || line.contains("/Logon?") => "302",
            _ if line.ends_with("/auth/par") => "201",
            _ => "200",
        };
        assert_eq!(status, expected, "{line}\n{body}");
        // The page continues with the tokens of the Web Server Application.
        let goes_on = !line.contains(INSTALLED.id);
        if let Ok(body) = serde_json::from_str::<Value>(body)
            && goes_on
        {
            for (member, variable) in [("access_token", "ACCESS"), ("refresh_token", "REFRESH")] {
                if let Some(token) = body[member].as_str() {
                    variables.insert(variable, token.to_owned());
                }
            }
        }
    }
}

/// Body and, in the last line, status of the response.
fn run(line: &str, variables: &HashMap<&str, String>) -> String {
    let command = line.replacen("curl ", "curl -sS -w '\\n%{http_code}' ", 1);
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &command])
        .envs(variables)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}\n{errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn code(lobby: &str, is_installed: bool) -> String {
    let (client, pkce) = match is_installed {
        true => (INSTALLED, Some(Pkce::of(VERIFIER))),
        false => (WEB, None),
    };
    let client = Client {
        redirect_uri: CALLBACK,
        ..client
    };
    Browser::new(lobby).code_for(&client, pkce.as_ref())
}
