//! Clients and users of another server: `examples/moving-in/registrations.py` prints a registrations file.

use std::process::{Command, Output};

use serde_json::json;

use crate::support::{Browser, Client, Form, OwnPair, Reply, answer, lasting_code};

const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../examples/moving-in/registrations.py"
);

/// As Keycloak exports a realm, by its documentation.
const REALM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/operations/realm.json");

const PLANNER: Client = Client {
    id: "site-planner",
    secret: Some("a-secret-of-site-planner-from-keycloak"),
    redirect_uri: "https://planner.example.com/callback",
};

/// What the script leaves out of the realm: the beginning of each line, in their order.
const REPORT: [&str; 27] = [
    "user max@example.com comes without an account",
    "user max@example.com comes without the credential otp: codes have 6 digits",
    "user max@example.com comes without the credential webauthn: no equivalent",
    "user  is not imported: it has no name",
    "user service-account-nightly is not imported: a service account",
    "client account is not imported: a client of Keycloak itself",
    "client site-planner comes without the implicit flow",
    "client site-planner comes without direct grants",
    "client site-planner comes without its service account",
    "client site-planner comes without the redirect URI https://planner.example.com/*: register each URI in full",
    "client masked is not imported: the export masks its secret",
    "client wild comes without the redirect URI *: register each URI in full",
    "client saml is not imported: it does not use OpenID Connect",
    "client api is not imported: a resource server",
    "client nightly is not imported: it does not use the authorization code",
    "settings of the realm are not imported, see docs/configuration.md: accessTokenLifespan, bruteForceProtected",
    "clients without a secret (2): they must send a code_challenge",
    "not imported: attributes of users (1): ",
    "not imported: emailVerified of users (1): ",
    "not imported: firstName of users (1): no equivalent",
    "not imported: groups of the realm (1): this service has no groups",
    "not imported: groups of users (1): ",
    "not imported: protocolMappers of clients (1): ",
    "not imported: realmRoles of users (1): ",
    "not imported: roles of the realm (1): this service has scopes",
    "not imported: scopes of Keycloak itself, such as profile, of clients (1): ",
    "not imported: webOrigins of clients (1): ",
];

/// What `apply` refuses of the realm, and what an operator writes in its place.
const CORRECTED: [(&str, &str, &str); 6] = [
    (
        "is not an e-mail address",
        "email = \"not an address\"\n",
        "",
    ),
    ("costs too much", "900000000", "90000"),
    (
        "http is for 127.0.0.1",
        ", \"http://localhost:3000/callback\"",
        "",
    ),
    ("scopes", ", \"site plans\"", ""),
    (
        "must have 32",
        "too-short",
        "a secret that is long enough now",
    ),
    (
        "redirect_uris",
        "redirect_uris = []",
        "redirect_uris = [\"com.example.wild:/callback\"]",
    ),
];

/// Runs the script with these arguments.
fn script(arguments: &[&str]) -> (String, String) {
    let mut script = Command::new(SCRIPT);
    let Output { stdout, stderr, .. } = script.args(arguments).output().unwrap();
    [stdout, stderr]
        .map(|text| String::from_utf8(text).unwrap())
        .into()
}

fn lines_begin(errors: &str, expected: &[&str]) {
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), expected.len(), "{errors}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}: {expected}");
    }
}

/// The realm as a registrations file that an operator has corrected.
pub(crate) fn registrations_of_realm(pair: &OwnPair) -> String {
    let (mut file, errors) = script(&["keycloak", REALM, "--site", "https://us1.example.com"]);
    lines_begin(&errors, &REPORT);
    let path = pair.write("realm.toml", &file);
    let refused = pair.failed(&format!("apply --import {path}"));
    for (problem, from, to) in CORRECTED {
        assert!(refused.contains(problem), "{problem}: {refused}");
        assert!(file.contains(from), "{from}: {file}");
        file = file.replace(from, to);
    }
    pair.write("realm.toml", file)
}

fn sign_in(pair: &OwnPair, username: &str, password: &str) -> (Browser, Reply) {
    let browser = Browser::new(&pair.pair.lobby_url());
    let page = browser.authorize(&[
        ("response_type", "code"),
        ("client_id", PLANNER.id),
        ("redirect_uri", PLANNER.redirect_uri),
    ]);
    let done = browser.sign_in(&page, username, password);
    (browser, done)
}

/// An access token of Kim, who signs in with the password of the realm.
pub(crate) fn token_of_kim(pair: &OwnPair) -> String {
    let (_, kim) = sign_in(pair, "kim@example.com", "a password that came along");
    let answer = answer(&kim, PLANNER.redirect_uri);
    let code = answer.iter().find(|(name, _)| name == "code").unwrap();
    let tokens = PLANNER.exchange(&pair.lobby(), &code.1, None).done();
    tokens.text("access_token")
}

