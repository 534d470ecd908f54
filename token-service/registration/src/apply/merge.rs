//! Bringing a file and the registry together (D-27): what changed in the file since it was last applied is taken over,
//! what a command changed since then stays. All of it is decided here, from values alone.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;

use super::fields::{
    self, FieldChange, PASSWORD, Parts, Shown, TOTP_SECRET, of_account, of_certificate, of_client,
    of_flag, of_legacy_instance, of_secret, of_user, said,
};
use super::{Plan, Protection, protect};
use crate::registrations::{PasswordRegistration, Registrations, UserRegistration};
use domain::digest::Digest;
use domain::legacy_instance::LegacyInstance;
use domain::redirect_uri::RedirectUriPattern;
use domain::remembered::{Element, Made, ObjectKind, ObjectName, Remembered, Said};
use domain::{Client, ClientId, Registry, Scope, User, Username};

/// Why a file is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// The service starts with its own file.
    Start,
    /// An operator sends a file.
    Apply,
    /// An operator sends a file that counts whatever commands changed.
    Overwrite,
}

/// Where the registry stays as it is although the file says something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The object.
    pub object: ObjectName,
    /// The field; `None` if the object was removed and stays removed.
    pub field: Option<&'static str>,
    /// Whether the file changed there since it was last applied, or never was: then nobody has heard of it before.
    pub conflict: bool,
    /// What stays and what the file says, for people; `None` for secrets.
    pub values: Option<String>,
}

impl fmt::Display for Kept {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectName { kind, name } = &self.object;
        write!(formatter, "! {} {name}: ", kind.name())?;
        match (self.field, &self.values) {
            (None, None) => formatter.write_str("stays removed"),
            (None, Some(reason)) => formatter.write_str(reason),
            (Some(field), Some(values)) => write!(formatter, "{field} stays {values}"),
            (Some(field), None) => write!(formatter, "{field} stays; the file has another"),
        }
    }
}

/// What was remembered of an object before, on this occasion.
#[derive(Clone, Copy)]
struct Past<'a> {
    remembered: Option<&'a Remembered>,
    occasion: Occasion,
}

impl<'a> Past<'a> {
    /// What files said of a field; empty if no file was ever applied to the object.
    fn said(self, field: &str) -> Vec<&'a [Element]> {
        let Some(remembered) = self.remembered else {
            return Vec::new();
        };
        let of = |said: &'a Said| said.get(field).map_or(&[][..], Vec::as_slice);
        let start = match self.occasion {
            Occasion::Start => remembered.start.as_ref(),
            Occasion::Apply | Occasion::Overwrite => None,
        };
        std::iter::once(&remembered.last)
            .chain(start)
            .map(of)
            .collect()
    }

    fn made(self, field: &str) -> Option<&'a Made> {
        self.remembered?.made.get(field)
    }

    /// What to remember of an object of which the file says `said`.
    fn next(self, object: ObjectName, said: Said, made: BTreeMap<String, Made>) -> Remembered {
        let before = self.remembered;
        let start = before.and_then(|before| before.start.as_ref());
        match self.occasion {
            Occasion::Apply | Occasion::Overwrite => Remembered {
                object,
                last: said,
                start: start.cloned(),
                made,
            },
            Occasion::Start => {
                let untouched = |field: &String, elements: &Vec<Element>| {
                    start.and_then(|start| start.get(field)) == Some(elements)
                };
                let mut last = said.clone();
                for (field, elements) in &mut last {
                    if untouched(field, elements)
                        && let Some(before) = before.and_then(|before| before.last.get(field))
                    {
                        elements.clone_from(before);
                    }
                }
                Remembered {
                    object,
                    last,
                    start: Some(said),
                    made,
                }
            }
        }
    }
}

/// Merges one object, and notes the fields that both sides changed.
struct Merger<'a> {
    past: Past<'a>,
    conflicts: BTreeSet<&'static str>,
}

impl<'a> Merger<'a> {
    const fn new(past: Past<'a>) -> Self {
        Self {
            past,
            conflicts: BTreeSet::new(),
        }
    }

