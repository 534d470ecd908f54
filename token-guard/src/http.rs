//! The two listeners: one for decisions for gateways, one for health and metrics for operators.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::http::{ConnectionType, StatusCode};
use actix_web::middleware::Next;
use actix_web::web::{self, Data};
use actix_web::{Error, HttpRequest, HttpResponse, HttpResponseBuilder};
use document::internal_host;
use guard::access_log;
use guard::answers::Answer;
use guard::denial_log::Denied;
use guard::parts::DPOP;
use guard::{Authorization, Effect, Fate, Request};
use process::Opener;
use serde_json::json;

use crate::handover::{self, Form, Misuse, Original};
use crate::metrics::{self, Metrics, OwnDenial};
use crate::settings::Settings;
use crate::worker::Worker;

/// Header of a decision that lets a request pass, with the data for the access log.
const ACCESS_LOG: &str = "x-token-filter";

/// Header of a decision with the names of the headers that Envoy's `ext_authz` removes from the request.
const ENVOY_REMOVES: &str = "x-envoy-auth-headers-to-remove";

const HEALTHZ: &str = "/healthz";
const READYZ: &str = "/readyz";

/// Headers of a folded refusal: the status and the body for the client.
const FOLDED_STATUS: &str = "x-token-guard-status";
const FOLDED_BODY: &str = "x-token-guard-body";

/// State for the requests of one worker.
pub(crate) struct State {
    pub(crate) worker: Rc<Worker>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) health: Data<Health>,
}

/// The routes of the listener for gateways. One service handles all paths, because [`handover`] compares them
/// byte for byte, but a router would decode them first.
pub(crate) fn routes(routes: &mut web::ServiceConfig, state: State) {
    routes
        .app_data(Data::new(state))
        .default_service(web::to(answer));
}

async fn answer(request: HttpRequest, state: Data<State>) -> HttpResponse {
    let mut response = decide(request, &state).await;
    if state.health.draining.get().is_some() {
        // This process does not serve the connection's next request.
        let head = response.head_mut();
        head.set_connection_type(ConnectionType::Close);
    }
    response
}

async fn decide(request: HttpRequest, state: &State) -> HttpResponse {
    let peer = request.peer_addr().map(|address| address.ip());
    if !peer.is_some_and(|peer| state.settings.trusts(peer)) {
        return refuse_peer(&request, &state.worker, peer);
    }
    let original = match handover::read(&request) {
        None => return other(&request, &state.worker),
        Some(Err(misuse)) => return refuse_handover(&request, &state.worker, misuse),
        Some(Ok(original)) => original,
    };
    let names = request.headers().keys().map(HeaderName::as_str);
    if let Some(name) = state.worker.respelled(names) {
        return refuse_handover(&request, &state.worker, Misuse::Spelling(name.into()));
    }
    let certificate = match &state.settings.client_certificate_header {
        None => Ok(None),
        Some(name) => handover::client_certificate(request.headers(), name.as_str()),
    };
    let certificate = match certificate {
        Ok(certificate) => certificate,
        Err(misuse) => return refuse_handover(&request, &state.worker, misuse),
    };
    let values = |name: &str| -> Vec<&[u8]> {
        let values = request.headers().get_all(name);
        values.map(HeaderValue::as_bytes).collect()
    };
    let (authorization, dpop) = (values(header::AUTHORIZATION.as_str()), values(DPOP));
    let Original {
        method,
        target,
        form,
    } = original;
    let asked = Request {
        method,
        target,
        authorization: &authorization,
        dpop: &dpop,
        connection: &certificate,
    };
    let effect = state.worker.decide(asked, request_id(&request)).await;
    match &effect.fate {
        Fate::Pass { add, authorization } => {
            let mut response = HttpResponse::Ok();
            // The gateway replaces both headers of the request with the headers of this response, or removes them.
            match authorization {
                Authorization::Withheld => {
                    append(&mut response, ENVOY_REMOVES, header::AUTHORIZATION.as_str());
                }
                Authorization::AsSent => {
                    repeat(&mut response, &request, header::AUTHORIZATION.as_str());
                }
                Authorization::AsBearer(value) => {
                    append(&mut response, header::AUTHORIZATION.as_str(), value);
                }
            }
            match authorization {
                Authorization::AsBearer(_) => append(&mut response, ENVOY_REMOVES, DPOP),
                Authorization::AsSent | Authorization::Withheld => {
                    repeat(&mut response, &request, DPOP);
                }
            }
            for header in add.iter() {
                append(&mut response, &header.0, &header.1);
            }
            if state.worker.tells_access_log() {
                append(&mut response, ACCESS_LOG, &entry(&effect));
            }
            response.finish()
        }
        // A response of 200 would let the request pass.
        Fate::Answer(answer) if answer.status < 300 => unrouted(form),
        Fate::Answer(answer) => refuse(answer, form),
    }
}

/// Repeats a header of the request in the response.
fn repeat(response: &mut HttpResponseBuilder, request: &HttpRequest, name: &'static str) {
    for value in request.headers().get_all(name) {
        response.append_header((name, value));
    }
}

fn entry(effect: &Effect) -> String {
    access_log::entry(effect.name(), effect.token.as_deref())
}

fn request_id(request: &HttpRequest) -> &[u8] {
    let id = request.headers().get("x-request-id");
    id.map_or(b"", HeaderValue::as_bytes)
}

