//! Checks that all references in comments and pages exist: sections and rules of `docs/protocol.md` and `docs/protocol/`, decisions,
//! files, headings.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Folders that builds and installations create.
const SKIPPED: [&str; 6] = [".cache", ".git", "corpus", "data", "node_modules", "target"];

/// Endings of files that people write.
const ENDINGS: [&str; 10] = [
    "rs", "md", "toml", "yaml", "yml", "js", "mjs", "py", "sh", "html",
];

/// A file of the repository.
struct Document {
    path: PathBuf,
    text: String,
}

impl Document {
    fn is_page(&self) -> bool {
        self.path.extension().is_some_and(|ending| ending == "md")
    }

    /// The lines outside code blocks, with their numbers.
    fn prose(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut in_code = false;
        self.text.lines().enumerate().filter_map(move |(at, line)| {
            let is_fence = line.trim_start().starts_with("```");
            in_code ^= is_fence;
            (!is_fence && !in_code).then_some((at + 1, line))
        })
    }

    fn place(&self, line: usize) -> String {
        format!("{}:{line}", self.path.display())
    }
}

fn documents() -> Vec<Document> {
    let mut folders = vec![PathBuf::from(ROOT).canonicalize().unwrap()];
    let mut documents = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let ending = path.extension().unwrap_or_default().to_string_lossy();
            if path.is_symlink() || SKIPPED.contains(&&*name) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if name == "Makefile" || ENDINGS.contains(&&*ending) {
                let text = fs::read_to_string(&path).unwrap();
                documents.push(Document { path, text });
            }
        }
    }
    assert!(documents.len() > 100, "{} files", documents.len());
    documents
}

fn page(name: &str) -> Document {
    let path = PathBuf::from(ROOT).join(name).canonicalize().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    Document { path, text }
}

/// Sections of the protocol (`4.2`), and rules in them (`4.2 rule 1`).
fn sections_and_rules() -> BTreeSet<String> {
    let folder = fs::read_dir(Path::new(ROOT).join("docs/protocol")).unwrap();
    let pages = folder.map(|entry| page(&entry.unwrap().path().to_string_lossy()));
    let pages: Vec<Document> = pages.chain([page("docs/protocol.md")]).collect();
    let mut known = BTreeSet::new();
    let mut section = String::new();
    for (_, line) in pages.iter().flat_map(Document::prose) {
        let heading = line
            .strip_prefix("## ")
            .or_else(|| line.strip_prefix("### "));
        if let Some(heading) = heading {
            section = leading_number(heading);
            known.insert(section.clone());
        } else if let Some((number, _)) = line.split_once(". ")
            && number.parse::<u8>().is_ok()
        {
            known.insert(format!("{section} rule {number}"));
        }
    }
    known
}

/// The section number at the start of `text`, without a dot at its end.
fn leading_number(text: &str) -> String {
    let end = text.find(|character: char| !character.is_ascii_digit() && character != '.');
    let number = &text[..end.unwrap_or(text.len())];
    number.trim_end_matches('.').to_owned()
}

/// The citations after each `protocol.md` in `line`: `§4.2`, `§4.2 rule 1`, or several (`§4.4, §4.6 and §5.2`).
fn citations(line: &str) -> Vec<String> {
    let mut cited = Vec::new();
    for text in line.split("protocol.md ").skip(1) {
        let mut rest = text;
        while let Some(section) = rest.strip_prefix('§') {
            let number = leading_number(section);
            rest = &section[number.len()..];
            match rest.strip_prefix(" rule ").map(leading_number) {
                Some(rule) if !rule.is_empty() => {
                    cited.push(format!("{number} rule {rule}"));
                    rest = &rest[" rule ".len() + rule.len()..];
                }
                _ => cited.push(number),
            }
            let joint = [", ", " and ", " to "]
                .into_iter()
                .find_map(|joint| rest.strip_prefix(joint));
            rest = joint.unwrap_or_default();
        }
    }
    cited
}