    /// A field that is a list: value by value, by their keys.
    fn list<T: Clone>(
        &mut self,
        field: &'static str,
        (file, stored): (&[T], &[T]),
        element: impl Fn(&T) -> Element,
    ) -> Vec<T> {
        let bases = self.past.said(field);
        let said: Vec<Element> = file.iter().map(&element).collect();
        let found: Vec<Element> = stored.iter().map(&element).collect();
        if said == found || bases.contains(&said.as_slice()) {
            return stored.to_vec();
        }
        if bases.contains(&found.as_slice()) {
            return file.to_vec();
        }
        let in_file: BTreeMap<&str, (&str, &T)> = by_key(&said, file);
        let in_store: BTreeMap<&str, (&str, &T)> = by_key(&found, stored);
        let mut merged = Vec::new();
        let added = said.iter().filter(|one| !in_store.contains_key(&*one.key));
        for Element { key, .. } in found.iter().chain(added) {
            let (file, stored) = (in_file.get(&**key), in_store.get(&**key));
            let value = |side: Option<&(&'_ str, &T)>| side.map(|(value, _)| (*value).to_owned());
            let (of_file, of_store) = (value(file), value(stored));
            let before = |wanted: &Option<String>| {
                bases.iter().any(|base| {
                    let found = base.iter().find(|element| element.key == *key);
                    found.map(|element| &element.value) == wanted.as_ref()
                })
            };
            let chosen = if of_file == of_store || before(&of_file) {
                stored
            } else if before(&of_store) {
                file
            } else {
                self.conflicts.insert(field);
                stored
            };
            merged.extend(chosen.map(|(_, item)| (*item).clone()));
        }
        let keys = |items: &[T]| -> BTreeSet<(String, String)> {
            let elements = items.iter().map(&element);
            elements.map(|one| (one.key, one.value)).collect()
        };
        if keys(&merged) == keys(file) {
            file.to_vec()
        } else {
            merged
        }
    }

    /// A list that may not become empty.
    fn filled_list<T: Clone>(
        &mut self,
        field: &'static str,
        (file, stored): (&[T], &[T]),
        element: impl Fn(&T) -> Element,
    ) -> Vec<T> {
        let merged = self.list(field, (file, stored), element);
        if !merged.is_empty() || file.is_empty() {
            return merged;
        }
        self.conflicts.insert(field);
        if stored.is_empty() { file } else { stored }.to_vec()
    }

    /// A field with one value, or none.
    fn value<T: Clone>(
        &mut self,
        field: &'static str,
        (file, stored): (Option<&T>, Option<&T>),
        text: impl Fn(&T) -> String,
    ) -> Option<T> {
        let of = |side: Option<&T>| -> Vec<T> { side.cloned().into_iter().collect() };
        let element = |value: &T| fields::single(&text(value));
        let merged = self.list(field, (&of(file), &of(stored)), element);
        merged.into_iter().next()
    }

    /// Whether the object may be used. Where nothing is remembered, disabled is the safer state on either side.
    fn enabled(&mut self, file: bool, stored: bool) -> bool {
        if self.past.remembered.is_none() {
            if file && !stored {
                self.conflicts.insert("enabled");
            }
            return file && stored;
        }
        let merged = self.value("enabled", (Some(&file), Some(&stored)), |flag| {
            of_flag(*flag).value
        });
        merged.unwrap_or(stored)
    }

    /// Client secrets are no list to merge: a secret that a command ended or made stays ended or the only one.
    fn secrets<T: Clone + PartialEq>(
        &mut self,
        (file, stored): (&[T], &[T]),
        element: impl Fn(&T) -> Element,
    ) -> Vec<T> {
        let bases = self.past.said("client_secret");
        let said: Vec<Element> = file.iter().map(&element).collect();
        let found: Vec<Element> = stored.iter().map(&element).collect();
        if said == found || bases.contains(&said.as_slice()) {
            return stored.to_vec();
        }
        if bases.contains(&found.as_slice()) {
            return file.to_vec();
        }
        if !file.is_empty() && file.iter().all(|secret| stored.contains(secret)) {
            // The file has followed a rotation: what it said before is over.
            let over = |secret: &T| {
                let secret = element(secret);
                bases.iter().any(|base| base.contains(&secret)) && !said.contains(&secret)
            };
            let live = stored.iter().filter(|secret| !over(secret));
            return live.cloned().collect();
        }
        self.conflicts.insert("client_secret");
        stored.to_vec()
    }

    fn client(&mut self, file: &Client, stored: &Client) -> Client {
        let enabled = self.enabled(file.enabled, stored.enabled);
        let types = (
            &file.integration.name().to_owned(),
            &stored.integration.name().to_owned(),
        );
        let integration_type = self.value("type", (Some(types.0), Some(types.1)), Clone::clone);
        if integration_type.as_ref() != Some(types.0) {
            // What the file says is for another type.
            return Client {
                enabled,
                ..stored.clone()
            };
        }
        let (said, found) = (Parts::of(&file.integration), Parts::of(&stored.integration));
        let tokens = |scope: &Scope| -> Vec<String> { scope.tokens().map(str::to_owned).collect() };
        let scopes = self.list(
            "scopes",
            (&tokens(&file.scopes), &tokens(&stored.scopes)),
            |token| fields::itself(token),
        );
        let parts = Parts {
            secrets: self.secrets((&said.secrets, &found.secrets), of_secret),
            redirect_uris: self.filled_list(
                "redirect_uris",
                (&said.redirect_uris, &found.redirect_uris),
                |uri: &RedirectUriPattern| fields::itself(&uri.to_string()),
            ),
            templates: self.filled_list(
                "redirect_uris",
                (&said.templates, &found.templates),
                |template: &String| fields::itself(template),
            ),
            certificates: self.filled_list(
                "certificates",
                (&said.certificates, &found.certificates),
                of_certificate,
            ),
            organization: self.value(
                "organization",
                (said.organization.as_ref(), found.organization.as_ref()),
                Clone::clone,
            ),
            bound_user: self.value(
                "bound_user",
                (said.bound_user.as_ref(), found.bound_user.as_ref()),
                ToString::to_string,
            ),
            hostname: self.value(
                "hostname",
                (said.hostname.as_ref(), found.hostname.as_ref()),
                Clone::clone,
            ),
        };
        let name = self.value("name", (Some(&file.name), Some(&stored.name)), Clone::clone);
        Client {
            client_id: stored.client_id.clone(),
            name: name.unwrap_or_else(|| stored.name.clone()),
            integration: parts.assemble(&file.integration),
            // Tokens that were legal alone are legal together.
            scopes: Scope::try_from(scopes.join(" ")).unwrap_or_else(|_| stored.scopes.clone()),
            enabled,
        }
    }

    /// The user without password and second factor, which stay the stored ones.
    fn user(&mut self, file: &User, stored: &User) -> User {
        let (email, organization) = (
            (file.email.as_ref(), stored.email.as_ref()),
            (file.organization.as_ref(), stored.organization.as_ref()),
        );
        let single_sign_on = (Some(&file.single_sign_on), Some(&stored.single_sign_on));
        User {
            username: stored.username.clone(),
            email: self.value("email", email, Clone::clone),
            password_hash: stored.password_hash.clone(),
            registered_password_digest: stored.registered_password_digest,
            totp_secret_sealed: stored.totp_secret_sealed.clone(),
            organization: self.value("organization", organization, Clone::clone),
            single_sign_on: self
                .value("single_sign_on", single_sign_on, |flag| {
                    of_flag(*flag).value
                })
                .unwrap_or(stored.single_sign_on),
            accounts: self.list("accounts", (&file.accounts, &stored.accounts), of_account),
            enabled: self.enabled(file.enabled, stored.enabled),
            credentials_version: stored.credentials_version,
        }
    }

    /// A password or TOTP secret of which only a stored form is kept.
    fn hidden<S: Clone, E>(
        &mut self,
        hidden: Hidden<'_, S>,
        is_files: impl FnOnce(&S) -> Result<bool, E>,
        make: impl FnOnce() -> Result<S, E>,
    ) -> Result<Settled<S>, E> {
        let Hidden {
            field,
            tag,
            stored,
            digest,
        } = hidden;
        let bases = self.past.said(field);
        let made = self.past.made(field);
        let said = fields::single(tag);
        let is_made = |stored: &S| made.is_some_and(|made| made.digest == digest(stored));
        let stored_made = stored.is_some_and(is_made);
        // Neither file nor command had one: the file brings the first.
        let first = stored.is_none() && bases.contains(&[].as_slice());
        if bases.contains(&[said].as_slice()) {
            return Ok(Settled {
                form: stored.cloned(),
                is_files: stored_made,
                made: made.cloned(),
            });
        }
        let form = match stored {
            Some(stored) if is_files(stored)? => stored.clone(),
            _ if stored_made || first => make()?,
            _ => {
                self.conflicts.insert(field);
                return Ok(Settled {
                    form: stored.cloned(),
                    is_files: false,
                    made: made.cloned(),
                });
            }
        };
        Ok(Settled {
            made: Some(Made {
                value: tag.to_owned(),
                digest: digest(&form),
            }),
            form: Some(form),
            is_files: true,
        })
    }
}

/// A password or TOTP secret of a file, beside the stored form.
struct Hidden<'a, S> {
    field: &'static str,
    tag: &'a str,
    stored: Option<&'a S>,
    digest: fn(&S) -> Digest,
}

