//! Clients and their secrets, registered while the service runs.

use serde_json::json;
use tests::SigningKey;

use crate::api::until;
use crate::support::{Assertion, NON_INTERACTIVE, OwnPair, Reply, WEB, basic, get, post};

fn token(pair: &OwnPair, client_id: &str, secret: &str) -> Reply {
    let headers = [("authorization", basic(client_id, secret))];
    let url = format!("{}/auth/token", pair.lobby());
    post(&url, &headers, "grant_type=client_credentials")
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
    let add = "client add meter --type user_bound --scope projects --bound-user ada@example.com";
    let first = secret(&pair.done(add));
    let issued = token(&pair, "meter", &first).done();

    let second = secret(&pair.done("client rotate-secret meter"));
    for live in [&first, &second] {
        assert_eq!(token(&pair, "meter", live).status, 200);
    }
    let third = pair.failed("client rotate-secret meter");
    assert!(third.contains("2 live secrets"), "{third}");
    let ended = pair.done("client rotate-secret meter --end-old");
    assert!(
        ended.contains("removed client secret stay valid"),
        "{ended}"
    );
    token(&pair, "meter", &first).assert_error(401, "invalid_client");
    assert_eq!(token(&pair, "meter", &second).status, 200);

    let access = issued.text("access_token");
    assert_eq!(pair.call(&access), 200);
    pair.done("client update meter --disable");
    token(&pair, "meter", &second).assert_error(401, "invalid_client");
    pair.until_refused(&access);
    pair.done("client update meter --enable");
    until("new tokens are valid", || {
        token(&pair, "meter", &second).status == 200
    });

    pair.done("client remove meter");
    token(&pair, "meter", &second).assert_error(401, "invalid_client");
    let gone = pair.failed("client show meter");
    assert!(gone.contains("there is no client meter"), "{gone}");
}

/// D-42.
#[test]
fn a_scope_leaves_grants_with_the_client_and_returns_with_it() {
    let pair = OwnPair::start(&[]);
    let lobby = pair.lobby();
    let first = WEB.grant(&lobby);
    assert_eq!(first.json().get("scope"), None, "all that was asked for");
    pair.release(&[&WEB]);
    let take = format!("client update {} --remove-scope documents", WEB.id);
    let asked = pair.failed(&take);
    for part in [
        "scopes: -documents",
        "1 grant loses documents at the next refresh",
        "--yes",
    ] {
        assert!(asked.contains(part), "{asked}");
    }
    let taken = pair.done(&format!("{take} --yes"));
    assert!(taken.contains("scopes: -documents"), "{taken}");
    let second = WEB.refresh(&lobby, &first.text("refresh_token"));
    assert_eq!(second.text("scope"), "projects");
    let third = WEB.refresh(&lobby, &second.text("refresh_token"));
    assert_eq!(third.text("scope"), "projects");
    pair.done(&format!("client update {} --add-scope documents", WEB.id));
    let fourth = WEB.refresh(&lobby, &third.text("refresh_token"));
    assert_eq!((fourth.status, fourth.json().get("scope")), (200, None));
}

