use proptest::prelude::*;

use super::*;

fn rule(pattern: PathPattern, methods: &[&str], scope: &str) -> Rule {
    Rule {
        pattern,
        methods: methods.iter().map(|method| (*method).to_owned()).collect(),
        access: Access::Token {
            scopes: vec![scope.to_owned()],
            claims: vec![],
            sign_in: SignIn::default(),
        },
    }
}

fn prefix(text: &str) -> PathPattern {
    PathPattern::Prefix(text.to_owned())
}

fn rules(case: PathCase) -> Rules {
    let list = vec![
        rule(prefix("/api"), &[], "api"),
        rule(prefix("/api/admin/"), &["POST", "PUT"], "write"),
        rule(prefix("/api/admin/"), &[], "read"),
        rule(
            PathPattern::Exact("/api/admin/open".into()),
            &["GET"],
            "open",
        ),
        Rule {
            pattern: prefix("/public/"),
            methods: vec![],
            access: Access::Anonymous {
                forward_authorization: false,
            },
        },
    ];
    Rules::new(list, case)
}

fn found_by(rules: &Rules, method: &str, target: &str) -> Result<Option<String>, AmbiguousPath> {
    let access = rules.find(method.as_bytes(), target.as_bytes())?;
    Ok(access.map(|access| match access.as_ref() {
        Access::Anonymous { .. } => "anonymous".to_owned(),
        Access::Token { scopes, .. } => scopes.join(" "),
    }))
}

fn found(method: &str, target: &str) -> Result<Option<String>, AmbiguousPath> {
    found_by(&rules(PathCase::Insensitive), method, target)
}

#[test]
fn exact_long_and_named_methods_come_first() {
    for (method, target, expected) in [
        ("GET", "/api", Some("api")),
        ("GET", "/api/", Some("api")),
        ("GET", "/api?x=/public/", Some("api")),
        ("GET", "/apis", None),
        ("GET", "/", None),
        ("OPTIONS", "*", None),
        ("GET", "/api/admin", Some("api read")),
        ("POST", "/api/admin", Some("api write")),
        ("GET", "/api/admin/open/", Some("read open")),
        ("GET", "/api/admin/", Some("read")),
        ("POST", "/api/admin/x", Some("write")),
        ("get", "/api/admin/x", Some("read")),
        ("GET", "/api/admin/open", Some("open")),
        ("DELETE", "/api/admin/open", Some("read")),
        ("GET", "/public/x", Some("anonymous")),
        ("GET", "/public", None),
        ("GET", "/public/X", Some("anonymous")),
        ("GET", "/api/X.y", Some("api")),
    ] {
        assert_eq!(
            found(method, target),
            Ok(expected.map(str::to_owned)),
            "{method} {target}"
        );
    }
}

/// Some frameworks read methods in any case.
#[test]
fn no_case_of_a_method_widens_a_rule() {
    for method in ["post", "Post", "pUT"] {
        assert_eq!(
            found(method, "/api/admin/x"),
            Err(AmbiguousPath),
            "{method}"
        );
        assert_eq!(
            found(method, "/api/x"),
            Ok(Some("api".to_owned())),
            "{method}"
        );
    }
}

#[test]
fn rfc9700_s4_13_no_spelling_widens_a_rule() {
    for target in [
        "/public/../api/admin/x",
        "/public/..",
        "/public/.",
        "/public/./x",
        "/public/..;/api/admin/x",
        "/public/.;x/y",
        "/public/%2e%2e/api",
        "/public/%2E./api",
        "/public/..%2fapi",
        "/public/..%5Capi",
        "/public\\..\\api",
        "/public//api",
        "//public/x",
        "/public/x#/api",
        "/public/%00",
        "/public/%252e%252e/api",
        "/public/%25252e%25252e/api",
        "/public/%2525252541",
        "/public/a%252fb",
        "/public/a%255Cb",
        "/public/%2500",
        "/public/%u002e%u002e/api",
        "/public/%25u002e./api",
        "/public/%c0%ae%c0%ae/api",
        "/public/%e0%80%ae./api",
        "/public/%f0%80%80%ae./api",
        "/public/%0a",
        "/public/\u{7f}",
        // Another rule applies after decoding or without parameters.
        "/api;x/admin/x",
        "/%61pi/admin/x",
        "/api/admin;x/y",
        "/public;x/y",
        "/%70ublic/x",
        "/%2570ublic/x",
        "/api/admin%3b/x",
        // An exact rule applies at servers that look for the query after decoding.
        "/api/admin/open%3f",
        "/api/admin/open%3Fx=1",
        "/api/admin/open%253fx=1",
        "/api%3f/admin/open",
        // So it does where they look for a fragment.
        "/api/admin/open%23",
        "/api/admin/open%23x%3F1",
        "/api/admin/open%3Fx%231",
        "/api/admin/open%2523x",
        "/api/admin%23;/x",
        "/api%23/admin/open",
        "/public/..%23/api",
        "/public/x%23/%2e%2e/api",
        "public/x",
        "",
        "http://host/public/x",
    ] {
        assert_eq!(found("GET", target), Err(AmbiguousPath), "{target}");
    }
}

