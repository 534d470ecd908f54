//! Identity providers of companies: a real one, and one that says what a test wants.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;
use tests::{Arrived, Artifacts, Process, SigningKey, free_port, response};
use url::form_urlencoded::parse;

use super::{form_body, now};

/// Client ID and secret of the service at both providers.
const CLIENT_ID: &str = "gatepass";
const CLIENT_SECRET: &str = "secret-of-the-test";

/// The entry of a provider in the configuration, with these further lines. `folder`: for the secret.
fn entry(id: &str, issuer: &str, folder: &TempDir, more: &str) -> String {
    let secret = folder.path().join("client-secret");
    std::fs::write(&secret, CLIENT_SECRET).unwrap();
    let secret = secret.display();
    format!(
        "\n[[identity_providers]]\nid = \"{id}\"\nissuer = \"{issuer}\"\nname = \"Company {id}\"\n\
         client_id = \"{CLIENT_ID}\"\nclient_secret_file = \"{secret}\"\n{more}\n"
    )
}

/// `oidc-provider`, at which people sign in with only their name: see `upstream_provider.mjs`. Several can run.
pub(crate) struct Company {
    id: String,
    issuer: String,
    folder: TempDir,
    _process: Process,
}

impl Company {
    /// The provider with this `id` in the configuration of the service at `lobby`. `people`: what it says about whom.
    pub(crate) fn start(lobby: &str, id: &str, people: &Value) -> Self {
        let repository = Artifacts::find().unwrap().repository;
        let folder = TempDir::new().unwrap();
        let port = free_port().unwrap();
        let redirect_uri = format!("{lobby}/auth/provider/{id}");
        let logout_uri = format!("{redirect_uri}/logout");
        let options =
            json!({"redirect_uri": redirect_uri, "logout_uri": logout_uri, "people": people});
        let mut command = Command::new(repository.join(".cache/node"));
        command
            .arg(repository.join("tests/clients/upstream_provider.mjs"))
            .args([port.to_string(), options.to_string()])
            .current_dir(folder.path());
        let log = folder.path().join("log");
        let mut process = Process::start("upstream-provider", &command, &log).unwrap();
        process.until_listening(port).unwrap();
        Self {
            id: id.to_owned(),
            issuer: format!("http://127.0.0.1:{port}"),
            folder,
            _process: process,
        }
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The entry in the configuration, with these further lines.
    pub(crate) fn entry(&self, more: &str) -> String {
        entry(&self.id, &self.issuer, &self.folder, more)
    }
}

/// A whole response, or none.
#[derive(Debug, Clone)]
pub(crate) enum Said {
    Json(Value),
    /// Status line, headers and body.
    Text(String),
    /// Nothing, until the test says something else.
    Nothing,
}

/// A provider that behaves well by itself, and otherwise as a test says: it signs everybody in at once, and its token endpoint returns
/// an ID token with the nonce of the last sign-in.
pub(crate) struct ScriptedProvider {
    issuer: String,
    folder: TempDir,
    shared: Arc<(Mutex<Script>, Condvar)>,
}

struct Script {
    issuer: String,
    keys: Vec<SigningKey>,
    answers: BTreeMap<String, Said>,
    /// Members of the next ID tokens' headers and claims. `null` removes a member.
    header: Value,
    claims: Value,
    nonce: String,
    requests: Vec<Arrived>,
}

impl ScriptedProvider {
    pub(crate) fn start() -> Self {
        let shared = Arc::new((
            Mutex::new(Script {
                issuer: String::new(),
                keys: vec![SigningKey::new("RS256").unwrap()],
                answers: BTreeMap::new(),
                header: json!({}),
                claims: json!({}),
                nonce: String::new(),
                requests: Vec::new(),
            }),
            Condvar::new(),
        ));
        let own = Arc::clone(&shared);
        let port = tests::serve("127.0.0.1", 0, move |request| answer(request, &own)).unwrap();
        let issuer = format!("http://127.0.0.1:{port}");
        shared.0.lock().unwrap().issuer.clone_from(&issuer);
        Self {
            issuer,
            folder: TempDir::new().unwrap(),
            shared,
        }
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The entry in the configuration, with these further lines.
    pub(crate) fn entry(&self, id: &str, more: &str) -> String {
        entry(id, &self.issuer, &self.folder, more)
    }

    /// Answers every request for `path` in this way: `/.well-known/openid-configuration`, `/jwks`, `/authorize`, `/token`.
    pub(crate) fn say(&self, path: &str, said: Said) {
        let (script, changed) = &*self.shared;
        let mut script = script.lock().unwrap();
        script.answers.insert(path.to_owned(), said);
        changed.notify_all();
    }

    /// Answers requests for `path` well again.
    pub(crate) fn recover(&self, path: &str) {
        let (script, changed) = &*self.shared;
        script.lock().unwrap().answers.remove(path);
        changed.notify_all();
    }

    /// Changes the ID tokens of the token endpoint. `null` removes a member.
    pub(crate) fn sign_with(&self, header: Value, claims: Value) {
        let mut script = self.shared.0.lock().unwrap();
        (script.header, script.claims) = (header, claims);
    }

    /// Signs with a new key from now on, and publishes only that.
    pub(crate) fn rotate(&self) {
        let mut script = self.shared.0.lock().unwrap();
        script.keys.push(SigningKey::new("RS256").unwrap());
    }

    /// A token with the present key, and these members in addition to the usual ones.
    pub(crate) fn sign(&self, header: &Value, claims: &Value) -> String {
        self.shared.0.lock().unwrap().sign(header, claims)
    }

    /// The requests so far for a path.
    pub(crate) fn requests(&self, path: &str) -> Vec<Arrived> {
        let script = self.shared.0.lock().unwrap();
        let requests = script.requests.iter();
        requests
            .filter(|request| path_of(request) == path)
            .cloned()
            .collect()
    }
}

fn path_of(request: &Arrived) -> &str {
    request.target.split('?').next().unwrap_or_default()
}

fn answer(request: &Arrived, (script, changed): &(Mutex<Script>, Condvar)) -> String {
    let path = path_of(request);
    let mut script = script.lock().unwrap();
    script.requests.push(request.clone());
    let waits = |script: &mut Script| matches!(script.answers.get(path), Some(Said::Nothing));
    script = changed.wait_while(script, waits).unwrap();
    match script.answers.get(path) {
        Some(Said::Text(text)) => text.clone(),
        Some(Said::Json(json)) => response("200 OK", JSON, &json.to_string()),
        Some(Said::Nothing) | None => script.well(path, request),
    }
}

const JSON: &str = "content-type: application/json\r\n";

impl Script {
    /// What a provider without faults answers.
    fn well(&mut self, path: &str, request: &Arrived) -> String {
        let issuer = &self.issuer;
        let json = match path {
            "/.well-known/openid-configuration" => json!({
                "issuer": issuer,
                "authorization_endpoint": format!("{issuer}/authorize"),
                "token_endpoint": format!("{issuer}/token"),
                "jwks_uri": format!("{issuer}/jwks"),
                "authorization_response_iss_parameter_supported": true,
            }),
            "/jwks" => json!({"keys": [self.jwk()]}),
            "/authorize" => return self.signed_in(request),
            "/token" => json!({
                "access_token": "an access token",
                "token_type": "Bearer",
                "id_token": self.sign(&self.header, &self.claims),
            }),
            _ => return response("404 Not Found", "", ""),
        };
        response("200 OK", JSON, &json.to_string())
    }

