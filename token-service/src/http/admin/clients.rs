//! `/admin/clients`, with secrets and certificates.

use actix_web::HttpRequest;
use actix_web::web::{self, Path, Payload};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use zeroize::Zeroizing;

use super::access::Administrator;
use super::answer::{self, AdminError, Answer, ErrorBody};
use super::objects::{self, Administered, ChangeQuery};
use super::{Administration, body};
use document::{InvalidDocument, Place, Problem};
use domain::client::ClientSecret;
use domain::random::Random;
use domain::{Certificate, Client, IntegrationType};
use registry::objects::ClientView;
use store::{Store, StoreError};

/// Maximum number of live secrets of a client: the old secret and its successor (D-21).
const MOST_SECRETS: usize = 2;

/// A client that was just made, or got a secret.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ClientWithSecret {
    /// The client.
    pub client: ClientView,
    /// Its new client secret, shown this once: 256 random bits behind the prefix `tscs_`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
}

impl Administered for Client {
    type Created = ClientWithSecret;

    fn generate(&mut self, random: &dyn Random) -> Result<Option<Zeroizing<String>>, AdminError> {
        let needs_secret = !matches!(
            self.integration,
            IntegrationType::Installed { .. } | IntegrationType::Legacy { .. }
        );
        let has_keys = !self.key_authentication.is_empty();
        if needs_secret && self.secrets().is_empty() && !has_keys {
            add_generated(self, random).map(Some)
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

    fn searched(&self) -> Vec<&str> {
        vec![&self.name]
    }

    async fn page(store: &dyn Store, after: String, limit: usize) -> Result<Vec<Self>, StoreError> {
        store.clients(after, limit).await
    }
}

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes
        .configure(objects::routes::<Client>)
        .service(
            web::resource("/clients/{client_id}/secrets")
                .route(web::post().to(add_secret))
                .route(web::delete().to(end_old_secrets)),
        )
        .service(
            web::resource("/clients/{client_id}/certificates/{alias}")
                .route(web::put().to(add_certificate))
                .route(web::delete().to(delete_certificate)),
        );
}

/// Adds a generated client secret. The previous one stays valid.
#[utoipa::path(post, path = "/admin/clients/{client_id}/secrets", tag = "clients",
    params(("client_id" = String, Path)),
    responses((status = 201, body = ClientWithSecret),
        (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
async fn add_secret(administrator: Administrator, client_id: Path<String>) -> Answer {
    answer::made(administrator.add_secret(&client_id).await?)
}

/// Which client secrets end.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct EndSecretsQuery {
    /// Remove the newest secret too: only for a client with keys.
    pub all: bool,
    /// Revoke everything that was issued to the client too. The client gets new tokens 15 seconds later.
    pub revoke: bool,
}

/// Removes all client secrets except the newest. Without `revoke`, what the client got with them stays valid.
#[utoipa::path(delete, path = "/admin/clients/{client_id}/secrets", tag = "clients",
    params(("client_id" = String, Path), EndSecretsQuery),
    responses((status = 200, body = ClientView), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody)))]
async fn end_old_secrets(
    administrator: Administrator,
    client_id: Path<String>,
    http: HttpRequest,
) -> Answer {
    let query = body::query::<EndSecretsQuery>(http.query_string())?;
    answer::ok(administrator.end_old_secrets(&client_id, &query).await?)
}

/// Adds a certificate, PEM or DER, under an alias that the client does not have yet.
#[utoipa::path(put, path = "/admin/clients/{client_id}/certificates/{alias}", tag = "clients",
    params(("client_id" = String, Path), ("alias" = String, Path)),
    request_body(content = String, content_type = "application/octet-stream"),
    responses((status = 200, body = ClientView), (status = 400, body = ErrorBody),
        (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
async fn add_certificate(
    administrator: Administrator,
    path: Path<(String, String)>,
    payload: Payload,
) -> Answer {
    let (client_id, alias) = path.into_inner();
    let bytes = body::bytes(payload).await?;
    let (view, ()) = administrator
        .edit(&client_id, ChangeQuery::default(), |client: &mut Client| {
            let certificate = Certificate::read(&alias, &bytes).map_err(|error| {
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
        })
        .await?;
    answer::ok(view)
}

/// What a removal revokes.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
struct RemovalQuery {
    /// Revoke everything that was issued to the client too. The client gets new tokens 15 seconds later.
    revoke: bool,
}

/// Removes a certificate. The service refuses assertions signed with its key from now on. Without `revoke`, what such
/// assertions got stays valid.
#[utoipa::path(delete, path = "/admin/clients/{client_id}/certificates/{alias}", tag = "clients",
    params(("client_id" = String, Path), ("alias" = String, Path), RemovalQuery),
    responses((status = 200, body = ClientView), (status = 404, body = ErrorBody)))]
async fn delete_certificate(
    administrator: Administrator,
    path: Path<(String, String)>,
    http: HttpRequest,
) -> Answer {
    let RemovalQuery { revoke } = body::query(http.query_string())?;
    let how = ChangeQuery {
        revoke,
        ..ChangeQuery::default()
    };
    let (client_id, alias) = path.into_inner();
    let (view, ()) = administrator
        .edit(&client_id, how, |client: &mut Client| {
            let before = client.certificates().len();
            if let Some(certificates) = client.certificates_mut() {
                certificates.retain(|certificate| certificate.alias != alias);
            }
            if client.certificates().len() == before {
                return Err(AdminError::not_found("certificate", &*alias));
            }
            Ok(())
        })
        .await?;
    answer::ok(view)
}

impl Administration {
    /// # Errors
    /// [`AdminError::Conflict`] if two secrets are live or the client's type has no secret.
    pub(crate) async fn add_secret(&self, client_id: &str) -> Result<ClientWithSecret, AdminError> {
        let how = ChangeQuery::default();
        let changed = self.edit(client_id, how, |client: &mut Client| {
            if client.secrets().len() >= MOST_SECRETS {
                let message = format!(
                    "{client_id} has {MOST_SECRETS} live secrets: end the old one before you add another"
                );
                return Err(AdminError::Conflict(message));
            }
            add_generated(client, &*self.service.random)
        });
        let (view, secret) = changed.await?;
        Ok(Client::created(view, Some(secret)))
    }

    /// # Errors
    /// [`AdminError::Conflict`] if the client has no secret that may end.
    pub(crate) async fn end_old_secrets(
        &self,
        client_id: &str,
        query: &EndSecretsQuery,
    ) -> Result<ClientView, AdminError> {
        let how = ChangeQuery {
            revoke: query.revoke,
            ..ChangeQuery::default()
        };
        let changed = self.edit(client_id, how, |client: &mut Client| {
            let has_keys = !client.key_authentication.is_empty();
            match client.secrets_mut() {
                Some(secrets) if query.all => {
                    if !has_keys {
                        let message = format!(
                            "{client_id} has no keys: without a secret it could not authenticate"
                        );
                        return Err(AdminError::Conflict(message));
                    }
                    if secrets.is_empty() {
                        let message = format!("{client_id} has no secret");
                        return Err(AdminError::Conflict(message));
                    }
                    secrets.clear();
                    Ok(())
                }
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
}

fn add_generated(
    client: &mut Client,
    random: &dyn Random,
) -> Result<Zeroizing<String>, AdminError> {
    let client_id = client.client_id.to_string();
    let Some(secrets) = client.secrets_mut() else {
        let message = format!("{client_id} is a public client: it has no secret");
        return Err(AdminError::Conflict(message));
    };
    let (text, secret) = ClientSecret::generate(random)?;
    secrets.push(secret);
    Ok(text)
}