/// Express and ASP.NET Core serve `/api/admin/x` for all of these.
#[test]
fn no_case_of_letters_widens_a_rule() {
    let sensitive = rules(PathCase::Sensitive);
    for (target, as_sent) in [
        ("/API/admin/x", None),
        ("/api/ADMIN/x", Some("api")),
        ("/api/Admin/x.y", Some("api")),
        ("/api/admin/Open", Some("read")),
        ("/PUBLIC/x", None),
    ] {
        assert_eq!(found("GET", target), Err(AmbiguousPath), "{target}");
        let as_sent = as_sent.map(str::to_owned);
        assert_eq!(found_by(&sensitive, "GET", target), Ok(as_sent), "{target}");
    }
    for target in [
        "/api/%41dmin/x",
        "/api/%2541dmin/x",
        "/api/ADMIN;x/y",
        // The Kelvin sign and the long s.
        "/%E2%84%AAeys/x",
        "/\u{212a}eys/x",
        "/key%C5%BF/x",
    ] {
        let list = vec![
            rule(prefix("/"), &[], "all"),
            rule(prefix("/api/admin"), &[], "admin"),
            rule(prefix("/keys"), &[], "keys"),
        ];
        let rules = Rules::new(list, PathCase::Insensitive);
        assert_eq!(
            found_by(&rules, "GET", target),
            Err(AmbiguousPath),
            "{target}"
        );
    }
}

#[test]
fn a_rule_in_upper_case_is_a_rule_for_the_lower_case_too() {
    let list = vec![
        rule(prefix("/"), &[], "all"),
        rule(prefix("/API/Admin"), &[], "admin"),
    ];
    let found = |target| {
        found_by(
            &Rules::new(list.clone(), PathCase::Insensitive),
            "GET",
            target,
        )
    };
    assert_eq!(found("/API/Admin/x"), Ok(Some("admin".to_owned())));
    assert_eq!(found("/api/admin/x"), Err(AmbiguousPath));
    assert_eq!(found("/api/x"), Ok(Some("all".to_owned())));
}

/// Most servers serve `/docs` for `/docs/`, or the reverse.
#[test]
fn a_slash_at_the_end_widens_no_rule() {
    let anonymous = |pattern| Rule {
        access: Access::Anonymous {
            forward_authorization: false,
        },
        ..rule(pattern, &[], "")
    };
    let exact = |text: &str| PathPattern::Exact(text.to_owned());
    let list = vec![
        rule(prefix("/"), &[], "all"),
        rule(prefix("/docs/"), &[], "docs"),
        rule(exact("/list"), &["GET"], "list"),
        anonymous(prefix("/public/")),
        anonymous(exact("/health")),
        rule(prefix("/both/"), &[], "below"),
        rule(exact("/both"), &[], "here"),
    ];
    let rules = Rules::new(list, PathCase::Insensitive);
    for (method, target, expected) in [
        ("GET", "/docs", "all docs"),
        ("GET", "/docs/", "docs"),
        ("GET", "/doc", "all"),
        ("GET", "/list/", "all list"),
        ("PUT", "/list/", "all"),
        ("GET", "/public", "all"),
        ("GET", "/public/", "anonymous"),
        ("GET", "/health", "anonymous"),
        ("GET", "/health/", "all"),
        ("GET", "/both", "here"),
        ("GET", "/both/", "below"),
    ] {
        let found = found_by(&rules, method, target);
        assert_eq!(found, Ok(Some(expected.to_owned())), "{method} {target}");
    }
    assert_eq!(found_by(&rules, "GET", "/DOCS"), Err(AmbiguousPath));
    let warnings = rules.warnings();
    let named: Vec<&str> = warnings
        .iter()
        .filter_map(|text| text.split(':').next())
        .collect();
    assert_eq!(named, ["rules[1].path_prefix", "rules[3].path_prefix"]);
}

