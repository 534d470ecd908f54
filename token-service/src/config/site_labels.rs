//! `[site_labels]`: names of the sites of linked accounts, for people.

use std::collections::BTreeMap;

use document::Section;
use domain::ambiguity;
use serde_json::Value;

/// Maximum length of a label, in characters.
const LONGEST: usize = 64;

/// Reads the label of each site. Two sites with one label would look like one site, so that is a problem.
pub(super) fn read(mut section: Section<'_>) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    while let Some((site, value)) = section.take_any() {
        match value {
            Value::String(text) => match label(&text) {
                Err(problem) => section.problem(&site, problem),
                Ok(label) if labels.values().any(|known| *known == label) => {
                    section.problem(&site, "another site has this label");
                }
                Ok(label) => drop(labels.insert(site, label)),
            },
            _ => section.problem(&site, "expected a string"),
        }
    }
    labels
}

/// A text that people tell from others.
pub(super) fn label(text: &str) -> Result<String, &'static str> {
    let is_line =
        (1..=LONGEST).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    match ambiguity(text) {
        _ if !is_line => Err("must be one line of 1 to 64 characters"),
        Some(problem) => Err(problem),
        None => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::load;

    #[test]
    fn every_site_has_a_label_of_its_own() {
        let table = |rest: &str| {
            let text = format!("[site_labels]\n\"https://eu1.example.com\" = \"Ulm\"\n{rest}");
            load(&text, &[])
        };
        let labels = table("\"https://us1.example.com\" = \"Austin\"").unwrap();
        let label = labels.site_labels.get("https://us1.example.com");
        assert_eq!(label.map(String::as_str), Some("Austin"));
        for (value, problem) in [
            ("\"Ulm\"", "another site has this label"),
            ("\"\"", "must be one line of 1 to 64 characters"),
            (
                "\" \"",
                "has other white space than single spaces between words: correct it",
            ),
            ("\"Ulm\\u200b\"", "has an invisible character: remove it"),
            ("\"a\\nb\"", "must be one line of 1 to 64 characters"),
            ("1", "expected a string"),
        ] {
            let problems = table(&format!("\"https://us1.example.com\" = {value}")).unwrap_err();
            let expected = format!("config.toml:3: https://us1.example.com: {problem}");
            assert_eq!(problems, [expected]);
        }
    }
}
