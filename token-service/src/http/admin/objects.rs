//! Lists, shows, registers, changes and removes clients, users and legacy instances, with the same code for all of
//! them: routes and functions.

mod openapi;

use std::collections::BTreeMap;
use std::sync::Arc;

use actix_web::HttpRequest;
use actix_web::web::{self, Path, Payload};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use zeroize::Zeroizing;

use super::access::{Administrator, Reader};
use super::answer::{self, AdminError, Answer};
use super::pages::{MAX_PAGE, Page, PageQuery, entries};
use super::{Administration, Object, blocking, body};
use crate::telemetry::audit_log::Entry;
use domain::object::ObjectKind;
use domain::random::Random;
use domain::{
    AuditAction, ClientId, Excerpt, Identity, Managed, ObjectName, Observed, User, Username,
};
use registry::apply::{Plan, redefined};
use registry::change::Edit;
use registry::describe::fields::{Field, Flag, Part};
use registry::describe::{self, Completeness, Effects, Registered, Registration};
use registry::file::load;
use registry::registrations::{Draft, looked_up, read_entry};
use store::{Store, StoreError};

pub(super) use openapi::{describe, describe_owner, failed};

/// A kind of object with all operations of this file.
pub(crate) trait Administered: Registered {
    type Created: Serialize + ToSchema;

    /// Adds generated values to a new object: a secret, which only this response shows.
    fn generate(&mut self, _random: &dyn Random) -> Result<Option<Zeroizing<String>>, AdminError> {
        Ok(None)
    }

    /// The response to a registration.
    fn created(view: Self::View, secret: Option<Zeroizing<String>>) -> Self::Created;

    /// The texts that a list searches in addition to the name.
    fn searched(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Whether the object is without this. `None` for objects that never have it.
    fn is_without(_view: &Self::View, _what: Without) -> Option<bool> {
        None
    }

    /// Whether this is a user who cannot sign in. `None` for objects that never do.
    fn cannot_sign_in(_view: &Self::View) -> Option<bool> {
        None
    }

    /// Whether the object has a linked identity of this issuer. `None` for objects that never have identities.
    fn has_identity_of(&self, _issuer: &str) -> Option<bool> {
        None
    }

    /// At most `limit` objects after the name `after`, sorted by name.
    fn page(
        store: &dyn Store,
        after: String,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Self>, StoreError>>;
}

fn paths<T: Registered>() -> [String; 2] {
    let all = format!("/{}", T::LIST);
    let one = format!("{all}/{{{}}}", T::NAME_KEY);
    [all, one]
}

pub(super) fn routes<T: Administered>(routes: &mut web::ServiceConfig) {
    let [all, one] = paths::<T>();
    routes
        .service(
            web::resource(all)
                .route(web::get().to(list::<T>))
                .route(web::post().to(create::<T>)),
        )
        .service(
            web::resource(one)
                .route(web::get().to(show::<T>))
                .route(web::patch().to(update::<T>))
                .route(web::delete().to(delete::<T>)),
        );
    routes.configure(owner_routes::<T>);
}

/// The routes by which the owner of an object changes.
pub(super) fn owner_routes<T: Registered>(routes: &mut web::ServiceConfig) {
    let [_, one] = paths::<T>();
    routes
        .route(&format!("{one}/release"), web::post().to(release::<T>))
        .route(&format!("{one}/adopt"), web::post().to(adopt::<T>));
}

/// Which objects of a list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct FilterQuery {
    /// Only clients whose Client ID or name, or users whose username, e-mail address or organization contains this text. Case does not
    /// matter. With a filter, a page may be empty although `next` is set.
    pub(super) search: Option<String>,
    /// Only users without a password, second factor or linked account, or (`sign-in`) users who have never signed in.
    #[param(inline)]
    pub(super) without: Option<Without>,
    /// Only users with a linked identity of this issuer.
    pub(super) identity_provider: Option<String>,
    /// Only users who cannot sign in: disabled, or with neither a password nor an identity provider. `cannot_sign_in` of each has the
    /// reason.
    #[serde(default)]
    pub(super) cannot_sign_in: bool,
}

/// What a user may lack.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Without {
    Password,
    SecondFactor,
    Account,
    SignIn,
}

