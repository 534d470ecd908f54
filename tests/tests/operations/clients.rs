//! Clients and their secrets, registered while the service runs.

use serde_json::json;

use crate::api::until;
use crate::support::{Browser, OwnPair, Reply, WEB, get, post};

fn token(pair: &OwnPair, client_id: &str, secret: &str) -> Reply {
    use base64::Engine as _;
    let credentials =
        base64::engine::general_purpose::STANDARD.encode(format!("{client_id}:{secret}"));
    let headers = [("authorization", format!("Basic {credentials}"))];
    let url = format!("{}/auth/token", pair.pair.lobby_url());
    post(&url, &headers, "grant_type=client_credentials")
}

fn call(pair: &OwnPair, token: &str) -> u16 {
    let url = format!("{}/api/projects", pair.pair.api_url());
    get(&url, &[("authorization", &format!("Bearer {token}"))]).status
}

/// The secret in the output of a command.
fn secret(output: &str) -> String {
    let secret = output.lines().last().unwrap().to_owned();
    assert!(secret.starts_with("tscs_"), "{output}");
    assert_eq!(secret.len(), 5 + 43, "256 bits in base64url");
    secret
}

#[test]
fn a_client_lives_from_registration_to_removal() {
    let pair = OwnPair::start(&[]);
    let add = pair.operate(
        &[
            "client",
            "add",
            "--type",
            "user_bound",
            "meter",
            "--scope",
            "projects",
            "--bound-user",
            "ada@example.com",
        ],
        "",
    );
    let first = secret(&add.done());
    let issued = token(&pair, "meter", &first);
    assert_eq!(issued.status, 200, "{}", issued.body);

    let second = secret(
        &pair
            .operate(&["client", "rotate-secret", "meter"], "")
            .done(),
    );
    assert_eq!(
        token(&pair, "meter", &first).status,
        200,
        "two are live during a rotation"
    );
    assert_eq!(token(&pair, "meter", &second).status, 200);
    let third = pair.operate(&["client", "rotate-secret", "meter"], "");
    assert!(third.failed(1).contains("2 live secrets"));
    pair.operate(&["client", "rotate-secret", "meter", "--end-old"], "")
        .done();
    token(&pair, "meter", &first).assert_error(401, "invalid_client");
    assert_eq!(token(&pair, "meter", &second).status, 200);

    let access = issued.text("access_token");
    assert_eq!(call(&pair, &access), 200);
    pair.operate(&["client", "update", "meter", "--disable"], "")
        .done();
    token(&pair, "meter", &second).assert_error(401, "invalid_client");
    until("the gateway knows", || call(&pair, &access) == 401);
    pair.operate(&["client", "update", "meter", "--enable"], "")
        .done();
    until("new tokens are valid", || {
        token(&pair, "meter", &second).status == 200
    });

    pair.operate(&["client", "remove", "meter"], "").done();
    token(&pair, "meter", &second).assert_error(401, "invalid_client");
    let gone = pair.operate(&["client", "show", "meter"], "");
    assert!(gone.failed(1).contains("there is no client meter"));
}

