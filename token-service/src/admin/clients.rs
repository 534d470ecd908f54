//! Clients: registration, secrets, certificates.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use zeroize::Zeroizing;

use super::views::{ClientView, ClientWithSecret, Page};
use super::{AdminError, Administration, Object, PageRequest, merge_patch, page, read_entry};
use document::{InvalidDocument, Place, Problem};
use domain::client::ClientSecret;
use domain::{Certificate, Client, ClientId, IntegrationType, Registry};
use registration::apply::Plan;
use registration::registrations::Registrations;

/// Live secrets of a client at most: the old one and its successor (D-21).
const MOST_SECRETS: usize = 2;

impl Administration<'_> {
    /// Clients in the order of their ids, enabled or not.
    ///
    /// # Errors
    /// The store's.
    pub async fn clients(&self, request: &PageRequest) -> Result<Page<ClientView>, AdminError> {
        let now = self.service.clock.now();
        let after = request.after.clone().unwrap_or_default();
        let found = self.service.store.clients(after, request.limit() + 1);
        let name = |client: &Client| client.client_id.to_string();
        let Page { items, next } = page(found.await?, request, name);
        let client_ids = items.iter().map(|client| client.client_id.clone());
        let times = self.service.store.secret_times(client_ids.collect());
        let times = times.await?;
        let views = items.iter();
        let views = views.map(|client| ClientView::new(client, &times, now));
        Ok(Page {
            items: views.collect(),
            next,
        })
    }

    /// One client.
    ///
    /// # Errors
    /// [`AdminError::NotFound`], or the store's.
    pub async fn client(&self, client_id: &str) -> Result<ClientView, AdminError> {
        let found = match ClientId::parse(client_id) {
            Some(client_id) => self.service.store.client(client_id).await?,
            None => None,
        };
        let client = found.ok_or_else(|| AdminError::not_found("client", client_id))?;
        self.view(&client).await
    }

    async fn view(&self, client: &Client) -> Result<ClientView, AdminError> {
        let times = self
            .service
            .store
            .secret_times(vec![client.client_id.clone()]);
        Ok(ClientView::new(
            client,
            &times.await?,
            self.service.clock.now(),
        ))
    }

    /// Registers a client: `registration` is an entry of `clients` of a registrations file. A client that needs a secret
    /// and brings none gets a generated one.
    ///
    /// # Errors
    /// [`AdminError::Conflict`] when the Client ID is taken, [`AdminError::Invalid`] with every problem.
    pub async fn create_client(
        &self,
        registration: Object,
    ) -> Result<ClientWithSecret, AdminError> {
        self.changing(async |registry| {
            let mut registrations = self.read_client(registration.clone(), &registry)?;
            let [client] = registrations.clients.as_mut_slice() else {
                return Err(AdminError::Internal("not one client".to_owned()));
            };
            if find(&registry, client.client_id.as_str()).is_some() {
                let message = format!("there is a client {} already", client.client_id);
                return Err(AdminError::Conflict(message));
            }
            let needs_secret = !matches!(
                client.integration,
                IntegrationType::Installed { .. } | IntegrationType::Legacy { .. }
            );
            let secret = if needs_secret && client.secrets().is_empty() {
                Some(self.add_generated(client)?)
            } else {
                None
            };
            let client = client.clone();
            let plan = self.plan(registrations, &registry).await?;
            self.carry_out(plan, &registry).await?;
            self.with_secret(&client, secret).await
        })
        .await
    }

    /// Changes a client: `patch` is laid over its registration (RFC 7396). Secrets and certificates that it does not name
    /// stay; the integration type cannot change.
    ///
    /// # Errors
    /// [`AdminError::NotFound`], [`AdminError::Conflict`], [`AdminError::Invalid`] with every problem.
    pub async fn update_client(
        &self,
        client_id: &str,
        patch: Object,
    ) -> Result<ClientView, AdminError> {
        self.changing(async |registry| {
            let before = stored(&registry, client_id)?;
            let mut registration = registration(&before);
            merge_patch(&mut registration, patch.clone());
            let mut registrations = self.read_client(registration, &registry)?;
            let [client] = registrations.clients.as_mut_slice() else {
                return Err(AdminError::Internal("not one client".to_owned()));
            };
            if client.client_id != before.client_id {
                let message = "client_id cannot change: register another client";
                return Err(AdminError::Conflict(message.to_owned()));
            }
            if client.integration.name() != before.integration.name() {
                let message = "type cannot change: register another client";
                return Err(AdminError::Conflict(message.to_owned()));
            }
            if client.secrets().is_empty()
                && let Some(secrets) = client.secrets_mut()
            {
                secrets.extend_from_slice(before.secrets());
            }
            if client.certificates().is_empty()
                && let Some(certificates) = client.certificates_mut()
            {
                certificates.extend_from_slice(before.certificates());
            }
            let client = client.clone();
            let plan = self.plan(registrations, &registry).await?;
            self.carry_out(plan, &registry).await?;
            self.view(&client).await
        })
        .await
    }

    /// Removes a client; everything issued to it is revoked, at the edge too.
    ///
    /// # Errors
    /// [`AdminError::NotFound`].
    pub async fn delete_client(&self, client_id: &str) -> Result<(), AdminError> {
        self.changing(async |registry| {
            let mut plan = Plan::on(&registry);
            plan.remove_client(stored(&registry, client_id)?.client_id.clone());
            self.carry_out(plan, &registry).await?;
            Ok(())
        })
        .await
    }

    /// Adds a generated client secret; the one before goes on working until [`Self::end_old_secrets`].
    ///
    /// # Errors
    /// [`AdminError::Conflict`] when two are live, or the type has none.
    pub async fn add_secret(&self, client_id: &str) -> Result<ClientWithSecret, AdminError> {
        self.changing(async |registry| {
            let mut client = stored(&registry, client_id)?.as_ref().clone();
            if client.secrets().len() >= MOST_SECRETS {
                let message = format!(
                    "{client_id} has {MOST_SECRETS} live secrets: end the old one before you add another"
                );
                return Err(AdminError::Conflict(message));
            }
            let secret = self.add_generated(&mut client)?;
            self.replace(client.clone(), &registry).await?;
            self.with_secret(&client, Some(secret)).await
        })
        .await
    }

    /// Ends all secrets but the newest.
    ///
    /// # Errors
    /// [`AdminError::Conflict`] when there is no older one.
    pub async fn end_old_secrets(&self, client_id: &str) -> Result<ClientView, AdminError> {
        self.changing(async |registry| {
            let mut client = stored(&registry, client_id)?.as_ref().clone();
            match client.secrets_mut() {
                Some(secrets) if secrets.len() > 1 => {
                    secrets.drain(..secrets.len() - 1);
                }
                _ => {
                    let message = format!("{client_id} has no older secret");
                    return Err(AdminError::Conflict(message));
                }
            }
            self.replace(client.clone(), &registry).await?;
            self.view(&client).await
        })
        .await
    }

    /// Adds a certificate, PEM or DER, under `alias`.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] when it is not one that may verify assertions; [`AdminError::Conflict`] when alias or
    /// certificate are there already, or the client's type has none.
    pub async fn add_certificate(
        &self,
        client_id: &str,
        alias: &str,
        bytes: &[u8],
    ) -> Result<ClientView, AdminError> {
        self.changing(async |registry| {
            let mut client = stored(&registry, client_id)?.as_ref().clone();
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
            self.replace(client.clone(), &registry).await?;
            self.view(&client).await
        })
        .await
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
        self.changing(async |registry| {
            let mut client = stored(&registry, client_id)?.as_ref().clone();
            let before = client.certificates().len();
            if let Some(certificates) = client.certificates_mut() {
                certificates.retain(|certificate| certificate.alias != alias);
            }
            if client.certificates().len() == before {
                return Err(AdminError::not_found("certificate", alias));
            }
            self.replace(client.clone(), &registry).await?;
            self.view(&client).await
        })
        .await
    }

    fn read_client(
        &self,
        registration: Object,
        registry: &Registry,
    ) -> Result<Registrations, AdminError> {
        read_entry("clients", registration, registry, self.service.clock.now())
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

    async fn replace(&self, client: Client, registry: &Arc<Registry>) -> Result<(), AdminError> {
        let registrations = Registrations {
            clients: vec![client],
            client_places: BTreeMap::new(),
            users: Vec::new(),
            warnings: Vec::new(),
        };
        let plan = self.plan(registrations, registry).await?;
        self.carry_out(plan, registry).await?;
        Ok(())
    }

    async fn with_secret(
        &self,
        client: &Client,
        secret: Option<Zeroizing<String>>,
    ) -> Result<ClientWithSecret, AdminError> {
        Ok(ClientWithSecret {
            client: self.view(client).await?,
            client_secret: secret.map(|secret| secret.to_string()),
        })
    }
}