#[test]
fn rules_that_only_case_tells_apart_need_an_api_that_distinguishes_them() {
    let (upper, lower) = (rule(prefix("/A"), &[], "x"), rule(prefix("/a"), &[], "y"));
    assert!(upper.check_beside(&lower, PathCase::Insensitive).is_err());
    assert_eq!(upper.check_beside(&lower, PathCase::Sensitive), Ok(()));
    let same = rule(prefix("/a"), &[], "x");
    assert_eq!(upper.check_beside(&same, PathCase::Insensitive), Ok(()));
    let put = rule(prefix("/a"), &["PUT"], "y");
    assert_eq!(upper.check_beside(&put, PathCase::Insensitive), Ok(()));
}

#[test]
fn harmless_encodings_and_parameters_are_fine() {
    for target in [
        "/api/caf%C3%A9",
        "/api/x;version=1",
        "/api/100%",
        "/api/100%25",
        "/api/100%25%20done",
        "/api/a%2520b",
        "/api/why%3f",
        "/api/why%3F/because",
        "/api/a%20b",
        "/api/%E2%82%AC",
        "/api/RFI%20%2312.pdf",
        "/api/C%23/x",
        "/api/a%2523",
        "/api/%23;x",
    ] {
        assert_eq!(found("GET", target), Ok(Some("api".to_owned())), "{target}");
    }
}

#[test]
fn rules_that_could_never_match_are_refused() {
    for bad in [
        "",
        "api",
        "/a//b",
        "/a/../b",
        "/a/.",
        "/a?b",
        "/a%20b",
        "/a%7eb",
        "/a;b",
        "/a#b",
        "/a b",
        "/caf\u{e9}",
        "/a/*",
        "/a/{id}",
        "/a\\b",
        "/a\"b",
        "/a\tb",
        "https://host/a",
        "*",
    ] {
        assert!(prefix(bad).check().is_err(), "{bad}");
        assert!(PathPattern::Exact(bad.to_owned()).check().is_err(), "{bad}");
    }
    for good in [
        "/",
        "/a",
        "/a/",
        "/.well-known/x",
        "/a-b_c.d~e",
        "/a:b@c",
        "/(a)!$&'+,=",
    ] {
        assert_eq!(prefix(good).check(), Ok(()), "{good}");
    }
}

proptest! {
    /// Any number of decodings, any choice of the path's end, and any case lead to the same rule.
    #[test]
    fn decoding_never_changes_the_rule(path in "/(a|p|A|P|/|;|%2|%3|%5|[0-9a-f]){0,6}(api|public|Api)?(/|%3f|%253f|%23|%2523|%25|%61|%41){0,4}(admin/open|admin/Open)?[%0-9a-fA-F]{0,6}") {
        let rules = rules(PathCase::Insensitive);
        if let Ok(access) = rules.find(b"GET", path.as_bytes()) {
            let mut reading = path.into_bytes();
            for _ in 0..4 {
                for seen in [reading.as_slice(), before(&reading, b'?'), before(&reading, b'#')] {
                    for seen in [seen, &without_parameters(seen)] {
                        for seen in [seen, &seen.to_ascii_lowercase()] {
                            let read = rules.access(b"GET", seen, PathCase::Sensitive);
                            prop_assert_eq!(&access, &read);
                        }
                    }
                }
                reading = percent_decode(&reading).collect();
            }
        }
    }

    /// The fast check accepts no path that the full check would refuse.
    #[test]
    fn a_plain_path_can_be_read_in_one_way_only(path in "[/a.%2;~#*\\\\]{0,12}") {
        let path = path.as_bytes();
        if plain_path(path, PathCase::Sensitive) == Some(path) {
            prop_assert!(!refuses(path));
            prop_assert!(!path.iter().any(|byte| matches!(byte, b'%' | b';')));
        }
    }
}
