use super::*;
use domain::password_scheme::{most_used, scheme};

/// Known answers: argon2 of the reference implementation's tests; bcrypt of crypt_blowfish; PBKDF2 of RFC 6070 and
/// RFC 7914 §11, with SHA-512 the first vector of RFC 6070; scrypt of RFC 7914 §12. The vectors of Django and Keycloak
/// come from Python's `hashlib` and from libcrypt.
const KNOWN: [(&str, &str, &str); 19] = [
    (
        "password",
        "$argon2i$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$wWKIMhR9lyDFvRz9YTZweHKfbftvj+qf+YFY4NeBbtA",
        "$argon2i$v=19$m=65536,t=2,p=1",
    ),
    (
        "password",
        "$argon2i$m=65536,t=2,p=1$c29tZXNhbHQ$9sTbSlTio3Biev89thdrlKKiCaYsjjYVJxGAL3swxpQ",
        "$argon2i$m=65536,t=2,p=1",
    ),
    (
        "password",
        "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=65536,t=2,p=1",
    ),
    (
        "password",
        "argon2$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=65536,t=2,p=1",
    ),
    (
        "U*U",
        "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
        "$bcrypt$r=5",
    ),
    (
        "U*U",
        "$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
        "$bcrypt$r=5",
    ),
    (
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789chars after 72 are ignored",
        "$2a$05$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui",
        "$bcrypt$r=5",
    ),
    (
        "correct horse",
        "bcrypt$$2b$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e",
        "$bcrypt$r=4",
    ),
    (
        "correct horse",
        "bcrypt_sha256$$2b$05$CCCCCCCCCCCCCCCCCCCCC.jkGMyGDwQEPkW62gDnVEt5vQ5TQY40W",
        "$bcrypt-sha256-hex$r=5",
    ),
    (
        "password",
        "$pbkdf2-sha1$i=4096$c2FsdA$SwB5AbdlSJq+rUnZJvch0GWkKcE",
        "$pbkdf2-sha1$i=4096",
    ),
    (
        "password",
        "$pbkdf2$4096$c2FsdA$SwB5AbdlSJq.rUnZJvch0GWkKcE",
        "$pbkdf2-sha1$i=4096",
    ),
    (
        "Password",
        "$pbkdf2-sha256$i=80000,l=64$TmFDbA$TdzY9guYviGDDO5e8icB+WQaRBjQTAQUrv8Ih2s0q1ah1CWhIlgzVJrbhBtRybMXaicr3ruh0HhHj2Kzl/M8jQ",
        "$pbkdf2-sha256$i=80000",
    ),
    (
        "l\u{e8}tmein",
        "pbkdf2_sha256$20000$seasalt$oBSd886ysm3AqYun62DOdin8YcfbU1z9cksZSuLP9r0=",
        "$pbkdf2-sha256$i=20000",
    ),
    (
        "password",
        "$pbkdf2-sha512$i=1$c2FsdA$hn9wzxreAs/zdSWZo6U9xK80x6ZpgVrl1RNVThyM8lLALUcKKFoFAbrZmb/pQ8CPBQI119aLHaVeY/c7YKV/zg",
        "$pbkdf2-sha512$i=1",
    ),
    (
        "pleaseletmein",
        "$scrypt$ln=14,r=8,p=1$U29kaXVtQ2hsb3JpZGU$cCO9yzr9c0hGHAbNgf046/2o+7qQT44+qbVD9lRdofLVQylVYT8Pz2LUlwUkKpr55h6F3A1lHkDfzwF7RVdYhw",
        "$scrypt$ln=14,r=8,p=1",
    ),
    (
        "l\u{e8}tmein",
        "scrypt$16384$seasalt$8$1$Qj3+9PPyRjSJIebHnG81TMjsqtaIGxNQG/aEB/NYafTJ7tibgfYz71m0ldQESkXFRkdVCBhhY8mx7rQwite/Pw==",
        "$scrypt$ln=14,r=8,p=1",
    ),
    (
        "a password of keycloak",
        r#"{"type":"password","secretData":"{\"value\":\"HyVSo2DFFawrifFDsThtrJoaGtqA3KeH+lhMhMoEsrZiguTj94+tGxC1AVJ+mWm5i08nBBmRNfMHgZtD6oISJA==\",\"salt\":\"AAECAwQFBgcICQoLDA0ODw==\",\"additionalParameters\":{}}","credentialData":"{\"hashIterations\":27500,\"algorithm\":\"pbkdf2-sha256\",\"additionalParameters\":{}}"}"#,
        "$pbkdf2-sha256$i=27500",
    ),
    (
        "a password of keycloak",
        r#"{"secretData":"{\"value\":\"UQEuxwauZ5J/YTmeRXoLfvqkeBUj6RWZR9wmsWsbs6SO+YdWVr5GbPdvw75aYyRDufhEh0SWbTXT1DD5Gsirzg==\",\"salt\":\"AAECAwQFBgcICQoLDA0ODw==\"}","credentialData":"{\"hashIterations\":20000,\"algorithm\":\"pbkdf2\"}"}"#,
        "$pbkdf2-sha1$i=20000",
    ),
    (
        "password",
        r#"{"secretData":"{\"value\":\"CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc=\",\"salt\":\"c29tZXNhbHQ=\"}","credentialData":"{\"hashIterations\":2,\"algorithm\":\"argon2\",\"additionalParameters\":{\"hashLength\":[\"32\"],\"memory\":[\"65536\"],\"type\":[\"id\"],\"version\":[\"1.3\"],\"parallelism\":[\"1\"]}}"}"#,
        "$argon2id$v=19$m=65536,t=2,p=1",
    ),
];

