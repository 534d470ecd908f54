//! Operations only for clients: secrets and certificates.

use zeroize::Zeroizing;

use super::objects::{Administered, Listed};
use super::schema::ClientView;
use super::views::ClientWithSecret;
use super::{AdminError, Administration};
use document::{InvalidDocument, Place, Problem};
use domain::client::ClientSecret;
use domain::{Certificate, Client, ClientId, IntegrationType};
use store::{Store, StoreError};

/// Maximum number of live secrets of a client: the old secret and its successor (D-21).
const MOST_SECRETS: usize = 2;

impl Administered for Client {
    type Created = ClientWithSecret;

    fn generate(
        &mut self,
        administration: &Administration<'_>,
    ) -> Result<Option<Zeroizing<String>>, AdminError> {
        let needs_secret = !matches!(
            self.integration,
            IntegrationType::Installed { .. } | IntegrationType::Legacy { .. }
        );
        if needs_secret && self.secrets().is_empty() {
            administration.add_generated(self).map(Some)
        } else {
            Ok(None)
        }
    }

    fn created(client: ClientView, secret: Option<Zeroizing<String>>) -> ClientWithSecret {
        ClientWithSecret {
            client,
            client_secret: secret.map(|secret| secret.to_string()),
        }
    }

    fn with_secret_times(&self) -> Option<&ClientId> {
        Some(&self.client_id)
    }

    async fn stored(store: &dyn Store, name: &str) -> Result<Option<Self>, StoreError> {
        match ClientId::parse(name) {
            Some(client_id) => store.client(client_id).await,
            None => Ok(None),
        }
    }
}

impl Listed for Client {
    async fn page(store: &dyn Store, after: String, limit: usize) -> Result<Vec<Self>, StoreError> {
        store.clients(after, limit).await
    }
}

impl Administration<'_> {
    /// Adds a generated client secret. The previous secret works until [`Self::end_old_secrets`].
    ///
    /// # Errors
    /// [`AdminError::Conflict`] if two secrets are live or the client's type has no secret.
    pub async fn add_secret(&self, client_id: &str) -> Result<ClientWithSecret, AdminError> {
        let changed = self.edit(client_id, |client: &mut Client| {
            if client.secrets().len() >= MOST_SECRETS {
                let message = format!(
                    "{client_id} has {MOST_SECRETS} live secrets: end the old one before you add another"
                );
                return Err(AdminError::Conflict(message));
            }
            self.add_generated(client)
        });
        let (view, secret) = changed.await?;
        Ok(Client::created(view, Some(secret)))
    }

    /// Removes all secrets except the newest.
    ///
    /// # Errors
    /// [`AdminError::Conflict`] if the client has no older secret.
    pub async fn end_old_secrets(&self, client_id: &str) -> Result<ClientView, AdminError> {
        let changed = self.edit(client_id, |client: &mut Client| {
            match client.secrets_mut() {
                Some(secrets) if secrets.len() > 1 => {
                    secrets.drain(..secrets.len() - 1);
                    Ok(())
                }
                _ => {
                    let message = format!("{client_id} has no older secret");
                    Err(AdminError::Conflict(message))
                }
            }
        });
        Ok(changed.await?.0)
    }

    /// Adds a certificate, PEM or DER, under `alias`.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] if the certificate cannot verify assertions; [`AdminError::Conflict`] if the client
    /// already has the alias or certificate, or the client's type has none.
    pub async fn add_certificate(
        &self,
        client_id: &str,
        alias: &str,
        bytes: &[u8],
    ) -> Result<ClientView, AdminError> {
        let changed = self.edit(client_id, |client: &mut Client| {
            let certificate = Certificate::read(alias, bytes).map_err(|error| {
                let place = Place::Json(String::new());
                AdminError::Invalid(InvalidDocument {
                    problems: vec![Problem {
                        place,
                        message: error.to_string(),
                    }],
                })
            })?;
            let taken = client
                .certificates()
                .iter()
                .find(|other| other.alias == alias || other.x5t() == certificate.x5t());
            if let Some(other) = taken {
                let message = format!(
                    "{client_id} has the certificate {} with x5t {} already",
                    other.alias,
                    other.x5t()
                );
                return Err(AdminError::Conflict(message));
            }
            let Some(certificates) = client.certificates_mut() else {
                let message =
                    format!("{client_id} is not of type non_interactive: it has no certificates");
                return Err(AdminError::Conflict(message));
            };
            certificates.push(certificate);
            Ok(())
        });
        Ok(changed.await?.0)
    }

    /// Removes the certificate `alias`: assertions signed with it are refused from now on.
    ///
    /// # Errors
    /// [`AdminError::NotFound`].
    pub async fn delete_certificate(
        &self,
        client_id: &str,
        alias: &str,
    ) -> Result<ClientView, AdminError> {
        let changed = self.edit(client_id, |client: &mut Client| {
            let before = client.certificates().len();
            if let Some(certificates) = client.certificates_mut() {
                certificates.retain(|certificate| certificate.alias != alias);
            }
            if client.certificates().len() == before {
                return Err(AdminError::not_found("certificate", alias));
            }
            Ok(())
        });
        Ok(changed.await?.0)
    }

    fn add_generated(&self, client: &mut Client) -> Result<Zeroizing<String>, AdminError> {
        let client_id = client.client_id.to_string();
        let Some(secrets) = client.secrets_mut() else {
            let message = format!("{client_id} is a public client: it has no secret");
            return Err(AdminError::Conflict(message));
        };
        let (text, secret) = ClientSecret::generate(&*self.service.random)?;
        secrets.push(secret);
        Ok(text)
    }
}
