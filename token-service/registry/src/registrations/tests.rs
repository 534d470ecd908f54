use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use claims::Thumbprint;

use super::*;
use crate::file;
use crate::planning::{MOST_AT_START, Surroundings};
use domain::client::{ClientSecret, IntegrationType};
use protocol::identity_provider::IdentityProvider;
use secrets::protection::Hidden;

const CERTIFICATE: &str = include_str!("../../../../demo/non-interactive-demo.cert.pem");
/// 2026-01-01, within the validity of every certificate in these tests.
const NOW: Timestamp = Timestamp::from_seconds(1_767_225_600);

/// Reads `text` as a file next to a certificate. Problems contain the file name `r.toml`.
fn load_beside(stored: &Excerpt, now: Timestamp, text: &str) -> Result<Registrations, Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.toml");
    std::fs::write(&path, text).unwrap();
    std::fs::write(folder.path().join("cert.pem"), CERTIFICATE).unwrap();
    let prefix = format!("{}/", folder.path().display());
    file::load(&path, now).check(stored).map_err(|error| {
        let text = error.to_string().replace(&prefix, "");
        text.lines().map(str::to_owned).collect()
    })
}

fn load(text: &str) -> Result<Registrations, Vec<String>> {
    load_beside(&Excerpt::default(), NOW, text)
}

fn problems(text: &str) -> Vec<String> {
    load(text).err().unwrap_or_default()
}

fn warnings(now: Timestamp, text: &str) -> Vec<String> {
    let read = load_beside(&Excerpt::default(), now, text);
    let warnings = read.ok().unwrap().warnings.into_iter();
    warnings
        .map(|warning| {
            let line = warning.to_string();
            line[line.find("r.toml").unwrap()..].to_owned()
        })
        .collect()
}

#[test]
fn the_demo_registrations_are_right() {
    let path = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../demo/registrations.toml"
    ));
    let read = file::load(&path, NOW)
        .check(&Excerpt::default())
        .map_err(|error| error.to_string())
        .ok()
        .unwrap();
    assert_eq!(read.warnings, []);
    let linked: Vec<_> = read
        .users
        .iter()
        .map(|user| (user.object.name(), user.object.accounts.len()))
        .collect();
    assert_eq!(
        linked,
        [
            ("ada@example.com", 1),
            ("grace@example.com", 3),
            ("joan@example.com", 1),
            ("mary@example.com", 0)
        ]
    );
    let ids: Vec<_> = read.clients.iter().map(|c| c.object.name()).collect();
    assert_eq!(
        ids,
        [
            "web-demo",
            "installed-demo",
            "non-interactive-demo",
            "user-bound-demo",
            "key-demo",
            "legacy-demo",
            "legacy-secret-demo"
        ]
    );
}

#[test]
fn every_field_arrives() {
    let read = load(
        r#"
[[users]]
username = "ada@example.com"
email = "ada@mail.example"
password = "correct horse"
totp_secret = "gezd gnbv gy3t qojq gezd gnbv gy3t qojq"
organization = "majestic"
single_sign_on = true
enabled = false
[[users.accounts]]
user_id = "1"
username = "alovelace"
site = "https://us1.example.com"

[[clients]]
client_id = "machine"
name = "Maschine"
type = "non_interactive"
client_secret_sha256 = "9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08"
organization = "majestic"
scopes = ["projects", "admin"]
enabled = false
[[clients.certificates]]
alias = "one"
file = "cert.pem"

[[clients]]
client_id = "bound"
type = "user_bound"
client_secret_sha256 = "n4bQgYhMfWWaL-qgxVrQFaO_TxsrC4Is0V1sFbDwCgg"
bound_user = "ada@example.com"
"#,
    )
    .ok()
    .unwrap();

    let [ada] = read.users.as_slice() else {
        panic!("one user");
    };
    assert_eq!(ada.object.username.as_str(), "ada@example.com");
    assert_eq!(ada.object.email.as_deref(), Some("ada@mail.example"));
    assert_eq!(ada.object.organization.as_deref(), Some("majestic"));
    assert!(ada.object.single_sign_on && !ada.object.enabled);
    assert_eq!(ada.object.accounts[0].user_id, "1");
    assert_eq!(ada.object.accounts[0].username, "alovelace");
    assert_eq!(ada.object.accounts[0].site, "https://us1.example.com");
    let [Hidden::Password(password), Hidden::TotpSecret(secret)] = ada.hidden.as_slice() else {
        panic!("a password and a TOTP secret");
    };
    assert_eq!(password.as_str(), "correct horse");
    // RFC 6238 appendix B.
    assert_eq!(secret.as_slice(), b"12345678901234567890");

    let [machine, bound] = read.clients.as_slice() else {
        panic!("two clients");
    };
    let (machine, bound) = (&machine.object, &bound.object);
    assert_eq!(machine.name, "Maschine");
    assert_eq!(machine.scopes.to_string(), "admin projects");
    assert!(!machine.enabled);
    let IntegrationType::NonInteractive {
        secrets,
        certificates,
        organization,
    } = &machine.integration
    else {
        panic!("non_interactive");
    };
    assert_eq!(secrets, &[ClientSecret::of("test")]);
    assert_eq!(certificates[0].alias, "one");
    assert_eq!(organization.as_deref(), Some("majestic"));
    assert_eq!(bound.name, "bound", "the name defaults to the id");
    assert!(bound.enabled && bound.scopes.is_empty());
    assert_eq!(bound.secrets(), [ClientSecret::of("test")]);
}