/// What became of a password or TOTP secret.
struct Settled<S> {
    form: Option<S>,
    /// Whether the stored form is the file's, as far as is known.
    is_files: bool,
    made: Option<Made>,
}

fn by_key<'a, T>(elements: &'a [Element], items: &'a [T]) -> BTreeMap<&'a str, (&'a str, &'a T)> {
    let pairs = elements.iter().zip(items);
    pairs
        .map(|(element, item)| (&*element.key, (&*element.value, item)))
        .collect()
}

/// The file's password as it is remembered.
fn password_tag<P: Protection>(
    username: &Username,
    password: &PasswordRegistration,
    protection: &P,
) -> String {
    match password {
        PasswordRegistration::Plaintext(password) => {
            protection.tag(PASSWORD, username, password.as_bytes())
        }
        PasswordRegistration::Hash(hash) => {
            protection.tag("password_hash", username, hash.as_bytes())
        }
    }
}

/// What the file says of a user, to be remembered.
fn said_of_user<P: Protection>(registration: &UserRegistration, protection: &P) -> Said {
    // Without stored forms in it, the fields are those of the file.
    let mut said = said(of_user(&registration.user));
    let username = &registration.user.username;
    let mut put = |field: &str, tag: Option<String>| {
        let elements = tag.iter().map(|tag| fields::single(tag)).collect();
        said.insert(field.to_owned(), elements);
    };
    let password = registration.password.as_ref();
    put(
        PASSWORD,
        password.map(|password| password_tag(username, password, protection)),
    );
    let secret = registration.totp_secret.as_ref();
    put(
        TOTP_SECRET,
        secret.map(|secret| protection.tag(TOTP_SECRET, username, secret)),
    );
    said
}

