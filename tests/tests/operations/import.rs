//! Clients and users of another server.

use crate::support::{Browser, Client, Form, OwnPair, Reply, answer, lasting_code};

/// As Keycloak exports a realm, by its documentation.
pub(crate) const REALM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/operations/realm.json");

const PLANNER: Client = Client {
    id: "site-planner",
    secret: Some("a-secret-of-site-planner-from-keycloak"),
    redirect_uri: "https://planner.example.com/callback",
};

/// Parts of the lines of the report, one for each line.
const REPORT: [&str; 34] = [
    "settings of the realm are not imported, see docs/configuration.md: accessTokenLifespan, bruteForceProtected",
    "not imported: roles of the realm (1): this service has scopes",
    "not imported: groups of the realm (1): ",
    "not imported: attributes of users (1): ",
    "not imported: emailVerified of users (1): ",
    "not imported: firstName of users (1): no equivalent",
    "not imported: realmRoles of users (1): ",
    "not imported: groups of users (1): ",
    "not imported: protocolMappers of clients (1): ",
    "not imported: webOrigins of clients (1): ",
    "not imported: scopes of Keycloak itself, such as profile, of clients (1): ",
    "clients without a secret (2): they must send a code_challenge",
    "user lee@example.com comes without email: is not an e-mail address",
    "user max@example.com comes without an account",
    "user max@example.com comes without the credential otp: codes have 6 digits",
    "user max@example.com comes without the credential webauthn: no equivalent",
    "user max@example.com comes without password_hash: costs too much",
    "user  is not imported: accounts: is empty",
    "user  is not imported: username: is empty",
    "user service-account-nightly is not imported: a service account",
    "client account is not imported: a client of Keycloak itself",
    "client site-planner comes without the implicit flow",
    "client site-planner comes without direct grants",
    "client site-planner comes without its service account",
    "client site-planner comes without the redirect URI https://planner.example.com/*: register each URI in full",
    "client site-planner comes without the redirect URI http://localhost:3000/callback: http is for 127.0.0.1",
    "client site-planner comes without the scope \"site plans\": it is not a scope token",
    "client masked is not imported: the export masks its secret",
    "client short is not imported: client_secret: must have 32",
    "client wild comes without the redirect URI *: register each URI in full",
    "client wild is not imported: redirect_uris: ",
    "client saml is not imported: it does not use OpenID Connect",
    "client api is not imported: a resource server",
    "client nightly is not imported: it does not use the authorization code",
];

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
    let import = |more: &[&str]| {
        let site = ["--site", "https://us1.example.com"];
        pair.operate(
            &[&["import", "keycloak", REALM], &site[..], more].concat(),
            "",
        )
    };
    let dry = import(&["--dry-run"]);
    assert!(dry.output.contains("Nothing was changed"), "{dry:?}");
    pair.operate(&["user", "show", "kim@example.com"], "")
        .failed(1);
    let done = import(&[]);
    let counts = "Users: 5 read, 3 new, 0 changed, 0 kept, 2 not imported\n\
                  Clients: 9 read, 2 new, 0 changed, 0 kept, 7 not imported\n";
    assert_eq!(done.output, counts, "{}", done.errors);
    for (which, outcome) in [("dry", &dry), ("real", &done)] {
        for part in REPORT {
            let lines = outcome.errors.lines().filter(|line| line.contains(part));
            assert_eq!(lines.count(), 1, "{which}: {part}\n{}", outcome.errors);
        }
        assert_eq!(
            outcome.errors.lines().count(),
            REPORT.len(),
            "{}",
            outcome.errors
        );
    }
    // Something of a client is not imported.
    let again = import(&[]);
    let counts = "Users: 5 read, 0 new, 0 changed, 0 kept, 2";
    assert!(again.output.starts_with(counts), "{again:?}");
    again.failed(3);

    let planner = pair.json("client show site-planner");
    assert_eq!(
        planner["scopes"],
        serde_json::json!(["documents", "projects"])
    );

    let token = token_of_kim(&pair);
    let explained = pair.operate(&["explain", &token], "").done();
    assert!(explained.contains("0190f3a2-0000000000a"), "{explained}");

    let (browser, asked) = sign_in(&pair, "lee@example.com", "password");
    let form = Form::of(&asked);
    assert_eq!(form.fields, ["code"]);
    let code = lasting_code("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
    let reply = browser.submit(&form, &[("code", &code)]);
    assert_eq!(reply.status, 303, "{}", reply.body);
    let max = pair.json("user show max@example.com");
    assert_eq!(
        (&max["enabled"], &max["has_password"]),
        (&false.into(), &false.into())
    );
}