#[test]
fn every_problem_is_reported_at_once_with_its_line() {
    let text = include_str!("wrong.toml");
    assert_eq!(
        problems(text),
        [
            "r.toml:3: password: must have 8 to 1024 bytes",
            "r.toml:4: totp_secret: is not BASE32 (RFC 4648 §6)",
            "r.toml:5: colour: unknown key",
            "r.toml:7: username: ada@example.com is already at r.toml:2",
            "r.toml:9: password_hash: password is there too; keep one of the two",
            "r.toml:10: totp_secret: must have 128 to 512 bits (RFC 4226 §4)",
            "r.toml:11: email: is not an e-mail address",
            "r.toml:15: site: expected an http or https URL of at most 255 characters of printable ASCII",
            "r.toml:20: linked account: 2 at https://us1.example.com is already at r.toml:16",
            "r.toml:24: username is missing",
            "r.toml:25: password_hash: is not a hash by argon2, bcrypt, PBKDF2 or scrypt: expected a PHC string such as \
             $argon2id$v=19$m=19456,t=2,p=1$..$.., bcrypt's $2b$.., or what Django or Keycloak stores",
            "r.toml:26: single_sign_on: needs an email, because the legacy logon finds the user by it",
            "r.toml:28: username: must have 1 to 255 bytes, no control characters, and no white space at its ends",
            "r.toml:29: user_id is missing",
            "r.toml:30: username: must be one line of at most 255 bytes without white space at its ends",
            "r.toml:31: site: expected an http or https URL of at most 255 characters of printable ASCII",
            "r.toml:37: client_secret_sha256: client_secret is there too; keep one of the two",
            "r.toml:38: redirect_uris: com.example:/cb: a web_server client redirects to https, or to http on 127.0.0.1 or [::1]",
            "r.toml:38: redirect_uris: http://a.example/cb: http is for 127.0.0.1 and [::1] only; use https",
            "r.toml:38: redirect_uris: http://localhost/cb: http is for 127.0.0.1 and [::1] only, because localhost may be \
             another machine (RFC 8252 §8.3); write 127.0.0.1 in place of localhost, also in the application",
            "r.toml:38: redirect_uris: https://a.example/#x: a redirect URI has no fragment",
            "r.toml:39: bound_user: not for a client of type web_server",
            r#"r.toml:40: scopes: "a b" is not a scope token (RFC 6749 §3.3)"#,
            "r.toml:41: redirect_uris: at least one is needed",
            "r.toml:42: client_id: web is already at r.toml:34",
            "r.toml:44: client_secret: not for a client of type installed",
            "r.toml:47: client_id: ada@example.com is also a username (RFC 9700 §4.15)",
            "r.toml:49: client_secret_sha256: expected a SHA-256 digest: 64 hexadecimal digits, or 43 characters of base64url",
            "r.toml:50: bound_user: there is no user bob@example.com",
            "r.toml:51: certificates: not for a client of type user_bound",
            "r.toml:53: client_secret, client_secret_sha256, keys or tls_client_certificates is missing",
            "r.toml:56: redirect_uris: not for a client of type non_interactive",
            "r.toml:61: alias: one is already at r.toml:58",
            "r.toml:62: file: missing.pem cannot be read: No such file or directory (os error 2)",
            r#"r.toml:65: file: no PEM block "CERTIFICATE" in it"#,
            "r.toml:69: pem: file is there too; keep one of the two",
            "r.toml:70: file or pem is missing",
            "r.toml:74: certificate with the thumbprint: 6bZRClRaVDoGor7cyXK3zRuRiuw is already at r.toml:59",
            "r.toml:76: client_id: must have 1 to 128 printable ASCII characters and no space",
            "r.toml:77: type: expected one of web_server, installed, non_interactive, user_bound, legacy",
            "r.toml:79: client_id is missing",
            "r.toml:81: client_secret: must be printable ASCII (RFC 6749 §A.2)",
            "r.toml:82: redirect_uris: http://localhost/#: must be printable ASCII without spaces and fragment",
            "r.toml:82: redirect_uris: http://localhost/cb is already at r.toml:82",
            "r.toml:83: certificates: at least one is needed",
            "r.toml:88: client: unknown key; did you mean clients?",
        ]
    );
}

