//! Requests that wait for keys, in Envoy with each form of the filter.

use std::net::TcpStream;
use std::sync::mpsc::Sender;

use serde_json::{Value, json};
use tempfile::TempDir;
use tests::{Artifacts, Form, Issuer, Process, Series, free_port, wire};

use super::{metric, serve};
use crate::api::until;
use crate::issuers::gate::{cluster, listener};
use crate::support::{get, late};

const AUDIENCE: &str = "https://api.example.com";

/// A [`late`] server of an issuer's keys.
fn keys(issuer: &Issuer) -> (u16, Sender<()>) {
    late(issuer.configuration(AUDIENCE)["jwks"].to_string())
}

/// Calls `test` for both forms at the same time: each waits most of its time.
fn in_both_forms(test: impl Fn(Form) + Sync) {
    std::thread::scope(|scope| {
        scope.spawn(|| test(Form::Native));
        test(Form::Wasm);
    });
}

/// Envoy with the filter, which gets the keys from this port. `more` are further members of the configuration.
struct Gateway {
    api: u16,
    admin: u16,
    envoy: Process,
    _folder: TempDir,
}

impl Gateway {
    fn start(form: Form, issuer: &Issuer, keys: u16, more: &[(&str, bool)]) -> Self {
        let artifacts = Artifacts::of(form).unwrap();
        let mut of_issuer = issuer.configuration(AUDIENCE);
        of_issuer["jwks"] = json!({"cluster": format!("at-{keys}"), "path": "/jwks"});
        let mut configuration = json!({"issuers": [of_issuer], "rules": [{"path_prefix": "/"}]});
        for (name, value) in more {
            configuration[*name] = json!(value);
        }
        let [api, admin] = [(); 2].map(|()| free_port().unwrap());
        let listener = listener(&artifacts, &configuration, api);
        let (envoy, _folder) = serve(&artifacts, &[listener], &json!([cluster(keys)]), admin);
        Self {
            api,
            admin,
            envoy,
            _folder,
        }
    }

    fn call(&self, path: &str, token: &str) -> crate::support::Reply {
        let bearer = format!("Bearer {token}");
        let url = format!("http://127.0.0.1:{}{path}", self.api);
        get(&url, &[("authorization", &bearer)])
    }

    fn waiting(&self) -> Option<u64> {
        metric(self.admin, "waiting")
    }

    /// Sends a request and does not wait for the answer.
    fn send(&self, token: &str) -> TcpStream {
        let request = format!(
            "GET /later HTTP/1.1\r\nhost: api\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
        );
        wire::begin(self.api, &request).unwrap()
    }

    /// Waits until as many requests wait, or the fetch has ended for which `first` of them waits.
    fn until_waiting(&self, count: u64, first: &TcpStream) {
        until("the requests wait", || {
            self.waiting() == Some(count) || is_answered(first)
        });
    }
}

fn is_answered(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    peeked.is_ok()
}

/// Attempts to send the keys before the fetch ends, which takes five seconds at most.
const ROUNDS: u8 = 20;

/// The status of the answer; `None` if the fetch had ended before the keys were sent.
fn status(mut stream: TcpStream) -> Option<u16> {
    let status = wire::answer(&mut stream).unwrap().status;
    (status != 503).then_some(status)
}

/// A request that ends before its turn is not answered, and those before and behind it are.
#[test]
fn a_request_that_has_ended_is_forgotten() {
    in_both_forms(|form| {
        let issuer = Issuer::new().unwrap();
        let token = issuer.token(AUDIENCE, &[]).unwrap();
        let round = || {
            let (port, told) = keys(&issuer);
            let gateway = Gateway::start(form, &issuer, port, &[]);
            let [first, reset, last] = [(); 3].map(|()| gateway.send(&token));
            gateway.until_waiting(3, &first);
            drop(reset);
            gateway.until_waiting(2, &first);
            drop(told);
            let statuses = [status(first)?, status(last)?];
            assert_eq!(statuses, [200; 2]);
            until("no request waits", || gateway.waiting() == Some(0));
            Some(())
        };
        (0..ROUNDS).find_map(|_| round()).unwrap();
    });
}

