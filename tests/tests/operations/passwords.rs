//! Password hashes from another server.

use std::fmt::Write as _;

use crate::support::{Browser, Form, OwnPair, WEB};

const PASSWORD: &str = "a password that came along";

/// Passwords and their hashes, by argon2's reference implementation, Python's `hashlib` and libcrypt. The unit tests of `secrets` have
/// every algorithm in every spelling.
const HASHES: [(&str, &str); 4] = [
    (
        "password",
        "$argon2i$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$wWKIMhR9lyDFvRz9YTZweHKfbftvj+qf+YFY4NeBbtA",
    ),
    (
        PASSWORD,
        r#"{"secretData":"{\"value\":\"Y1Z4hwxpzYBroMatKdbV27dXE3NHpCAd8jRvLG5HX4wVwzmuQfjHjR2dC7pbQb36Wh3PIelZbQUDLCHePSqo5w==\",\"salt\":\"AAECAwQFBgcICQoLDA0ODw==\"}","credentialData":"{\"hashIterations\":210000,\"algorithm\":\"pbkdf2-sha512\"}"}"#,
    ),
    (
        PASSWORD,
        "$scrypt$ln=14,r=8,p=1$AAECAwQFBgcICQoLDA0ODw$CfKu7xk5LyUStT9kfitcpbl5VRhO1tZ/wAM/crofx/Q",
    ),
    (
        PASSWORD,
        "$2b$06$CCCCCCCCCCCCCCCCCCCCC.eJ2SOrJVxHDPGQQoWuRWXRPOI3B9QuW",
    ),
];

const PARTS_OF_HASHES: [&str; 6] = [
    "argon2i",
    "pbkdf2-",
    "scrypt",
    "CCCCCCCC",
    "secretData",
    "AAECAwQF",
];

fn file(salt: &str) -> String {
    let mut file = String::new();
    for (number, (_, hash)) in HASHES.iter().enumerate() {
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
    let pair = OwnPair::start(&[("TOKEN_SERVICE_LOG", "trace")]);
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
    for (number, (password, hash)) in HASHES.iter().enumerate() {
        assert_eq!(sign_in(number, "another password"), 403, "{hash}");
        assert_eq!(sign_in(number, password), 303, "{hash}");
        assert_eq!(sign_in(number, "another password"), 403, "{hash}, replaced");
        assert_eq!(sign_in(number, password), 303, "{hash}, replaced");
    }
    // The replaced hashes still count as the hashes of the file.
    let again = pair.operate(&["apply", &people, "--exit-code"], "").done();
    assert!(again.contains("Nothing differs."), "{again}");
    pair.write("people.toml", file("DDDDDDDDDDDDDDDDDDDDD."));
    outputs += &pair.operate(&["apply", &people, "--dry-run"], "").done();
    assert_eq!(outputs.matches("~ user").count(), 1, "{outputs}");
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