/// Clients send a site back as text.
#[test]
fn sites_of_a_user_that_differ_by_a_slash_are_refused() {
    let account = |id: &str, site: &str| {
        format!("[[users.accounts]]\nuser_id = '{id}'\nusername = 'a'\nsite = '{site}'\n")
    };
    let one = account("1", "https://a.example");
    for (site, expected) in [
        (
            "https://a.example/",
            Some(
                "r.toml:7: site: https://a.example/ differs from the site https://a.example of another account only by a \
                 slash: write https://a.example",
            ),
        ),
        ("https://a.example", None),
        ("https://a.example/b", None),
    ] {
        let other = account("2", site);
        let found = problems(&format!("[[users]]\nusername = 'ada'\n{one}{other}"));
        assert_eq!(found, Vec::from_iter(expected), "{site}");
    }
}

/// As in an import, the person of the token would depend on who asks.
#[test]
fn two_users_with_one_account_are_refused() {
    let user = |name: &str, id: &str, site: &str| {
        format!(
            "[[users]]\nusername = '{name}'\naccounts = [{{ user_id = '{id}', username = 'a', site = '{site}' }}]\n"
        )
    };
    let first = user("ada", "1", "https://us1.example.com");
    for (id, site, is_refused) in [
        ("1", "https://us1.example.com", true),
        ("1", "https://US1.example.com:443/", true),
        ("2", "https://us1.example.com", false),
        ("1", "https://us2.example.com", false),
    ] {
        let found = problems(&format!("{first}{}", user("bob", id, site)));
        let expected =
            "r.toml:6: linked account: 1 at https://us1.example.com is already at r.toml:3";
        let expected = is_refused.then_some(expected);
        assert_eq!(found, Vec::from_iter(expected), "{id} {site}");
    }
}

/// RFC 9700 §4.15, for names in the file and stored names.
#[test]
fn names_are_compared_with_the_stored_registry() {
    let stored = load(
        "[[users]]\nusername = 'ada'\n[[users]]\nusername = 'machine'\n\
         [[clients]]\nclient_id = 'bound'\ntype = 'user_bound'\nclient_secret = 'long enough, with 32 bytes and some more'\n\
         bound_user = 'ada'\n",
    )
    .ok()
    .unwrap();
    let clients = stored.clients.into_iter().map(|client| client.object);
    let users = stored.users.into_iter().map(|user| user.object);
    let stored = Excerpt::new(clients, users);
    let addition = "[[users]]\nusername = 'bound'\n\
                    [[clients]]\nclient_id = 'machine'\ntype = 'user_bound'\n\
                    client_secret = 'long enough, with 32 bytes and some more'\nbound_user = 'ada'\n";
    let problems = load_beside(&stored, NOW, addition).err().unwrap();
    assert_eq!(
        problems,
        [
            "r.toml:2: username: bound is also a client_id (RFC 9700 §4.15)",
            "r.toml:4: client_id: machine is also a username (RFC 9700 §4.15)",
        ]
    );
}

