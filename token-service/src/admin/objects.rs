//! Lists, shows, registers, changes and removes clients, users and legacy instances, with the same code for all of
//! them.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use zeroize::Zeroizing;

use super::registrations::blocking;
use super::schema::View;
use super::views::Page;
use super::{AdminError, Administration, Object, PageRequest};
use domain::{ClientId, Excerpt, ObjectName};
use registration::apply::Plan;
use registration::describe::{self, Completeness, Moment, Registered, Registration};
use registration::registrations::{Draft, looked_up, read_entry};
use store::{Store, StoreError};

/// A kind of object that the administration registers, changes and removes.
pub trait Administered: Registered {
    /// Response to a registration.
    type Created: Serialize + ToSchema;

    /// Adds generated values to a new object: a secret, which only this response shows.
    ///
    /// # Errors
    /// [`AdminError::Random`] if the random generator fails.
    fn generate(
        &mut self,
        _administration: &Administration<'_>,
    ) -> Result<Option<Zeroizing<String>>, AdminError> {
        Ok(None)
    }

    /// The response to a registration.
    fn created(view: View<Self>, secret: Option<Zeroizing<String>>) -> Self::Created;

    /// The client, if views show the times of its secrets.
    fn with_secret_times(&self) -> Option<&ClientId> {
        None
    }

    /// Checks that the object may be removed.
    ///
    /// # Errors
    /// [`AdminError::Conflict`] if another object needs it; [`AdminError::Store`] if the store fails.
    fn may_go(&self, _store: &dyn Store) -> impl Future<Output = Result<(), AdminError>> {
        std::future::ready(Ok(()))
    }

    fn stored(
        store: &dyn Store,
        name: &str,
    ) -> impl Future<Output = Result<Option<Self>, StoreError>>;
}

/// Objects that the store lists in pages.
pub trait Listed: Administered {
    /// At most `limit` objects after the name `after`, sorted by name.
    fn page(
        store: &dyn Store,
        after: String,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Self>, StoreError>>;
}

impl Administration<'_> {
    /// Lists enabled and disabled objects, sorted by name.
    ///
    /// # Errors
    /// [`AdminError::Store`] if the store fails.
    pub async fn list<T: Listed>(
        &self,
        request: &PageRequest,
    ) -> Result<Page<View<T>>, AdminError> {
        let after = request.after.clone().unwrap_or_default();
        let found = T::page(&*self.service.store, after, request.limit() + 1).await?;
        let Page { items, next } = super::page(found, request, |object| object.name().to_owned());
        Ok(Page {
            items: self.views(&items).await?,
            next,
        })
    }

    /// # Errors
    /// [`AdminError::NotFound`], or [`AdminError::Store`] if the store fails.
    pub async fn show<T: Listed>(&self, name: &str) -> Result<View<T>, AdminError> {
        let found = T::stored(&*self.service.store, name).await?;
        self.view(&found.ok_or_else(|| not_found::<T>(name))?).await
    }

    /// Registers an object; `registration` is an entry of a registrations file. A client that needs a secret gets a
    /// generated secret, unless the registration contains one.
    ///
    /// # Errors
    /// [`AdminError::Conflict`] if the name is in use, [`AdminError::Invalid`] with every problem.
    pub async fn create<T: Administered>(
        &self,
        registration: Object,
    ) -> Result<T::Created, AdminError> {
        self.changing(async || {
            let draft = self.read::<T>(registration.clone()).await?;
            let stored = self.excerpt(draft.names()).await?;
            let mut registration = draft.check(&stored)?;
            let object = &mut registration.object;
            if T::find(&stored, object.name()).is_some() {
                let message = format!(
                    "there is a {} {} already",
                    T::DESCRIPTION.kind.name(),
                    object.name()
                );
                return Err(AdminError::Conflict(message));
            }
            let secret = object.generate(self)?;
            let view = self.register(registration, &stored).await?;
            Ok(T::created(view, secret))
        })
        .await
    }

    /// Changes an object: merges `patch` into its registration (RFC 7396). Secrets and certificates that the patch does
    /// not name stay; name and integration type cannot change. These end sessions and revoke tokens: disabling the
    /// object, a new password, a new second factor.
    ///
    /// # Errors
    /// [`AdminError::NotFound`], [`AdminError::Conflict`], [`AdminError::Invalid`] with every problem.
    pub async fn update<T: Administered>(
        &self,
        name: &str,
        patch: Object,
    ) -> Result<View<T>, AdminError> {
        self.patch(name, |_: &T| Ok(patch.clone())).await
    }