impl FilterQuery {
    fn finds<T: Administered>(&self, object: &T, view: &T::View) -> Result<bool, AdminError> {
        if let Some(search) = &self.search {
            let search = search.to_lowercase();
            let mut texts = std::iter::once(object.name()).chain(object.searched());
            if !texts.any(|text| text.to_lowercase().contains(&search)) {
                return Ok(false);
            }
        }
        if let Some(issuer) = &self.identity_provider {
            let malformed =
                || AdminError::Malformed(format!("identity_provider: is not for {}", T::LIST));
            if !object.has_identity_of(issuer).ok_or_else(malformed)? {
                return Ok(false);
            }
        }
        if self.cannot_sign_in {
            let malformed =
                || AdminError::Malformed(format!("cannot_sign_in: is not for {}", T::LIST));
            if !T::cannot_sign_in(view).ok_or_else(malformed)? {
                return Ok(false);
            }
        }
        match self.without {
            None => Ok(true),
            Some(what) => T::is_without(view, what)
                .ok_or_else(|| AdminError::Malformed(format!("without: is not for {}", T::LIST))),
        }
    }
}

/// Maximum number of objects that one request with a filter reads.
const MOST_READ: usize = 10_000;

/// Lists enabled and disabled objects, sorted by name.
async fn list<T: Administered>(reader: Reader, http: HttpRequest) -> Answer {
    let PageQuery { after, limit } = body::query(http.query_string())?;
    let filter: FilterQuery = body::query(http.query_string())?;
    let limit = entries(limit);
    let (part, parts) = match (&filter.search, filter.without) {
        (None, None) if filter.identity_provider.is_none() && !filter.cannot_sign_in => {
            (limit + 1, 1)
        }
        _ => (MAX_PAGE, MOST_READ / MAX_PAGE),
    };
    let mut after = after.unwrap_or_default();
    let mut items = Vec::new();
    for _ in 0..parts {
        let objects = T::page(&*reader.service.store, after.clone(), part).await?;
        let observed = reader.observed(&objects).await?;
        for object in &objects {
            if items.len() == limit {
                let next = Some(after);
                return answer::ok(Page { items, next });
            }
            object.name().clone_into(&mut after);
            let view = reader.view(object, &observed);
            if filter.finds(object, &view)? {
                items.push(view);
            }
        }
        if objects.len() < part {
            return answer::ok(Page { items, next: None });
        }
    }
    let next = Some(after);
    answer::ok(Page { items, next })
}

async fn create<T: Administered>(administrator: Administrator, payload: Payload) -> Answer {
    let registration = body::object(payload).await?;
    answer::made(administrator.create::<T>(registration).await?)
}

async fn show<T: Administered>(reader: Reader, name: Path<String>) -> Answer {
    let object = reader.stored::<T>(&name).await?;
    let observed = reader.observed(std::slice::from_ref(&object)).await?;
    answer::ok(reader.view(&object, &observed))
}

/// How to change an object.
#[derive(Debug, Clone, Copy, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ChangeQuery {
    /// Return what would change, and change nothing.
    pub dry_run: bool,
    /// Revoke everything that was issued to the client, in the same transaction. The client gets new tokens 15 seconds later.
    /// Only for clients.
    pub revoke: bool,
    /// Take the listed identities from the users who have them, in the same transaction. Only for users.
    pub move_identities: bool,
}

async fn update<T: Administered>(
    administrator: Administrator,
    name: Path<String>,
    http: HttpRequest,
    payload: Payload,
) -> Answer {
    let query = body::query::<ChangeQuery>(http.query_string())?;
    let patch = body::object(payload).await?;
    answer::ok(administrator.update::<T>(&name, patch, query).await?)
}