/// A client with keys needs no secret. Both are allowed, with a warning, so that a client can change from one to the other
/// (D-46).
#[test]
fn rfc7523_s2_2_keys_replace_the_secret() {
    const JWK: &str =
        r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
    let client = |more: &str, keys: &str| {
        format!(
            "[[clients]]\nclient_id = 'web'\ntype = 'web_server'\n{more}redirect_uris = ['https://a.example/cb']\n{keys}"
        )
    };
    let key =
        |kid: &str, jwk: &str| format!("[[clients.keys]]\nkid = '{kid}'\npublic_key = '{jwk}'\n");
    let text = client("", &key("one", JWK));
    assert_eq!(warnings(NOW, &text), [""; 0]);
    let read = load(&text).ok().unwrap();
    let authentication = &read.clients[0].object.key_authentication;
    assert_eq!(authentication.keys[0].kid, "one");
    assert_eq!(String::from(authentication.keys[0].public_key.clone()), JWK);
    assert!(read.clients[0].object.secrets().is_empty());

    let secret = "client_secret = 'long enough, with 32 bytes and some more'\n";
    let both = warnings(NOW, &client(secret, &key("one", JWK)));
    assert!(both[0].contains("a client secret is there too"), "{both:?}");
    let audience = "client_assertion_audience = 'token_endpoint'\n";
    let audience = warnings(NOW, &client(audience, &key("one", JWK)));
    assert!(
        audience[0].starts_with("r.toml:4: client_assertion_audience:"),
        "{audience:?}"
    );

    let wrong = [
        key("one", JWK),
        key("one", JWK),
        key(&"k".repeat(256), "{}"),
        "[[clients.keys]]\n".into(),
    ]
    .concat();
    assert_eq!(
        problems(&client("client_assertion_audience = 'both'\n", &wrong)),
        [
            "r.toml:4: client_assertion_audience: expected issuer or token_endpoint",
            "r.toml:10: kid: one is already at r.toml:7",
            "r.toml:13: kid: must have 1 to 255 bytes, none of them a control character",
            "r.toml:14: public_key: expected a public key: a JWK (a JSON object with kty), or PEM (PUBLIC KEY)",
            "r.toml:15: file or public_key is missing",
            "r.toml:15: kid is missing",
        ]
    );
}

/// A client with TLS certificates needs no secret (D-48).
#[test]
fn rfc8705_s2_2_certificates_replace_the_secret() {
    let client = |more: &str| {
        format!(
            "[[clients]]\nclient_id = 'web'\ntype = 'web_server'\nredirect_uris = ['https://a.example/cb']\n{more}\n"
        )
    };
    let (hex, thumbprint) = ("a7".repeat(32), Thumbprint::from_bytes([0xa7; 32]));
    let colons = vec!["A7"; 32].join(":");
    for one in [&hex, &colons, &thumbprint.to_string()] {
        let text = client(&format!("tls_client_certificates = ['{one}']"));
        assert_eq!(warnings(NOW, &text), [""; 0]);
        let read = load(&text).ok().unwrap();
        let authentication = &read.clients[0].object.key_authentication;
        assert_eq!(authentication.tls_client_certificates, [thumbprint]);
    }
    let secret = "client_secret = 'long enough, with 32 bytes and some more'";
    let both = client(&format!("{secret}\ntls_client_certificates = ['{hex}']"));
    let both = warnings(NOW, &both);
    assert!(both[0].contains("a client secret is there too"), "{both:?}");

    let wrong = client(&format!(
        "tls_client_certificates = [\n'{hex}',\n'{colons}',\n'a7a7']"
    ));
    let wrong = problems(&wrong);
    assert!(
        wrong[0].ends_with(&format!("{thumbprint} is already at r.toml:6")),
        "{wrong:?}"
    );
    assert!(
        wrong[1].starts_with(
            "r.toml:8: tls_client_certificates: \"a7a7\" is not the SHA-256 of a certificate"
        ),
        "{wrong:?}"
    );
    let public = "[[clients]]\nclient_id = 'app'\ntype = 'installed'\nredirect_uris = ['https://a.example/cb']\n";
    let public = format!("{public}tls_client_certificates = ['{hex}']\n");
    assert_eq!(
        problems(&public).len(),
        1,
        "public clients do not authenticate"
    );
    let legacy = "[[clients]]\nclient_id = 'old'\ntype = 'legacy'\nredirect_uris = ['https://a.example/cb']\n";
    let legacy = format!("{legacy}tls_client_certificate_bound_access_tokens = true\n");
    assert_eq!(
        problems(&legacy),
        [
            "r.toml:5: tls_client_certificate_bound_access_tokens: legacy access tokens cannot be bound"
        ]
    );
}

