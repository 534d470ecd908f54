//! Lists and revokes grants.

use super::views::{GrantView, Page, RevokedGrants};
use super::{AdminError, Administration, MAX_PAGE, PageRequest};
use crate::audit_log::Entry;
use domain::grant::MAX_CODE_LIFETIME;
use domain::{AuditAction, ClientId, Extent, Grant, GrantFilter, GrantId, Revoked, Username};

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
        let entry = Entry::new(AuditAction::GrantRevoked)
            .by_administrator(self.name)
            .grant(id);
        let (ended, entry) = match store.grant(id).await? {
            Some(grant) => {
                let ended = store.revoke_grant(id, now).await?;
                (ended, entry.client(grant.client_id).user(grant.username))
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
                (store.announce(Revoked::Grant(id), extent).await?, entry)
            }
        };
        if ended {
            self.service.record(self.origin, entry);
        }
        Ok(())
    }

    /// Revokes all live grants of a client, of a user, or of a user at a client.
    ///
    /// # Errors
    /// [`AdminError::Malformed`] if neither is named or a parameter is malformed.
    pub async fn revoke_grants(
        &self,
        client_id: Option<&str>,
        username: Option<&str>,
    ) -> Result<RevokedGrants, AdminError> {
        if client_id.is_none() && username.is_none() {
            let message = "name client_id, username, or both".to_owned();
            return Err(AdminError::Malformed(message));
        }
        let revoked = self.revoke_listed(client_id, username).await?;
        // The list is sorted by the times of the codes, so a grant that began meanwhile may precede the last page.
        let meanwhile = self.revoke_listed(client_id, username).await?;
        Ok(RevokedGrants {
            revoked: revoked + meanwhile,
        })
    }

    /// Revokes the live grants of all pages, and returns their number.
    async fn revoke_listed(
        &self,
        client_id: Option<&str>,
        username: Option<&str>,
    ) -> Result<usize, AdminError> {
        let mut page = PageRequest {
            limit: Some(MAX_PAGE),
            ..PageRequest::default()
        };
        let mut revoked = 0;
        loop {
            let found = self.grants(client_id, username, &page).await?;
            let live = found.items.iter();
            for grant in live.filter(|grant| grant.revoked_at.is_none()) {
                self.revoke_grant(&grant.grant_id).await?;
                revoked += 1;
            }
            match found.next {
                Some(next) => page.after = Some(next),
                None => return Ok(revoked),
            }
        }
    }

    async fn stored_grant(&self, grant_id: &str) -> Result<Grant, AdminError> {
        let not_found = || AdminError::not_found("grant", grant_id);
        let id = GrantId::parse(grant_id).ok_or_else(not_found)?;
        self.service.store.grant(id).await?.ok_or_else(not_found)
    }
}