pub(super) async fn delete<T: Registered>(
    administrator: Administrator,
    name: Path<String>,
) -> Answer {
    administrator.delete::<T>(&name).await?;
    answer::done()
}

async fn release<T: Registered>(administrator: Administrator, name: Path<String>) -> Answer {
    answer::ok(administrator.hand_over::<T>(&name, None).await?)
}

async fn adopt<T: Registered>(administrator: Administrator, name: Path<String>) -> Answer {
    let file = administrator.service.config.registrations.as_ref();
    let file = file.map(|path| path.display().to_string());
    let file = file.unwrap_or_else(|| "the next file that lists it".to_owned());
    answer::ok(administrator.hand_over::<T>(&name, Some(file)).await?)
}

impl Administration {
    /// Registers an object; `registration` is an entry of a registrations file. A client that needs a secret gets a
    /// generated secret, unless the registration contains one.
    ///
    /// # Errors
    /// [`AdminError::Conflict`] if the name is in use, [`AdminError::Invalid`] with every problem.
    pub(crate) async fn create<T: Administered>(
        &self,
        registration: Object,
    ) -> Result<T::Created, AdminError> {
        let how = ChangeQuery::default();
        let (changed, secret) = self
            .change(how.dry_run, async || {
                let draft = self.read::<T>(registration.clone()).await?;
                let stored = self.excerpt(draft.names()).await?;
                let mut registration = draft.check(&stored)?;
                let object = &mut registration.object;
                if T::find(&stored, object.name()).is_some() {
                    let message =
                        format!("there is a {} {} already", T::KIND.name(), object.name());
                    return Err(AdminError::Conflict(message));
                }
                let secret = object.generate(&*self.service.random)?;
                let edit = self.register(registration, &stored, how).await?;
                Ok(edit.map(|changed| (changed, secret)))
            })
            .await?;
        Ok(T::created(self.changed(changed).await, secret))
    }

    /// Changes an object: merges `patch` into its registration (RFC 7396), and adds and removes the single values of lists
    /// that its members `add` and `remove` name. Secrets and certificates that the patch does not name stay, and `null` for
    /// one is refused. Name and integration type cannot change. These end sessions and revoke tokens: disabling the object, a
    /// new password, a new second factor.
    ///
    /// # Errors
    /// [`AdminError::NotFound`], [`AdminError::Conflict`], [`AdminError::Invalid`] with every problem.
    pub(crate) async fn update<T: Administered>(
        &self,
        name: &str,
        patch: Object,
        how: ChangeQuery,
    ) -> Result<T::View, AdminError> {
        // `null` would name what stays.
        let mut fields = T::FIELDS.iter();
        if let Some(Field { key, .. }) = fields.find(|field| {
            field.part == Part::Registration && patch.get(field.key).is_some_and(Value::is_null)
        }) {
            let message =
                format!("{key} cannot be removed by a change: use its separate operation");
            return Err(AdminError::Malformed(message));
        }
        self.patch(name, how, |before: &T| {
            with_lists::<T>(&describe::registration(before), patch.clone())
        })
        .await
    }

    /// Changes an object by a patch that depends on the stored object. No other change of this process happens in
    /// between.
    pub(super) async fn patch<T: Administered>(
        &self,
        name: &str,
        how: ChangeQuery,
        patch: impl Fn(&T) -> Result<Object, AdminError>,
    ) -> Result<T::View, AdminError> {
        let changed = self.change(how.dry_run, async || {
            let first = self.excerpt(looked_up(T::KIND, name)).await?;
            let before = found::<T>(&first, name)?;
            let mut body = describe::registration(before);
            // What the file says of a managed object is no state.
            body.insert("enabled".to_owned(), (!before.is_suspended()).into());
            merge_patch(&mut body, patch(before)?);
            let draft = self.read::<T>(body).await?;
            let stored = self.completed(&first, looked_up(T::KIND, name), draft.names());
            let stored = stored.await?;
            let mut registration = draft.check(&stored)?;
            let object = &mut registration.object;
            let (old, new) = (
                describe::registration(before),
                describe::registration(object),
            );
            let mut fixed = [T::NAME_KEY, "type"].into_iter();
            if let Some(key) = fixed.find(|key| old.get(*key) != new.get(*key)) {
                let message = format!("{key} cannot change: register another {}", T::KIND.name());
                return Err(AdminError::Conflict(message));
            }
            object.complete(before);
            self.register(registration, &stored, how).await
        });
        Ok(self.changed(changed.await?).await)
    }