#[test]
fn rfc6749_s10_10_client_secrets_have_32_bytes_at_least() {
    let client = |secret: &str| {
        format!("[[clients]]\nclient_id = 'web'\ntype = 'web_server'\nclient_secret = '{secret}'\n")
            + "redirect_uris = ['https://a.example/cb']\n"
    };
    let short = "r.toml:4: client_secret: must have 32 to 1024 bytes, because shorter secrets can be guessed; \
                 `openssl rand -base64 32` generates a secret";
    assert_eq!(problems(&client(&"x".repeat(31))), [short]);
    assert_eq!(warnings(NOW, &client(&"x".repeat(32))), [""; 0]);
}

#[test]
fn what_is_unwise_is_a_warning() {
    let text = "[[clients]]\nclient_id = 'machine'\ntype = 'non_interactive'\n\
                client_secret = 'long enough, with 32 bytes and some more'\norganization = 'majestic'\n\
                [[clients.certificates]]\nalias = 'one'\nfile = 'cert.pem'\n\
                [[clients]]\nclient_id = 'app'\ntype = 'installed'\n\
                redirect_uris = ['http://127.0.0.1/cb', 'com.example:/cb']\n";
    assert_eq!(warnings(NOW, text), [""; 0]);
    let anybody = text.replace("organization = 'majestic'\n", "");
    let warning = "r.toml:1: organization: is absent: without an organization, assertions of the client may name every user";
    assert_eq!(warnings(NOW, &anybody), [warning]);
    assert_eq!(
        warnings(Timestamp::from_seconds(0), text),
        ["r.toml:8: the certificate one is not valid yet"]
    );
    let after_all = Timestamp::from_seconds(u64::MAX);
    assert_eq!(
        warnings(after_all, text)[0],
        "r.toml:8: the certificate one has expired; assertions signed with it are refused"
    );
}

/// RFC 8252 §7.1.
#[test]
fn a_private_use_scheme_without_a_dot_is_warned_of() {
    let text = "[[clients]]\nclient_id = 'app'\ntype = 'installed'\n\
                redirect_uris = ['com.example:/cb', 'myapp:/cb']\n";
    let warning = "r.toml:4: redirect_uris: myapp:/cb: any app may claim this scheme; use a domain of yours in reverse, such as \
                   com.example.app: (RFC 8252 §7.1)";
    assert_eq!(warnings(NOW, text), [warning]);
}

#[test]
fn a_password_hash_must_be_one_that_can_be_verified() {
    let with = |hash: &str| {
        let lines = problems(&format!(
            "[[users]]\nusername = 'a'\npassword_hash = '{hash}'\n"
        ));
        lines.join("\n").replace("r.toml:3: password_hash: ", "")
    };
    const COSTS_TOO_MUCH: &str =
        "costs too much: m is at most 131072 (128 MiB), t at most 16, and m times t at most 524288";
    let tail = "$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA";
    assert_eq!(with(&format!("$argon2id$v=19$m=19456,t=2,p=1{tail}")), "");
    for (hash, problem) in [
        (
            "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ".to_owned(),
            "lacks its salt or its hash",
        ),
        (
            format!("$argon2id$v=19$m=4194304,t=2,p=1{tail}"),
            COSTS_TOO_MUCH,
        ),
        (
            format!("$argon2id$v=19$m=65536,t=9,p=1{tail}"),
            COSTS_TOO_MUCH,
        ),
        (
            format!("$argon2id$v=19$m=1,t=2,p=1{tail}"),
            "has parameters that its algorithm does not allow",
        ),
    ] {
        assert_eq!(with(&hash), problem, "{hash}");
    }
}

/// Problems appear in terminals and logs.
#[test]
fn no_problem_repeats_a_secret() {
    let text = "[[users]]\nusername = 'a'\npassword = 'hunter2'\ntotp_secret = 'hunter2'\n\
                password_hash = 'hunter2'\n\
                [[clients]]\nclient_id = 'c'\ntype = 'web_server'\nclient_secret = 'hunter2'\n\
                client_secret_sha256 = 'hunter2'\n";
    let problems = problems(text);
    assert_eq!(problems.len(), 6, "{problems:?}");
    assert!(!problems.join("\n").contains("hunter2"));
}

