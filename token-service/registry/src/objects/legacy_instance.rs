//! Hosts of the legacy flow, from the configuration and from JSON.

use std::collections::BTreeMap;

use crate::describe::Rule::{Single, State};
use crate::describe::fields::Flag::{Required, Switch};
use crate::describe::fields::{Field, described};
use crate::describe::reading::{Completeness, Entry, Reading, Registration, required};
use crate::describe::{Effects, Registered, present};
use document::{Place, Section};
use domain::clock::Timestamp;
use domain::legacy_instance::{differ_in_port, is_host};
use domain::object::ObjectKind;
use domain::{Excerpt, LegacyInstance, Managed, Observed, RegistryChange};

described! {
    LegacyInstanceRegistration: "A host of the legacy flow.",
    LegacyInstanceView: "A host of the legacy flow.",
    /// The host of `/OAuthStatus` and `/Logon`.
    shown hostname: String => { label: "Hostname", };
    /// The host of `/as/token.oauth2`.
    needed auth_server_hostname: String
        /// `/OAuthStatus` returns it as it is.
        => { rule: Single, label: "Authorization server", flag: Required("auth-server", "HOST"), };
    /// Whether OAuth2 is enabled on the host.
    preset enabled: bool
        /// `true` if absent.
        => { rule: State, label: "Enabled", flag: Switch(
            ["disable", "OAuth2 is not enabled on the host"],
            false,
            ["enable", "OAuth2 is enabled on the host"],
        ), };
}

impl Registered for LegacyInstance {
    const KIND: ObjectKind = ObjectKind::LegacyInstance;
    const LIST: &'static str = "legacy-instances";
    const NAME_KEY: &'static str = "hostname";
    const FIELDS: &'static [Field] = FIELDS;

    type Keys = LegacyInstanceRegistration;
    type View = LegacyInstanceView;

    fn name(&self) -> &str {
        &self.hostname
    }

    fn read(entry: &mut Entry<'_, '_>) -> Option<Registration<Self>> {
        let hostname = entry.section.required_text("hostname");
        if let Some(hostname) = &hostname {
            if is_host(&hostname.value) {
                entry.name(ObjectKind::LegacyInstance, "hostname", hostname);
            } else {
                let message =
                    "hostname: expected a host name in lower case, with its port if it has one";
                entry.section.report(&hostname.place, message);
            }
        }
        let auth_server_hostname = required(&mut entry.section, "auth_server_hostname", |text| {
            let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
            let problem = "must be printable ASCII without spaces";
            printable.then(|| text.to_owned()).ok_or(problem)
        });
        Some(Registration::of(Self {
            enabled: entry.enabled(),
            managed: None,
            hostname: hostname?.value,
            auth_server_hostname: auth_server_hostname?,
        }))
    }

    fn view(&self, _: Timestamp, _: &Observed, effects: Effects) -> LegacyInstanceView {
        LegacyInstanceView {
            hostname: self.hostname.clone(),
            auth_server_hostname: self.auth_server_hostname.clone(),
            enabled: self.enabled,
            managed_by: self.managed.as_ref().map(ToString::to_string),
            changes: present(effects.changes),
            warnings: present(effects.warnings),
        }
    }

    fn owner(&self) -> (Option<&Managed>, bool) {
        (self.managed.as_ref(), self.enabled)
    }

    fn owner_mut(&mut self) -> (&mut Option<Managed>, &mut bool) {
        (&mut self.managed, &mut self.enabled)
    }

    fn find<'a>(stored: &'a Excerpt, name: &str) -> Option<&'a Self> {
        let mut instances = stored.legacy_instances().iter();
        instances.find(|instance| instance.hostname == name)
    }

    fn put(change: &mut RegistryChange) -> &mut Vec<Self> {
        &mut change.put_legacy_instances
    }

    fn remove(&self, change: &mut RegistryChange) {
        change.remove_legacy_instances.push(self.hostname.clone());
    }
}

/// Reads the instances of the configuration, which manages them (D-27).
pub fn read_all(root: &mut Section<'_>) -> Vec<LegacyInstance> {
    // Reading an instance does not depend on the time.
    let mut reading = Reading::new(Completeness::Whole, Timestamp::from_seconds(0));
    let read = reading.list(root, "legacy_instances");
    let places: Vec<_> = reading
        .names
        .get(&ObjectKind::LegacyInstance)
        .into_iter()
        .flatten()
        .collect();
    for (number, (hostname, place)) in places.iter().enumerate() {
        let mut before = places.iter().take(number).map(|(other, _)| other.as_str());
        if let Some(problem) = before.find_map(|other| port_problem(hostname, other)) {
            root.report(place, problem);
        }
    }
    let managed = |read: Registration<LegacyInstance>| {
        let instance = read.object;
        let names = reading.names.get(&ObjectKind::LegacyInstance);
        let place = names.and_then(|names| names.get(&instance.hostname));
        let file = match place {
            Some(Place::File { path, .. }) => path.display().to_string(),
            _ => "the configuration".to_owned(),
        };
        let managed = Managed {
            file,
            line: read.line,
            disables: !instance.enabled,
            suspended: false,
            secrets: BTreeMap::new(),
        };
        LegacyInstance {
            managed: Some(managed),
            ..instance
        }
    };
    read.into_iter().map(managed).collect()
}

/// Why the instances `hostname` and `other` cannot both exist: requests find instances by their names without ports.
pub fn port_problem(hostname: &str, other: &str) -> Option<String> {
    differ_in_port(hostname, other)
        .then(|| format!("hostname: {hostname} differs from the instance {other} only in the port"))
}
