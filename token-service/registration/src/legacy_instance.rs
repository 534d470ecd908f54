//! Reading hosts of the legacy flow, from the configuration and from JSON.

use std::collections::BTreeSet;

use document::{InvalidDocument, Located, Problems, Section, Table};
use domain::LegacyInstance;
use domain::legacy_instance::is_host;

/// Reads an instance from JSON: an object with the keys of `legacy_instances` in the configuration.
///
/// # Errors
/// [`InvalidDocument`] with every problem.
pub fn from_json(
    body: serde_json::Map<String, serde_json::Value>,
) -> Result<Option<LegacyInstance>, InvalidDocument> {
    let problems = Problems::default();
    let section = Section::root(Table::from_json(body), &problems);
    let instance = read(section, &mut BTreeSet::new());
    problems.none_or(instance)
}

/// Reads an instance; `seen` holds the hostnames so far.
pub fn read(mut section: Section<'_>, seen: &mut BTreeSet<String>) -> Option<LegacyInstance> {
    let hostname = section.required_text("hostname");
    let auth_server_hostname = section.required_text("auth_server_hostname");
    let enabled = section.flag("enabled").is_none_or(|flag| flag.value);
    if let Some(Located { value, place }) = &hostname {
        if !is_host(value) {
            let message =
                "hostname: expected a host name in lower case, with its port if it has one";
            section.report(place, message);
        } else if !seen.insert(value.clone()) {
            section.report(place, format!("hostname: {value} is listed twice"));
        }
    }
    if let Some(Located { value, place }) = &auth_server_hostname
        && !value.bytes().all(|byte| byte.is_ascii_graphic())
    {
        let message = "auth_server_hostname: must be printable ASCII without spaces";
        section.report(place, message);
    }
    section.finish();
    Some(LegacyInstance {
        hostname: hostname?.value,
        auth_server_hostname: auth_server_hostname?.value,
        enabled,
    })
}