#[test]
fn a_missing_file_is_one_problem() {
    let error = file::load(Path::new("/nowhere/r.toml"), NOW)
        .check(&Excerpt::default())
        .err()
        .unwrap();
    assert_eq!(error.problems.len(), 1);
    assert!(
        error
            .to_string()
            .starts_with("/nowhere/r.toml: cannot be read: ")
    );
}

/// D-33: names that differ only in their encoding are equal, and names of accounts need not be ASCII.
#[test]
fn names_of_clients_do_not_turn_text() {
    let named = |name: &str| {
        problems(&format!(
            "[[clients]]\nclient_id = \"web\"\ntype = \"user_bound\"\nbound_user = \"ada\"\nname = \"{name}\"\n\
             client_secret = \"long enough, with 32 bytes and some more\"\nscopes = [\"a\"]\n\
             [[users]]\nusername = \"ada\"\n"
        ))
    };
    assert_eq!(named("\u{5d9}\u{5d5}\u{5de}\u{5df} 2"), [""; 0]);
    for turns in "\u{202a}\u{202e}\u{2066}\u{2069}\u{200e}\u{200f}\u{61c}".chars() {
        let refused =
            "r.toml:5: name: must not contain characters that change the direction of text";
        assert_eq!(named(&format!("Site{turns}Plans")), [refused], "{turns:?}");
    }
}

#[test]
fn names_are_unicode_in_one_normal_form() {
    let text = "[[users]]\nusername = 'zoe\u{308}'\n\
        [[users.accounts]]\nuser_id = '\u{f6}1'\nusername = 'Zo\u{eb} \u{5d0}'\nsite = 'https://us1.example.com'\n\
        [[clients]]\nclient_id = 'c'\ntype = 'user_bound'\nclient_secret = '0123456789abcdef0123456789abcdef'\n\
        bound_user = 'zo\u{eb}'\n";
    let registrations = load(text).unwrap();
    let [user] = registrations.users.as_slice() else {
        panic!("one user");
    };
    assert_eq!(user.object.username.as_str(), "zo\u{eb}");
    assert_eq!(user.object.accounts[0].username, "Zo\u{eb} \u{5d0}");
    let twice = "[[users]]\nusername = 'zoe\u{308}'\n[[users]]\nusername = 'zo\u{eb}'\n";
    assert_eq!(
        problems(twice),
        ["r.toml:4: username: zo\u{eb} is already at r.toml:2"]
    );
}

fn stored(usernames: &[&str]) -> Excerpt {
    let users = usernames.iter().copied().filter_map(Username::parse);
    Excerpt::new([], users.map(User::new))
}

/// D-43.
#[test]
fn names_that_differ_in_case_alone_are_refused() {
    let both = "[[users]]\nusername = 'ada'\n[[users]]\nusername = 'Ada'\n";
    let both_lines = "r.toml:2: username: ada differs from Ada at r.toml:4 only in letter case: keep one of the two";
    assert_eq!(problems(both), [both_lines]);
    let load = |registered: &[&str], text| {
        let read = load_beside(&stored(registered), NOW, text);
        read.err().unwrap_or_default()
    };
    let one = "[[users]]\nusername = 'ada'\n";
    let registered = "r.toml:2: username: ada differs from the registered user ADA only in letter case: write ADA, or \
                      remove that user first";
    assert_eq!(load(&["ADA"], one), [registered]);
    assert_eq!(load(&["ada"], both), [both_lines]);
    assert_eq!(load(&["ada"], one), [""; 0]);
    // A Client ID is compared with its case.
    let client = "[[clients]]\nclient_id = 'ADA'\ntype = 'installed'\nredirect_uris = ['http://127.0.0.1/cb']\n";
    assert_eq!(load(&["ada"], client), [""; 0]);
}

