//! What a change of the registry does beyond its objects, for the operator who makes it.

use std::collections::BTreeSet;

use super::Administration;
use domain::{ClientId, Excerpt, GrantFilter, Scope, User};
use registry::apply::Plan;
use registry::describe::{Effects, Registered as _};
use registry::identities;
use registry::objects::{NAMES_ANYBODY, names_anybody};
use registry::planning::{self, PAGE};
use registry::registrations::unserved;
use store::StoreError;

/// Maximum number of grants that the service reads to say what they lose.
const MOST_GRANTS: usize = 10_000;

/// Maximum number of integrations that a warning names.
const MOST_NAMED: usize = 20;

impl Administration {
    /// The effects of `plan` on what is in `stored`. The rules of a document (`is_document`) have said already what clients and
    /// identities lack.
    pub(super) async fn effects(
        &self,
        plan: &Plan,
        stored: &Excerpt,
        is_document: bool,
    ) -> Result<Effects, StoreError> {
        let mut effects = Effects::default();
        let instances = stored.legacy_instances();
        let is_known = |host: &str| instances.iter().any(|one| one.hostname == host);
        let takes_certificates = self.service.config.mutual_tls.is_some();
        let settings = &self.service.config.protocol;
        for after in &plan.change.put_clients {
            let before = stored.client(&after.client_id).map(|client| &**client);
            let revokes = plan.change.revoke_clients.contains(&after.client_id);
            effects.warnings.extend(after.warnings(before, revokes));
            if !is_document {
                let warning = unserved(after, is_known, takes_certificates, settings);
                effects.warnings.extend(warning);
                if names_anybody(after) && !before.is_some_and(names_anybody) {
                    let warning = format!("{}: {NAMES_ANYBODY}", after.client_id);
                    effects.warnings.push(warning);
                }
            }
            let lost = before.map(|before| before.scopes.without(&after.scopes));
            if let Some(lost) = lost.filter(|lost| !lost.is_empty() && after.enabled && !revokes) {
                self.add_loss(&after.client_id, &lost, &mut effects).await?;
            }
        }
        let store = &*self.service.store;
        let unfit = planning::unfit_for_legacy(&plan.change, stored, store, settings);
        effects.warnings.extend(unfit.await?);
        for after in &plan.change.put_users {
            let before = stored.user(&after.username);
            if let Some(before) = before {
                effects
                    .warnings
                    .extend(self.ambiguous(before, after).await?);
                effects
                    .warnings
                    .extend(identities::may_return(before, after, settings));
            }
        }
        if !is_document {
            let users = plan.change.put_users.iter();
            let new = users.flat_map(|after| identities::new_identities(after, stored));
            let new = new.map(|(identity, _)| identity);
            effects
                .warnings
                .extend(identities::unconfigured(new, settings));
        }
        Ok(effects)
    }

    async fn add_loss(
        &self,
        client_id: &ClientId,
        lost: &Scope,
        effects: &mut Effects,
    ) -> Result<(), StoreError> {
        let now = self.service.clock.now();
        let filter = GrantFilter {
            client_id: Some(client_id.clone()),
            username: None,
        };
        let (mut read, mut losing, mut after) = (0, 0, None);
        let mut scopes = BTreeSet::new();
        let is_all = loop {
            let grants = &self.service.store;
            let page = grants.grants(filter.clone(), after, PAGE).await?;
            let live = page.iter().filter(|grant| {
                grant.revoked_at.is_none() && now < grant.current.refresh_expires_at
            });
            for less in live.map(|grant| grant.scope.intersection(lost)) {
                losing += usize::from(!less.is_empty());
                scopes.extend(less.tokens().map(str::to_owned));
            }
            read += page.len();
            after = page.last().map(|grant| grant.grant_id);
            if page.len() < PAGE || read >= MOST_GRANTS {
                break page.len() < PAGE;
            }
        };
        if losing > 0 {
            let scopes: Vec<String> = scopes.into_iter().collect();
            let (least, grants) = match (is_all, losing) {
                (true, 1) => ("", "grant loses"),
                (true, _) => ("", "grants lose"),
                (false, _) => ("at least ", "grants lose"),
            };
            effects.warnings.push(format!(
                "{client_id}: {least}{losing} {grants} {} at the next refresh",
                scopes.join(", ")
            ));
        }
        effects.losing_grants += losing;
        Ok(())
    }

    /// Integrations that must name an account from now on, because their user has more than one (D-6).
    async fn ambiguous(&self, before: &User, after: &User) -> Result<Option<String>, StoreError> {
        if before.accounts.len() != 1 || after.accounts.len() < 2 {
            return Ok(None);
        }
        let name = &after.username;
        let bound = &self.service.store;
        let bound = bound.clients_bound_to(name.clone(), MOST_NAMED + 1).await?;
        if bound.is_empty() {
            return Ok(None);
        }
        let named = bound.iter().take(MOST_NAMED).map(ClientId::as_str);
        let named: Vec<&str> = named.collect();
        let others = if bound.len() > MOST_NAMED {
            ", ..."
        } else {
            ""
        };
        Ok(Some(format!(
            "{name} has {} linked accounts: from now on, the integrations bound to {name} must send user_id and user_site, \
             and get invalid_request without them: {}{others}",
            after.accounts.len(),
            named.join(", ")
        )))
    }
}
