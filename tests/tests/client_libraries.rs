//! Real client libraries drive the grants, with the lines that `docs/clients.md` shows.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use tests::{Pair, Ports, envoy, free_port};

use crate::support::{Browser, INSTALLED, OwnPair, file, get, pair};
use crate::token::claims;

/// Of clients that know keys and pushed requests too.
const MORE: [&str; 3] = ["private_key_jwt", "pushed", "pushed_public"];

const EVERY_GRANT: [&str; 6] = [
    "authorization_code",
    "refresh_token",
    "pkce",
    "refresh_token_public",
    "jwt_bearer",
    "client_credentials",
];

/// The algorithms of proofs, as WebCrypto names them.
const ALGORITHMS: [&str; 3] = ["ES256", "Ed25519", "RS256"];

/// Opens an authorization URL as Ada. Returns the last address of her browser.
fn visit(lobby: &str, url: &str) -> String {
    let browser = Browser::new(lobby);
    let page = browser.open(url);
    let done = browser.sign_in(&page, "ada@example.com", "demo-password-of-ada");
    done.header("location").unwrap().to_owned()
}

/// Runs a client program and plays its user's browser. The API must accept every token that the program gets.
pub(crate) fn drive(pair: &Pair, mut program: Command, expected: &[&str]) {
    let demo = pair.artifacts().repository.join("demo");
    let projects = format!("{}/api/projects", pair.api_url());
    let lobby = pair.lobby_url();
    let mut client = program
        .arg(&lobby)
        .arg(demo.join("non-interactive-demo.key.pem"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut answers = client.stdin.take().unwrap();
    let mut grants = Vec::new();
    for line in BufReader::new(client.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["OPEN", url] => writeln!(answers, "{}", visit(&lobby, url)).unwrap(),
            ["TOKEN", grant, token] => {
                let bearer = format!("Bearer {token}");
                let called = get(&projects, &[("authorization", bearer.as_str())]);
                assert_eq!(called.status, 200, "{grant}");
                grants.push((*grant).to_owned());
                // The program revokes some tokens afterwards.
                writeln!(answers, "called").unwrap();
            }
            ["BOUND", grant, token] => {
                let bound = claims(token);
                assert!(bound["cnf"].is_object(), "{grant}: {bound}");
                // Somebody who has only the token cannot use it.
                assert_eq!(
                    crate::support::call(&pair.api_url(), token).status,
                    401,
                    "{grant}"
                );
                grants.push((*grant).to_owned());
                writeln!(answers, "refused").unwrap();
            }
            _ => panic!("{line}"),
        }
    }
    let output = client.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(grants, expected);
}

#[test]
fn authlib_drives_every_grant() {
    let mut python = python("authlib_client.py");
    python
        // Authlib requires https unless this variable marks a test.
        .env("AUTHLIB_INSECURE_TRANSPORT", "1");
    let keys = ["private_key_jwt", "private_key_jwt_again"];
    drive(pair(), python, &[&EVERY_GRANT[..], &keys].concat());
}

#[test]
fn requests_oauth2client_drives_keys_pushed_requests_and_bound_tokens() {
    let python = python("requests_oauth2client_client.py");
    let bound = ["client_credentials", "pkce", "refresh_token_public"];
    drive(
        pair(),
        python,
        &[&["private_key_jwt", "pushed"][..], &bound].concat(),
    );
}

#[test]
fn requests_oauthlib_drives_code_pkce_and_client_credentials() {
    let mut python = python("requests_oauthlib_client.py");
    python.env("OAUTHLIB_INSECURE_TRANSPORT", "1");
    let [code, refresh, pkce, public, _, credentials] = EVERY_GRANT;
    drive(pair(), python, &[code, refresh, pkce, public, credentials]);
}

#[test]
fn simple_oauth2_drives_clients_with_a_secret() {
    let [code, refresh, _, _, _, credentials] = EVERY_GRANT;
    let expected = [code, refresh, credentials];
    drive(pair(), node("simple_oauth2_client.mjs"), &expected);
}

/// A program in Python of `tests/clients`.
pub(crate) fn python(program: &str) -> Command {
    let repository = &pair().artifacts().repository;
    let mut python = Command::new(repository.join(".cache/venv/bin/python"));
    python.arg(repository.join("tests/clients").join(program));
    python
}

/// A program in JavaScript of `tests/clients`.
pub(crate) fn node(program: &str) -> Command {
    let repository = &pair().artifacts().repository;
    let mut node = Command::new(repository.join(".cache/node"));
    node.arg(repository.join("tests/clients").join(program));
    node
}

#[test]
fn openid_client_drives_every_grant() {
    let bound = ["pkce", "refresh_token_public"];
    let expected = [&EVERY_GRANT[..], &MORE, &bound].concat();
    drive(pair(), node("openid_client.mjs"), &expected);
}

#[test]
fn oauth4webapi_drives_every_grant() {
    let expected = [&EVERY_GRANT[..], &MORE, &ALGORITHMS].concat();
    drive(pair(), node("oauth4webapi_client.mjs"), &expected);
}

#[test]
fn dpop_binds_tokens() {
    drive(pair(), node("dpop_client.mjs"), &ALGORITHMS);
}

#[test]
fn msal_drives_code_and_refresh() {
    let own = OwnPair::start(&[]);
    let scopes = ["projects", "openid", "profile", "offline_access"];
    let mut update = vec!["client", "update", INSTALLED.id];
    update.extend(scopes.iter().flat_map(|scope| ["--scope", scope]));
    own.operate(&["release", "client", INSTALLED.id], "").done();
    own.operate(&update, "").done();
    let grants = ["pkce", "refresh_token_public"];
    drive(&own.pair, node("msal_client.mjs"), &grants);
}

/// Envoy as the client of its `oauth2` filter, through which a person reaches the API; and of its `credential_injector`, which the
/// service refuses.
#[test]
fn envoy_is_a_client() {
    let pair = pair();
    let folder = TempDir::new().unwrap();
    let config = folder.path().join("envoy.yaml");
    let ports = [(); 3].map(|()| free_port().unwrap());
    let [signs_in, injects, admin] = ports;
    let Ports { lobby, api, .. } = pair.ports();
    let mut text = file("tests/clients/envoy.yaml");
    // Ports in the file. None is part of another.
    for (from, to) in ["8081", "8080", "8091", "8092", "9901"]
        .iter()
        .zip([lobby, api, signs_in, injects, admin])
    {
        text = text.replace(&format!(" {from} "), &format!(" {to} "));
        text = text.replace(&format!(":{from}/"), &format!(":{to}/"));
    }
    std::fs::write(&config, text).unwrap();
    let envoy = envoy::serve(pair.artifacts(), &config, admin).unwrap();

    let mut cookies = BTreeMap::new();
    let mut open = |path: &str| {
        let sent: Vec<String> = cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let headers = [("host", "app.example.com"), ("cookie", &sent.join("; "))];
        let reply = get(&format!("http://127.0.0.1:{signs_in}{path}"), &headers);
        for cookie in reply.headers.get_all("set-cookie") {
            let pair = cookie.to_str().unwrap().split(';').next().unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            cookies.insert(name.to_owned(), value.to_owned());
        }
        reply
    };
    let sent_away = open("/api/projects");
    assert_eq!(sent_away.status, 302);
    let back = visit(&pair.lobby_url(), sent_away.header("location").unwrap());
    let signed_in = open(back.strip_prefix("https://app.example.com").unwrap());
    let asked = signed_in.header("location");
    assert_eq!(asked, Some("http://app.example.com/api/projects"));
    let called = open("/api/projects");
    assert_eq!(called.status, 200, "{}", called.body);
    assert!(called.body.contains("1879048401"), "{}", called.body);

    let refused = get(&format!("http://127.0.0.1:{injects}/api/projects"), &[]);
    assert_eq!(refused.status, 401);
    let log = envoy.end().unwrap();
    assert!(log.contains("(Basic), not in the body"), "{log}");
}

/// Each code of a row that names a tested program is in this program.
#[test]
fn the_programs_have_the_lines_of_the_page() {
    let page = file("docs/clients.md");
    let mut tested = 0;
    for row in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let [_, lines @ .., program] = &cells[..] else {
            panic!("{row}");
        };
        let Some(program) = program.split('`').nth(1) else {
            continue;
        };
        let folder = match program.ends_with(".rs") {
            true => "tests/tests",
            false => "tests/clients",
        };
        let text = file(&format!("{folder}/{program}"));
        for code in lines
            .iter()
            .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        {
            let is_call = code.contains(['(', '=', ':']);
            assert!(!is_call || text.contains(code), "{code} in {program}");
        }
        tested += 1;
    }
    assert_eq!(tested, 24);
}