/// Before operators end an old secret, they must be able to see that nobody uses it any more.
#[test]
fn the_times_of_client_secrets_are_shown() {
    let pair = OwnPair::start(&[]);
    pair.done("client add meter --type user_bound --bound-user ada@example.com --scope projects");
    let secret = secret(&pair.done("client rotate-secret meter"));
    let times = || {
        let shown = pair.json("client show meter");
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
    let listed = pair.json("client list");
    let listed = listed["items"].as_array().unwrap().iter();
    let listed = listed.filter(|client| client["client_id"] == "meter");
    let listed: Vec<_> = listed
        .map(|client| client["secret_times"].clone())
        .collect();
    assert_eq!(listed, [json!(times())]);
    let shown = pair.done("client show meter");
    for part in ["added 20", "last used 20", "no use noted", " ago)"] {
        assert!(shown.contains(part), "{shown}");
    }
}

#[test]
fn certificates_are_added_and_removed_while_the_service_runs() {
    let pair = OwnPair::start(&[]);
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["sync".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let file = pair.write("cert.der", certificate.der());
    pair.release(&[&NON_INTERACTIVE]);
    let key = SigningKey::rs256(&key.serialize_der()).unwrap();
    let assert_with = |alias: &str| {
        let mut assertion = Assertion::of("ada@example.com");
        assertion.header["kid"] = json!(alias);
        let signed = assertion.sign_with(&key);
        NON_INTERACTIVE.assert(&pair.lobby(), &signed, &[])
    };
    assert_with("new").assert_error(400, "invalid_grant");
    let add = format!("client add-certificate non-interactive-demo new {file}");
    let shown = pair.done(&add);
    assert!(
        shown.contains("demo-2020") && shown.contains("new"),
        "{shown}"
    );
    assert!(pair.failed(&add).contains("already"));
    assert_eq!(assert_with("new").status, 200);
    let removed = pair.done("client remove-certificate non-interactive-demo new");
    let warning = "tokens and grants that the client got with the removed certificate stay valid";
    assert!(removed.contains(warning), "{removed}");
    assert_with("new").assert_error(400, "invalid_grant");
    let path = "/clients/non-interactive-demo/certificates/x";
    let wrong = pair.administrate("PUT", path, "not a certificate");
    assert_eq!(wrong.status, 400, "{}", wrong.body);
    assert_eq!(wrong.text("error"), "invalid_request");
}

/// A change removes neither what a client authenticates with, nor what `null` cannot remove, nor what is not there.
#[test]
fn a_change_takes_no_credentials_by_accident() {
    let pair = OwnPair::start(&[]);
    pair.done("release client key-demo");
    for (path, patch, problem) in [
        (
            "clients/key-demo",
            r#"{"keys": []}"#,
            "it could not authenticate",
        ),
        (
            "clients/key-demo",
            r#"{"keys": null}"#,
            "it could not authenticate",
        ),
        (
            "clients/web-demo",
            r#"{"client_secret": null}"#,
            "client_secret cannot be removed",
        ),
        (
            "clients/non-interactive-demo",
            r#"{"certificates": null}"#,
            "certificates cannot be removed",
        ),
        (
            "users/ada@example.com",
            r#"{"password": null}"#,
            "password cannot be removed",
        ),
    ] {
        let reply = pair.administrate("PATCH", &format!("/{path}"), patch);
        assert_eq!(reply.status, 400, "{path} {patch}: {}", reply.body);
        assert!(reply.body.contains(problem), "{}", reply.body);
    }
    let lobby = pair.pair.lobby_url();
    let tokens = WEB.grant(&lobby);
    let reply = pair.administrate("DELETE", "/users/ada@example.com/second-factor", "");
    assert_eq!(reply.status, 204, "{}", reply.body);
    WEB.refresh(&lobby, &tokens.text("refresh_token")).done();
    let entries = pair.done("audit --action second_factor_removed");
    assert!(!entries.contains("ada@example.com"), "{entries}");
}

#[test]
fn every_problem_of_a_registration_is_told_and_nothing_changes() {
    let pair = OwnPair::start(&[]);
    let before = pair.administrate("GET", "/clients", "").body;
    let body = json!({"client_id": "a b", "type": "installed", "colour": "red"});
    let reply = pair.administrate("POST", "/clients", &body.to_string());
    assert_eq!(reply.status, 400);
    let problems = reply.json()["problems"].to_string();
    for problem in ["client_id: must have", "colour: unknown key"] {
        assert!(problems.contains(problem), "{problem} in {problems}");
    }
    let file = json!([{"alias": "a", "file": "/etc/passwd"}]);
    let body = json!({"client_id": "x", "type": "non_interactive", "certificates": file});
    let reply = pair.administrate("POST", "/clients", &body.to_string());
    assert_eq!(reply.status, 400, "files of the machine cannot be named");
    for body in ["", "[]", "{"] {
        assert_eq!(pair.administrate("POST", "/clients", body).status, 400);
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
        let path = format!("/clients?limit=2{after}");
        let page = pair.change("GET", &path, "").json();
        let items = page["items"].as_array().unwrap().clone();
        assert!(items.len() <= 2);
        seen.extend(items.into_iter().map(|item| item["client_id"].to_string()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert!(seen.is_sorted_by(|one, next| one < next), "{seen:?}");
    assert_eq!(seen.len(), 7, "{seen:?}");
}

#[test]
fn nobody_administrates_without_the_token() {
    let pair = OwnPair::start(&[]);
    let url = format!("{}/admin/clients", pair.pair.internal_url());
    for authorization in ["", "Bearer wrong", "Basic YTpi", "Bearer "] {
        let reply = get(&url, &[("authorization", authorization)]);
        reply.assert_error(401, "invalid_token");
        let challenge = reply.header("www-authenticate").unwrap();
        assert!(challenge.starts_with("Bearer"), "{challenge}");
    }
    get(&url, &[]).assert_error(401, "invalid_token");
}

/// `check` prints the problems of configuration and registrations together, with file and line. `apply` prints the problems
/// of the registrations in the same form.
#[test]
fn problems_have_their_file_and_line_in_check_and_in_apply() {
    let pair = OwnPair::start(&[]);
    let config = pair.write(
        "config.toml",
        "registrations = \"wrong.toml\"\nlisen = \"127.0.0.1:1\"\n",
    );
    let check = || pair.run(&format!("check --config {config}"));
    // The output shows problems that only the service can find with the lines of the file.
    pair.write("bad.pem", "no certificate");
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    let parameters = rcgen::CertificateParams::new(vec!["sync".to_owned()]).unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    pair.write("good.der", certificate.der());
    let secret = "s".repeat(32);
    let wrong = pair.write(
        "wrong.toml",
        format!(
            "[[clients]]\nclient_id = \"spa\"\ntype = \"installed\"\nredirect_uris = [\"https://spa.example.com/cb\",\n\
             \"nonsense\"]\nscope = []\n\n[[clients]]\nclient_id = \"spa\"\n\n\
             [[clients]]\nclient_id = \"sync\"\ntype = \"non_interactive\"\nclient_secret = \"{secret}\"\n\
             [[clients.certificates]]\nalias = \"a\"\nfile = \"bad.pem\"\n\
             [[clients.certificates]]\nalias = \"a\"\nfile = \"good.der\"\n\n\
             [[clients]]\nclient_id = \"backup\"\ntype = \"user_bound\"\nclient_secret = \"{secret}\"\n\
             bound_user = \"nobody@example.com\"\nenabled = \"yes\"\n\n[[users]]\nemail = \"a\"\n[other]\n"
        ),
    );
    let applied = pair.failed(&format!("apply {wrong}"));
    let checked = check();
    assert_eq!(checked.code, 1, "{}", checked.errors);
    let checked = checked.output;
    let key = "config.toml:2: lisen: unknown key; did you mean listen?";
    assert!(checked.contains(key), "{checked}");
    let checked: Vec<&str> = checked
        .lines()
        .filter(|line| line.contains("wrong.toml"))
        .collect();
    assert_eq!(applied.lines().collect::<Vec<_>>(), checked);
    assert_eq!(checked.len(), 11, "{checked:#?}");
    assert!(applied.contains("wrong.toml:9: client_id: spa is already at "));

    // The service's problems have the lines of the file too, and so have its warnings.
    let installed = |uri: &str| {
        let client = "[[clients]]\nclient_id = \"app\"\ntype = \"installed\"\n";
        let file = pair.write(
            "unwise.toml",
            format!("{client}redirect_uris = [\"{uri}\"]\n"),
        );
        (format!("{file}:4: redirect_uris: {uri}: "), file)
    };
    let (place, file) = installed("app://host/cb");
    let applied = pair.failed(&format!("apply {file} --dry-run"));
    let problem = format!("{place}a private-use redirect URI has the form scheme:/path");
    assert!(applied.contains(&problem), "{applied}");
    let (place, file) = installed("app:/cb");
    let applied = pair.done(&format!("apply {file} --dry-run"));
    let warning = format!("warning: {place}any app may claim this scheme");
    assert!(applied.contains(&warning), "{applied}");
    // With the legacy flow, a User ID must have room in its tokens.
    let instance =
        "[[legacy_instances]]\nhostname = \"a.example\"\nauth_server_hostname = \"b.example\"\n";
    pair.write(
        "config.toml",
        format!("registrations = \"wrong.toml\"\n{instance}"),
    );
    let user_id = "1".repeat(25);
    pair.write(
        "wrong.toml",
        format!(
            "[[users]]\nusername = \"ada\"\n[[users.accounts]]\nuser_id = \"{user_id}\"\nusername = \"a\"\n\
             site = \"https://a.example\"\n"
        ),
    );
    let checked = check().output;
    let problem = format!("wrong.toml:2: user ada: user_id {user_id} has 25 characters");
    assert!(checked.contains(&problem), "{checked}");
}

#[test]
fn applying_a_file_is_idempotent_and_prunes_only_when_asked() {
    let pair = OwnPair::start(&[]);
    let demo = pair.registrations();
    let nothing = pair.done(&format!("apply {demo}"));
    assert!(nothing.contains("Nothing differs."), "{nothing}");

    let text = "[[clients]]\nclient_id = \"spa\"\ntype = \"installed\"\nredirect_uris = [\"https://spa.example.com/cb\"]\n";
    let file = pair.write("more.toml", text);
    let dry = pair.done(&format!("apply {file} --dry-run"));
    assert!(dry.contains("+ client spa"), "{dry}");
    pair.failed("client show spa");
    pair.done(&format!("apply {file}"));
    pair.done("client show spa");

    let dry = pair.done(&format!("apply {demo} --prune --dry-run"));
    assert!(
        dry.contains("- client spa") && !dry.contains("- user"),
        "{dry}"
    );
    let scoped = format!("{text}scopes = [\"projects\"]\nname = \"App\"\n");
    pair.write("more.toml", scoped);
    let drift = pair.run(&format!("apply {file} --dry-run --exit-code"));
    assert_eq!(drift.code, 2, "{}", drift.errors);
    let lines = "~ client spa: name, scopes\n    name: \"spa\" -> \"App\"\n    scopes: +projects\n";
    assert!(drift.output.contains(lines), "{}", drift.output);
    pair.done(&format!("apply {demo} --prune"));
    pair.failed("client show spa");
}

#[test]
fn no_service_and_wrong_arguments_have_exit_codes_of_their_own() {
    let mut pair = OwnPair::start(&[]);
    pair.run("client frobnicate").failed(2);
    pair.pair.stop_token_service();
    let gone = pair.run("client list").failed(69);
    assert!(gone.contains("no token service answers at"), "{gone}");
    let completions = pair.done("completions bash");
    assert!(completions.contains("rotate-secret"));
}