    fn kid(&self) -> String {
        format!("key-{}", self.keys.len())
    }

    fn jwk(&self) -> Value {
        let mut jwk = self.keys.last().unwrap().jwk();
        jwk["kid"] = json!(self.kid());
        jwk
    }

    /// Redirects the browser back, with a code.
    fn signed_in(&mut self, request: &Arrived) -> String {
        let query = request
            .target
            .split_once('?')
            .map_or("", |(_, query)| query);
        let sent: BTreeMap<_, _> = parse(query.as_bytes()).into_owned().collect();
        let of = |name: &str| sent.get(name).cloned().unwrap_or_default();
        self.nonce = of("nonce");
        let answer = form_body(&[
            ("code", "a-code"),
            ("state", &of("state")),
            ("iss", &self.issuer),
        ]);
        let location = format!("location: {}?{answer}\r\n", of("redirect_uri"));
        response("303 See Other", &location, "")
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let now = now();
        let with = |mut usual: Value, members: &Value| {
            let all = usual.as_object_mut().unwrap();
            all.extend(members.as_object().unwrap().clone());
            all.retain(|_, value| !value.is_null());
            usual
        };
        let header = with(json!({"alg": "RS256", "kid": self.kid()}), header);
        let usual = json!({
            "iss": self.issuer, "aud": CLIENT_ID, "sub": "sub-of-ada", "nonce": self.nonce,
            "iat": now, "exp": now + 300, "auth_time": now,
        });
        let key = self.keys.last().unwrap();
        key.sign(&header, &with(usual, claims)).unwrap()
    }
}
