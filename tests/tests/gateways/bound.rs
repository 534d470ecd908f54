//! Bound tokens (RFC 9449, RFC 8705): a table of attacks with proofs and certificates.

mod rows;

use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::dpop::NonceKey;
use serde_json::{Value, json};
use tests::gateways::{Gateway, Kind, TokenGuard};
use tests::proofs::SHARE;
use tests::tls::{self, Identity};
use tests::{Answer, Arrived, Issuer, Upstream, http2, wire};

use self::rows::{Client, Fate, Row, Shown};
use super::handover::certificate_header;
use super::{at_every_gateway, neighbours, ready_guard};
use crate::support::{now, pair};

/// Where clients reach the API, as the guard's configuration says.
const ORIGIN: &str = "https://api.example.com";

/// An issuer whose tokens need a proof with a nonce.
const STRICT: &str = "https://strict.test";

/// The key of the guard's nonces.
const NONCE_KEY: [u8; 32] = [3; 32];

/// The guard's configuration, with two issuers whose tokens the tests sign.
fn configuration(issuer: &Issuer, audience: &str, forward_authorization: Value) -> String {
    let mut configuration: Value = serde_json::from_str(&super::configuration(issuer)).unwrap();
    configuration["dpop"] = json!({
        "origins": [ORIGIN], "nonce_key": URL_SAFE_NO_PAD.encode(NONCE_KEY),
    });
    configuration["forward_authorization"] = forward_authorization;
    let mut strict = issuer.configuration(audience);
    strict["issuer"] = json!(STRICT);
    strict["sender_constrained"] = json!("required");
    strict["dpop_nonce"] = json!("required");
    let issuers = configuration["issuers"].as_array_mut().unwrap();
    issuers.push(strict);
    configuration.to_string()
}

/// A gateway that knows bound tokens, and everything around it.
struct Bound {
    kind: Kind,
    issuer: Issuer,
    audience: String,
    upstream: Upstream,
    gateway: Gateway,
    _guard: TokenGuard,
    server: Option<Identity>,
    version: Version,
    tests: AtomicUsize,
}

/// The version of HTTP that clients speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Http1,
    Http2,
}

impl Version {
    /// Replacements in a gateway's configuration that make it speak this version.
    const fn changes(self, kind: Kind) -> &'static [(&'static str, &'static str)] {
        match (self, kind) {
            (Self::Http2, Kind::Nginx | Kind::DebianNginx) => {
                &[("listen 127.0.0.1:8080", "listen 127.0.0.1:8080 http2")]
            }
            (Self::Http2, Kind::Caddy) => &[("servers {", "servers {\n\t\tprotocols h1 h2 h2c")],
            _ => &[],
        }
    }
}

impl Bound {
    /// Starts a gateway, with TLS if `server` is its identity.
    fn start(
        kind: Kind,
        version: Version,
        server: Option<Identity>,
        forward_authorization: Value,
    ) -> Self {
        let issuer = Issuer::new().unwrap();
        let audience = pair().api_url();
        let configuration = configuration(&issuer, &audience, forward_authorization);
        let upstream = Upstream::start(true).unwrap();
        let header = certificate_header(kind);
        let arguments = ["--client-certificate-header", header];
        let arguments = if server.is_some() {
            &arguments[..]
        } else {
            &[]
        };
        let guard = ready_guard(&configuration, arguments);
        let neighbours = neighbours(&guard, &configuration, upstream.port());
        let changes = version.changes(kind);
        let gateway = match &server {
            Some(server) => Gateway::start_with_tls(kind, &neighbours, changes, server),
            None => Gateway::start(kind, &neighbours, changes),
        };
        Self {
            kind,
            issuer,
            audience,
            upstream,
            gateway: gateway.unwrap(),
            _guard: guard,
            server,
            version,
            tests: AtomicUsize::new(0),
        }
    }

