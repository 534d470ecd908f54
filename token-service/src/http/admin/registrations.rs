//! `/admin/registrations`, and all changes of the registry: compares a registrations document with the registry and
//! applies all differences in one transaction.

use std::sync::Arc;

use actix_web::HttpRequest;
use actix_web::web::{self, Payload};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::access::Administrator;
use super::answer::{self, AdminError, Answer, ErrorBody};
use super::{Administration, Object, blocking, body};
use domain::digest::Digest;
use domain::random::{self, RandomError};
use domain::{Excerpt, FileChange, Identity, RegistryChange, User};
use protocol::flow::TokenName;
use protocol::flows;
use registry::apply::{Difference, DocumentKind, Plan};
use registry::change::{self, Edit, How};
use registry::describe::Completeness;
use registry::identities;
use registry::objects::{ClientRegistration, UserRegistration, port_problem};
use registry::planning::{self, Surroundings};
use registry::registrations::Registrations;
use secrets::protection::{Protection, ProtectionError};

/// A registrations file as JSON; certificates stand in it as `pem`.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only the description of the API has its fields")]
pub(crate) struct RegistrationsDocument {
    /// What the clients that it lists are.
    pub clients: Vec<ClientRegistration>,
    /// What the users that it lists are.
    pub users: Vec<UserRegistration>,
    /// The lines of the entries in the file, for messages.
    pub lines: Option<Lines>,
}

/// The lines of the entries of a registrations file, in the order of the lists.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub(crate) struct Lines {
    /// Of the clients.
    pub clients: Vec<usize>,
    /// Of the users.
    pub users: Vec<usize>,
}

/// The key of [`Lines`] in a document.
pub(crate) const LINES: &str = "lines";

/// The file in messages, if a request names none.
const UNNAMED: &str = "a request to /admin/registrations";

/// Maximum length of [`ApplyQuery::file`], in bytes: every object that the file manages stores the name.
const MAX_FILE_NAME: usize = 4096;

/// How to apply registrations.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ApplyQuery {
    /// Return what would change, and change nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// Remove clients and users that a file manages and the document does not list, and revoke everything issued to them.
    #[serde(default)]
    pub prune: bool,
    /// Add the objects of another server, which no file manages. Registered objects stay, each with a text in `kept`. Refused: a
    /// client that could act for a registered user without a sign-in, and a user with an account, an identity or a single-sign-on
    /// address of another. Not with `prune`.
    #[serde(default)]
    pub import: bool,
    /// With `import`: change registered objects that no registrations file lists.
    #[serde(default)]
    pub overwrite: bool,
    /// Name of the file that manages the objects, for messages: at most 4096 bytes.
    #[serde(default)]
    pub file: Option<String>,
}

/// What applying registrations did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Applied {
    /// One text per client and user that changes: `+` new, `~` changed, `-` removed. A changed object has a line for each
    /// field, with old and new value. Secret values are left out.
    pub differences: Vec<String>,
    /// One line, with `!`, for each object that stays although the document lists it, because no file manages it or, with
    /// `import`, because it is registered. With `prune`, also for each user who stays because a client is bound to the user.
    #[serde(default)]
    pub kept: Vec<String>,
    /// What is allowed but unwise.
    pub warnings: Vec<String>,
    /// Whether this was a dry run, which changes nothing.
    pub dry_run: bool,
}

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes.service(web::resource("/registrations").route(web::put().to(apply)));
}

/// Makes the listed objects that a file manages as the document says, adds new ones, and manages them from then on. Applying it
/// again changes nothing.
#[utoipa::path(put, path = "/admin/registrations", tag = "service", params(ApplyQuery),
    request_body = RegistrationsDocument,
    responses((status = 200, body = Applied), (status = 400, body = ErrorBody)))]
async fn apply(administrator: Administrator, http: HttpRequest, payload: Payload) -> Answer {
    let query = body::query::<ApplyQuery>(http.query_string())?;
    let document = body::object(payload).await?;
    answer::ok(administrator.apply(document, query).await?)
}