#[test]
fn a_realm_of_keycloak_moves_in_with_passwords_and_secrets() {
    let pair = OwnPair::start(&[]);
    let import = format!("apply --import {}", registrations_of_realm(&pair));
    let dry = pair.done(&format!("{import} --dry-run"));
    assert!(dry.contains("Nothing was changed"), "{dry}");
    pair.failed("user show kim@example.com");
    pair.done(&import);
    assert_eq!(pair.done(&import), "Nothing differs.\n");

    let planner = pair.json("client show site-planner");
    assert_eq!(planner["scopes"], json!(["documents", "projects"]));
    let explained = pair.done(&format!("explain {}", token_of_kim(&pair)));
    assert!(explained.contains("0190f3a2-0000000000a"), "{explained}");

    let (browser, asked) = sign_in(&pair, "lee@example.com", "password");
    let form = Form::of(&asked);
    assert_eq!(form.fields, ["code"]);
    let code = lasting_code("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
    let reply = browser.submit(&form, &[("code", &code)]);
    assert_eq!(reply.status, 303, "{}", reply.body);
    assert_eq!(pair.json("user show max@example.com")["enabled"], false);
}

/// D-52: `--overwrite` says what changes, and nothing else does.
#[test]
fn a_table_of_users_moves_in_and_takes_nobody_over() {
    let pair = OwnPair::start(&[]);
    let table = "\u{feff}username,email,enabled,password_hash,password,account_user_id,account_username,account_site\r\n\
                 kim,kim@example.com,TRUE,\"$2b$06$CCCCCCCCCCCCCCCCCCCCC.eJ2SOrJVxHDPGQQoWuRWXRPOI3B9QuW\",,1,kim,https://us1.example.com\r\n\
                 \"lee \"\"q\"\"\",,False,,,,,\r\n\
                 ,nobody@example.com,,,,,,\r\n\
                 mo,,,,,1.87905E+09,mo,https://us1.example.com\r\n\
                 max,,,,\"4,71147E+11\",,,\r\n\
                 ada@example.com,ada@example.com,,,,,,\r\n";
    let (file, errors) = script(&["csv", &pair.write("users.csv", table)]);
    let rounded = "a spreadsheet rounded the number; format the column as text";
    let expected = [
        "a user is not imported: it has no name (line 4)",
        &format!("user mo is not imported: account_user_id: {rounded} (line 5)"),
        &format!("user max is not imported: password: {rounded} (line 6)"),
        "user ada@example.com cannot sign in: the table has no password",
    ];
    lines_begin(&errors, &expected);
    let import = format!("apply --import {}", pair.write("users.toml", file));
    let ada = "! user ada@example.com: stays, because a registrations file lists it; other";
    let done = pair.done(&import);
    assert!(done.starts_with("+ user kim\n+ user lee \"q\"\n"), "{done}");
    assert!(done.contains(ada), "{done}");
    let kim = pair.json("user show kim");
    assert_eq!(kim["accounts"][0]["site"], "https://us1.example.com");
    assert_eq!(kim["has_password"], true);

    pair.done("user update kim --email other@example.com");
    let kept = pair.done(&import);
    let stays = "! user kim: stays, because it is registered; other email";
    assert!(kept.contains(stays), "{kept}");
    let changed = pair.done(&format!("{import} --overwrite"));
    let email = "email: \"other@example.com\" -> \"kim@example.com\"";
    assert!(
        changed.contains(email) && changed.contains(ada),
        "{changed}"
    );
}

#[test]
fn a_table_that_is_none_is_refused_with_the_cause() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.csv");
    for (table, cause) in [
        (
            "username;email\nkim;\n",
            "the column 'username;email' is unknown",
        ),
        ("username,email,email\nkim,,\n", "a column appears twice"),
        ("email\nkim\n", "the column username is missing"),
        (
            "username,email\nmo,\"mo@example.com\nno,\n",
            "line 3: unexpected end of data",
        ),
        ("username,email\nmo\n", "line 2: 1 cells for 2 columns"),
    ] {
        std::fs::write(&path, table).unwrap();
        let (_, errors) = script(&["csv", path.to_str().unwrap()]);
        assert!(errors.contains(cause), "{errors}");
    }
}

#[test]
fn the_report_names_who_can_no_longer_sign_in() {
    let folder = tempfile::tempdir().unwrap();
    let realm = json!({"realm": "site", "users": [
        {"username": "key", "enabled": true, "credentials": [{"type": "webauthn-passwordless"}]},
        {"username": "social", "enabled": true, "federatedIdentities": [{"identityProvider": "google", "userId": "1"}]},
        {"username": "employee", "enabled": true, "federatedIdentities": [{"identityProvider": "corp", "userId": "00u1"}]},
        {"username": "staff", "enabled": true, "federationLink": "ldap"},
        {"username": "invited", "enabled": true, "requiredActions": ["UPDATE_PASSWORD", "VERIFY_EMAIL"]},
        {"username": "new", "enabled": true, "credentials": [
            {"type": "password", "value": "given by an operator", "temporary": true},
        ]},
        {"username": "gone", "enabled": false},
    ]});
    let path = folder.path().join("realm.json");
    std::fs::write(&path, format!("\u{feff}{realm}")).unwrap();
    let provider = ["--identity-provider", "corp=https://sso.example.com"];
    let (file, errors) = script(&[&["keycloak", path.to_str().unwrap()], &provider[..]].concat());
    let expected = [
        "user key comes without the credential webauthn-passwordless: no equivalent",
        "user key cannot sign in: the passkey is not imported",
        "user social cannot sign in: the issuer of the identity provider is not given (--identity-provider ALIAS=ISSUER)",
        "user staff cannot sign in: the password is at a directory",
        "user invited cannot sign in: the export has no password",
        "not imported: federationLink of users (1): ",
        "not imported: identities of users at the identity provider google (1): name its issuer with --identity-provider",
        "not imported: requiredActions of users (1): ",
        "users without an account (7): ",
    ];
    lines_begin(&errors, &expected);
    let identity = "[{ issuer = \"https://sso.example.com\", subject = \"00u1\" }]";
    assert!(
        file.contains(&format!("identities = {identity}\n")),
        "{file}"
    );
    assert_eq!(file.matches("must_change_password = true\n").count(), 2);
}