    fn client(&self) -> Client<'_> {
        Client::new(&self.issuer, &self.audience)
    }

    fn ask(&self, row: &Row, shown: Option<&Identity>) -> (Option<Answer>, Option<Arrived>) {
        let test = format!("bound-{}", self.tests.fetch_add(1, Ordering::Relaxed));
        let close = match row.headers.contains("Connection:") {
            true => "",
            false => "Connection: close\r\n",
        };
        let request = format!(
            "{} {} HTTP/1.1\r\nHost: {}\r\nX-Test: {test}\r\n{close}{}\r\n{}",
            row.method, row.target, row.host, row.headers, row.body
        );
        let port = self.gateway.port();
        let answer = match (self.version, &self.server) {
            (Version::Http1, Some(server)) => tls::send(port, server, shown, &request),
            (Version::Http1, None) => wire::send(port, &request).map_err(Into::into),
            (Version::Http2, server) => http2::send(port, server.as_ref(), shown, &request),
        };
        (answer.unwrap(), self.upstream.arrived(&test))
    }

    /// Sends the requests, and returns a line for each with another fate.
    fn differences<'r>(
        &self,
        rows: impl IntoIterator<Item = (&'r Row, Option<&'r Identity>)>,
    ) -> Vec<String> {
        let mut differences = Vec::new();
        for (row, shown) in rows {
            // HTTP/2 has no such header (RFC 9113 §8.2.2).
            if self.version == Version::Http2 && row.headers.contains("Connection:") {
                continue;
            }
            let (answer, arrived) = self.ask(row, shown);
            if let Err(difference) = self.judge(row, answer.as_ref(), arrived.as_ref()) {
                differences.push(format!(
                    "{}, {}: {difference}; expected {:?}; answered {answer:?}; arrived: {arrived:?}",
                    self.kind.name(),
                    row.name,
                    row.fate,
                ));
            }
        }
        differences
    }

    fn judge(
        &self,
        row: &Row,
        answer: Option<&Answer>,
        arrived: Option<&Arrived>,
    ) -> Result<(), String> {
        match (row.fate, arrived) {
            (Fate::Passes | Fate::Judged, Some(arrived)) => {
                if answer.is_none_or(|answer| answer.status != 200) {
                    return Err("it arrived and was refused".to_owned());
                }
                self.passed(row, arrived)
            }
            (Fate::Passes, None) => Err("it did not arrive".to_owned()),
            (Fate::Refused(_) | Fate::Closed, Some(_)) => Err("it arrived".to_owned()),
            (Fate::Refused(error), None) => refused(answer.ok_or("no answer")?, error),
            (Fate::Closed | Fate::Judged, None) => {
                let status = answer.map_or(400, |answer| answer.status);
                let is_refused = [400, 401, 403, 431].contains(&status);
                is_refused.then_some(()).ok_or("another status".to_owned())
            }
        }
    }

    /// The resource server sees the identity of the token, and the proof that the guard has seen, if any.
    fn passed(&self, row: &Row, arrived: &Arrived) -> Result<(), String> {
        if arrived.values("x-user-id") != ["17"] {
            return Err("another identity".to_owned());
        }
        if !arrived
            .values("x-token-guard-client-certificate")
            .is_empty()
        {
            return Err("the word of the gateway arrived, or that of the client".to_owned());
        }
        let lines = row.headers.lines().filter_map(|line| line.split_once(": "));
        let sent = |name: &str| -> Vec<&str> {
            let named = lines
                .clone()
                .filter(|(other, _)| other.eq_ignore_ascii_case(name));
            named.map(|(_, value)| value).collect()
        };
        let (authorization, proofs) = (arrived.values("authorization"), arrived.values("dpop"));
        if self.server.is_some() {
            let token = sent("authorization").concat();
            let token = token.rsplit(' ').next().unwrap_or_default();
            let is_bearer = authorization == [format!("Bearer {token}")] && proofs.is_empty();
            return is_bearer
                .then_some(())
                .ok_or("it is not a bearer token".to_owned());
        }
        let is_same = authorization == sent("authorization")
            && proofs.len() <= 1
            && proofs.first() == sent("dpop").first();
        is_same
            .then_some(())
            .ok_or("other credentials arrived".to_owned())
    }
}

/// The answer of the guard, whole (RFC 9449 §7.1, §8; RFC 6750 §3).
fn refused(answer: &Answer, error: &str) -> Result<(), String> {
    if answer.status != 401 {
        return Err("another status".to_owned());
    }
    let told = format!("\"error\":\"{error}\"");
    if !answer.body.replace(' ', "").contains(&told) {
        return Err("another error".to_owned());
    }
    let challenges = answer.values("www-authenticate");
    let [challenge] = challenges[..] else {
        return Err(format!("{} challenges", challenges.len()));
    };
    for part in [
        "DPoP algs=\"ES256 EdDSA\"",
        "Bearer realm=\"api\"",
        &format!("error=\"{error}\""),
    ] {
        if !challenge.contains(part) {
            return Err(format!("a challenge without {part}"));
        }
    }
    if error == "use_dpop_nonce" && answer.values("dpop-nonce").len() != 1 {
        return Err("no nonce".to_owned());
    }
    Ok(())
}

/// RFC 9449 §4.3, §7, §11.1.
#[test]
fn rfc9449_s7_the_table_of_proofs_holds_at_every_gateway() {
    at_every_gateway(|kind| table_of_proofs(kind, Version::Http1));
}

#[test]
fn rfc9449_s7_the_table_of_proofs_holds_over_http2_at_every_gateway() {
    at_every_gateway(|kind| table_of_proofs(kind, Version::Http2));
}