// A hash that was made stronger at a sign-in is still the registered password.
fn digest_of_password(user: &(Option<Digest>, String)) -> Digest {
    let (registered, hash) = user;
    registered.unwrap_or_else(|| Digest::of(hash.as_bytes()))
}

fn digest_of_sealed(sealed: &[u8]) -> Digest {
    Digest::of(sealed)
}

/// The digests of the stored forms that `user` got from the file, under the file's tags.
fn made_of(user: &User, said: &Said) -> BTreeMap<String, Made> {
    let password = user.password_hash.clone();
    let password = password.map(|hash| (user.registered_password_digest, hash));
    let digests = [
        (PASSWORD, password.as_ref().map(digest_of_password)),
        (
            TOTP_SECRET,
            user.totp_secret_sealed.as_deref().map(digest_of_sealed),
        ),
    ];
    let made = digests.into_iter().filter_map(|(field, digest)| {
        let value = said.get(field)?.first()?.value.clone();
        let digest = digest?;
        Some((field.to_owned(), Made { value, digest }))
    });
    made.collect()
}

/// Merges files into a registry.
pub(super) struct Merge<'a, P> {
    plan: Plan,
    stored: &'a Registry,
    remembered: BTreeMap<&'a ObjectName, &'a Remembered>,
    occasion: Occasion,
    protection: &'a P,
}

impl<'a, P: Protection> Merge<'a, P> {
    pub(super) fn new(
        stored: &'a Registry,
        remembered: &'a [Remembered],
        occasion: Occasion,
        protection: &'a P,
    ) -> Self {
        let remembered = remembered.iter();
        Self {
            plan: Plan::on(stored),
            stored,
            remembered: remembered.map(|one| (&one.object, one)).collect(),
            occasion,
            protection,
        }
    }