/// Decisions (`D-4`) that `line` names.
fn decisions(line: &str) -> Vec<String> {
    let mut named = Vec::new();
    for (at, _) in line.match_indices("D-") {
        let is_start = !line[..at].ends_with(|before: char| before.is_ascii_alphanumeric());
        let number = leading_number(&line[at + 2..]);
        if is_start && !number.is_empty() {
            named.push(number);
        }
    }
    named
}

/// Targets of the links in `line`.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once(')')?.0))
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(page: &Document) -> BTreeSet<String> {
    let headings = page
        .prose()
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, line)| line.trim_start_matches('#').trim());
    headings
        .map(|heading| {
            let kept = heading.chars().filter(|character| {
                character.is_alphanumeric() || matches!(character, ' ' | '-' | '_')
            });
            kept.collect::<String>().to_lowercase().replace(' ', "-")
        })
        .collect()
}

#[test]
fn cited_sections_rules_and_decisions_exist() {
    let known = sections_and_rules();
    let table = page("docs/decisions.md");
    let mut wrong = Vec::new();
    let mut cited = 0;
    for document in documents() {
        for (at, line) in document.text.lines().enumerate() {
            let place = document.place(at + 1);
            for section in citations(line) {
                cited += 1;
                if !known.contains(&section) {
                    wrong.push(format!("{place}: §{section}"));
                }
            }
            for number in decisions(line) {
                if !table.text.contains(&format!("| D-{number} |")) {
                    wrong.push(format!("{place}: D-{number}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(cited > 50, "{cited} citations");
}

#[test]
fn nothing_cites_what_is_not_in_the_repository() {
    // Joined here, because the test searches this file too.
    let absent = [
        ("spec", " §"),
        ("design", " §"),
        ("design", " section"),
        ("checklist", " row"),
    ]
    .map(|(document, part)| format!("{document}{part}"));
    let mut wrong = Vec::new();
    for document in documents() {
        for (at, line) in document.text.lines().enumerate() {
            let line = line.to_lowercase();
            if absent.iter().any(|absent| line.contains(absent)) {
                wrong.push(document.place(at + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn links_of_pages_lead_somewhere() {
    let mut wrong = Vec::new();
    let mut followed = 0;
    for document in documents().iter().filter(|document| document.is_page()) {
        for (at, line) in document.prose() {
            for link in links(line).filter(|link| !link.contains("://")) {
                followed += 1;
                let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
                let folder = document.path.parent().unwrap_or(Path::new(ROOT));
                let target = match path {
                    "" => document.path.clone(),
                    path => folder.join(path),
                };
                let leads = match anchor {
                    "" => target.exists(),
                    anchor => fs::read_to_string(&target).is_ok_and(|text| {
                        let target = Document { path: target, text };
                        anchors(&target).contains(anchor)
                    }),
                };
                if !leads {
                    wrong.push(format!("{}: {link}", document.place(at)));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(followed > 50, "{followed} links");
}

/// Two clicks from the README: the page, and the section that it names.
#[test]
fn the_first_questions_of_a_team_have_answers() {
    assert!(page("README.md").text.contains("](docs/decide.md)"));
    let questions = page("docs/decide.md");
    for question in [
        "token valid",
        "library",
        "laptop",
        "upgrade",
        "signed in",
        "back up",
        "redb to PostgreSQL",
        "nginx",
        "https",
        "forgot",
        "second factor",
        "second API",
        "roles",
        "single-page app",
        "down",
    ] {
        let mut rows = questions
            .text
            .lines()
            .map(|row| row.split(" | ").collect::<Vec<_>>());
        let row = rows.find(|row| row[0].contains(question));
        let more = row.map(|row| row[2]).unwrap_or_default();
        assert!(links(more).next().is_some(), "{question}");
    }
}

#[test]
fn citations_are_read_as_people_write_them() {
    let cited = |line| citations(line).join("; ");
    assert_eq!(cited("(protocol.md §2.3, D-10)"), "2.3");
    assert_eq!(cited("docs/protocol.md §4.2 rule 2."), "4.2 rule 2");
    assert_eq!(
        cited("protocol.md §4.4, §4.6 and §5.2, RFC 1"),
        "4.4; 4.6; 5.2"
    );
    assert_eq!(cited("RFC 6749 §4.1"), "");
    assert_eq!(decisions("D-4 (UUID-4, D-12)"), ["4", "12"]);
}

/// What a key of a configuration may be, in words, from its JSON Schema. `required` are the members that the section needs.
fn values(schema: &Value) -> String {
    if let Some(names) = schema["enum"].as_array() {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        return names.join(", ").replace('"', "");
    }
    let required = schema["required"].as_array();
    match (schema["type"].as_str(), schema["properties"].as_object()) {
        (_, Some(members)) => {
            let members = members.iter().map(|(name, member)| {
                let is_required = required.is_some_and(|required| required.contains(&json!(name)));
                let needed = if is_required { " (required)" } else { "" };
                format!("`{name}`{needed}: {}", values(member))
            });
            members.collect::<Vec<_>>().join("; ")
        }
        (Some("array"), None) if schema["items"]["properties"].is_object() => {
            format!("tables with {}", values(&schema["items"]))
        }
        (Some("array"), None) => "list of texts".to_owned(),
        (Some("integer"), None) => format!("{} to {}", schema["minimum"], schema["maximum"]),
        (Some("boolean"), None) => "`true`, `false`".to_owned(),
        (Some("string"), None) => "text".to_owned(),
        (Some("object"), None) => "table".to_owned(),
        _ => "any".to_owned(),
    }
}

/// The first two columns of the table of the guard's keys come from the schema, which its reader writes (`guard/src/config/schema.rs`).
/// `WRITE_REFERENCE=1` writes them, and keeps the column with the meaning of each key.
#[test]
fn the_reference_of_the_guard_is_that_of_its_schema() {
    let schema = page("charts/gatepass/values.schema.json").text;
    let schema: Value = schema.parse().unwrap();
    let guard = &schema["properties"]["guard"]["properties"];
    let configuration = &guard["configuration"];
    let sections = [
        ("issuers[].", &guard["issuers"]["items"]),
        ("rules[].", &configuration["properties"]["rules"]["items"]),
        ("", configuration),
    ];
    let gateways = page("docs/gateways.md");
    let head = "| key | values | meaning |\n|---|---|---|\n";
    let (before, rest) = gateways.text.split_once(head).unwrap();
    let (table, after) = rest.split_once("\n\n").unwrap();
    let meaning = |start: &str| {
        let mut rows = table.lines();
        let row = rows.find_map(|row| row.strip_prefix(start));
        let (_, meaning) = row
            .and_then(|row| row.split_once(" | "))
            .unwrap_or_default();
        meaning.to_owned()
    };
    let rows = sections.into_iter().flat_map(|(section, schema)| {
        let keys = schema["properties"].as_object().into_iter().flatten();
        keys.filter(|(key, _)| *key != "rules")
            .map(move |(key, schema)| {
                let start = format!("| `{section}{key}` | ");
                format!("{start}{} | {}", values(schema), meaning(&start))
            })
    });
    let rows = rows.collect::<Vec<_>>();
    if std::env::var_os("WRITE_REFERENCE").is_some() {
        let text = format!("{before}{head}{}\n\n{after}", rows.join("\n"));
        fs::write(&gateways.path, text).unwrap();
        return;
    }
    let found: Vec<&str> = table.lines().collect();
    assert!(
        found == rows
            && rows
                .iter()
                .all(|row| row.len() > 20 && !row.ends_with("| ")),
        "docs/gateways.md is not that of the schema: WRITE_REFERENCE=1 cargo test --lib -- the_reference"
    );
}