#[test]
fn known_hashes_verify_in_every_spelling() {
    for (password, hash, of) in KNOWN {
        let stored = normal(hash).unwrap();
        assert_eq!(scheme(&stored), Some(of));
        assert_eq!(normal(&stored).as_deref(), Ok(stored.as_str()));
        let stored = PasswordHash::read(&stored).unwrap_or_else(|problem| panic!("{problem}"));
        assert!(stored.is_of(password), "{hash}");
        assert!(!stored.is_of("another"), "{hash}");
    }
}

#[test]
fn bounds_and_mistakes_are_named() {
    let hash = "$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA";
    let bcrypt = "CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
    for (given, part) in [
        (format!("$2b$13${bcrypt}"), None),
        (format!("$2b$14${bcrypt}"), Some("the cost of bcrypt")),
        (format!("$2b$03${bcrypt}"), Some("parameters")),
        (format!("$2b$99${bcrypt}"), Some("parameters")),
        (format!("$2x$05${bcrypt}"), Some("is not a hash")),
        ("$2b$05$CCCC".to_owned(), Some("is not a hash")),
        (format!("$pbkdf2-sha512$i=2000000{hash}"), None),
        (
            format!("$pbkdf2-sha256$i=2000001{hash}"),
            Some("iterations"),
        ),
        (format!("$pbkdf2-sha256$i=0{hash}"), Some("parameters")),
        (
            format!("$pbkdf2-sha256$i=9999999999{hash}"),
            Some("parameters"),
        ),
        (format!("$pbkdf2-md5$i=1000{hash}"), Some("is not a hash")),
        (format!("$scrypt$ln=17,r=8,p=1{hash}"), None),
        (format!("$scrypt$ln=17,r=8,p=2{hash}"), Some("scrypt")),
        (format!("$scrypt$ln=18,r=8,p=1{hash}"), Some("scrypt")),
        (format!("$scrypt$ln=60,r=8,p=1{hash}"), Some("parameters")),
        (
            format!("$scrypt$ln=1,r=4294967295,p=4294967295{hash}"),
            Some("parameters"),
        ),
        (
            "scrypt$16383$salt$8$1$aGFzaGhhc2hoYXNo".to_owned(),
            Some("parameters"),
        ),
        (
            "$scrypt$ln=4,r=8,p=1$$aGFzaGhhc2hoYXNo".to_owned(),
            Some("a salt of"),
        ),
        (
            "$scrypt$ln=4,r=8,p=1$c2FsdA$aGFzaA".to_owned(),
            Some("a hash of"),
        ),
        ("$scrypt$ln=4,r=8,p=1$c2FsdA$%".to_owned(), Some("base64")),
        (
            "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ".to_owned(),
            Some("lacks"),
        ),
        ("{}".to_owned(), Some("credentialData")),
        ("{".to_owned(), Some("is not a hash")),
        ("x".repeat(2000), Some("1024 bytes")),
    ] {
        match part {
            None => assert!(normal(&given).is_ok(), "{given}"),
            Some(part) => {
                let problem = normal(&given).unwrap_err();
                assert!(problem.contains(part), "{given}: {problem}");
            }
        }
    }
}