    pub(super) fn registrations(mut self, file: Registrations) -> Result<Plan, P::Error> {
        let listed: HashSet<ObjectName> = names(&file).collect();
        self.forget_unlisted(&[ObjectKind::Client, ObjectKind::User], &listed);
        for registration in file.users {
            self.user(registration)?;
        }
        let stored = self.stored.users().map(|user| &user.username);
        let put = self.plan.change.put_users.iter().map(|user| &user.username);
        let users: HashSet<Username> = stored.chain(put).cloned().collect();
        let stored: BTreeMap<&ClientId, &Client> = self
            .stored
            .clients()
            .map(|client| (&client.client_id, &**client))
            .collect();
        for client in file.clients {
            let before = stored.get(&client.client_id).copied();
            self.client(client, before, &users);
        }
        let order = |object: &ObjectName| (object.kind, object.name.clone());
        self.plan.kept.sort_by_key(|kept| order(&kept.object));
        self.plan.differences.sort_by_key(|one| order(&one.object));
        Ok(self.plan)
    }

    pub(super) fn legacy_instances(mut self, instances: &[LegacyInstance]) -> Plan {
        let kind = ObjectKind::LegacyInstance;
        let object = |instance: &LegacyInstance| ObjectName::new(kind, &*instance.hostname);
        self.forget_unlisted(&[kind], &instances.iter().map(object).collect());
        for instance in instances {
            let name = object(instance);
            let past = self.past(&name);
            let mut all = self.stored.legacy_instances().iter();
            let before = all.find(|before| before.hostname == instance.hostname);
            let said = said(of_legacy_instance(instance));
            match before {
                None if past.remembered.is_some() => self.keep_removed(&name, &said),
                None => self
                    .plan
                    .put_legacy_instances([instance.clone()], self.stored),
                Some(before) => {
                    let mut merger = Merger::new(past);
                    let host = (
                        Some(&instance.auth_server_hostname),
                        Some(&before.auth_server_hostname),
                    );
                    let host = merger.value("auth_server_hostname", host, Clone::clone);
                    let merged = LegacyInstance {
                        hostname: before.hostname.clone(),
                        auth_server_hostname: host
                            .unwrap_or_else(|| before.auth_server_hostname.clone()),
                        enabled: merger.enabled(instance.enabled, before.enabled),
                    };
                    let fields = (of_legacy_instance(instance), of_legacy_instance(&merged));
                    self.keep(&name, &fields.0, &fields.1, &merger.conflicts);
                    self.plan.put_legacy_instances([merged], self.stored);
                }
            }
            self.remember(past, name, said, BTreeMap::new());
        }
        self.plan
    }