    /// Registers the object, or replaces the object with this name.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] with every problem, [`AdminError::DoesNotFit`].
    pub(crate) async fn put<T: Registered>(
        &self,
        name: &str,
        registration: Object,
    ) -> Result<T::View, AdminError> {
        let how = ChangeQuery::default();
        let changed = self.change(how.dry_run, async || {
            let mut registration = registration.clone();
            registration.insert(T::NAME_KEY.to_owned(), Value::from(name));
            let draft = self.read::<T>(registration).await?;
            let stored = self.excerpt(draft.names()).await?;
            self.register(draft.check(&stored)?, &stored, how).await
        });
        Ok(self.changed(changed.await?).await)
    }

    /// Removes an object and revokes all its tokens, at the gateway too.
    ///
    /// # Errors
    /// [`AdminError::NotFound`], or [`AdminError::Conflict`] if another object needs it.
    pub(crate) async fn delete<T: Registered>(&self, name: &str) -> Result<(), AdminError> {
        self.change(false, async || {
            let stored = self.excerpt(looked_up(T::KIND, name)).await?;
            let object = found::<T>(&stored, name)?;
            if let Some(managed) = object.owner().0 {
                return Err(defined_elsewhere(object, managed, &[]));
            }
            // Read after the excerpt: a client that is bound to a user in between overtakes the plan.
            if T::KIND == ObjectKind::User
                && let Some(username) = Username::parse(object.name())
                && let Some(client_id) = self.service.store.clients_bound_to(username, 1).await?.pop()
            {
                let message = format!(
                    "the client {client_id} is bound to {}: bind it to another user, or delete it first",
                    object.name()
                );
                return Err(AdminError::Conflict(message));
            }
            let mut plan = Plan::on(&stored);
            plan.remove(object);
            Ok(Edit::of(plan).map(drop))
        })
        .await
    }

    /// Lets commands define an object, or `file` from when it is applied next (D-27).
    pub(crate) async fn hand_over<T: Registered>(
        &self,
        name: &str,
        file: Option<String>,
    ) -> Result<T::View, AdminError> {
        let managed_by_file = file.is_some();
        let handed_over = self.change(false, async || {
            let stored = self.excerpt(looked_up(T::KIND, name)).await?;
            let before = found::<T>(&stored, name)?;
            let mut object = before.clone();
            let suspended = before.is_suspended();
            let managed = file.clone().map(|file| Managed {
                file,
                line: None,
                disables: false,
                suspended,
                secrets: BTreeMap::new(),
            });
            if managed.is_some() == before.owner().0.is_some() {
                return Err(AdminError::Conflict(match before.owner().0 {
                    Some(managed) => format!("{managed} defines {name} already"),
                    None => format!("no file defines {name}"),
                }));
            }
            *object.owner_mut().0 = managed;
            let mut plan = Plan::on(&stored);
            plan.put(object.clone(), Some(before));
            plan.change.applied_file = self.forgets()?;
            Ok(Edit::of(plan).map(|_| object))
        });
        let object = handed_over.await?;
        let warnings = match managed_by_file {
            true => self.unlisted(&object).await.into_iter().collect(),
            false => Vec::new(),
        };
        let effects = Effects {
            warnings,
            ..Effects::default()
        };
        Ok(self.changed((object, effects)).await)
    }