#[test]
fn a_table_of_users_moves_in() {
    let pair = OwnPair::start(&[]);
    let table = "username,email,enabled,password_hash,account_user_id,account_username,account_site\r\n\
                 kim,kim@example.com,,\"$2b$06$CCCCCCCCCCCCCCCCCCCCC.eJ2SOrJVxHDPGQQoWuRWXRPOI3B9QuW\",1,kim,https://us1.example.com\r\n\
                 lee,lee,false,,,,\r\n\
                 ,nobody@example.com,,,,,\r\n";
    let path = pair.write("users.csv", table);
    let import = ["import", "csv", &path];
    let done = pair.operate(&import, "");
    assert!(
        done.output
            .starts_with("Users: 3 read, 2 new, 0 changed, 0 kept, 1 not imported"),
        "{done:?}"
    );
    assert_eq!(done.errors.lines().count(), 2, "{}", done.errors);
    let kim = pair.json("user show kim");
    assert_eq!(kim["accounts"][0]["site"], "https://us1.example.com");
    assert_eq!(kim["has_password"], true);
    pair.write("users.csv", "name\nkim\n");
    let unknown = pair.operate(&import, "").failed(1);
    assert!(
        unknown.contains("the column \"name\" is unknown"),
        "{unknown}"
    );
    pair.write("users.csv", "username,email\nmo,\"mo@example.com\nno,\n");
    let open = pair.operate(&import, "").failed(1);
    assert!(
        open.contains("users.csv: line 2: the quotes of a cell do not end"),
        "{open}"
    );
    pair.operate(&["user", "show", "mo"], "").failed(1);
}

/// The service plans one part of 5,000 users at a time.
#[test]
fn a_problem_of_one_user_stops_no_other() {
    let pair = OwnPair::start(&[]);
    let mut table = String::from("username,email,account_user_id,account_username,account_site\n");
    for number in 0..5000 {
        table += &format!("u{number},u{number}@example.com,,,\n");
    }
    let site = "https://us1.example.com";
    table += "U0,other@example.com,,,\n";
    table += &format!("long,,{},long,{site}\n", "1".repeat(36));
    table += "\"a\nuser forged\",,,,\nlast,,,,\n";
    let path = pair.write("users.csv", table);
    let import = ["import", "csv", &path];
    for more in [&["--dry-run"][..], &[]] {
        let done = pair.operate(&[&import, more].concat(), "");
        let counts = "Users: 5004 read, 5002 new, 0 changed, 0 kept, 2 not imported";
        assert!(done.output.starts_with(counts), "{done:?}");
        assert!(
            done.errors
                .contains("user U0 is not imported: the file has this name already")
        );
        assert!(
            done.errors
                .contains("user long comes without accounts: user_id")
        );
        assert!(
            done.errors
                .lines()
                .all(|line| !line.starts_with("user forged"))
        );
    }
    assert_eq!(pair.json("user show u0")["email"], "u0@example.com");
    assert_eq!(
        pair.json("user show long")["accounts"],
        serde_json::json!([])
    );
}

/// D-52. The second file is of another server, with other people of the same names.
#[test]
fn an_import_takes_nobody_over() {
    let pair = OwnPair::start(&[]);
    let head = "username,email,organization,password,account_user_id,account_username,account_site";
    let staff = format!(
        "{head}\nboss,boss@a.example,majestic,password of the boss,42,boss,https://us1.example.com\n"
    );
    pair.done(&format!("import csv {}", pair.write("staff.csv", &staff)));
    let before = pair.json("user show boss");
    let others = format!(
        "{head}\nboss,boss@b.example,,password of another,,,\nada@example.com,,,password of another,,,\n\
         mallory,,,password of mallory,42,mallory,https://us1.example.com\n"
    );
    let others = pair.write("others.csv", &others);
    for more in [" --dry-run", ""] {
        let done = pair.run(&format!("import csv {others}{more}"));
        assert_eq!(done.code, 3, "{done:?}");
        let lines = [
            "! user boss: stays, because it is registered; other email, organization, password, accounts",
            "! user ada@example.com: stays, because a registrations file lists it; other",
            "user mallory comes without accounts: boss has the account 42 at https://us1.example.com",
        ];
        for line in lines {
            assert!(done.errors.contains(line), "{}", done.errors);
        }
        let counts = "Users: 3 read, 1 new, 0 changed, 2 kept, 0 not imported";
        assert!(done.output.starts_with(counts), "{}", done.output);
        assert_eq!(pair.json("user show boss"), before);
    }
    assert_eq!(
        pair.json("user show mallory")["accounts"],
        serde_json::json!([])
    );
    let done = pair.run(&format!("import csv {others} --overwrite"));
    for line in [
        "~ user boss: email, organization, password",
        "email: \"boss@a.example\" -> \"boss@b.example\"",
    ] {
        assert!(done.errors.contains(line), "{}", done.errors);
    }
    assert_eq!(pair.json("user show boss")["email"], "boss@b.example");
}