#[test]
fn each_scheme_has_the_share_of_the_names_that_it_has_of_the_users() {
    let used = |scheme: &str, users| UsedScheme {
        scheme: scheme.to_owned(),
        users,
    };
    let before = most_used(vec![used("b", 1), used("c", 6), used("a", 3)]);
    assert_eq!(before, [used("a", 3), used("b", 1), used("c", 6)]);
    let of = |schemes: &[UsedScheme], name: u32| {
        let point = |scheme: &str| {
            let digest = Sha256::digest(format!("{name} {scheme}"));
            digest
                .iter()
                .take(8)
                .fold(0, |point, byte| (point << 8) | u64::from(*byte))
        };
        scheme_of(schemes, point).unwrap().to_owned()
    };
    let count = |schemes: &[UsedScheme], scheme: &str| {
        (0..2000)
            .filter(|name| of(schemes, *name) == scheme)
            .count()
    };
    for (scheme, share) in [("a", 600), ("b", 200), ("c", 1200)] {
        let found = count(&before, scheme);
        assert!(found.abs_diff(share) < 100, "{found} names with {scheme}");
    }
    // An import brings as many people with another scheme.
    let after = most_used([&before[..], &[used("d", 10)]].concat());
    let moved = (0..2000).filter(|name| of(&before, *name) != of(&after, *name));
    let moved: Vec<u32> = moved.collect();
    assert!(moved.iter().all(|name| of(&after, *name) == "d"));
    assert!(moved.len().abs_diff(1000) < 100, "{} names", moved.len());

    for end in [0, u64::MAX] {
        assert!(scheme_of(&before, |_| end).is_some());
        let point = |scheme: &str| if scheme == "b" { end } else { u64::MAX / 2 };
        assert_eq!(scheme_of(&before, point) == Some("b"), end > 0);
    }
    assert_eq!(scheme_of(&[], |_| 7), None);
    let many = (0..2000).map(|users| used(&users.to_string(), users));
    let most = most_used(many.collect());
    assert_eq!(most.len(), 1000);
    assert!(most.iter().all(|used| used.users >= 1000));
}

/// In hashes of the service, as measured (40 ms): what decides about places in the queues.
#[test]
fn the_work_of_a_check_is_what_was_measured() {
    let of = |scheme: &str| {
        let tail = "$yDktG0K1Tk7h22spOXgPmA$GwMwFfwe0CGKrYdcHstP/5MtuYHf";
        let hash = PasswordHash::read(&format!("{scheme}{tail}")).ok().unwrap();
        hash.work() as f64 / f64::from(19456 * 2)
    };
    for (scheme, measured) in [
        ("$argon2id$v=19$m=19456,t=2,p=1", 1.0),
        ("$argon2id$v=19$m=65536,t=3,p=4", 5.2),
        ("$bcrypt$r=12", 6.4),
        ("$pbkdf2-sha1$i=600000", 4.6),
        ("$pbkdf2-sha256$i=600000", 5.9),
        ("$pbkdf2-sha512$i=210000", 4.8),
        ("$scrypt$ln=14,r=8,p=1", 0.85),
        ("$scrypt$ln=17,r=8,p=1", 9.9),
    ] {
        let ratio = of(scheme) / measured;
        assert!((1.0 / 1.3..1.3).contains(&ratio), "{scheme}: {ratio}");
    }
}

#[test]
fn the_memory_of_a_check_is_known() {
    let of = |text: &str| PasswordHash::read(text).map(|hash| hash.memory());
    let tail = "$yDktG0K1Tk7h22spOXgPmA$GwMwFfwe0CGKrYdcHstP/5MtuYHf";
    for (scheme, kib) in [
        ("$argon2id$v=19$m=65536,t=4,p=1", 64 * 1024),
        ("$scrypt$ln=14,r=8,p=1", 16 * 1024),
        ("$scrypt$ln=14,r=8,p=4", 16 * 1024),
        ("$bcrypt$r=10", 0),
        ("$pbkdf2-sha512$i=210000", 0),
    ] {
        assert_eq!(of(&format!("{scheme}{tail}")), Ok(kib), "{scheme}");
    }
}

/// Known passwords of other texts: bcrypt ignores what follows 72 bytes, and repeats a short password.
#[test]
fn bcrypt_does_not_read_every_password_whole() {
    let long = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789chars after 72 are ignored";
    let hash = "$2a$05$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui";
    let hash = PasswordHash::read(hash).ok().unwrap();
    let other = format!("{} and others", &long[..72]);
    assert!(hash.is_of(&other));
    assert!(!hash.reads_all_of(&other) && !hash.reads_all_of(&long[..72]));
    assert!(hash.reads_all_of(&long[..71]));
    let of_digest = "$bcrypt-sha256-hex$r=5$CCCCCCCCCCCCCCCCCCCCCA$CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC";
    let of_digest = PasswordHash::read(of_digest).ok().unwrap();
    assert!(of_digest.reads_all_of(long));

    let short = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
    let short = PasswordHash::read(short).ok().unwrap();
    assert!(short.is_of("U*U") && !short.is_of("U*U\0U*U"));
}

#[test]
fn bcrypt_has_16_bytes_of_salt() {
    let short = "$bcrypt$r=5$c2FsdA$GwMwFfwe0CGKrYdcHstP/5MtuYHf/9JfVYWUA0OXABc";
    let problem = "has a salt that is not the 16 bytes of bcrypt";
    assert_eq!(normal(short), Err(problem));
}