    /// A warning about an object that a file defines from now on, if the registrations file of the configuration does not list it.
    async fn unlisted<T: Registered>(&self, object: &T) -> Option<String> {
        if T::KIND == ObjectKind::LegacyInstance {
            return None;
        }
        let (kind, name) = (T::KIND, object.name().to_owned());
        let (file, now) = (
            self.service.config.registrations.clone(),
            self.service.clock.now(),
        );
        let path = file.clone();
        let lists = move || {
            let draft = load(&path?, now);
            let listed = draft
                .places()
                .any(|(of, listed, _)| of == kind && listed == name);
            Some(listed)
        };
        let is_listed = blocking(lists).await.ok().flatten().unwrap_or(false);
        let file = file.map(|path| path.display().to_string());
        let file = file.unwrap_or_else(|| "no registrations file of the configuration".to_owned());
        let (name, verb) = (
            object.name(),
            if self.service.config.registrations.is_some() {
                "does not list"
            } else {
                "lists"
            },
        );
        (!is_listed).then(|| {
            format!("{file} {verb} the {} {name}: the next apply --prune of a file without an entry for it removes it", kind.name())
        })
    }

    /// Changes a stored object in place; returns the view and what `change` returns.
    pub(super) async fn edit<T: Administered, R>(
        &self,
        name: &str,
        how: ChangeQuery,
        change: impl Fn(&mut T) -> Result<R, AdminError>,
    ) -> Result<(T::View, R), AdminError> {
        let edited = self.change(how.dry_run, async || {
            let stored = self.excerpt(looked_up(T::KIND, name)).await?;
            let mut object = found::<T>(&stored, name)?.clone();
            *object.owner_mut().1 = !object.is_suspended();
            let outcome = change(&mut object)?;
            let registration = Registration::of(object);
            let edit = self.register(registration, &stored, how).await?;
            Ok(edit.map(|changed| (changed, outcome)))
        });
        let (changed, outcome) = edited.await?;
        Ok((self.changed(changed).await, outcome))
    }

    async fn read<T: Registered>(
        &self,
        registration: Object,
    ) -> Result<Draft<Registration<T>>, AdminError> {
        let now = self.service.clock.now();
        blocking(move || read_entry(registration, Completeness::Partial, now)).await
    }

    /// The registered object with this name.
    pub(super) async fn stored<T: Registered>(&self, name: &str) -> Result<T, AdminError> {
        let names = vec![ObjectName::new(T::KIND, name)];
        let stored = self.excerpt(names).await?;
        found::<T>(&stored, name).cloned()
    }

    /// The registrations of these names, for a plan.
    pub(super) async fn excerpt(&self, names: Vec<ObjectName>) -> Result<Arc<Excerpt>, StoreError> {
        Ok(Arc::new(self.service.store.excerpt(names).await?))
    }

    /// `first`, which has `known`, or an excerpt that has `needed` too. A plan on it counts as planned on `first`, so
    /// that a change of its objects in between overtakes the plan.
    async fn completed(
        &self,
        first: &Arc<Excerpt>,
        known: Vec<ObjectName>,
        needed: Vec<ObjectName>,
    ) -> Result<Arc<Excerpt>, StoreError> {
        if needed.iter().all(|name| known.contains(name)) {
            return Ok(Arc::clone(first));
        }
        let more = self.service.store.excerpt(needed).await?;
        Ok(Arc::new(match first.version() {
            Some(version) => more.at(version),
            None => more,
        }))
    }

