//! Tests what both languages share, in each.

use serde_json::{Map, Value, json};

use super::*;

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn lines(problems: Vec<Problem>) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

/// The problems of a JSON document, in the order in which `read` finds them.
fn read_json(value: Value, read: impl FnOnce(&mut Section<'_>)) -> Vec<String> {
    let problems = Problems::default();
    let mut section = Section::root(Table::from_strict_json(object(value)), &problems);
    read(&mut section);
    section.finish();
    lines(problems.into_found())
}

#[test]
fn every_problem_of_an_object_has_its_path() {
    let value = json!({
        "colour": "x", "flag": "true", "text": 1, "half": 1.5, "empty": "", "nothing": null,
        "list": [1, "a", [2]], "names": ["b"], "table": {"x": 1}, "single": {"name": "a"}, "rules": [{"name": ""}, 7],
        "forward": {"X Upper": 1},
    });
    let problems = read_json(value, |root| {
        assert!(root.text("color").is_none());
        assert!(root.flag("flag").is_none());
        assert!(root.text("text").is_none());
        assert!(root.number("half", 1..=2).is_none());
        assert!(root.text("empty").is_none());
        assert!(root.text("nothing").is_none());
        let list = root.texts("list").unwrap();
        assert_eq!(list.len(), 1);
        assert_eq!(root.values("names").unwrap(), ["b"]);
        assert_eq!(list[0].place, Place::Json("list[1]".to_owned()));
        assert!(root.text("table").is_none());
        assert!(root.sections("single").is_empty());
        let [rule] = &mut root.sections("rules")[..] else {
            panic!("one rule");
        };
        rule.required_text("name");
        rule.required_text("path");
        root.problem("rules", "are few");
        let read = root.optional("forward", |forward| {
            while let Some((name, _)) = forward.take_any() {
                forward.problem(&name, "is no header name");
            }
            Some(1)
        });
        assert_eq!(read, Some(1));
        root.required("issuers");
    });
    assert_eq!(
        problems,
        [
            "flag: expected true or false, found a string",
            "text: expected a string, found an integer",
            "half: must be a whole number from 1 to 2",
            "empty: is empty",
            "nothing: expected a string, found null",
            "list[0]: expected strings in the list, found an integer",
            "list[2]: expected strings in the list, found a list",
            "table: expected a string, found an object",
            "single: expected a list of objects, found an object",
            "rules[1]: expected objects in the list, found an integer",
            "rules[0].name: is empty",
            "rules[0].path: is missing",
            "rules: are few",
            r#"forward."X Upper": is no header name"#,
            "issuers: is missing",
            "colour: unknown key; did you mean color?",
        ]
    );
}

/// Hosts that build JSON from protobuf write every number as a float.
#[test]
fn whole_numbers_may_be_written_as_floats() {
    let value = json!({"a": 7.0, "b": 7, "c": -1, "d": 1e300, "e": 18_446_744_073_709_551_615_u64});
    let problems = read_json(value, |root| {
        for key in ["a", "b"] {
            assert_eq!(root.number(key, 0..=10).unwrap().value, 7);
        }
        for key in ["c", "d", "e"] {
            assert!(root.number(key, 0..=u64::MAX - 1).is_none());
        }
    });
    assert_eq!(problems.len(), 3, "{problems:?}");
}

#[test]
fn a_null_member_is_absent_from_a_body_alone() {
    let value = json!({"a": null, "b": {"c": null}, "d": [{"e": null}, null]});
    let found = read_json(value.clone(), |root| {
        assert!(root.optional("b", |b| b.text("c")).is_none());
        root.sections("d");
        root.text("a");
    });
    assert_eq!(
        found,
        [
            "b.c: expected a string, found null",
            "d[1]: expected objects in the list, found null",
            "a: expected a string, found null",
        ]
    );
    let problems = Problems::default();
    let mut root = Section::root(Table::from_json(object(value)), &problems);
    assert!(!root.has("a"));
    assert!(root.optional("b", |b| b.text("c")).is_none());
    assert!(root.sections("d").into_iter().all(|d| !d.has("e")));
    root.finish();
    assert_eq!(
        lines(problems.into_sorted()),
        ["d[1]: expected objects in the list, found null"]
    );
}

#[test]
fn a_list_that_must_not_be_empty_has_one_problem() {
    for (value, expected) in [
        (json!({}), "l: is missing"),
        (json!({"l": []}), "l: needs one"),
        (
            json!({"l": 1}),
            "l: expected a list of objects, found an integer",
        ),
        (
            json!({"l": [1]}),
            "l[0]: expected objects in the list, found an integer",
        ),
    ] {
        let problems = read_json(value, |root| {
            assert!(root.required_sections("l", "needs one").is_empty());
        });
        assert_eq!(problems, [expected]);
    }
}

/// A message about a value starts with its key, unless the place already ends with the key.
#[test]
fn a_path_and_a_message_do_not_repeat_the_key() {
    let problems = Problems::default();
    let at = |path: &str| Place::Json(path.to_owned());
    problems.report(&at("clients[0].name"), "name: is long");
    problems.report(&at("clients[0].scopes[2]"), "scopes: a b: is two");
    problems.report(&at("clients[0]"), "name: is long");
    problems.report(&at(""), "name: is long");
    problems.report(&Place::Default, "name: is long");
    assert_eq!(
        lines(problems.into_found()),
        [
            "clients[0].name: is long",
            "clients[0].scopes[2]: a b: is two",
            "clients[0]: name: is long",
            "body: name: is long",
            "default: name: is long",
        ]
    );
}

#[cfg(feature = "toml")]
mod files {
    use std::ffi::OsString;
    use std::path::Path;

    use super::*;

    /// The problems of a file with environment variables, in the order of their places.
    fn read(
        text: &str,
        environment: &[(&str, &str)],
        read: impl FnOnce(&mut Section<'_>),
    ) -> Vec<String> {
        let problems = Problems::default();
        let mut table = Table::parse(Path::new("folder/a.toml"), text, &problems);
        let environment = environment
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)));
        table.overlay("T__", environment, &problems);
        let mut section = Section::root(table, &problems);
        read(&mut section);
        section.finish();
        lines(problems.into_sorted())
    }

    #[test]
    fn values_know_their_line() {
        let text = "a = 'x'\n\n[s]\nb = true\n\n[[t]]\nc = ['1',\n '2']\n\n[[t]]\n";
        let problems = read(text, &[], |root| {
            let a = root.text("a").unwrap();
            assert_eq!(
                (a.value.as_str(), a.place.to_string().as_str()),
                ("x", "folder/a.toml:1")
            );
            let mut s = root.section("s");
            assert_eq!(s.flag("b").unwrap().place.to_string(), "folder/a.toml:4");
            s.finish();
            let mut tables = root.sections("t").into_iter();
            let mut first = tables.next().unwrap();
            let list = first.texts("c").unwrap();
            let places: Vec<_> = list.iter().map(|item| item.place.to_string()).collect();
            assert_eq!(places, ["folder/a.toml:7", "folder/a.toml:8"]);
            let mut second = tables.next().unwrap();
            assert!(second.required_text("c").is_none());
        });
        assert_eq!(problems, ["folder/a.toml:10: c is missing"]);
    }

    #[test]
    fn every_problem_of_a_file_has_its_line() {
        let text = "colour = 'x'\nflag = 'true'\ntext = 1\nempty = ''\nlist = [1, 'a']\n[table]\n\
                    x = 1\n[single]\n[other]\n[last]\nnumber = inf\n\"a b\" = 1\n";
        let problems = read(text, &[], |root| {
            assert!(root.text("color").is_none());
            assert!(root.flag("flag").is_none());
            assert!(root.text("text").is_none());
            assert!(root.text("empty").is_none());
            assert_eq!(root.texts("list").unwrap().len(), 1);
            assert!(root.text("table").is_none());
            assert!(root.sections("single").is_empty());
            let mut last = root.section("last");
            last.skip("number");
            last.finish();
        });
        assert_eq!(
            problems,
            [
                "folder/a.toml:1: colour: unknown key; did you mean color?",
                "folder/a.toml:2: flag: expected true or false, found a string",
                "folder/a.toml:3: text: expected a string, found an integer",
                "folder/a.toml:4: empty: is empty",
                "folder/a.toml:5: list: expected strings in the list, found an integer",
                "folder/a.toml:6: table: expected a string, found a table",
                "folder/a.toml:8: single: expected a list of tables ([[single]]), found a table",
                "folder/a.toml:9: other: unknown key",
                "folder/a.toml:11: number: must be a finite number",
                "folder/a.toml:12: a b: unknown key of [last]; keys that belong to no table stand above the first table",
            ]
        );
    }

    /// Keys may contain the characters that separate keys in a path.
    #[test]
    fn keys_with_dots_have_their_own_lines() {
        let text = "\"s.b\" = 1\n\"t[0]\" = 2\n[s]\nb = 3\n[[t]]\n";
        let problems = read(text, &[], |root| {
            assert!(root.section("s").text("b").is_none());
            assert_eq!(root.sections("t")[0].place().to_string(), "folder/a.toml:5");
        });
        assert_eq!(
            problems,
            [
                "folder/a.toml:1: s.b: unknown key",
                "folder/a.toml:2: t[0]: unknown key",
                "folder/a.toml:4: b: expected a string, found an integer",
            ]
        );
    }

    #[test]
    fn a_syntax_error_has_its_line() {
        let problems = read("a = 'x'\nb = \n", &[], |root| {
            root.text("a");
        });
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("folder/a.toml:2: "), "{problems:?}");
        assert_eq!(
            read("a = 1\na = 2\n", &[], |_| ()),
            ["folder/a.toml:2: duplicate key: `a`"]
        );
    }

    #[test]
    fn a_file_that_is_not_there_is_one_problem() {
        let problems = Problems::default();
        let table = Table::read(Path::new("/nowhere/a.toml"), &problems);
        Section::root(table, &problems).finish();
        let problems = lines(problems.into_sorted());
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("/nowhere/a.toml: cannot be read: "));
    }

    #[test]
    fn variables_win_over_the_file() {
        let text = "a = 'file'\nl = ['x']\n[s]\nb = false\n[[t]]\nc = 'file'\nd = 'file'\n";
        let environment = [
            ("T__A", "variable"),
            ("T__L", "1, 2,"),
            ("T__N", "3"),
            ("T__S__B", "true"),
            ("T__T__0__C", "variable"),
            ("T__T__1__C", "second"),
            ("UNRELATED", "x"),
            ("T_A", "x"),
        ];
        let problems = read(text, &environment, |root| {
            let a = root.text("a").unwrap();
            assert_eq!(
                (a.value.as_str(), a.place.to_string().as_str()),
                ("variable", "T__A")
            );
            let list = root.texts("l").unwrap().into_iter().map(|item| item.value);
            assert_eq!(list.collect::<Vec<_>>(), ["1", "2"]);
            assert_eq!(root.positive("n").unwrap().value.get(), 3);
            assert!(root.section("s").flag("b").unwrap().value);
            let mut tables = root.sections("t").into_iter();
            let mut first = tables.next().unwrap();
            assert_eq!(first.text("c").unwrap().value, "variable");
            assert_eq!(first.text("d").unwrap().value, "file");
            assert_eq!(tables.next().unwrap().text("c").unwrap().value, "second");
        });
        assert_eq!(problems, [""; 0]);
    }

    #[test]
    fn unknown_variables_are_problems() {
        let environment = [
            ("T__COLOUR", "x"),
            ("T__S__FLAGS", "x"),
            ("T__A__B", "x"),
            ("T__T__0", "x"),
            ("T__T__2__C", "x"),
            ("T__U__0__NAM", "x"),
            ("T__lower", "x"),
            ("T__S__FLAG", "yes"),
            ("T__LIST", " "),
        ];
        let problems = read("a = 'x'\n[[t]]\n", &environment, |root| {
            root.texts("list");
            root.text("color");
            root.text("a");
            root.sections("t");
            for mut u in root.sections("u") {
                u.required_text("name");
                u.finish();
            }
            let mut s = root.section("s");
            s.flag("flag");
            s.finish();
        });
        assert_eq!(
            problems,
            [
                "T__A__B: a has no keys",
                "T__COLOUR: unknown setting; did you mean T__COLOR?",
                "T__LIST: is empty",
                "T__S__FLAG: expected true or false, found a string",
                "T__S__FLAGS: unknown setting; did you mean T__S__FLAG?",
                "T__T__0: names a table; add __ and a key of it",
                "T__T__2__C: t has no table number 2",
                "T__U__0__NAM: name is missing",
                "T__U__0__NAM: unknown setting; did you mean T__U__0__NAME?",
                "T__lower: variables are written in capitals",
            ]
        );
    }

    #[test]
    fn relative_paths_belong_to_their_file() {
        let problems = read("p = 'x/y'\nq = '/abs'\n", &[("T__R", "z")], |root| {
            assert_eq!(root.path("p").unwrap(), Path::new("folder/x/y"));
            assert_eq!(root.path("q").unwrap(), Path::new("/abs"));
            assert_eq!(root.path("r").unwrap(), Path::new("z"));
        });
        assert_eq!(problems, [""; 0]);
    }

    /// Reads the same keys from any document.
    fn read_clients(table: Table) -> Vec<Problem> {
        let problems = Problems::default();
        let mut root = Section::root(table, &problems);
        let mut first: Option<Place> = None;
        for mut client in root.sections("clients") {
            if let Some(Located { value, place }) = client.required_text("id") {
                match &first {
                    Some(first) => {
                        client.report(&place, format!("id: {value} is already at {first}"));
                    }
                    None => first = Some(place),
                }
            }
            client.flag("enabled");
            for Located { value, place } in client.texts("scopes").unwrap_or_default() {
                client.report(&place, format!("scopes: {value} is no scope"));
            }
            if let Some(Located { place, .. }) = client.text("pem") {
                client.report(&place, "pem: is no certificate");
            }
            if !client.has("secret") {
                client.report(client.place(), "secret or digest is missing");
            }
            client.skip("secret");
            client.finish();
        }
        root.finish();
        problems.into_sorted()
    }

    /// Problems of the values sent as JSON are reported with the places in the file.
    #[test]
    fn problems_of_what_was_sent_have_the_lines_of_the_file() {
        let text = "other = 1\n\n[[clients]]\nid = 'web'\nenabled = 'no'\nscopes = ['a',\n 'b']\n\n\
                    [[clients]]\nid = 'web'\ncolour = 'red'\nsecret = 's'\n\n[[clients]]\nclients = 1\n";
        let file = || Table::parse(Path::new("a.toml"), text, &Problems::default());
        let expected = lines(read_clients(file()));
        let sent = Table::from_json(file().members().clone());
        let mut located: Vec<Problem> = read_clients(sent)
            .iter()
            .map(|problem| file().located(&problem.to_string()).unwrap())
            .collect();
        located.sort();
        assert_eq!(lines(located), expected);
        assert_eq!(
            expected,
            [
                "a.toml:1: other: unknown key",
                "a.toml:3: secret or digest is missing",
                "a.toml:5: enabled: expected true or false, found a string",
                "a.toml:6: scopes: a is no scope",
                "a.toml:7: scopes: b is no scope",
                "a.toml:10: id: web is already at a.toml:4",
                "a.toml:11: colour: unknown key",
                "a.toml:14: id is missing",
                "a.toml:14: secret or digest is missing",
                "a.toml:15: clients: unknown key",
            ]
        );
    }

    #[test]
    fn a_value_that_was_moved_keeps_its_line_and_its_key() {
        let text = "[[clients]]\nid = 'web'\nsecret = 's'\nfile = 'a.pem'\n";
        let problems = Problems::default();
        let mut file = Table::parse(Path::new("a.toml"), text, &problems);
        let client = &mut file.members_mut()["clients"][0];
        client["pem"] = client.as_object_mut().unwrap().remove("file").unwrap();
        file.moved("clients[0].file", "clients[0].pem");
        let found = read_clients(Table::from_json(file.members().clone()));
        let found: Vec<String> = lines(found);
        assert_eq!(found, ["clients[0].pem: is no certificate"]);
        let located = file.located(&found[0]).unwrap();
        assert_eq!(located.to_string(), "a.toml:4: file: is no certificate");
    }

    #[test]
    fn lines_without_a_path_of_the_file_stay() {
        let file = Table::parse(Path::new("a.toml"), "a = 1\n", &Problems::default());
        for line in ["the store fails", "web: does not fit", "client web: no", ""] {
            assert_eq!(file.located(line), None, "{line}");
        }
        let whole = file.located("body: is too large").unwrap();
        assert_eq!(whole.to_string(), "a.toml: is too large");
    }
}
