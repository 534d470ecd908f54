//! The redirect URIs of clients, and the templates of legacy clients.

use crate::describe::checks::required_texts;
use crate::describe::reading::Entry;
use document::Located;
use domain::redirect_template::RedirectTemplate;
use domain::redirect_uri::{RedirectUriPattern, RedirectUriUse};

const KEY: &str = "redirect_uris";

pub(super) fn read(entry: &mut Entry<'_, '_>, use_: RedirectUriUse) -> Vec<RedirectUriPattern> {
    let texts = required_texts(&mut entry.section, KEY);
    let mut patterns = Vec::new();
    for Located { value, place } in texts.unwrap_or_default() {
        match RedirectUriPattern::parse(&value, use_) {
            Ok(pattern) => {
                if pattern.has_undotted_scheme() {
                    let message = format!(
                        "{KEY}: {value}: any app may claim this scheme; use a domain of yours in reverse, such as \
                         com.example.app: (RFC 8252 §7.1)"
                    );
                    entry.warn(&place, message);
                }
                patterns.push(pattern);
            }
            Err(error) => entry
                .section
                .report(&place, format!("{KEY}: {value}: {error}")),
        }
    }
    patterns
}

pub(super) fn read_templates(entry: &mut Entry<'_, '_>) -> Vec<String> {
    let templates = required_texts(&mut entry.section, KEY).unwrap_or_default();
    for Located { value, place } in &templates {
        if let Err(error) = RedirectTemplate::parse(value) {
            entry
                .section
                .report(place, format!("{KEY}: {value}: {error}"));
        }
    }
    templates.into_iter().map(|text| text.value).collect()
}