    async fn register<T: Registered>(
        &self,
        registration: Registration<T>,
        stored: &Arc<Excerpt>,
        how: ChangeQuery,
    ) -> Result<Edit<(T, Effects)>, AdminError> {
        let object = registration.object.clone();
        let before = T::find(stored, object.name());
        if let Some((before, managed)) = before.and_then(|one| Some((one, one.owner().0?))) {
            let fields = redefined(before, &object);
            if !fields.is_empty() {
                return Err(defined_elsewhere(before, managed, &fields));
            }
        }
        let plan = self.planned(stored, move |stored, protection| {
            let mut plan = Plan::on(stored);
            plan.register(registration, stored, protection)?;
            Ok(plan)
        });
        let mut plan = plan.await?;
        // These objects also contain values that the registration omits.
        let put = T::put(&mut plan.change).first().cloned();
        let after = put.or_else(|| T::find(stored, object.name()).cloned());
        let after = after.unwrap_or(object);
        let disabling = after
            .owner()
            .0
            .filter(|managed| managed.disables && !managed.suspended);
        let disabling = disabling.map(|managed| {
            let name = after.name();
            format!("{name} stays disabled: {managed} has enabled = false")
        });
        let mut also = None;
        if how.revoke {
            let clients = plan.change.put_clients.iter();
            plan.change.revoke_clients = clients.map(|one| one.client_id.clone()).collect();
            let Some(client_id) = plan.change.revoke_clients.first() else {
                let message = "revoke: no client changes; DELETE /admin/grants?client_id= revokes without a change";
                return Err(AdminError::Conflict(message.to_owned()));
            };
            let entry = Entry::new(AuditAction::GrantRevoked).client(client_id.as_str());
            also = Some(entry.detail("all, with a change of the client"));
        }
        let may_lose = |user: &User, identity: &Identity| {
            how.move_identities && (user.managed.is_none() || user.is_linked_by_email(identity))
        };
        let taken = self.refuse_taken(&mut plan, stored, may_lose).await;
        taken.map_err(|error| match error {
            AdminError::Taken(mut lines) if before.is_some() && !how.move_identities => {
                for line in &mut lines {
                    line.push_str(", or add move_identities=true");
                }
                AdminError::Taken(lines)
            }
            error => error,
        })?;
        let mut effects = self.effects(&plan, stored, false).await?;
        effects.warnings.extend(disabling);
        for difference in &plan.differences {
            let lines = difference.lines().into_iter();
            match difference.object == after.object_name() {
                true => effects.changes.extend(lines),
                false => {
                    let name = &difference.object.name;
                    let lines = lines.map(|line| format!("{name} changes too: {line}"));
                    effects.warnings.extend(lines);
                }
            }
        }
        self.refuse_misfits(&plan.change, stored)?;
        let mut edit = Edit::of(plan);
        edit.entries.extend(also);
        Ok(edit.map(|_| (after, effects)))
    }

    /// An object whose change is made, with the effects of the change.
    pub(super) async fn changed<T: Registered>(&self, (object, effects): (T, Effects)) -> T::View {
        let observed = self.observed(std::slice::from_ref(&object)).await;
        // The answer may have the only copy of a secret.
        let observed = answer::after_change(LACKS, observed);
        object.view(self.service.clock.now(), &observed, effects)
    }

    pub(super) fn view<T: Registered>(&self, object: &T, observed: &Observed) -> T::View {
        object.view(self.service.clock.now(), observed, Effects::default())
    }

    /// True if the user can sign in with an identity provider of the configuration, from the first sign-in on.
    fn has_provider(&self, user: &User) -> bool {
        let mut providers = self.service.config.protocol.identity_providers.iter();
        providers.any(|provider| {
            let mut identities = user.identities.iter();
            let is_linked = identities.any(|linked| linked.identity.issuer == provider.issuer);
            let email = user.email.as_deref().filter(|_| provider.link_by_email);
            let may_be_linked = email.is_some_and(|email| provider.has_email(email));
            provider.client_id.is_some() && (is_linked || may_be_linked)
        })
    }