#[test]
fn tables_of_spreadsheets_are_read_or_refused_with_the_cause() {
    let pair = OwnPair::start(&[]);
    let import = |table: &str| {
        let path = pair.write("users.csv", table);
        pair.operate(&["import", "csv", &path, "--dry-run"], "")
    };
    let marked = import("\u{feff}username,enabled\r\nkim,TRUE\r\nlee,False\r\n").done();
    assert!(marked.starts_with("Users: 2 read, 2 new"), "{marked}");
    let head = "username,password,account_user_id,account_username,account_site";
    let rounded = import(&format!(
        "{head}\nkim,,1.87905E+09,kim,https://us1.example.com\nmax,\"4,71147E+11\",,,\nlee,,,,\n"
    ));
    let counts = "Users: 3 read, 1 new, 0 changed, 0 kept, 2 not imported";
    assert!(rounded.output.starts_with(counts), "{rounded:?}");
    let rounded = rounded.failed(3);
    for line in [
        "user kim is not imported: account_user_id: a spreadsheet rounded the number; format the column as text (line 2)",
        "user max is not imported: password: a spreadsheet rounded the number; format the column as text (line 3)",
    ] {
        assert!(rounded.contains(line), "{rounded}");
    }
    for (table, cause) in [
        ("username;email\nkim;\n", "columns are separated by ';'"),
        (
            "username,email,email\nkim,,\n",
            "the column email appears twice",
        ),
    ] {
        let refused = import(table).failed(1);
        assert!(refused.contains(cause), "{refused}");
    }
}

/// Whoever could sign in there and cannot sign in here is named.
#[test]
fn the_report_names_who_can_no_longer_sign_in() {
    let pair = OwnPair::start(&[]);
    let realm = serde_json::json!({"realm": "site", "users": [
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
    let path = pair.write("realm-of-people.json", format!("\u{feff}{realm}"));
    let provider = ["--identity-provider", "corp=https://sso.example.com"];
    let import = |path: &str| {
        let import = ["import", "keycloak", path];
        pair.operate(&[&import[..], &provider].concat(), "")
    };
    let done = import(&path);
    let summary = done.output.clone();
    let errors = done.failed(3);
    for line in [
        "identities of users at the identity provider google (1): name its issuer with --identity-provider",
        "user key cannot sign in: the passkey is not imported; user invite NAME prints",
        "user social cannot sign in: the issuer of the identity provider is not given (--identity-provider ALIAS=ISSUER); user invite NAME prints",
        "user staff cannot sign in: the password is at a directory; user invite NAME prints",
        "user invited cannot sign in: the export has no password; user invite NAME prints",
    ] {
        assert!(errors.contains(line), "{line}\n{errors}");
    }
    assert!(!errors.contains("user gone"), "{errors}");
    assert!(
        summary.contains("4 people cannot sign in: key, social, staff, invited"),
        "{summary}"
    );
    assert!(!errors.contains("employee"), "{errors}");
    let employee = pair.json("user show employee");
    let identity = serde_json::json!({"issuer": "https://sso.example.com", "subject": "00u1"});
    assert_eq!(employee["identities"], serde_json::json!([identity]));
    let again = serde_json::json!({"realm": "site", "users": [
        {"username": "twin", "enabled": true, "federatedIdentities": [{"identityProvider": "corp", "userId": "00u1"}]},
    ]});
    let path = pair.write("realm-of-a-twin.json", again.to_string());
    let twin = import(&path).failed(3);
    let without =
        "user twin comes without identities: employee has 00u1 of https://sso.example.com";
    assert!(twin.contains(without), "{twin}");
    assert!(twin.contains("user twin cannot sign in"), "{twin}");
    for asked in ["invited", "new"] {
        let shown = pair.json(&format!("user show {asked}"));
        assert_eq!(shown["must_change_password"], true, "{asked}");
    }
}
