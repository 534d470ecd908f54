//! Password hashes from another server.

use std::fmt::Write as _;

use crate::support::{Browser, Form, OwnPair, WEB, database};

const PASSWORD: &str = "a password that came along";

/// Hashes of "password" by argon2's reference implementation.
const OF_THE_REFERENCE: [&str; 3] = [
    "$argon2i$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$wWKIMhR9lyDFvRz9YTZweHKfbftvj+qf+YFY4NeBbtA",
    "argon2$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
    r#"{"secretData":"{\"value\":\"CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc=\",\"salt\":\"c29tZXNhbHQ=\"}","credentialData":"{\"hashIterations\":2,\"algorithm\":\"argon2\",\"additionalParameters\":{\"hashLength\":[\"32\"],\"memory\":[\"65536\"],\"type\":[\"id\"],\"version\":[\"1.3\"],\"parallelism\":[\"1\"]}}"}"#,
];

/// Hashes of [`PASSWORD`] by Python's `hashlib` and by libcrypt.
const OF_PASSWORD: [&str; 8] = [
    r#"{"secretData":"{\"value\":\"Y1Z4hwxpzYBroMatKdbV27dXE3NHpCAd8jRvLG5HX4wVwzmuQfjHjR2dC7pbQb36Wh3PIelZbQUDLCHePSqo5w==\",\"salt\":\"AAECAwQFBgcICQoLDA0ODw==\"}","credentialData":"{\"hashIterations\":210000,\"algorithm\":\"pbkdf2-sha512\"}"}"#,
    "$pbkdf2-sha1$i=10000$YSBzYWx0$s3lhvrMY3koVUhm/Ji9glaALvdc",
    "pbkdf2_sha256$60000$seasalt$XOpL01NvN82g33UJbrbmQ8fkQaR98aZ81IZ3FkeQ3DQ=",
    "$scrypt$ln=14,r=8,p=1$AAECAwQFBgcICQoLDA0ODw$CfKu7xk5LyUStT9kfitcpbl5VRhO1tZ/wAM/crofx/Q",
    "$2a$05$CCCCCCCCCCCCCCCCCCCCC.ouKqnEkONQHFrPAGijwP/ne5d/n1ada",
    "$2b$06$CCCCCCCCCCCCCCCCCCCCC.eJ2SOrJVxHDPGQQoWuRWXRPOI3B9QuW",
    "$2y$07$CCCCCCCCCCCCCCCCCCCCC.cR1fPtk3dAvL3mTqUD4hIVIkDThTlvS",
    "bcrypt_sha256$$2b$05$CCCCCCCCCCCCCCCCCCCCC.AoY9HQIrRs38NeeScuj5JwEmPyawMdy",
];

/// Every hash, with its number and password.
fn hashes() -> impl Iterator<Item = (usize, &'static str, &'static str)> {
    let of_the_reference = OF_THE_REFERENCE.map(|hash| ("password", hash));
    let all = of_the_reference.into_iter();
    let all = all.chain(OF_PASSWORD.map(|hash| (PASSWORD, hash)));
    all.enumerate()
        .map(|(number, (password, hash))| (number, password, hash))
}

/// Parts of hashes in every spelling.
const PARTS_OF_HASHES: [&str; 8] = [
    "argon2i",
    "pbkdf2-",
    "pbkdf2_",
    "scrypt",
    "$2a$",
    "CCCCCCCC",
    "secretData",
    "AAECAwQF",
];

fn file(salt: &str) -> String {
    let mut file = String::new();
    for (number, _, hash) in hashes() {
        let hash = hash.replace("CCCCCCCCCCCCCCCCCCCCC.", salt);
        writeln!(
            file,
            "[[users]]\nusername = 'u{number}'\npassword_hash = '{hash}'"
        )
        .unwrap();
    }
    file
}

/// Each person signs in with the old password, and then by our hash. No output shows a hash.
#[test]
fn people_sign_in_with_the_password_of_another_server() {
    let postgres = database();
    for store in [None, Some(postgres.url())] {
        let mut changes = vec![("TOKEN_SERVICE_LOG", "trace")];
        changes.extend(store.map(|url| ("TOKEN_SERVICE__STORE__URL", url)));
        let pair = OwnPair::start(&changes);
        let people = pair.write("people.toml", file("CCCCCCCCCCCCCCCCCCCCC."));
        let mut outputs = pair.operate(&["apply", &people], "").done();
        let service = format!("http://127.0.0.1:{}", pair.pair.ports().public);
        let sign_in = |number: usize, password: &str| {
            let browser = Browser::from_address(&service, &format!("203.0.113.{number}"));
            let form = Form::of(&browser.authorize(&[
                ("response_type", "code"),
                ("client_id", WEB.id),
                ("redirect_uri", WEB.redirect_uri),
            ]));
            let name = format!("u{number}");
            let fields = [("username", name.as_str()), ("password", password)];
            browser.submit(&form, &fields).status
        };
        for (number, password, hash) in hashes() {
            assert_eq!(sign_in(number, "another password"), 403, "{hash}");
            assert_eq!(sign_in(number, password), 303, "{hash}");
            assert_eq!(sign_in(number, "another password"), 403, "{hash}, replaced");
            assert_eq!(sign_in(number, password), 303, "{hash}, replaced");
        }
        // The replaced hashes are still those of the file.
        let again = pair.operate(&["apply", &people, "--exit-code"], "").done();
        assert!(again.contains("Nothing differs."), "{again}");
        pair.write("people.toml", file("DDDDDDDDDDDDDDDDDDDDD."));
        outputs += &pair.operate(&["apply", &people, "--dry-run"], "").done();
        assert_eq!(outputs.matches("~ user").count(), 4, "{outputs}");
        outputs += &pair.operate(&["user", "list"], "").done();
        outputs += &pair.operate(&["user", "show", "u3"], "").done();
        outputs += &pair.json("user show u3").to_string();
        outputs += &pair.json("audit").to_string();
        let refused = "[[users]]\nusername = 'x'\npassword_hash = '$scrypt$ln=30,r=8,p=1$AAECAwQF$AAECAwQFBgcICQoLDA0ODw'\n";
        pair.write("people.toml", refused);
        let refused = pair.operate(&["apply", &people], "").failed(1);
        assert!(refused.contains("costs too much"), "{refused}");
        let logs = pair.pair.end();
        for part in PARTS_OF_HASHES {
            assert!(!outputs.contains(part), "{part}: {outputs}");
            let line = logs.lines().find(|line| line.contains(part));
            assert_eq!(line, None, "{part} is in the log");
        }
        assert!(!refused.contains("AAECAwQF"), "{refused}");
    }
}