    async fn observed<T: Registered>(&self, objects: &[T]) -> Result<Observed, StoreError> {
        let (store, names) = (&self.service.store, objects.iter().map(T::name));
        let mut observed = Observed::default();
        match T::KIND {
            ObjectKind::Client => {
                let clients = names.filter_map(ClientId::parse).collect();
                observed.secret_times = store.secret_times(clients).await?;
            }
            ObjectKind::User => {
                let users = names.filter_map(Username::parse).collect();
                observed.sign_ins = store.sign_ins(users).await?;
                let users = objects.iter().filter_map(T::user);
                let users = users.filter(|user| self.has_provider(user));
                observed.by_provider = users.map(|user| user.username.clone()).collect();
            }
            ObjectKind::LegacyInstance => {}
        }
        Ok(observed)
    }
}

/// An answer without what the store has observed.
const LACKS: &str = "its answer lacks the times of secrets and sign-ins";

pub(super) fn found<'a, T: Registered>(
    stored: &'a Excerpt,
    name: &str,
) -> Result<&'a T, AdminError> {
    let not_found = || AdminError::not_found(T::KIND.name(), name);
    T::find(stored, name).ok_or_else(not_found)
}

/// The refusal to change `fields` of an object that a file defines, or to remove the object (D-27).
fn defined_elsewhere<T: Registered>(object: &T, managed: &Managed, fields: &[&str]) -> AdminError {
    let (kind, name) = (T::KIND, object.name());
    let fields = match fields {
        [] => String::new(),
        fields => format!(" ({})", fields.join(", ")),
    };
    let apply = match (kind, fields.is_empty()) {
        (ObjectKind::LegacyInstance, _) => "start the service again",
        (_, true) => "run token-service apply FILE --prune",
        (_, false) => "run token-service apply FILE",
    };
    AdminError::Conflict(format!(
        "{managed} defines the {} {name}{fields}: change the file and {apply}, or let commands define the {}: token-service \
         release {} {name}",
        kind.name(),
        kind.name(),
        kind.command(),
    ))
}

/// The patch without its members `add` and `remove`, and with the lists that these make of the `registered` ones.
fn with_lists<T: Registered>(registered: &Object, mut patch: Object) -> Result<Object, AdminError> {
    for member in ["add", "remove"] {
        let malformed = |what: String| AdminError::Malformed(format!("{member}: {what}"));
        let edits = match patch.remove(member) {
            None => continue,
            Some(Value::Object(edits)) => edits,
            Some(_) => return Err(malformed("expected an object with lists".to_owned())),
        };
        for (key, values) in edits {
            let mut fields = T::FIELDS.iter();
            let flag = fields
                .find(|field| field.key == key)
                .map(|field| field.flag);
            let (name_key, values) = match (flag, values) {
                (Some(Flag::Values(..)), Value::Array(values)) => (None, values),
                (Some(Flag::Files(.., [name, _])), Value::Array(values)) => (Some(name), values),
                _ => return Err(malformed(format!("{key}: expected a list, of a client"))),
            };
            let name = |item: &Value| {
                let name = name_key.and_then(|name| item.get(name));
                name.unwrap_or(item).clone()
            };
            let list = patch.get(&key).or_else(|| registered.get(&key));
            let mut list = list.and_then(Value::as_array).cloned().unwrap_or_default();
            for value in values {
                let place = list.iter().position(|item| name(item) == name(&value));
                match place {
                    _ if member == "add" && list.contains(&value) => {}
                    _ if member == "add" => list.push(value),
                    Some(place) => drop(list.remove(place)),
                    None => {
                        let known: Vec<String> =
                            list.iter().map(|item| name(item).to_string()).collect();
                        let (value, known) = (name(&value), known.join(", "));
                        let what = format!("{key}: there is no {value}; there are: {known}");
                        return Err(malformed(what));
                    }
                }
            }
            patch.insert(key, list.into());
        }
    }
    Ok(patch)
}

/// Merges `patch` into `target` (RFC 7396): `null` removes a key.
fn merge_patch(target: &mut Object, patch: Object) {
    for (key, value) in patch {
        if value.is_null() {
            target.remove(&key);
        } else {
            target.insert(key, value);
        }
    }
}
