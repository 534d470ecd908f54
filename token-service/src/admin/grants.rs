//! Lists and revokes grants.

use std::sync::Arc;

use super::objects::{Administered, not_found};
use super::views::{GrantView, Page, RevokedGrants};
use super::{AdminError, Administration, PageRequest};
use crate::audit_log::Entry;
use domain::grant::MAX_CODE_LIFETIME;
use domain::{
    AuditAction, Client, ClientId, Extent, Grant, GrantFilter, GrantId, Owner, Revoked, User,
    Username,
};

impl Administration<'_> {
    /// Lists grants by time, optionally only those of one client or user.
    ///
    /// # Errors
    /// [`AdminError::Malformed`] if a parameter is malformed.
    pub async fn grants(
        &self,
        client_id: Option<&str>,
        username: Option<&str>,
        request: &PageRequest,
    ) -> Result<Page<GrantView>, AdminError> {
        let malformed = |what: &str| AdminError::Malformed(format!("{what} is not one"));
        let username = username
            .map(|text| Username::parse(text).ok_or_else(|| malformed("username")))
            .transpose()?;
        let username = match username {
            // Grants have the registered spelling.
            Some(username) => {
                let user = self.service.store.user(username.clone()).await?;
                Some(user.map_or(username, |user| user.username))
            }
            None => None,
        };
        let filter = GrantFilter {
            client_id: client_id
                .map(|text| ClientId::parse(text).ok_or_else(|| malformed("client_id")))
                .transpose()?,
            username,
        };
        let after = request
            .after
            .as_deref()
            .map(|text| GrantId::parse(text).ok_or_else(|| malformed("after")))
            .transpose()?;
        let limit = request.limit();
        // One more than the limit shows whether there is a next page.
        let mut grants = self.service.store.grants(filter, after, limit + 1).await?;
        let more = grants.len() > limit;
        grants.truncate(limit);
        Ok(Page {
            next: grants
                .last()
                .filter(|_| more)
                .map(|grant| grant.grant_id.to_string()),
            items: grants.iter().map(GrantView::from).collect(),
        })
    }

    /// # Errors
    /// [`AdminError::NotFound`].
    pub async fn grant(&self, grant_id: &str) -> Result<GrantView, AdminError> {
        Ok(GrantView::from(&self.stored_grant(grant_id).await?))
    }

    /// Revokes a grant: the service refuses its refresh token, and gateways refuse its access tokens. Revoking a grant
    /// twice is not an error. Access tokens without a refresh token (JWT bearer, client credentials) have the id of a
    /// grant that is not stored; such an id revokes them too.
    ///
    /// # Errors
    /// [`AdminError::NotFound`] if no valid token can have this id.
    pub async fn revoke_grant(&self, grant_id: &str) -> Result<(), AdminError> {
        let not_found = || AdminError::not_found("grant", grant_id);
        let id = GrantId::parse(grant_id).ok_or_else(not_found)?;
        let store = &self.service.store;
        let now = self.service.clock.now();
        let entry = Entry::new(AuditAction::GrantRevoked).grant(id);
        let (ended, events) = match store.grant(id).await? {
            Some(grant) => {
                let events = self.events(entry.client(grant.client_id).user(grant.username));
                let ended = store.revoke_grant(id, Arc::clone(&events), now).await?;
                (ended, events)
            }
            None => {
                // Another replica may have drawn the id, and its clock may be ahead.
                let latest = now + self.service.config.protocol.lifetimes.clock_skew;
                let made_at = id.made_at().filter(|made_at| *made_at <= latest);
                // A code contains the id of its grant, so the tokens may be younger than the id. The grant itself may be
                // missing after a restore.
                let youngest = made_at.map(|made_at| made_at + MAX_CODE_LIFETIME);
                let expires_at = youngest.map(|issued_at| issued_at + store.longest_token());
                let expires_at = expires_at.filter(|expires_at| now < *expires_at);
                let extent = Extent {
                    at: now,
                    expires_at: expires_at.ok_or_else(not_found)?,
                };
                let events = self.events(entry);
                let announced = store.announce(Revoked::Grant(id), extent, Arc::clone(&events));
                (announced.await?, events)
            }
        };
        if ended {
            self.service.recorded(&events);
        }
        Ok(())
    }

    /// Revokes all live grants of a client, of a user, or of a user at a client, and every access token issued to them
    /// up to and including this second, with or without a stored grant.
    ///
    /// # Errors
    /// [`AdminError::Malformed`] if neither is named; [`AdminError::NotFound`] if a name is unknown.
    pub async fn revoke_grants(
        &self,
        client_id: Option<&str>,
        username: Option<&str>,
    ) -> Result<RevokedGrants, AdminError> {
        let client = self.named::<Client>(client_id).await?;
        let user = self.named::<User>(username).await?;
        let client_id = client.map(|client| client.client_id);
        let username = user.map(|user| user.username);
        let now = self.service.clock.now();
        let issued_up_to = now.rfc3339();
        let mut entry = Entry::new(AuditAction::GrantRevoked).detail(format!(
            "all, and access tokens issued up to {issued_up_to}"
        ));
        if let Some(client_id) = &client_id {
            entry = entry.client(client_id.as_str());
        }
        if let Some(username) = &username {
            entry = entry.user(username.as_str());
        }
        let owner = Owner::of(client_id, username).ok_or_else(|| {
            let message = "name client_id, username, or both".to_owned();
            AdminError::Malformed(message)
        })?;
        let events = self.events(entry);
        let store = &self.service.store;
        let revoked = store.revoke_all(owner, Arc::clone(&events), now).await?;
        self.service.recorded(&events);
        Ok(RevokedGrants {
            revoked,
            issued_up_to,
        })
    }

    /// The registered object with this name, if a name is given.
    async fn named<T: Administered>(&self, name: Option<&str>) -> Result<Option<T>, AdminError> {
        let Some(name) = name else {
            return Ok(None);
        };
        let found = T::stored(&*self.service.store, name).await?;
        found.map(Some).ok_or_else(|| not_found::<T>(name))
    }

    async fn stored_grant(&self, grant_id: &str) -> Result<Grant, AdminError> {
        let not_found = || AdminError::not_found("grant", grant_id);
        let id = GrantId::parse(grant_id).ok_or_else(not_found)?;
        self.service.store.grant(id).await?.ok_or_else(not_found)
    }
}