impl Administration {
    /// # Errors
    /// [`AdminError::Invalid`] with every problem, [`AdminError::DoesNotFit`], or a failure; then nothing is changed.
    pub(crate) async fn apply(
        &self,
        document: Object,
        query: ApplyQuery,
    ) -> Result<Applied, AdminError> {
        let malformed = |why: &str| Err(AdminError::Malformed(why.to_owned()));
        if query.import && query.prune {
            return malformed("prune: an import removes nothing; leave out prune or import");
        }
        if query.overwrite && !query.import {
            return malformed(
                "overwrite: only an import overwrites; a file always counts for what it manages",
            );
        }
        if query
            .file
            .as_ref()
            .is_some_and(|file| file.len() > MAX_FILE_NAME)
        {
            return malformed("file: is longer than 4096 bytes");
        }
        let mut document = document;
        let lines = document.remove(LINES).map(serde_json::from_value);
        let Ok(lines) = lines.transpose() else {
            return malformed("lines: expected the lists clients and users of numbers");
        };
        let lines: Lines = lines.unwrap_or_default();
        let file = query.file.as_deref().unwrap_or(UNNAMED).to_owned();
        let document = Arc::new(document);
        let store = &*self.service.store;
        // Before the turn, because it may read for long.
        let managed = match query.prune {
            true => planning::managed(store).await?,
            false => Vec::new(),
        };
        self.change(query.dry_run, async || {
            let now = self.service.clock.now();
            let document = Arc::clone(&document);
            let (draft, names) = blocking(move || {
                let document = Object::clone(&document);
                let draft = Registrations::from_json(document, Completeness::Whole, now);
                let names = draft.names();
                (draft, names)
            })
            .await?;
            let stored = self.excerpt(names).await?;
            let excerpt = Arc::clone(&stored);
            let mut registrations = blocking(move || draft.check(&excerpt)).await??;
            for (user, line) in registrations.users.iter_mut().zip(&lines.users) {
                user.line = Some(*line);
            }
            for (client, line) in registrations.clients.iter_mut().zip(&lines.clients) {
                client.line = Some(*line);
            }
            let found = registrations.problems(Surroundings {
                settings: &self.service.config.protocol,
                legacy_instances: stored.legacy_instances(),
                takes_certificates: self.service.config.mutual_tls.is_some(),
                at_start: false,
            });
            if !found.refused.is_empty() {
                return Err(AdminError::DoesNotFit(found.refused));
            }
            let mut warnings = found.warnings;
            let listed = registrations.objects().collect();
            let file = file.clone();
            let ApplyQuery {
                import, overwrite, ..
            } = query;
            let mut plan = self
                .planned(&stored, move |stored, protection| {
                    let kind = match import {
                        true => DocumentKind::Import {
                            overwrites: overwrite,
                        },
                        false => DocumentKind::File(&file),
                    };
                    let mut plan = Plan::on(stored);
                    plan.apply(registrations, kind, stored, protection)?;
                    Ok(plan)
                })
                .await?;
            if query.prune {
                planning::prune(&mut plan, &managed, &listed, store).await?;
            }
            if !query.import && !plan.is_empty() {
                plan.change.applied_file = self.forgets()?;
            }
            self.refuse_misfits(&plan.change, &stored)?;
            if query.import {
                let takeovers = planning::takeovers(&mut plan.change, &stored, store).await?;
                if !takeovers.is_empty() {
                    return Err(AdminError::DoesNotFit(takeovers));
                }
            }
            self.refuse_taken(&mut plan, &stored, |_, _| false).await?;
            warnings.extend(self.effects(&plan, &stored, true).await?.warnings);
            Ok(Edit::of(plan).map(|plan| Applied {
                differences: plan
                    .differences
                    .iter()
                    .map(Difference::with_values)
                    .collect(),
                kept: plan.kept.iter().map(ToString::to_string).collect(),
                warnings,
                dry_run: query.dry_run,
            }))
        })
        .await
    }

    /// Makes the change of the registry that `edit` plans: see [`change::change`].
    pub(super) async fn change<T>(
        &self,
        dry_run: bool,
        edit: impl AsyncFn() -> Result<Edit<T>, AdminError>,
    ) -> Result<T, AdminError> {
        let how = How {
            event: &|entry| self.event(entry),
            passwords: Some(&self.passwords),
            dry_run,
        };
        change::change(&*self.service, how, edit).await
    }

    /// Lets the next start compare every entry of its file.
    pub(super) fn forgets(&self) -> Result<FileChange, RandomError> {
        let random = random::bytes(&*self.service.random)?;
        Ok(FileChange::Forget(Digest::from_bytes(random)))
    }

    /// Plans a change outside the async workers.
    ///
    /// # Errors
    /// [`ProtectionError::Unhashed`], for [`Self::change`].
    pub(super) async fn planned(
        &self,
        stored: &Arc<Excerpt>,
        plan: impl FnOnce(&Excerpt, &dyn Protection) -> Result<Plan, ProtectionError> + Send + 'static,
    ) -> Result<Plan, AdminError> {
        let (service, stored) = (Arc::clone(&self.service), Arc::clone(stored));
        let passwords = Arc::clone(&self.passwords);
        let plan = move || {
            let key = &service.encryption_key;
            passwords.plan(key, |protection| plan(&stored, protection))
        };
        Ok(blocking(plan).await??)
    }

    /// Refuses an identity that another user has: see [`identities::taken`].
    pub(super) async fn refuse_taken(
        &self,
        plan: &mut Plan,
        stored: &Excerpt,
        may_lose: impl Fn(&User, &Identity) -> bool,
    ) -> Result<(), AdminError> {
        let store = &*self.service.store;
        let taken = identities::taken(plan, stored, store, may_lose).await?;
        match taken.is_empty() {
            true => Ok(()),
            false => {
                let lines = taken.iter().map(ToString::to_string);
                Err(AdminError::Taken(lines.collect()))
            }
        }
    }

    /// Refuses what does not fit: see [`AdminError::DoesNotFit`].
    pub(super) fn refuse_misfits(
        &self,
        change: &RegistryChange,
        stored: &Excerpt,
    ) -> Result<(), AdminError> {
        let settings = &self.service.config.protocol;
        let has_legacy = !stored.legacy_instances().is_empty();
        let (clients, users) = (&change.put_clients, &change.put_users);
        let mut misfits = planning::misfits(clients, users, |_| None, has_legacy, settings);
        let instances = change.put_legacy_instances.iter();
        misfits.extend(
            instances.filter_map(|one| flows::misfit(TokenName::Hostname(&one.hostname), settings)),
        );
        for one in &change.put_legacy_instances {
            let mut others = stored.legacy_instances().iter();
            misfits.extend(others.find_map(|other| port_problem(&one.hostname, &other.hostname)));
        }
        misfits.extend(planning::mute(&change.put_clients, stored));
        if misfits.is_empty() {
            return Ok(());
        }
        Err(AdminError::DoesNotFit(misfits))
    }
}