    fn past(&self, object: &ObjectName) -> Past<'a> {
        Past {
            remembered: self.remembered.get(object).copied(),
            occasion: self.occasion,
        }
    }

    fn overwrites(&self) -> bool {
        self.occasion == Occasion::Overwrite
    }

    /// An object that leaves the service's own file may come back to it as a new one.
    fn forget_unlisted(&mut self, kinds: &[ObjectKind], listed: &HashSet<ObjectName>) {
        if self.occasion != Occasion::Start {
            return;
        }
        let remembered = self.remembered.values();
        let left = remembered.filter(|one| one.start.is_some() && kinds.contains(&one.object.kind));
        let left = left.filter(|one| !listed.contains(&one.object));
        let forget = left.map(|one| one.object.clone());
        self.plan.change.forget.extend(forget);
    }

    fn client(&mut self, file: Client, before: Option<&Client>, users: &HashSet<Username>) {
        let object = ObjectName::new(ObjectKind::Client, file.client_id.as_str());
        let past = self.past(&object);
        let fields = of_client(&file);
        let said = said(fields.clone());
        let bound_user = Parts::of(&file.integration).bound_user;
        let missing = bound_user.filter(|bound_user| !users.contains(bound_user));
        if let Some(bound_user) = missing {
            let reason = format!("stays as it is; its bound_user {bound_user} stays removed");
            self.plan.kept.push(Kept {
                object,
                field: None,
                conflict: true,
                values: Some(reason),
            });
            return;
        }
        match before {
            None if past.remembered.is_some() && !self.overwrites() => {
                self.keep_removed(&object, &said);
            }
            Some(before) if !self.overwrites() => {
                let mut merger = Merger::new(past);
                let merged = merger.client(&file, before);
                let mut after = of_client(&merged);
                live_secret_is_files(&fields, &mut after);
                self.keep(&object, &fields, &after, &merger.conflicts);
                self.plan.put_client(merged, Some(before));
            }
            before => self.plan.put_client(file, before),
        }
        self.remember(past, object, said, BTreeMap::new());
    }

    fn user(&mut self, registration: UserRegistration) -> Result<(), P::Error> {
        let username = &registration.user.username;
        let object = ObjectName::new(ObjectKind::User, username.as_str());
        let past = self.past(&object);
        let said = said_of_user(&registration, self.protection);
        let before = self.stored.any_user(username).map(|user| &**user);
        let made = match before {
            None if past.remembered.is_some() && !self.overwrites() => {
                self.keep_removed(&object, &said);
                past.remembered
                    .map(|one| one.made.clone())
                    .unwrap_or_default()
            }
            Some(before) if !self.overwrites() => {
                let mut merger = Merger::new(past);
                let (merged, made, others) =
                    self.merged_user(&mut merger, &registration, before)?;
                // What is hidden was compared on the way.
                let shown = |user: &User| {
                    let mut fields = of_user(user);
                    fields.retain(|field| field.shown != Shown::Secret);
                    fields
                };
                let fields = (shown(&registration.user), shown(&merged));
                self.keep(&object, &fields.0, &fields.1, &merger.conflicts);
                for field in others {
                    self.plan.kept.push(Kept {
                        object: object.clone(),
                        field: Some(field),
                        conflict: merger.conflicts.contains(field),
                        values: None,
                    });
                }
                self.plan.put_user(merged, Some(before));
                made
            }
            before => {
                let user = protect(registration, before, self.protection)?;
                let mut made = past
                    .remembered
                    .map(|one| one.made.clone())
                    .unwrap_or_default();
                made.extend(made_of(&user, &said));
                self.plan.put_user(user, before);
                made
            }
        };
        self.remember(past, object, said, made);
        Ok(())
    }

    /// The merged user, the stored forms to remember, and the hidden fields that are not the file's.
    #[expect(clippy::type_complexity, reason = "three values for one caller")]
    fn merged_user(
        &self,
        merger: &mut Merger<'_>,
        registration: &UserRegistration,
        stored: &User,
    ) -> Result<(User, BTreeMap<String, Made>, Vec<&'static str>), P::Error> {
        let protection = self.protection;
        let mut merged = merger.user(&registration.user, stored);
        let username = &stored.username;
        let remembered = merger.past.remembered;
        let mut made = remembered.map(|one| one.made.clone()).unwrap_or_default();
        let mut others = Vec::new();
        if let Some(password) = &registration.password {
            let registered = stored.registered_password_digest;
            let form = stored.password_hash.clone().map(|hash| (registered, hash));
            let hidden = Hidden {
                field: PASSWORD,
                tag: &password_tag(username, password, protection),
                stored: form.as_ref(),
                digest: digest_of_password,
            };
            let is_files = |(registered, hash): &(Option<Digest>, String)| match password {
                PasswordRegistration::Plaintext(password) => protection.is_hash_of(hash, password),
                PasswordRegistration::Hash(file) => {
                    Ok(file == hash || *registered == Some(Digest::of(file.as_bytes())))
                }
            };
            let make = || match password {
                PasswordRegistration::Plaintext(password) => Ok((None, protection.hash(password)?)),
                PasswordRegistration::Hash(hash) => Ok((None, hash.clone())),
            };
            let settled = merger.hidden(hidden, is_files, make)?;
            if !settled.is_files {
                others.push(PASSWORD);
            }
            made.extend(settled.made.map(|made| (PASSWORD.to_owned(), made)));
            if let Some((registered, hash)) = settled.form {
                merged.password_hash = Some(hash);
                merged.registered_password_digest = registered;
            }
        }
        if let Some(secret) = &registration.totp_secret {
            let hidden = Hidden {
                field: TOTP_SECRET,
                tag: &protection.tag(TOTP_SECRET, username, secret),
                stored: stored.totp_secret_sealed.as_ref(),
                digest: |sealed: &Vec<u8>| digest_of_sealed(sealed),
            };
            let is_files = |sealed: &Vec<u8>| {
                let opened = protection.unseal(username, sealed)?;
                Ok(Digest::of(&opened) == Digest::of(secret))
            };
            let settled = merger.hidden(hidden, is_files, || protection.seal(username, secret))?;
            if !settled.is_files {
                others.push(TOTP_SECRET);
            }
            made.extend(settled.made.map(|made| (TOTP_SECRET.to_owned(), made)));
            merged.totp_secret_sealed = settled.form;
        }
        Ok((merged, made, others))
    }

    fn keep_removed(&mut self, object: &ObjectName, said: &Said) {
        let past = self.past(object);
        let unchanged = |(field, elements): (&String, &Vec<Element>)| {
            past.said(field).contains(&elements.as_slice())
        };
        self.plan.kept.push(Kept {
            object: object.clone(),
            field: None,
            conflict: !said.iter().all(unchanged),
            values: None,
        });
    }

    /// Notes where `after` is not what the file says.
    fn keep(
        &mut self,
        object: &ObjectName,
        file: &[fields::Field],
        after: &[fields::Field],
        conflicts: &BTreeSet<&'static str>,
    ) {
        for (file, after) in file.iter().zip(after) {
            let mut others = file.elements.iter().chain(&after.elements);
            let both = |one: &Element| file.elements.contains(one) && after.elements.contains(one);
            if others.all(both) {
                continue;
            }
            let values = (file.shown != Shown::Secret).then(|| {
                let (stays, says) = (fields::text(after), fields::text(file));
                format!("{stays}; the file says {says}")
            });
            self.plan.kept.push(Kept {
                object: object.clone(),
                field: Some(file.name),
                conflict: conflicts.contains(file.name),
                values,
            });
        }
    }

    fn remember(
        &mut self,
        past: Past<'_>,
        object: ObjectName,
        said: Said,
        made: BTreeMap<String, Made>,
    ) {
        let next = past.next(object, said, made);
        if past.remembered != Some(&next) {
            self.plan.change.remember.push(next);
        }
    }
}