#[test]
fn names_that_look_like_others_are_refused() {
    let text = "[[users]]\nusername = 'a\u{200b}da'\nemail = 'ada\u{ad}@example.com'\n\
        organization = 'Contoso  Ltd.'\n\
        accounts = [{user_id = '1\u{a0}2', username = 'a  b', site = 'https://us1.example.com'}]\n\
        [[clients]]\nclient_id = 'batch'\ntype = 'non_interactive'\norganization = 'Contoso\u{2060}'\n\
        client_secret = 'long enough, with 32 bytes and some more'\n\
        identity_providers = ['https://sso.example.com']\n";
    let white_space = "has other white space than single spaces between words: correct it";
    let invisible = "has an invisible character: remove it";
    let refused = [
        format!(r#"r.toml:2: username: "a\u{{200b}}da" {invisible}"#),
        "r.toml:3: email: is not an e-mail address".to_owned(),
        format!(r#"r.toml:4: organization: "Contoso  Ltd." {white_space}"#),
        format!(r#"r.toml:5: user_id: "1\u{{a0}}2" {white_space}"#),
        format!(r#"r.toml:9: organization: "Contoso\u{{2060}}" {invisible}"#),
    ];
    assert_eq!(problems(text), refused);
}

#[test]
fn a_bound_user_may_be_in_another_case() {
    let client = "[[clients]]\nclient_id = 'c'\ntype = 'user_bound'\n\
        client_secret = '0123456789abcdef0123456789abcdef'\nbound_user = 'ADA'\n";
    let with_user = format!("[[users]]\nusername = 'ada'\n{client}");
    assert_eq!(problems(&with_user), [""; 0]);
    let load = |registered: &[&str]| {
        let read = load_beside(&stored(registered), NOW, client);
        read.err().unwrap_or_default()
    };
    assert_eq!(load(&["Ada"]), [""; 0]);
}

/// Values that could be registered, but never used as the protocol requires.
#[test]
fn names_and_wildcards_that_cannot_work_are_refused() {
    let text = "[[clients]]\nclient_id = 'a:b'\ntype = 'web_server'\n\
        client_secret = '0123456789abcdef0123456789abcdef'\nredirect_uris = ['http://127.0.0.1:*/callback']\n";
    assert_eq!(
        problems(text),
        [
            "r.toml:2: client_id: must not have a colon, at which Basic splits client_id and client_secret",
            "r.toml:5: redirect_uris: http://127.0.0.1:*/callback: a wildcard port is for installed clients; a \
             web_server client registers each redirect URI in full",
        ]
    );
}

#[test]
fn a_client_of_an_identity_provider_needs_no_certificates() {
    let settings = Settings {
        identity_providers: vec![IdentityProvider {
            id: "corp".to_owned(),
            issuer: "https://corp.example.com".to_owned(),
            name: "corp".to_owned(),
            algorithms: BTreeSet::new(),
            email_domains: Vec::new(),
            link_by_email: false,
            client_id: None,
        }]
        .into(),
        ..Settings::default()
    };
    let read = |kind: &str| {
        let text = format!(
            "[[clients]]\nclient_id = 'c'\n{kind}\nclient_secret = '{}'\n\
             identity_providers = ['https://corp.example.com']\n",
            "x".repeat(32)
        );
        load(&text).unwrap()
    };
    let of = |kind: &str| {
        let found = read(kind).problems(Surroundings {
            settings: &settings,
            legacy_instances: &[],
            takes_certificates: true,
            at_start: true,
        });
        assert_eq!(found.refused, [""; 0]);
        found.warnings.join("\n")
    };
    let service = of("type = 'non_interactive'\norganization = 'o'");
    assert_eq!(service, "");
    let web = of("type = 'web_server'\nredirect_uris = ['https://a.example/cb']");
    assert!(
        web.contains("which has no client_id: nobody signs in with it"),
        "{web}"
    );
}

#[test]
fn a_start_applies_a_bounded_file() {
    let entries = |count: usize| {
        let users =
            (0..count).map(|number| User::new(Username::parse(&format!("u{number}")).unwrap()));
        Registrations {
            users: users.map(Registration::of).collect(),
            ..load("").unwrap()
        }
    };
    let settings = Settings::default();
    let refused = |count, at_start| {
        let found = entries(count).problems(Surroundings {
            settings: &settings,
            legacy_instances: &[],
            takes_certificates: false,
            at_start,
        });
        found.refused.join("\n")
    };
    assert_eq!(refused(MOST_AT_START, true), "");
    assert_eq!(refused(MOST_AT_START + 1, false), "");
    let too_many = refused(MOST_AT_START + 1, true);
    let expected = "the registrations file has 30001 entries, and a start applies at most 30000: ";
    assert!(too_many.starts_with(expected), "{too_many}");
}