    /// Changes an object by a patch that depends on the stored object. No other change of this process happens in
    /// between.
    pub(super) async fn patch<T: Administered>(
        &self,
        name: &str,
        patch: impl Fn(&T) -> Result<Object, AdminError>,
    ) -> Result<View<T>, AdminError> {
        self.changing(async || {
            let first = self.excerpt(looked_up(T::DESCRIPTION.kind, name)).await?;
            let before = found::<T>(&first, name)?;
            let mut body = describe::registration(before);
            merge_patch(&mut body, patch(before)?);
            let draft = self.read::<T>(body).await?;
            let stored =
                self.completed(&first, looked_up(T::DESCRIPTION.kind, name), draft.names());
            let stored = stored.await?;
            let mut registration = draft.check(&stored)?;
            let object = &mut registration.object;
            let same_name = object.name() == before.name();
            if !same_name || object.integration() != before.integration() {
                let kind = T::DESCRIPTION.kind.name();
                let key = if same_name {
                    "type"
                } else {
                    T::DESCRIPTION.name_key
                };
                let message = format!("{key} cannot change: register another {kind}");
                return Err(AdminError::Conflict(message));
            }
            object.complete(before);
            self.register(registration, &stored).await
        })
        .await
    }

    /// Registers the object, or replaces the object with this name.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] with every problem, [`AdminError::DoesNotFit`].
    pub async fn put<T: Administered>(
        &self,
        name: &str,
        registration: Object,
    ) -> Result<View<T>, AdminError> {
        self.changing(async || {
            let mut registration = registration.clone();
            registration.insert(T::DESCRIPTION.name_key.to_owned(), Value::from(name));
            let draft = self.read::<T>(registration).await?;
            let stored = self.excerpt(draft.names()).await?;
            self.register(draft.check(&stored)?, &stored).await
        })
        .await
    }

    /// Removes an object and revokes all its tokens, at the gateway too.
    ///
    /// # Errors
    /// [`AdminError::NotFound`], or [`AdminError::Conflict`] if another object needs it.
    pub async fn delete<T: Administered>(&self, name: &str) -> Result<(), AdminError> {
        self.changing(async || {
            let stored = self.excerpt(looked_up(T::DESCRIPTION.kind, name)).await?;
            let object = found::<T>(&stored, name)?;
            // Read after the excerpt: a client that is bound to a user in between overtakes the plan.
            object.may_go(&*self.service.store).await?;
            let mut plan = Plan::on(&stored);
            plan.remove(object);
            self.carry_out(plan, &stored).await?;
            Ok(())
        })
        .await
    }

    /// Changes a stored object in place; returns the view and what `change` returns.
    pub(super) async fn edit<T: Administered, R>(
        &self,
        name: &str,
        change: impl Fn(&mut T) -> Result<R, AdminError>,
    ) -> Result<(View<T>, R), AdminError> {
        self.changing(async || {
            let stored = self.excerpt(looked_up(T::DESCRIPTION.kind, name)).await?;
            let mut object = found::<T>(&stored, name)?.clone();
            let outcome = change(&mut object)?;
            let view = self.register(Registration::of(object), &stored).await?;
            Ok((view, outcome))
        })
        .await
    }

    async fn read<T: Administered>(
        &self,
        registration: Object,
    ) -> Result<Draft<Registration<T>>, AdminError> {
        let now = self.service.clock.now();
        blocking(move || read_entry(registration, Completeness::Partial, now)).await
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

    async fn register<T: Administered>(
        &self,
        registration: Registration<T>,
        stored: &Arc<Excerpt>,
    ) -> Result<View<T>, AdminError> {
        let object = registration.object.clone();
        let plan = self.planned(stored, move |stored, protection| {
            let mut plan = Plan::on(stored);
            plan.register(registration, stored, protection)?;
            Ok(plan)
        });
        self.carry_out(plan.await?, stored).await?;
        // The stored object also contains values that the registration omits.
        let stored = T::stored(&*self.service.store, object.name()).await?;
        self.view(stored.as_ref().unwrap_or(&object)).await
    }

    async fn view<T: Administered>(&self, object: &T) -> Result<View<T>, AdminError> {
        let mut views = self.views(std::slice::from_ref(object)).await?;
        let gone = || AdminError::Internal("an object without a view".to_owned());
        views.pop().ok_or_else(gone)
    }

    async fn views<T: Administered>(&self, objects: &[T]) -> Result<Vec<View<T>>, AdminError> {
        let clients = objects.iter().filter_map(T::with_secret_times);
        let clients: Vec<ClientId> = clients.cloned().collect();
        let secret_times = match clients.is_empty() {
            true => Vec::new(),
            false => self.service.store.secret_times(clients).await?,
        };
        let moment = Moment {
            now: self.service.clock.now(),
            secret_times: &secret_times,
        };
        let views = objects.iter().map(|object| describe::view(object, &moment));
        Ok(views.map(View::new).collect())
    }
}

pub(super) fn found<'a, T: Registered>(
    stored: &'a Excerpt,
    name: &str,
) -> Result<&'a T, AdminError> {
    T::find(stored, name).ok_or_else(|| not_found::<T>(name))
}

pub(super) fn not_found<T: Registered>(name: &str) -> AdminError {
    AdminError::not_found(T::DESCRIPTION.kind.name(), name)
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