/// A secret of the file that is one of two live ones is nothing to report.
fn live_secret_is_files(file: &[fields::Field], after: &mut [fields::Field]) {
    for (file, after) in file.iter().zip(after) {
        let mut said = file.elements.iter();
        if file.shown == Shown::Secret
            && !file.elements.is_empty()
            && said.all(|secret| after.elements.contains(secret))
        {
            after.elements.clone_from(&file.elements);
        }
    }
}

fn names(file: &Registrations) -> impl Iterator<Item = ObjectName> {
    let clients = file.clients.iter();
    let clients =
        clients.map(|client| ObjectName::new(ObjectKind::Client, client.client_id.as_str()));
    let users = file.users.iter();
    let users = users.map(|one| ObjectName::new(ObjectKind::User, one.user.username.as_str()));
    clients.chain(users)
}

impl Plan {
    /// What changed in `file` since it was last applied, against what is `stored` (D-27).
    ///
    /// # Errors
    /// The [`Protection`]'s.
    pub fn merge<P: Protection>(
        file: Registrations,
        stored: &Registry,
        remembered: &[Remembered],
        occasion: Occasion,
        protection: &P,
    ) -> Result<Self, P::Error> {
        Merge::new(stored, remembered, occasion, protection).registrations(file)
    }

    /// Adds what changed in the configuration's legacy instances since the last start.
    pub fn merge_legacy_instances<P: Protection>(
        &mut self,
        instances: &[LegacyInstance],
        stored: &Registry,
        remembered: &[Remembered],
        protection: &P,
    ) {
        let merge = Merge::new(stored, remembered, Occasion::Start, protection);
        let plan = merge.legacy_instances(instances);
        let change = plan.change;
        self.change
            .put_legacy_instances
            .extend(change.put_legacy_instances);
        self.change.remember.extend(change.remember);
        self.change.forget.extend(change.forget);
        self.differences.extend(plan.differences);
        self.kept.extend(plan.kept);
    }

    pub(super) fn put_client(&mut self, client: Client, before: Option<&Client>) {
        let changes =
            before.map(|before| FieldChange::between(&of_client(before), &of_client(&client)));
        if self.differs(ObjectKind::Client, client.client_id.as_str(), changes) {
            self.change.put_clients.push(client);
        }
    }

    pub(super) fn put_user(&mut self, user: User, before: Option<&User>) {
        let changes = before.map(|before| FieldChange::between(&of_user(before), &of_user(&user)));
        if self.differs(ObjectKind::User, user.username.as_str(), changes) {
            self.change.put_users.push(user);
        }
    }
}
