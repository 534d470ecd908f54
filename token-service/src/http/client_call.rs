//! A client's request to an endpoint with client authentication.

use std::cell::OnceCell;
use std::ops::AsyncFnOnce;

use actix_web::dev;
use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::web::{Bytes, Data, Payload};
use actix_web::{Error, FromRequest, HttpRequest, HttpResponse};
use claims::dpop;
use futures_util::future::LocalBoxFuture;

use super::{body, mutual_tls, origin};
use crate::service::{Moment, Service};
use crate::telemetry::audit_log::Origin;
use domain::clock::Timestamp;
use protocol::Context;
use protocol::oauth::client_authentication::claimed;
use protocol::oauth::endpoint_request::EndpointRequest;
use protocol::oauth::error::{ErrorCode, TokenError};
use protocol::oauth::refusal::{EndpointError, Refusal};
use protocol::oauth::secret_guesses;
use zeroize::Zeroizing;

/// The request with its complete body. If the body cannot be read, the client gets an error in the format of
/// protocol.md §2.4.
pub(super) struct ClientCall {
    pub(super) service: Data<Service>,
    http: HttpRequest,
    body: Bytes,
    /// Read once, when the body is complete.
    now: Timestamp,
    claimed: OnceCell<Vec<Zeroizing<String>>>,
}

impl FromRequest for ClientCall {
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Self, Error>>;

    fn from_request(http: &HttpRequest, payload: &mut dev::Payload) -> Self::Future {
        let service = Data::<Service>::extract(http);
        let payload = Payload::from_request(http, payload);
        let http = http.clone();
        Box::pin(async move {
            let service = service.await?;
            let body = body::read(payload.await?).await?;
            Ok(Self {
                now: service.clock.now(),
                claimed: OnceCell::new(),
                service,
                body,
                http,
            })
        })
    }
}

impl ClientCall {
    /// The parts of the request that the protocol reads.
    pub(super) fn request(&self) -> EndpointRequest<'_> {
        let headers = self.http.headers();
        EndpointRequest {
            authorization: headers
                .get_all(header::AUTHORIZATION)
                .map(|value| value.as_bytes())
                .collect(),
            dpop: headers
                .get_all(dpop::HEADER)
                .map(|value| value.as_bytes())
                .collect(),
            connection: mutual_tls::connection(&self.http, &self.service),
            content_type: headers
                .get(header::CONTENT_TYPE)
                .map(|value| value.as_bytes()),
            query: self.http.query_string(),
            body: &self.body,
        }
    }

    /// The Client IDs that a refused request may claim: see [`claimed::ids`]. Read once.
    pub(super) fn claimed_ids(&self) -> &[Zeroizing<String>] {
        self.claimed.get_or_init(|| {
            let request = self.request();
            claimed::ids(&request.authorization, request.body, request.query)
        })
    }

    /// Adds the nonce for the client's next DPoP proof (RFC 9449 §8), if the request has a proof or the refusal is about
    /// proofs.
    pub(super) fn offer_nonce(&self, response: &mut HttpResponse, refusal: Option<&Refusal>) {
        let is_about_proofs = |refusal: &Refusal| {
            matches!(
                refusal.code,
                ErrorCode::InvalidDpopProof | ErrorCode::UseDpopNonce
            )
        };
        let has_proof = self.http.headers().contains_key(dpop::HEADER);
        if !has_proof && !refusal.is_some_and(is_about_proofs) {
            return;
        }
        let key = self.service.encryption_key.nonce_key();
        if let Ok(nonce) = HeaderValue::try_from(key.nonce(self.now.seconds())) {
            let name = HeaderName::from_static(dpop::NONCE_HEADER);
            response.headers_mut().insert(name, nonce);
        }
    }

    pub(super) fn origin(&self) -> Origin {
        origin::of(&self.http)
    }

    /// Runs an endpoint that issues no tokens.
    pub(super) async fn answer<T, E: EndpointError>(
        &self,
        answer: impl AsyncFnOnce(&Context<'_>, &EndpointRequest<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.answer_at(&self.service.moment_at(self.now), answer)
            .await
    }

    /// Runs an endpoint that issues tokens, which needs up-to-date registrations.
    pub(super) async fn issue<T, E: EndpointError>(
        &self,
        answer: impl AsyncFnOnce(&Context<'_>, &EndpointRequest<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        match self.service.issuing_moment(self.now) {
            Ok(moment) => self.answer_at(&moment, answer).await,
            Err(error) => Err(TokenError::from(error).into()),
        }
    }

    /// Runs the endpoint, and counts a wrong client secret or client assertion.
    async fn answer_at<T, E: EndpointError>(
        &self,
        moment: &Moment,
        answer: impl AsyncFnOnce(&Context<'_>, &EndpointRequest<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let context = self.service.context(moment);
        let request = self.request();
        match answer(&context, &request).await {
            Err(error) => match error.token_error().filter(|error| error.is_guess()) {
                Some(guess) => {
                    let (guess, address) = (guess.clone(), origin::address(&self.http));
                    let claimed = self.claimed_ids().first().map_or("", |id| id.as_str());
                    let counted = secret_guesses::count_wrong(&context, claimed, address, guess);
                    Err(counted.await.into())
                }
                None => Err(error),
            },
            answer => answer,
        }
    }
}