fn append(response: &mut HttpResponseBuilder, name: &str, value: &str) {
    // The guard encodes every value in printable ASCII.
    if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
        response.append_header((name, value));
    }
}

fn refuse(answer: &Answer, form: Form) -> HttpResponse {
    let own = u16::try_from(answer.status)
        .ok()
        .and_then(|status| StatusCode::from_u16(status).ok())
        .unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let status = match form {
        Form::Plain => own,
        Form::Folded => StatusCode::FORBIDDEN,
    };
    let mut response = HttpResponse::build(status);
    for (name, value) in &answer.headers {
        append(&mut response, name, value);
    }
    if form == Form::Folded {
        append(&mut response, FOLDED_STATUS, own.as_str());
        append(&mut response, FOLDED_BODY, &answer.body);
    }
    response.body(answer.body.clone())
}

/// The gateway asks about the path of the metadata. It must pass such requests on to this program instead.
fn unrouted(form: Form) -> HttpResponse {
    let description = "The gateway does not route this path to token-guard";
    refuse(&Answer::error(404, "invalid_request", description), form)
}

fn refuse_handover(request: &HttpRequest, worker: &Worker, misuse: Misuse) -> HttpResponse {
    let description = misuse.description();
    let answer = Answer::error(400, "invalid_request", &description);
    let log = denied(request);
    worker.refuse(OwnDenial::Handover, misuse.reason(), answer.status, &log);
    let form = match request.uri().path() {
        handover::AUTH_REQUEST => Form::Folded,
        _ => Form::Plain,
    };
    refuse(&answer, form)
}

fn refuse_peer(request: &HttpRequest, worker: &Worker, peer: Option<IpAddr>) -> HttpResponse {
    let description = match peer {
        Some(peer) => format!("{peer} is not in --trusted-peers"),
        None => "The address of the peer is not known".to_owned(),
    };
    let answer = Answer::error(403, "access_denied", &description);
    let denial = OwnDenial::Peer;
    worker.refuse(denial, denial.into(), answer.status, &denied(request));
    refuse(&answer, Form::Plain)
}

/// Log data of a request for a decision itself, if the original request cannot be read.
fn denied(request: &HttpRequest) -> Denied<'_> {
    Denied {
        method: request.method().as_str().as_bytes(),
        target: request.uri().path().as_bytes(),
        request_id: request_id(request),
    }
}

/// Answers requests for the metadata of the resource, which gateways pass on without asking for a decision.
fn other(request: &HttpRequest, worker: &Worker) -> HttpResponse {
    let method = request.method().as_str().as_bytes();
    match worker.metadata(method, request.uri().path().as_bytes()) {
        Some(answer) => {
            let mut response = HttpResponse::Ok();
            for (name, value) in &answer.headers {
                append(&mut response, name, value);
            }
            response.body(answer.body)
        }
        None => refuse(
            &Answer::error(404, "not_found", "There is nothing at this path"),
            Form::Plain,
        ),
    }
}

/// State for the listener for operators.
pub(crate) struct Health {
    pub(crate) metrics: Metrics,
    pub(crate) workers: usize,
    /// Set after SIGTERM.
    pub(crate) draining: OnceLock<Opener>,
}

/// The middleware of the listener for operators: 421 (RFC 9110 §15.5.20) for a host that is not internal. Exempts health,
/// which contains nothing secret and which load balancers request under any name.
pub(crate) async fn check_host(
    settings: Data<Settings>,
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let is_health = [HEALTHZ, READYZ].contains(&request.path());
    let hosts = request.headers().get_all(header::HOST);
    let authority = request.uri().authority();
    let is_internal = internal_host::is_internal(
        hosts.map(HeaderValue::as_bytes),
        authority.map(|authority| authority.as_str()),
        &settings.internal_hosts,
    );
    if is_health || is_internal {
        return next.call(request).await;
    }
    let description = "The internal listener is asked for under a public host name; add the name to --internal-hosts, \
                       or ask for the address";
    let answer = Answer::error(421, "invalid_request", description);
    Ok(request.into_response(refuse(&answer, Form::Plain)))
}

pub(crate) fn internal_routes(routes: &mut web::ServiceConfig, health: &Data<Health>) {
    routes
        .app_data(health.clone())
        .route(HEALTHZ, web::get().to(healthz))
        .route(READYZ, web::get().to(readyz))
        .route("/metrics", web::get().to(metrics_text));
}

async fn healthz() -> HttpResponse {
    HttpResponse::Ok().json(json!({"status": "ok"}))
}

async fn readyz(health: Data<Health>) -> HttpResponse {
    let ready = health.metrics.ready_workers();
    let reason = if health.draining.get() == Some(&Opener::Program) {
        Some(("draining", "the program is stopping".to_owned()))
    } else if ready < health.workers {
        let of = health.workers;
        Some((
            "starting",
            format!("{ready} of {of} workers know the keys and revocations of an issuer"),
        ))
    } else {
        None
    };
    match reason {
        None => HttpResponse::Ok().json(json!({"status": "ready"})),
        Some((reason, description)) => HttpResponse::ServiceUnavailable()
            .insert_header((header::RETRY_AFTER, "1"))
            .insert_header((header::CACHE_CONTROL, "no-store"))
            .json(json!({"status": "not ready", "reason": reason, "description": description})),
    }
}

async fn metrics_text(health: Data<Health>) -> HttpResponse {
    HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, metrics::CONTENT_TYPE))
        .body(health.metrics.text())
}
