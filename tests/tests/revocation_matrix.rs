//! Every kind of revocation, against every kind of token (D-28): the API refuses the token, introspection calls it
//! inactive, a refresh fails, and tokens of other users and clients stay valid.

use std::cell::Cell;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::api::until;
use crate::support::{Assertion, Browser, Client, Instance, OwnPair, Reply, answered, now};
use crate::token::claims;

const SECRET: &str = "a-secret-that-only-these-tests-use";
const PASSWORD: &str = "a-password-that-only-these-tests-use";
const CALLBACK: &str = "https://app.example.com/callback";
const SITE: &str = "https://us1.example.com";
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Refreshed,
    JwtBearer,
    ClientCredentials,
    Legacy,
    EarlyAccess,
}

/// A token and what belongs to it.
#[derive(Debug, Clone)]
struct Token {
    kind: Kind,
    user: &'static str,
    client: Client,
    access: String,
    refresh: Option<String>,
}

impl Token {
    fn grant_id(&self) -> String {
        claims(&self.access)["grant_id"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}

const fn client(id: &'static str) -> Client {
    Client {
        id,
        secret: Some(SECRET),
        redirect_uri: CALLBACK,
    }
}

/// One client of each kind for the user, and others for bystanders.
const WEB: [Client; 2] = [client("web-1"), client("web-2")];
const BATCH: [Client; 2] = [client("batch-1"), client("batch-2")];
const BOUND: [Client; 2] = [client("bound-1"), client("bound-2")];
const LEGACY: [Client; 2] = [client("old-1"), client("old-2")];

/// The user whose tokens are revoked, and a bystander. The bystander's username equals the user's User ID, so that code
/// that confuses the two kinds of names revokes the wrong tokens.
const USERS: [&str; 2] = ["4712", "4711"];
const USER_IDS: [&str; 2] = ["4711", "9999"];

struct Trial {
    pair: OwnPair,
    tokens: Vec<Token>,
}

impl Trial {
    fn start() -> Self {
        let mut trial = Self {
            pair: OwnPair::with_early_access(),
            tokens: vec![],
        };
        // No file manages these clients and users.
        let registrations = registrations();
        for path in ["/users", "/clients"] {
            for object in registrations[&path[1..]].as_array().unwrap() {
                let object = object.to_string();
                trial.pair.change("POST", path, &object);
                let reply = trial.pair.administrate_early_access("POST", path, &object);
                assert_eq!(reply.status, 201, "{}", reply.body);
            }
        }
        for (user, client) in [(0, 0), (0, 1), (1, 0)] {
            trial.issue(user, client);
        }
        trial.issue_bound(0);
        trial.issue_bound(1);
        let early_access = trial.pair.pair.lobby_ea_url();
        let reply = code(&early_access, USERS[0], &WEB[0]);
        trial.keep(Kind::EarlyAccess, USERS[0], WEB[0], &reply);
        for token in &trial.tokens {
            trial.assert_lives(token);
        }
        trial
    }

    fn keep(&mut self, kind: Kind, user: &'static str, client: Client, reply: &Reply) {
        assert_eq!(reply.status, 200, "{kind:?} {user}: {}", reply.body);
        let refresh = reply.json()["refresh_token"].as_str().map(str::to_owned);
        self.tokens.push(Token {
            kind,
            user,
            client,
            access: reply.text("access_token"),
            refresh,
        });
    }

    /// A token of each kind that any user may have.
    fn issue(&mut self, user: usize, client: usize) {
        let (lobby, name) = (self.pair.lobby(), USERS[user]);
        let reply = code(&lobby, name, &WEB[client]);
        self.keep(Kind::Code, name, WEB[client], &reply);
        let first = code(&lobby, name, &WEB[client]).text("refresh_token");
        let reply = WEB[client].refresh(&lobby, &first);
        self.keep(Kind::Refreshed, name, WEB[client], &reply);
        let reply = bearer(&lobby, name, &BATCH[client], &[]);
        self.keep(Kind::JwtBearer, name, BATCH[client], &reply);
        let code = self.legacy().code_of(name, PASSWORD, &LEGACY[client]);
        let reply = self.legacy().exchange(&LEGACY[client], &code);
        self.keep(Kind::Legacy, name, LEGACY[client], &reply);
    }

    fn issue_bound(&mut self, user: usize) {
        let fields = [("grant_type", "client_credentials")];
        let reply = BOUND[user].token(&self.pair.lobby(), &fields);
        self.keep(Kind::ClientCredentials, USERS[user], BOUND[user], &reply);
    }

    fn legacy(&self) -> Instance {
        Instance::of(&self.pair.pair)
    }

    fn refresh(&self, token: &Token) -> Option<Reply> {
        let refresh = token.refresh.as_deref()?;
        Some(match token.kind {
            Kind::Legacy => self.legacy().refresh(&token.client, refresh),
            Kind::EarlyAccess => token
                .client
                .refresh(&self.pair.pair.lobby_ea_url(), refresh),
            _ => token.client.refresh(&self.pair.lobby(), refresh),
        })
    }

    fn introspect(&self, token: &Token, text: &str) -> Value {
        let lobby = match token.kind {
            Kind::EarlyAccess => self.pair.pair.lobby_ea_url(),
            _ => self.pair.lobby(),
        };
        let fields = [("token", text)];
        let reply = token.client.post(&lobby, "/auth/introspect", &fields);
        // A disabled or removed client cannot introspect.
        if reply.status == 401 {
            return json!({"active": false});
        }
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.json()
    }

    #[track_caller]
    fn assert_lives(&self, token: &Token) {
        assert_eq!(self.pair.call(&token.access), 200, "{token:?}");
        let introspection = self.introspect(token, &token.access);
        assert_eq!(introspection["active"], true, "{token:?}");
        assert_eq!(introspection["username"], token.user, "{token:?}");
        assert_eq!(introspection["client_id"], token.client.id, "{token:?}");
        if let Some(refresh) = &token.refresh {
            assert_eq!(self.introspect(token, refresh)["active"], true, "{token:?}");
        }
    }

    #[track_caller]
    fn assert_ended(&self, token: &Token) {
        let introspection = self.introspect(token, &token.access);
        assert_eq!(introspection, json!({"active": false}), "{token:?}");
        until(&format!("{token:?}"), || {
            self.pair.call(&token.access) == 401
        });
    }

    #[track_caller]
    fn assert_no_refresh(&self, token: &Token) {
        if let Some(refresh) = &token.refresh {
            let introspection = self.introspect(token, refresh);
            assert_eq!(introspection, json!({"active": false}), "{token:?}");
        }
        if let Some(reply) = self.refresh(token) {
            assert!(
                matches!(reply.status, 400 | 401),
                "{token:?}: {}",
                reply.body
            );
        }
    }

    /// Asserts that the tokens that `ends` names have ended, with their refresh tokens, and no others.
    #[track_caller]
    fn assert_ends(&self, ends: impl Fn(&Token) -> bool) {
        let (ended, living): (Vec<_>, Vec<_>) = self.tokens.iter().partition(|token| ends(token));
        assert!(!ended.is_empty() && !living.is_empty());
        for token in ended {
            self.assert_ended(token);
            self.assert_no_refresh(token);
        }
        for token in living {
            self.assert_lives(token);
            if let Some(reply) = self.refresh(token) {
                assert_eq!(reply.status, 200, "{token:?}: {}", reply.body);
            }
        }
    }
}

fn registrations() -> Value {
    let certificate = "demo/non-interactive-demo.cert.pem";
    let repository = tests::Artifacts::find().unwrap().repository;
    let pem = std::fs::read_to_string(repository.join(certificate)).unwrap();
    let users: Vec<Value> = USERS
        .iter()
        .zip(USER_IDS)
        .map(|(name, id)| {
            json!({
                "username": name, "password": PASSWORD,
                "accounts": [{"user_id": id, "username": "someone", "site": SITE}],
            })
        })
        .collect();
    let of = |clients: &[Client; 2], kind: &str, more: Value| -> Vec<Value> {
        let registration = |client: &Client| {
            let mut registration = more.clone();
            for (key, value) in [
                ("client_id", client.id),
                ("name", client.id),
                ("type", kind),
                ("client_secret", SECRET),
            ] {
                registration[key] = json!(value);
            }
            registration
        };
        clients.iter().map(registration).collect()
    };
    let (scopes, redirects) = (["projects"], [CALLBACK]);
    let web = json!({"scopes": scopes, "redirect_uris": redirects});
    let certificates = json!([{"alias": "demo-2020", "pem": pem}]);
    let batch = json!({"scopes": scopes, "certificates": certificates});
    let mut bound = of(&BOUND, "user_bound", json!({"scopes": scopes}));
    for (client, user) in bound.iter_mut().zip(USERS) {
        client["bound_user"] = json!(user);
    }
    let legacy = json!({"redirect_uris": redirects});
    let clients = [
        of(&WEB, "web_server", web),
        of(&BATCH, "non_interactive", batch),
        bound,
        of(&LEGACY, "legacy", legacy),
    ]
    .concat();
    json!({"users": users, "clients": clients})
}

/// The tokens of a code.
fn code(lobby: &str, user: &str, client: &Client) -> Reply {
    let browser = Browser::new(lobby);
    let page = browser.authorize(&client.request(&[]));
    let done = browser.sign_in(&page, user, PASSWORD);
    let code = answered(&done, CALLBACK, "code").unwrap();
    client.exchange(lobby, &code, None)
}

fn bearer(lobby: &str, user: &str, client: &Client, account: &[(&str, &str)]) -> Reply {
    let assertion = Assertion::of(user).with("iss", json!(client.id)).sign();
    client.assert(lobby, &assertion, account)
}

fn of_the_subject(token: &Token) -> bool {
    token.user == USERS[0] && token.kind != Kind::EarlyAccess
}

#[forms::each]
fn disabling_a_user() {
    let trial = Trial::start();
    trial
        .pair
        .done(&format!("user update {} --disable", USERS[0]));
    trial.assert_ends(of_the_subject);
}

/// The bystander of the other tests: its name is the subject's User ID, which the subject's legacy tokens have as
/// `sub`.
#[forms::each]
fn disabling_a_user_whose_name_is_a_user_id() {
    let trial = Trial::start();
    trial
        .pair
        .done(&format!("user update {} --disable", USERS[1]));
    trial.assert_ends(|token| token.user == USERS[1]);
}

#[forms::each]
fn removing_a_user() {
    let trial = Trial::start();
    // A user to whom a client is bound cannot be removed.
    trial.pair.done(&format!("client remove {}", BOUND[0].id));
    trial.pair.done(&format!("user remove {}", USERS[0]));
    trial.assert_ends(of_the_subject);
}

#[forms::each]
fn disabling_and_removing_clients() {
    let trial = Trial::start();
    for client in [WEB[0], BATCH[0], BOUND[0]] {
        trial
            .pair
            .done(&format!("client update {} --disable", client.id));
    }
    for client in [LEGACY[0], WEB[1], BATCH[1]] {
        trial.pair.done(&format!("client remove {}", client.id));
    }
    trial.assert_ends(|token| {
        let client = token.client.id;
        token.kind != Kind::EarlyAccess && client != LEGACY[1].id && client != BOUND[1].id
    });
}

#[forms::each]
fn unlinking_an_account() {
    let mut trial = Trial::start();
    let other = "5000,someone.else,https://eu1.example.com";
    trial
        .pair
        .done(&format!("user link {} --account {other}", USERS[0]));
    let lobby = trial.pair.lobby();
    let account = [
        ("user_id", "5000"),
        ("user_site", "https://eu1.example.com"),
    ];
    let reply = bearer(&lobby, USERS[0], &BATCH[0], &account);
    trial.keep(Kind::JwtBearer, USERS[0], BATCH[0], &reply);
    let grant = ("grant_type", "client_credentials");
    let reply = BOUND[0].token(&lobby, &[&[grant], &account[..]].concat());
    trial.keep(Kind::ClientCredentials, USERS[0], BOUND[0], &reply);
    trial.pair.done(&format!(
        "user unlink {} {} {}",
        USERS[0], USER_IDS[0], SITE
    ));
    trial.assert_ends(|token| of_the_subject(token) && claims(&token.access)["user_id"] != "5000");
}

/// A new password revokes the user's authorizations, but not tokens that a client got with its own credentials.
#[forms::each]
fn a_new_password() {
    let trial = Trial::start();
    let change = ["user", "update", USERS[0], "--password-file", "-"];
    trial.pair.operate(&change, "another-password\n").done();
    trial.assert_ends(|token| {
        of_the_subject(token) && matches!(token.kind, Kind::Code | Kind::Refreshed | Kind::Legacy)
    });
}

/// Asserts that a command revoked this many grants, and that the tokens that `ends` names have ended, and no others.
#[track_caller]
fn assert_revokes(trial: &Trial, whose: &str, grants: usize, ends: impl Fn(&Token) -> bool) {
    let done = trial.pair.done(&format!("grant revoke {whose}"));
    let expected = format!("{grants} grants revoked, and every access token ");
    assert!(done.starts_with(&expected), "{done}");
    trial.assert_ends(ends);
}

#[forms::each]
fn revoking_everything_of_a_user() {
    let trial = Trial::start();
    // The tokens of a code and the refreshed ones, and those of the legacy flow, at two clients each.
    let whose = format!("--user {}", USERS[0]);
    assert_revokes(&trial, &whose, 6, of_the_subject);
}

#[forms::each]
fn revoking_everything_of_clients() {
    let trial = Trial::start();
    for client in [BATCH[0], BOUND[0], LEGACY[0]] {
        trial
            .pair
            .done(&format!("grant revoke --client {}", client.id));
    }
    assert_revokes(&trial, &format!("--client {}", WEB[0].id), 4, |token| {
        let clients = [WEB[0].id, BATCH[0].id, BOUND[0].id, LEGACY[0].id];
        token.kind != Kind::EarlyAccess && clients.contains(&token.client.id)
    });
}

#[forms::each]
fn revoking_everything_of_a_user_at_clients() {
    let trial = Trial::start();
    let whose = |client: Client| format!("--client {} --user {}", client.id, USERS[0]);
    for client in [BATCH[0], BOUND[0], LEGACY[0]] {
        trial.pair.done(&format!("grant revoke {}", whose(client)));
    }
    assert_revokes(&trial, &whose(WEB[0]), 2, |token| {
        of_the_subject(token) && token.client.id.ends_with('1')
    });
    for (whose, unknown) in [
        (["--client", WEB[0].id, "--user", "nobody"], "user nobody"),
        (
            ["--client", "nowhere", "--user", USERS[0]],
            "client nowhere",
        ),
    ] {
        let refusal = trial
            .pair
            .failed(&format!("grant revoke {}", whose.join(" ")));
        let expected = format!("there is no {unknown}");
        assert!(refusal.contains(&expected), "{refusal}");
    }
}

/// The id of a grant that the store does not have, made so many seconds ago (UUIDv7, RFC 9562 §5.7).
fn grant_id_made(seconds_ago: u64) -> String {
    let milliseconds = (now() - seconds_ago) * 1000;
    let mut id = [0xa5; 16];
    id[..6].copy_from_slice(&milliseconds.to_be_bytes()[2..]);
    id[6] = 0x7a;
    URL_SAFE_NO_PAD.encode(id)
}

#[forms::each]
fn revoking_a_grant_by_the_id_in_its_tokens() {
    let trial = Trial::start();
    let ends = |token: &Token| of_the_subject(token) && token.client.id.ends_with('1');
    for token in trial.tokens.iter().filter(|token| ends(token)) {
        for _ in 0..2 {
            trial
                .pair
                .done(&format!("grant revoke {}", token.grant_id()));
        }
    }
    let refused = |id: &str| {
        let refusal = trial.pair.failed(&format!("grant revoke {id}"));
        assert!(refusal.contains("there is no grant"), "{refusal}");
    };
    refused("q6urq6urq6urq6urq6urqw");
    // A code contains the id of its grant, and may live for ten minutes before its tokens, which live for an hour, are issued.
    trial
        .pair
        .done(&format!("grant revoke {}", grant_id_made(65 * 60)));
    refused(&grant_id_made(71 * 60));
    trial.assert_ends(ends);
}

#[forms::each]
fn revoking_a_token_as_its_client() {
    let trial = Trial::start();
    let lobby = trial.pair.lobby();
    let revoke = |token: &Token, text: &str| {
        let reply = token
            .client
            .post(&lobby, "/auth/revoke", &[("token", text)]);
        assert_eq!(reply.status, 200, "{}", reply.body);
    };
    let ends = |token: &Token| of_the_subject(token) && token.client.id.ends_with('1');
    for token in trial.tokens.iter().filter(|token| ends(token)) {
        revoke(token, &token.access);
        trial.assert_ended(token);
        // Only the access token was revoked.
        let refreshed = trial.refresh(token);
        if let Some(reply) = &refreshed {
            assert_eq!(reply.status, 200, "{token:?}: {}", reply.body);
        }
        let Some(refreshed) = refreshed else { continue };
        let token = Token {
            access: refreshed.text("access_token"),
            refresh: Some(refreshed.text("refresh_token")),
            ..token.clone()
        };
        trial.assert_lives(&token);
        revoke(&token, token.refresh.as_deref().unwrap());
        trial.assert_ended(&token);
        trial.assert_no_refresh(&token);
    }
    for token in trial.tokens.iter().filter(|token| !ends(token)) {
        trial.assert_lives(token);
    }
}

#[forms::each]
fn cutting_off_what_was_issued_until_now() {
    let trial = Trial::start();
    let of_the_issuer = |token: &&Token| !matches!(token.kind, Kind::Legacy | Kind::EarlyAccess);
    trial.pair.done("revocations cut-off");
    let ahead = "revocations cut-off --before 2999-01-01T00:00:00Z";
    let unknown = "revocations cut-off --issuer https://nobody.example";
    for (command, part) in [(ahead, "lies ahead"), (unknown, "is none of")] {
        let refusal = trial.pair.failed(command);
        assert!(refusal.contains(part), "{refusal}");
    }
    for token in trial.tokens.iter().filter(of_the_issuer) {
        trial.assert_ended(token);
        // Other clients need one refresh. The cut-off includes tokens of the same second.
        let Some(refresh) = &token.refresh else {
            continue;
        };
        let last = Cell::new(refresh.clone());
        until("a refresh gives a token that lasts", || {
            let refresh = last.take();
            let reply = token.client.refresh(&trial.pair.lobby(), &refresh);
            assert_eq!(reply.status, 200, "{}", reply.body);
            last.set(reply.text("refresh_token"));
            let access = reply.text("access_token");
            trial.introspect(token, &access)["active"] == true
        });
    }
    for token in trial.tokens.iter().filter(|token| !of_the_issuer(token)) {
        trial.assert_lives(token);
    }
}

#[forms::each]
fn rotating_the_keys_with_a_cut_off() {
    let trial = Trial::start();
    trial.pair.done("key rotate --immediate --cut-off");
    for token in &trial.tokens {
        if token.kind == Kind::EarlyAccess {
            trial.assert_lives(token);
        } else {
            trial.assert_ended(token);
        }
    }
    until("new tokens last", || {
        let reply = bearer(&trial.pair.lobby(), USERS[0], &BATCH[0], &[]);
        trial.pair.call(&reply.text("access_token")) == 200
    });
    let audit = trial.pair.done("audit");
    assert!(audit.contains("tokens_cut_off"), "{audit}");
}
