//! Grants: listed and revoked.

use super::views::{GrantView, Page};
use super::{AdminError, Administration, PageRequest};
use crate::audit::Entry;
use crate::registry::{ClientId, Username};
use crate::store::{AuditAction, Grant, GrantFilter, GrantId};

impl Administration<'_> {
    /// Grants in the order of their time, of one client or user if so asked.
    ///
    /// # Errors
    /// [`AdminError::Malformed`] when a parameter is not one.
    pub async fn grants(
        &self,
        client_id: Option<&str>,
        username: Option<&str>,
        request: &PageRequest,
    ) -> Result<Page<GrantView>, AdminError> {
        let malformed = |what: &str| AdminError::Malformed(format!("{what} is not one"));
        let filter = GrantFilter {
            client_id: client_id
                .map(|text| ClientId::parse(text).ok_or_else(|| malformed("client_id")))
                .transpose()?,
            username: username
                .map(|text| Username::parse(text).ok_or_else(|| malformed("username")))
                .transpose()?,
        };
        let after = request
            .after
            .as_deref()
            .map(|text| GrantId::parse(text).ok_or_else(|| malformed("after")))
            .transpose()?;
        let limit = request.limit();
        // One more tells whether there is a next page.
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

    /// One grant.
    ///
    /// # Errors
    /// [`AdminError::NotFound`].
    pub async fn grant(&self, grant_id: &str) -> Result<GrantView, AdminError> {
        Ok(GrantView::from(&self.stored_grant(grant_id).await?))
    }

    /// Ends a grant: its refresh token is dead, and the edge refuses its access tokens. Ending it twice is no error.
    ///
    /// # Errors
    /// [`AdminError::NotFound`].
    pub async fn revoke_grant(&self, grant_id: &str) -> Result<(), AdminError> {
        let grant = self.stored_grant(grant_id).await?;
        let (id, now) = (grant.grant_id, self.service.clock.now());
        if self.service.store.revoke_grant(id, now).await? {
            self.service.record(
                self.origin,
                Entry::new(AuditAction::GrantRevoked)
                    .by_administrator()
                    .client(grant.client_id)
                    .user(grant.username)
                    .grant(id),
            );
        }
        Ok(())
    }

    async fn stored_grant(&self, grant_id: &str) -> Result<Grant, AdminError> {
        let not_found = || AdminError::not_found("grant", grant_id);
        let id = GrantId::parse(grant_id).ok_or_else(not_found)?;
        self.service.store.grant(id).await?.ok_or_else(not_found)
    }
}