/// The alert about keys that a gateway has never read, with its metrics: a sample for each quarter of a minute.
#[test]
fn the_alert_about_missing_keys_fires_and_ends() {
    let issuer = Issuer::new().unwrap();
    let (port, told) = keys(&issuer);
    let gateway = Gateway::start(Form::Native, &issuer, port, &[]);
    let mut series = Series::of_rules(&Artifacts::find().unwrap().repository).unwrap();
    let url = format!("http://127.0.0.1:{}/stats/prometheus", gateway.admin);
    let metrics = || get(&url, &[]).body;
    let mut take = |are_missing: bool| {
        until("the gateway says so", || {
            let metrics = metrics();
            let mut lines = metrics.lines();
            let values = lines.find_map(|line| line.strip_prefix("token_filter_keys_missing{} "));
            values.is_some_and(|value| (value != "0") == are_missing)
        });
        series.take("envoy", "gateway", series.count(), Some(&metrics()));
        series.repeat(8);
    };
    take(true);
    drop(told);
    take(false);
    let firing = r#"count by (alertname) (ALERTS{alertstate="firing"})"#;
    let fires = json!([{"labels": r#"{alertname="TokenFilterWithoutKeys"}"#, "value": 1}]);
    let expected = json!([
        {"expr": firing, "eval_time": "45s", "exp_samples": []},
        {"expr": firing, "eval_time": "2m", "exp_samples": fires},
        {"expr": "ALERTS", "eval_time": "2m15s", "exp_samples": []},
    ]);
    let folder = TempDir::new().unwrap();
    series.expect(folder.path(), ("15s", 0), &expected).unwrap();
}

/// In report-only mode a refused request continues, but without its token where `forward_authorization` is `false`: at once, and
/// after its longest wait.
#[test]
fn a_filter_that_only_reports_withholds_the_token_too() {
    in_both_forms(|form| {
        let issuer = Issuer::new().unwrap();
        for forwards in [false, true] {
            let (port, _told) = keys(&issuer);
            let more = [("report_only", true), ("forward_authorization", forwards)];
            let gateway = Gateway::start(form, &issuer, port, &more);
            for token in ["nonsense", &issuer.token(AUDIENCE, &[]).unwrap()] {
                let reply = gateway.call("/", token);
                assert_eq!(reply.status, 200);
                let forwarded = reply.header("x-authorization").is_some();
                assert_eq!(forwarded, forwards, "{form:?} {token}");
            }
        }
    });
}

/// The log names each refused request, also a request that had to wait.
#[test]
fn a_denial_is_logged_with_method_and_path() {
    in_both_forms(|form| {
        let (issuer, other) = (Issuer::new().unwrap(), Issuer::new().unwrap());
        let round = || {
            let (port, told) = keys(&other);
            let gateway = Gateway::start(form, &issuer, port, &[]);
            assert_eq!(gateway.call("/at-once?of=the-query", "x").status, 401);
            let held = gateway.send(&issuer.token(AUDIENCE, &[]).unwrap());
            gateway.until_waiting(1, &held);
            drop(told);
            assert_eq!(status(held)?, 401);
            Some(gateway.envoy.end().unwrap())
        };
        let log = (0..ROUNDS).find_map(|_| round()).unwrap();
        let lines = log.lines().filter_map(|line| {
            let (_, json) = line.split_once('{')?;
            serde_json::from_str::<Value>(&format!("{{{json}")).ok()
        });
        let mut lines: Vec<Value> = lines.filter(|line| line["event"] == "denied").collect();
        for line in &mut lines {
            // Envoy draws it.
            let id = line.as_object_mut().unwrap().remove("request_id").unwrap();
            assert_eq!(id.as_str().unwrap().len(), 36, "{id}");
        }
        let line = |reason: &str, path: &str| {
            json!({
                "event": "denied", "reason": reason, "status": 401, "left_out": 0,
                "method": "GET", "path": path,
            })
        };
        let expected = [line("malformed", "/at-once"), line("signature", "/later")];
        assert_eq!(lines, expected, "{form:?}");
    });
}
