//! The redirect URIs of clients, and the templates of legacy clients.

use crate::describe::checks::required_texts;
use crate::describe::reading::Entry;
use document::Located;
use domain::client::IntegrationKind;
use domain::redirect_template::RedirectTemplate;
use domain::redirect_uri::{RedirectUriPattern, RedirectUriUse};

pub(super) fn read(
    entry: &mut Entry<'_, '_>,
    key: &'static str,
) -> Option<Vec<RedirectUriPattern>> {
    let use_ = match entry.integration {
        Some(IntegrationKind::WebServer) => RedirectUriUse::WebServer,
        _ => RedirectUriUse::Installed,
    };
    let texts = required_texts(&mut entry.section, key)?;
    let mut patterns = Vec::new();
    for Located { value, place } in texts {
        match RedirectUriPattern::parse(&value, use_) {
            Ok(pattern) => patterns.push(pattern),
            Err(error) => entry
                .section
                .report(&place, format!("{key}: {value}: {error}")),
        }
    }
    Some(patterns)
}

pub(super) fn read_templates(entry: &mut Entry<'_, '_>, key: &'static str) -> Option<Vec<String>> {
    let templates = required_texts(&mut entry.section, key)?;
    for Located { value, place } in &templates {
        if let Err(error) = RedirectTemplate::parse(value) {
            entry
                .section
                .report(place, format!("{key}: {value}: {error}"));
        }
    }
    Some(templates.into_iter().map(|text| text.value).collect())
}