/// D-42.
#[test]
fn a_scope_that_is_taken_from_a_client_leaves_its_grants() {
    let pair = OwnPair::start(&[]);
    let lobby = pair.pair.lobby_url();
    let code = Browser::new(&lobby).code_for(&WEB, None);
    let first = WEB.exchange(&lobby, &code, None);
    assert_eq!(first.json().get("scope"), None, "all that was asked for");
    let path = format!("/clients/{}", WEB.id);
    let taken = pair.administrate("PATCH", &path, r#"{"scopes": ["projects"]}"#);
    assert_eq!(taken.status, 200, "{}", taken.body);
    let used = first.text("refresh_token");
    let asking_for = |scope| {
        let token = [("grant_type", "refresh_token"), ("refresh_token", &*used)];
        WEB.token(&lobby, &[&token[..], &[("scope", scope)]].concat())
    };
    asking_for("documents").assert_error(400, "invalid_request");
    let second = WEB.refresh(&lobby, &used);
    assert_eq!(second.text("scope"), "projects");
    let claims = crate::token::claims(&second.text("access_token"));
    assert_eq!(claims["scope"], "projects");
    // Within the grace, for something else than the first use.
    asking_for("documents").assert_error(400, "invalid_request");
    let third = WEB.refresh(&lobby, &second.text("refresh_token"));
    assert_eq!((third.status, third.json().get("scope")), (200, None));
}

/// Before operators end an old secret, they must be able to see that nobody uses it any more.
#[test]
fn the_times_of_client_secrets_are_shown() {
    let pair = OwnPair::start(&[]);
    let add = ["client", "add", "meter", "--type", "user_bound"];
    let of_ada = ["--bound-user", "ada@example.com", "--scope", "projects"];
    pair.operate(&[&add[..], &of_ada].concat(), "").done();
    let rotated = pair.operate(&["client", "rotate-secret", "meter"], "");
    let secret = secret(&rotated.done());
    let times = || {
        let shown = pair.operate_json(&["client", "show", "meter"]);
        shown["secret_times"].as_array().unwrap().clone()
    };
    let [old, new] = &times()[..] else {
        panic!("two live secrets");
    };
    for unused in [old, new] {
        assert!(unused["added_at"].is_string(), "{unused}");
        assert!(unused.get("last_used_at").is_none(), "{unused}");
    }
    assert_eq!(token(&pair, "meter", &secret).status, 200);
    until("the use is noted", || {
        times()[1]["last_used_at"].is_string()
    });
    assert!(times()[0].get("last_used_at").is_none());
    let listed = pair.operate_json(&["client", "list"]);
    let listed = listed["items"].as_array().unwrap().iter();
    let listed = listed.filter(|client| client["client_id"] == "meter");
    let listed: Vec<_> = listed
        .map(|client| client["secret_times"].clone())
        .collect();
    assert_eq!(listed, [json!(times())]);
    let shown = pair.operate(&["client", "show", "meter"], "").done();
    for part in ["added 20", "last used 20", "no use noted", " ago)"] {
        assert!(shown.contains(part), "{shown}");
    }
}

#[test]
fn a_removed_clients_refresh_tokens_and_access_tokens_are_dead() {
    let pair = OwnPair::start(&[]);
    let lobby = pair.pair.lobby_url();
    let client = crate::support::WEB;
    let code = Browser::new(&lobby).code_for(&client, None);
    let tokens = client.exchange(&lobby, &code, None);
    let access = tokens.text("access_token");
    assert_eq!(call(&pair, &access), 200);
    assert_eq!(
        pair.administrate("DELETE", "/clients/web-demo", "").status,
        204
    );
    until("the gateway knows", || call(&pair, &access) == 401);
    client
        .refresh(&lobby, &tokens.text("refresh_token"))
        .assert_error(401, "invalid_client");
}

#[test]
fn certificates_are_added_and_removed_while_the_service_runs() {
    let pair = OwnPair::start(&[]);
    let lobby = pair.pair.lobby_url();
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["sync".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let file = pair.state().join("cert.der");
    std::fs::write(&file, certificate.der()).unwrap();
    let assert_with = |alias: &str| {
        let mut assertion = crate::support::Assertion::of("ada@example.com");
        assertion.header["kid"] = json!(alias);
        crate::support::NON_INTERACTIVE.token(
            &lobby,
            &[
                ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
                ("assertion", &assertion.sign_with(&key.serialize_der())),
            ],
        )
    };
    assert_with("new").assert_error(400, "invalid_grant");
    let add = ["client", "add-certificate", "non-interactive-demo", "new"];
    let add = [&add[..], &[file.to_str().unwrap()]].concat();
    let shown = pair.operate(&add, "").done();
    assert!(
        shown.contains("demo-2020") && shown.contains("new"),
        "{shown}"
    );
    let again = pair.operate(&add, "");
    assert!(again.failed(1).contains("already"));
    assert_eq!(assert_with("new").status, 200);
    pair.operate(
        &[
            "client",
            "remove-certificate",
            "non-interactive-demo",
            "new",
        ],
        "",
    )
    .done();
    assert_with("new").assert_error(400, "invalid_grant");
    let wrong = pair.administrate(
        "PUT",
        "/clients/non-interactive-demo/certificates/x",
        "not a certificate",
    );
    assert_eq!(wrong.status, 400);
    assert_eq!(wrong.json()["error"], "invalid_request");
}

#[test]
fn every_problem_of_a_registration_is_told_and_nothing_changes() {
    let pair = OwnPair::start(&[]);
    let before = pair.administrate("GET", "/clients", "").body;
    let body = json!({
        "client_id": "a b",
        "type": "web_server",
        "redirect_uris": ["http://shop.example.com/cb", "https://shop.example.com/*"],
        "bound_user": "ada@example.com",
        "colour": "red",
    });
    let reply = pair.administrate("POST", "/clients", &body.to_string());
    assert_eq!(reply.status, 400);
    let problems = reply.json()["problems"].to_string();
    for problem in [
        "client_id: must have",
        "redirect_uris[0]: http://shop.example.com/cb: ",
        "redirect_uris[1]: https://shop.example.com/*: ",
        "bound_user: not for a client of type web_server",
        "colour: unknown key",
    ] {
        assert!(problems.contains(problem), "{problem} in {problems}");
    }
    let file = json!({"client_id": "x", "type": "non_interactive", "certificates": [{"alias": "a", "file": "/etc/passwd"}]});
    let reply = pair.administrate("POST", "/clients", &file.to_string());
    assert_eq!(reply.status, 400, "files of the machine cannot be named");
    for (body, status) in [("", 400), ("[]", 400), ("{", 400)] {
        assert_eq!(pair.administrate("POST", "/clients", body).status, status);
    }
    let taken = json!({"client_id": "web-demo", "type": "installed", "redirect_uris": ["https://a.example/cb"]});
    let reply = pair.administrate("POST", "/clients", &taken.to_string());
    assert_eq!(
        (reply.status, reply.text("error").as_str()),
        (409, "conflict")
    );
    let other_type = json!({"type": "installed"});
    let reply = pair.administrate("PATCH", "/clients/web-demo", &other_type.to_string());
    assert_eq!(reply.status, 409, "{}", reply.body);
    assert_eq!(pair.administrate("GET", "/clients", "").body, before);
}

#[test]
fn lists_are_paged() {
    let pair = OwnPair::start(&[]);
    let (mut after, mut seen) = (String::new(), Vec::new());
    loop {
        let page = pair
            .administrate("GET", &format!("/clients?limit=2{after}"), "")
            .json();
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 2);
        seen.extend(
            items
                .iter()
                .map(|item| item["client_id"].as_str().unwrap().to_owned()),
        );
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    let mut sorted = seen.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(seen, sorted);
    assert_eq!(seen.len(), 6, "{seen:?}");
}

#[test]
fn nobody_administrates_without_the_token() {
    let pair = OwnPair::start(&[]);
    let url = format!("{}/admin/clients", pair.pair.internal_url());
    for authorization in [
        None,
        Some("Bearer wrong"),
        Some("Basic YTpi"),
        Some("Bearer "),
    ] {
        let headers: Vec<_> = authorization
            .map(|value| ("authorization", value))
            .into_iter()
            .collect();
        let reply = get(&url, &headers);
        reply.assert_error(401, "invalid_token");
        assert!(
            reply
                .header("www-authenticate")
                .unwrap()
                .starts_with("Bearer")
        );
    }
    let public = format!("{}/admin/clients", pair.pair.lobby_url());
    assert_eq!(get(&public, &[]).status, 404, "not on the public listener");
    let openapi = get(
        &format!("{}/admin/openapi.json", pair.pair.internal_url()),
        &[],
    );
    let description = openapi.json();
    for path in [
        "/admin/clients",
        "/admin/users/{username}",
        "/admin/keys/rotate",
        "/admin/audit",
    ] {
        assert!(description["paths"].get(path).is_some(), "{path}");
    }
}

/// `check` prints the problems of configuration and registrations together, with file and line. `apply` prints those of the
/// registrations in the same form.
#[test]
fn problems_have_their_file_and_line_in_check_and_in_apply() {
    let pair = OwnPair::start(&[]);
    let write = |name: &str, text: &str| {
        let path = pair.state().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let wrong = write(
        "wrong.toml",
        "[[clients]]\nclient_id = \"spa\"\ntype = \"installed\"\nredirect_uris = [\"https://spa.example.com/cb\"]\n\
         scope = []\n\n[[clients]]\nclient_id = \"sap\"\ntype = \"non_interactive\"\n\
         [[clients.certificates]]\nalias = \"a\"\nfile = \"absent.pem\"\n",
    );
    let config = write(
        "config.toml",
        "registrations = \"wrong.toml\"\nlisen = \"127.0.0.1:1\"\n",
    );
    let checked = pair.operate(&["check", "--config", &config], "");
    assert_eq!(checked.code, 1, "{}", checked.errors);
    for line in [
        "config.toml:2: lisen: unknown key; did you mean listen?",
        "wrong.toml:5: scope: unknown key; did you mean scopes?",
        "wrong.toml:12: file: absent.pem cannot be read",
    ] {
        assert!(
            checked.output.contains(line),
            "{line} in {}",
            checked.output
        );
    }
    let applied = pair.operate(&["apply", &wrong], "").failed(1);
    assert!(
        applied.contains("wrong.toml:12: file: absent.pem cannot be read"),
        "{applied}"
    );
    // The output shows problems that only the service can find with the lines of the file.
    write("bad.pem", "no certificate");
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    let parameters = rcgen::CertificateParams::new(vec!["sync".to_owned()]).unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    std::fs::write(pair.state().join("good.der"), certificate.der()).unwrap();
    let secret = "s".repeat(32);
    let wrong = write(
        "wrong.toml",
        &format!(
            "[[clients]]\nclient_id = \"spa\"\ntype = \"installed\"\nredirect_uris = [\"https://spa.example.com/cb\",\n\
             \"nonsense\"]\nscope = []\n\n[[clients]]\nclient_id = \"spa\"\n\n\
             [[clients]]\nclient_id = \"sync\"\ntype = \"non_interactive\"\nclient_secret = \"{secret}\"\n\
             [[clients.certificates]]\nalias = \"a\"\nfile = \"bad.pem\"\n\
             [[clients.certificates]]\nalias = \"a\"\nfile = \"good.der\"\n\n\
             [[clients]]\nclient_id = \"backup\"\ntype = \"user_bound\"\nclient_secret = \"{secret}\"\n\
             bound_user = \"nobody@example.com\"\nenabled = \"yes\"\n\n[[users]]\nemail = \"a\"\n[other]\n"
        ),
    );
    let applied = pair.operate(&["apply", &wrong], "").failed(1);
    let checked = pair.operate(&["check", "--config", &config], "").output;
    let checked: Vec<&str> = checked
        .lines()
        .filter(|line| line.contains("wrong.toml"))
        .collect();
    assert_eq!(applied.lines().collect::<Vec<_>>(), checked);
    assert_eq!(checked.len(), 11, "{checked:#?}");
    assert!(applied.contains("wrong.toml:9: client_id: spa is already at "));

    // The service's problems have the lines of the file too.
    let unwise = write(
        "unwise.toml",
        "[[clients]]\nclient_id = \"app\"\ntype = \"installed\"\nredirect_uris = [\"app:/cb\"]\n",
    );
    let applied = pair.operate(&["apply", &unwise, "--dry-run"], "").failed(1);
    let problem = format!("{unwise}:4: redirect_uris: app:/cb: a private-use scheme");
    assert!(applied.contains(&problem), "{applied}");

    let syntax = write("syntax.toml", "[[clients]]\nclient_id = \n");
    let applied = pair.operate(&["apply", &syntax], "").failed(1);
    assert!(applied.contains("syntax.toml:2: "), "{applied}");

    // protocol.md §2.5: a legacy access token has 481 characters.
    let client = "c".repeat(120);
    let long = write(
        "long.toml",
        &format!(
            "[[clients]]\nclient_id = \"{client}\"\ntype = \"legacy\"\nredirect_uris = [\"https://a.example/cb\"]\n"
        ),
    );
    let config = write(
        "config.toml",
        "registrations = \"long.toml\"\nissuer = \"http://127.0.0.1:8081\"\n\
         api_audience = \"http://127.0.0.1:8080\"\nidentity_audience = \"https://identity.example.com/\"\n\
         [[legacy_instances]]\nhostname = \"us1.legacy.example\"\nauth_server_hostname = \"sso.legacy.example\"\n",
    );
    let checked = pair.operate(&["check", "--config", &config], "");
    let applied = pair.operate(&["apply", &long], "").failed(1);
    for (code, text) in [(checked.code, checked.output), (1, applied)] {
        let line = text.lines().find(|line| line.contains("481 characters"));
        assert!(
            line.is_some_and(|line| line.contains("long.toml:2: client_id: ")),
            "{text}"
        );
        assert_eq!(code, 1);
    }
}

#[test]
fn applying_a_file_is_idempotent_and_prunes_only_when_asked() {
    let pair = OwnPair::start(&[]);
    let demo = pair
        .pair
        .artifacts()
        .repository
        .join("demo/registrations.toml");
    let demo = demo.to_str().unwrap();
    let nothing = pair.operate(&["apply", demo], "").done();
    assert!(nothing.contains("Nothing differs."), "{nothing}");

    let file = pair.state().join("more.toml");
    let text = "[[clients]]\nclient_id = \"spa\"\ntype = \"installed\"\nredirect_uris = [\"https://spa.example.com/cb\"]\n";
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let dry = pair.operate(&["apply", file, "--dry-run"], "").done();
    assert!(dry.contains("+ client spa"), "{dry}");
    pair.operate(&["client", "show", "spa"], "").failed(1);
    pair.operate(&["apply", file], "").done();
    pair.operate(&["client", "show", "spa"], "").done();

    let dry = pair
        .operate(&["apply", demo, "--prune", "--dry-run"], "")
        .done();
    assert!(
        dry.contains("- client spa") && !dry.contains("- user"),
        "{dry}"
    );
    let scoped = format!("{text}scopes = [\"projects\"]\nname = \"App\"\n");
    std::fs::write(pair.state().join("more.toml"), scoped).unwrap();
    let drift = pair.operate(&["apply", file, "--dry-run", "--exit-code"], "");
    assert_eq!(drift.code, 2, "{}", drift.errors);
    for line in [
        "~ client spa: name, scopes",
        "    name: \"spa\" -> \"App\"",
        "    scopes: +projects",
    ] {
        assert!(
            drift.output.lines().any(|found| found == line),
            "{}",
            drift.output
        );
    }
    pair.operate(&["apply", demo, "--prune"], "").done();
    pair.operate(&["client", "show", "spa"], "").failed(1);

    std::fs::write(
        pair.state().join("more.toml"),
        "[[clients]]\nclient_id = 5\n",
    )
    .unwrap();
    let problems = pair.operate(&["apply", file], "").failed(1);
    assert!(
        problems.contains("more.toml:2: client_id: expected a string"),
        "{problems}"
    );
}

#[test]
fn no_service_and_wrong_arguments_have_exit_codes_of_their_own() {
    let mut pair = OwnPair::start(&[]);
    pair.operate(&["client", "frobnicate"], "").failed(2);
    pair.pair.stop_token_service();
    let gone = pair.operate(&["client", "list"], "").failed(69);
    assert!(gone.contains("no token service answers at"), "{gone}");
    let completions = pair.operate(&["completions", "bash"], "").done();
    assert!(completions.contains("rotate-secret"));
}
