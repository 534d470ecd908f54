//! `[branding]`: whose pages they are.

use std::collections::BTreeMap;
use std::path::Path;

use document::Section;
use domain::ClientId;
use serde_json::Value;
use url::Url;

use super::paths::absolute;
use crate::branding::{Accent, Asset, Branding};

const LOGO: &str = "logo_file";
/// The logo in dark mode.
const DARK_LOGO: &str = "logo_dark_file";

pub(super) fn read(mut section: Section<'_>) -> Branding {
    let accent = section.parsed("accent", Accent::parse);
    let mut branding = Branding::with_accent(accent.map(|accent| accent.value));
    if section.has(DARK_LOGO) && !section.has(LOGO) {
        section.problem(DARK_LOGO, "needs logo_file, the logo in light mode");
    }
    for (key, place) in [
        (LOGO, &mut branding.logo),
        (DARK_LOGO, &mut branding.dark_logo),
    ] {
        if let Some(path) = section.path(key) {
            match logo(&path) {
                Ok(logo) => *place = Some(logo),
                Err(problem) => section.problem(key, &problem),
            }
        }
    }
    branding.client_logos = client_logos(section.section("client_logos"));
    let mut url = |key| section.parsed(key, web_address).map(|url| url.value);
    branding.help_url = url("help_url");
    branding.privacy_url = url("privacy_url");
    branding.imprint_url = url("imprint_url");
    section.finish();
    branding
}

/// The file of each client.
fn client_logos(mut section: Section<'_>) -> BTreeMap<String, Asset> {
    let mut logos = BTreeMap::new();
    while let Some((client, value)) = section.take_any() {
        let Value::String(path) = value else {
            section.problem(&client, "expected the path of a file");
            continue;
        };
        if ClientId::parse(&client).is_none() {
            section.problem(&client, "is no Client ID");
            continue;
        }
        match logo(&section.place().resolve(&path)) {
            Ok(logo) => drop(logos.insert(client, logo)),
            Err(problem) => section.problem(&client, &problem),
        }
    }
    logos
}

fn logo(path: &Path) -> Result<Asset, String> {
    let path = absolute(path.to_owned());
    let logo = std::fs::read(&path)
        .map_err(|error| error.to_string())
        .and_then(Asset::logo);
    logo.map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads an address that people open, or to which they write.
pub(super) fn web_address(text: &str) -> Result<String, &'static str> {
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "https" | "http") && url.host().is_some() => {
            Ok(text.to_owned())
        }
        Ok(url) if url.scheme() == "mailto" => Ok(text.to_owned()),
        _ => Err("expected an https, http or mailto URL"),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::load;

    #[test]
    fn a_logo_that_cannot_be_used_is_named_with_its_line() {
        let text = "[branding]\naccent = \"#ffcc00\"\nlogo_file = \"missing.svg\"\nhelp_url = \"javascript:alert(1)\"\n\
                    [branding.client_logos]\nweb = 1\n\"a b\" = \"c.svg\"\n";
        let problems = load(text, &[]).unwrap_err();
        let expected = [
            "config.toml:2: accent: has a contrast of 1.5 on white",
            "config.toml:3: logo_file: missing.svg: No such file",
            "config.toml:4: help_url: expected an https, http or mailto URL",
            "config.toml:6: web: expected the path of a file",
            "config.toml:7: a b: is no Client ID",
        ];
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.starts_with(expected), "{problem}");
        }
        let alone = load("[branding]\nlogo_dark_file = \"missing.svg\"\n", &[]).unwrap_err();
        let expected = "config.toml:2: logo_dark_file: needs logo_file, the logo in light mode";
        assert!(alone.contains(&expected.to_owned()), "{alone:?}");
    }
}