/// In the form that `FILTER` names.
#[forms::each]
fn envoy_with_the_filter_keeps_the_tables_of_bound_tokens() {
    let mut found = Vec::new();
    for version in [Version::Http1, Version::Http2] {
        found.extend(table_of_proofs(Kind::EnvoyFilter, version));
        found.extend(table_of_certificates(Kind::EnvoyFilter, version));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

fn table_of_proofs(kind: Kind, version: Version) -> Vec<String> {
    let bound = Bound::start(kind, version, None, json!(true));
    let client = bound.client();
    let mut rows = client.proofs();
    rows.extend(client.urls(bound.gateway.port()));
    let mut found = bound.differences(rows.iter().map(|row| (row, None)));
    found.extend(used_once(&bound));
    found.extend(with_nonces(&bound));
    found.extend(beside_a_flood(&bound));
    found
}

/// A proof is accepted once by all workers together, also if several get it at the same time.
fn used_once(bound: &Bound) -> Vec<String> {
    let good = bound.client().good();
    let passed = std::thread::scope(|scope| {
        let asked = [(); 16].map(|()| scope.spawn(|| bound.ask(&good, None)));
        let arrived = asked.map(|thread| thread.join().unwrap().1.is_some());
        arrived.into_iter().filter(|arrived| *arrived).count()
    });
    let again = Row {
        name: "a proof that was used".to_owned(),
        fate: Fate::Refused("invalid_dpop_proof"),
        ..good
    };
    let mut found = bound.differences([(&again, None); 4]);
    if passed != 1 {
        let name = bound.kind.name();
        found.push(format!("{name}: one proof was accepted {passed} times"));
    }
    found
}

/// The client gets the nonce for its next proof, and a proof with this nonce passes. Nonces of a day ago do not, and neither do
/// nonces of another key.
fn with_nonces(bound: &Bound) -> Vec<String> {
    let client = bound.client();
    let mut found = bound.differences([(&client.strict(None), None)]);
    let (answer, _) = bound.ask(&client.strict(None), None);
    let nonce = answer.and_then(|answer| {
        answer
            .values("dpop-nonce")
            .first()
            .map(|nonce| (*nonce).to_owned())
    });
    let Some(nonce) = nonce else {
        found.push(format!("{}: no nonce", bound.kind.name()));
        return found;
    };
    let yesterday = NonceKey::new(NONCE_KEY).nonce(now() - 86_400);
    let foreign = NonceKey::new([7; 32]).nonce(now());
    let wrong = [&yesterday, &foreign].map(|nonce| Row {
        fate: Fate::Refused("use_dpop_nonce"),
        ..client.strict(Some(nonce))
    });
    let rows = [client.strict(Some(&nonce))].into_iter().chain(wrong);
    found.extend(bound.differences(rows.collect::<Vec<_>>().iter().map(|row| (row, None))));
    found
}

/// A client's flood of proofs for one place of the memory gets no more than its share of the place, and takes nothing from
/// another client.
fn beside_a_flood(bound: &Bound) -> Vec<String> {
    let (flood, quiet) = (bound.client(), bound.client());
    let mut rows = flood.crowded(SHARE + 8);
    for row in rows.iter_mut().skip(SHARE) {
        row.fate = Fate::Refused("use_dpop_nonce");
    }
    std::thread::scope(|scope| {
        let flood = scope.spawn(|| bound.differences(rows.iter().map(|row| (row, None))));
        let quiet = quiet.crowded(SHARE);
        let mut found = bound.differences(quiet.iter().map(|row| (row, None)));
        found.extend(flood.join().unwrap());
        found
    })
}

/// RFC 8705 §3: the certificate of the connection, and no word of the client about it. The resource server receives bearer
/// tokens, and no proof.
#[test]
fn rfc8705_s3_the_table_of_certificates_holds_at_every_gateway() {
    at_every_gateway(|kind| table_of_certificates(kind, Version::Http1));
}

#[test]
fn rfc8705_s3_the_table_of_certificates_holds_over_http2_at_every_gateway() {
    at_every_gateway(|kind| table_of_certificates(kind, Version::Http2));
}

fn table_of_certificates(kind: Kind, version: Version) -> Vec<String> {
    let [own, other] = [(); 2].map(|()| Identity::new().unwrap());
    let server = Identity::new().unwrap();
    let bound = Bound::start(kind, version, Some(server), json!("bearer"));
    let rows = bound.client().certificates(&own, &other);
    let rows = rows.iter().map(|(row, shown)| {
        let shown = shown.map(|shown| match shown {
            Shown::Own => &own,
            Shown::Other => &other,
        });
        (row, shown)
    });
    bound.differences(rows)
}