fn find<'r>(registry: &'r Registry, client_id: &str) -> Option<&'r Arc<Client>> {
    registry.any_client(&ClientId::parse(client_id)?)
}

fn stored(registry: &Registry, client_id: &str) -> Result<Arc<Client>, AdminError> {
    find(registry, client_id)
        .cloned()
        .ok_or_else(|| AdminError::not_found("client", client_id))
}

/// The client as a registration, without its secrets and certificates.
fn registration(client: &Client) -> Object {
    let mut registration = Object::new();
    let mut put = |key: &str, value: serde_json::Value| {
        registration.insert(key.to_owned(), value);
    };
    put("client_id", json!(client.client_id));
    put("name", json!(client.name));
    put("type", json!(client.integration.name()));
    put("enabled", json!(client.enabled));
    put("scopes", json!(client.scopes.tokens().collect::<Vec<_>>()));
    let redirect_uris = || -> Vec<String> {
        let uris = client.redirect_uris().iter();
        uris.map(ToString::to_string).collect()
    };
    match &client.integration {
        IntegrationType::WebServer { .. } | IntegrationType::Installed { .. } => {
            put("redirect_uris", json!(redirect_uris()));
        }
        IntegrationType::NonInteractive { organization, .. } => {
            put("organization", json!(organization));
        }
        IntegrationType::UserBound { bound_user, .. } => put("bound_user", json!(bound_user)),
        IntegrationType::Legacy {
            redirect_templates,
            hostname,
            ..
        } => {
            put("redirect_uris", json!(redirect_templates));
            put("hostname", json!(hostname));
        }
    }
    registration
}
