//! Tokens that are bound to a key (RFC 9449), at the filter in both its forms. `gateways::bound` has the tables of attacks.

use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;
use tests::proofs::ProofKey;
use tests::{Artifacts, Form, Issuer, Process, envoy, free_port};

use crate::issuers::gate::{address, listener};
use crate::support::{Reply, get};

const AUDIENCE: &str = "https://api.example.com";

/// The URL of [`Edge::url`] as clients know it: neither host nor path of the request have to be those.
const URL: &str = "https://api.example.com/v1/projects";

const FORMS: [Form; 2] = [Form::Wasm, Form::Native];

/// Envoy with one listener, whose answers contain the headers that the resource server would get.
struct Edge {
    port: u16,
    process: Process,
    _folder: TempDir,
}

impl Edge {
    fn start(form: Form, configuration: &Value, workers: u16) -> Self {
        let artifacts = Artifacts::of(form).unwrap();
        let [port, admin] = [(); 2].map(|()| free_port().unwrap());
        let listener = listener(&artifacts, configuration, port);
        let bootstrap = json!({
            "admin": {"address": address(admin)},
            "static_resources": {"listeners": [listener]},
        });
        let folder = TempDir::new().unwrap();
        let config = folder.path().join("envoy.json");
        std::fs::write(&config, bootstrap.to_string()).unwrap();
        let command = envoy::command(&artifacts, &config, workers);
        let log = folder.path().join("envoy.log");
        let mut process = Process::start("envoy", &command, &log).unwrap();
        let ready = format!("http://127.0.0.1:{admin}/ready");
        process
            .until("ready", || ureq::get(&ready).call().is_ok())
            .unwrap();
        Self {
            port,
            process,
            _folder: folder,
        }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/projects", self.port)
    }

    /// A request with this scheme, token and these proofs.
    fn call(&self, scheme: &str, token: &str, proofs: &[&str]) -> Reply {
        let authorization = format!("{scheme} {token}");
        let mut headers = vec![("authorization", authorization.as_str())];
        headers.extend(proofs.iter().map(|proof| ("dpop", *proof)));
        get(&self.url(), &headers)
    }
}

fn configuration(issuer: &Issuer) -> Value {
    json!({
        "issuers": [issuer.configuration(AUDIENCE)],
        "rules": [{"path_prefix": "/"}],
        "dpop": {"origins": ["https://api.example.com/v1"]},
    })
}

fn bound(issuer: &Issuer, confirmation: &Value) -> String {
    issuer
        .token(AUDIENCE, &[("cnf", confirmation.clone())])
        .unwrap()
}

/// A proof for `GET` at [`URL`].
fn prove(key: &ProofKey, token: &str) -> String {
    key.prove("GET", URL, Some(token)).unwrap()
}

/// Each of 40 connections, spread over four workers, sends the same proof: one request passes.
#[test]
fn rfc9449_s11_1_all_workers_together_accept_a_proof_once() {
    const SENDERS: usize = 40;
    let issuer = Issuer::new().unwrap();
    for form in FORMS {
        let edge = Edge::start(form, &configuration(&issuer), 4);
        let key = ProofKey::new("ES256").unwrap();
        let token = bound(&issuer, &key.confirmation());
        for _ in 0..3 {
            let proof = prove(&key, &token);
            let statuses: Vec<u16> = thread::scope(|scope| {
                let send = || edge.call("DPoP", &token, &[&proof]).status;
                let senders: Vec<_> = (0..SENDERS).map(|_| scope.spawn(send)).collect();
                let statuses = senders.into_iter().map(|sender| sender.join().unwrap());
                statuses.collect()
            });
            let passed = statuses.iter().filter(|status| **status == 200).count();
            let refused = statuses.iter().filter(|status| **status == 401).count();
            assert_eq!((passed, refused), (1, SENDERS - 1), "{form:?}");
        }
    }
}

#[test]
fn the_resource_server_gets_what_the_configuration_says() {
    let issuer = Issuer::new().unwrap();
    let key = ProofKey::new("EdDSA").unwrap();
    let token = bound(&issuer, &key.confirmation());
    for form in FORMS {
        for forwards in [json!(true), json!("bearer"), json!(false)] {
            let mut configuration = configuration(&issuer);
            configuration["forward_authorization"] = forwards.clone();
            let edge = Edge::start(form, &configuration, 1);
            let proof = prove(&key, &token);
            let reply = edge.call("DPoP", &token, &[&proof]);
            assert_eq!(reply.status, 200, "{form:?} {forwards}: {reply:?}");
            let (dpop, bearer) = (format!("DPoP {token}"), format!("Bearer {token}"));
            let expected = match forwards {
                Value::Bool(true) => (Some(dpop.as_str()), Some(proof.as_str())),
                Value::Bool(false) => (None, Some(proof.as_str())),
                _ => (Some(bearer.as_str()), None),
            };
            let received = (reply.header("x-authorization"), reply.header("x-proof"));
            assert_eq!(received, expected, "{form:?} {forwards}");
        }
    }
}

#[test]
fn a_gateway_without_origins_names_the_missing_configuration() {
    let issuer = Issuer::new().unwrap();
    let mut configuration = configuration(&issuer);
    configuration.as_object_mut().unwrap().remove("dpop");
    let key = ProofKey::new("EdDSA").unwrap();
    let token = bound(&issuer, &key.confirmation());
    for form in FORMS {
        let edge = Edge::start(form, &configuration, 1);
        let reply = edge.call("DPoP", &token, &[&prove(&key, &token)]);
        assert_eq!(reply.status, 401);
        assert_eq!(
            reply.header("www-authenticate"),
            Some("Bearer realm=\"api\"")
        );
        edge.call("Bearer", &token, &[])
            .assert_error(401, "invalid_token");
        let log = edge.process.end().unwrap();
        assert!(log.contains("\"reason\":\"dpop_not_configured\""), "{log}");
    }
}
