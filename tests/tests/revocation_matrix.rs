//! Every kind of revocation, against every kind of token (D-28): the API refuses the token, introspection calls it
//! inactive, a refresh fails, and tokens of other users and clients stay valid. In one form of the filter: `revocation::` reads the
//! feed in both.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::api::until;
use crate::support::{Assertion, Browser, Client, Instance, OwnPair, Reply, answered, now, shared};
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
    fn is_of_first_client(&self) -> bool {
        self.client.id.ends_with('1')
    }

    fn grant_id(&self) -> String {
        claims(&self.access)["grant_id"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}

/// One client of each kind for the user, and others for bystanders, on a pair that other trials use too.
struct Trial<'p> {
    pair: &'p OwnPair,
    /// The user whose tokens are revoked, and a bystander. The bystander's username equals the user's User ID, so that code
    /// that confuses the two kinds of names revokes the wrong tokens.
    users: [&'static str; 2],
    user_ids: [&'static str; 2],
    web: [Client; 2],
    batch: [Client; 2],
    bound: [Client; 2],
    old: [Client; 2],
    tokens: Vec<Token>,
}

impl<'p> Trial<'p> {
    fn start() -> Self {
        Self::on(shared())
    }

    fn on(pair: &'p OwnPair) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(4710);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let leaked = |text: String| -> &'static str { text.leak() };
        let clients = |kind: &str| {
            [1, 2].map(|which| Client {
                id: leaked(format!("{kind}-{number}-{which}")),
                secret: Some(SECRET),
                redirect_uri: CALLBACK,
            })
        };
        let [user, bystander, other] = [2, 1, 9].map(|digit| leaked(format!("{number}{digit}")));
        let mut trial = Self {
            pair,
            users: [user, bystander],
            user_ids: [bystander, other],
            web: clients("web"),
            batch: clients("batch"),
            bound: clients("bound"),
            old: clients("old"),
            tokens: vec![],
        };
        // No file manages these clients and users.
        let registrations = trial.registrations();
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
        let reply = code(&early_access, trial.users[0], &trial.web[0]);
        trial.keep(Kind::EarlyAccess, trial.users[0], trial.web[0], &reply);
        for token in &trial.tokens {
            trial.assert_lives(token);
        }
        trial
    }

    fn registrations(&self) -> Value {
        let certificate = "demo/non-interactive-demo.cert.pem";
        let repository = tests::Artifacts::find().unwrap().repository;
        let pem = std::fs::read_to_string(repository.join(certificate)).unwrap();
        let users: Vec<Value> = self
            .users
            .iter()
            .zip(self.user_ids)
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
        let mut bound = of(&self.bound, "user_bound", json!({"scopes": scopes}));
        for (client, user) in bound.iter_mut().zip(self.users) {
            client["bound_user"] = json!(user);
        }
        let legacy = json!({"redirect_uris": redirects});
        let clients = [
            of(&self.web, "web_server", web),
            of(&self.batch, "non_interactive", batch),
            bound,
            of(&self.old, "legacy", legacy),
        ]
        .concat();
        json!({"users": users, "clients": clients})
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
        let (lobby, name) = (self.pair.lobby(), self.users[user]);
        let reply = code(&lobby, name, &self.web[client]);
        self.keep(Kind::Code, name, self.web[client], &reply);
        let first = code(&lobby, name, &self.web[client]).text("refresh_token");
        let reply = self.web[client].refresh(&lobby, &first);
        self.keep(Kind::Refreshed, name, self.web[client], &reply);
        let reply = bearer(&lobby, name, &self.batch[client], &[]);
        self.keep(Kind::JwtBearer, name, self.batch[client], &reply);
        let code = self.legacy().code_of(name, PASSWORD, &self.old[client]);
        let reply = self.legacy().exchange(&self.old[client], &code);
        self.keep(Kind::Legacy, name, self.old[client], &reply);
    }

    fn issue_bound(&mut self, user: usize) {
        let fields = [("grant_type", "client_credentials")];
        let reply = self.bound[user].token(&self.pair.lobby(), &fields);
        self.keep(
            Kind::ClientCredentials,
            self.users[user],
            self.bound[user],
            &reply,
        );
    }

    /// The output of a command that succeeds. `USER1` stands for the first user, `WEB1` for the first web server application.
    #[track_caller]
    fn done(&self, command: &str) -> String {
        let clients = [
            ("WEB", self.web),
            ("BATCH", self.batch),
            ("BOUND", self.bound),
            ("OLD", self.old),
        ];
        let mut command = command
            .replace("USER1", self.users[0])
            .replace("USER2", self.users[1]);
        for (name, [first, second]) in clients {
            command = command.replace(&format!("{name}1"), first.id);
            command = command.replace(&format!("{name}2"), second.id);
        }
        self.pair.done(&command)
    }

    /// True for the user's tokens of the token service.
    fn is_subject(&self, token: &Token) -> bool {
        token.user == self.users[0] && token.kind != Kind::EarlyAccess
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

/// Which tokens end.
type Ends = fn(&Trial, &Token) -> bool;

const OF_SUBJECT: Ends = |trial, token| trial.is_subject(token);

/// The commands, what the last one prints first, and the tokens that end.
const COMMANDS: [(&[&str], &str, Ends); 7] = [
    (&["user update USER1 --disable"], "", OF_SUBJECT),
    // The bystander of the other trials: its name is the subject's User ID, which the subject's legacy tokens have as `sub`.
    (&["user update USER2 --disable"], "", |trial, token| {
        token.user == trial.users[1]
    }),
    // A user to whom a client is bound cannot be removed.
    (
        &["client remove BOUND1", "user remove USER1"],
        "",
        OF_SUBJECT,
    ),
    (
        &[
            "client update WEB1 --disable",
            "client update BATCH1 --disable",
            "client update BOUND1 --disable",
            "client remove OLD1",
            "client remove WEB2",
            "client remove BATCH2",
        ],
        "",
        |trial, token| {
            let lives = [trial.old[1].id, trial.bound[1].id];
            token.kind != Kind::EarlyAccess && !lives.contains(&token.client.id)
        },
    ),
    // Tokens from a code, refreshed tokens, and tokens of the legacy flow, at two clients each.
    (
        &["grant revoke --user USER1"],
        "6 grants revoked, and every access token ",
        OF_SUBJECT,
    ),
    (
        &[
            "grant revoke --client BATCH1",
            "grant revoke --client BOUND1",
            "grant revoke --client OLD1",
            "grant revoke --client WEB1",
        ],
        "4 grants revoked, and every access token ",
        |_, token| token.kind != Kind::EarlyAccess && token.is_of_first_client(),
    ),
    (
        &[
            "grant revoke --client BATCH1 --user USER1",
            "grant revoke --client BOUND1 --user USER1",
            "grant revoke --client OLD1 --user USER1",
            "grant revoke --client WEB1 --user USER1",
        ],
        "2 grants revoked, and every access token ",
        |trial, token| trial.is_subject(token) && token.is_of_first_client(),
    ),
];

#[test]
fn commands_for_users_clients_and_grants() {
    for (commands, says, ends) in COMMANDS {
        let trial = Trial::start();
        let said: Vec<String> = commands.iter().map(|command| trial.done(command)).collect();
        let last = said.last().unwrap();
        assert!(last.starts_with(says), "{commands:?}: {last}");
        trial.assert_ends(|token| ends(&trial, token));
    }
    for (unknown, whose) in [
        ("user nobody", "--client web-demo --user nobody"),
        ("client nowhere", "--client nowhere --user ada@example.com"),
    ] {
        let refusal = shared().failed(&format!("grant revoke {whose}"));
        let expected = format!("there is no {unknown}");
        assert!(refusal.contains(&expected), "{refusal}");
    }
}

#[test]
fn unlinking_an_account() {
    let mut trial = Trial::start();
    let other = "5000,someone.else,https://eu1.example.com";
    trial.done(&format!("user link USER1 --account {other}"));
    let lobby = trial.pair.lobby();
    let account = [
        ("user_id", "5000"),
        ("user_site", "https://eu1.example.com"),
    ];
    let reply = bearer(&lobby, trial.users[0], &trial.batch[0], &account);
    trial.keep(Kind::JwtBearer, trial.users[0], trial.batch[0], &reply);
    let grant = ("grant_type", "client_credentials");
    let reply = trial.bound[0].token(&lobby, &[&[grant], &account[..]].concat());
    let (user, client) = (trial.users[0], trial.bound[0]);
    trial.keep(Kind::ClientCredentials, user, client, &reply);
    trial.done(&format!("user unlink USER1 {} {SITE}", trial.user_ids[0]));
    trial
        .assert_ends(|token| trial.is_subject(token) && claims(&token.access)["user_id"] != "5000");
}

/// A new password revokes the user's authorizations, but not tokens that a client got with its own credentials.
#[test]
fn a_new_password() {
    let trial = Trial::start();
    let change = ["user", "update", trial.users[0], "--password-file", "-"];
    trial.pair.operate(&change, "another-password\n").done();
    trial.assert_ends(|token| {
        trial.is_subject(token) && matches!(token.kind, Kind::Code | Kind::Refreshed | Kind::Legacy)
    });
}

/// The id of a grant that the store does not have, made so many seconds ago (UUIDv7, RFC 9562 §5.7).
fn grant_id_made(seconds_ago: u64) -> String {
    let milliseconds = (now() - seconds_ago) * 1000;
    let mut id = [0xa5; 16];
    id[..6].copy_from_slice(&milliseconds.to_be_bytes()[2..]);
    id[6] = 0x7a;
    URL_SAFE_NO_PAD.encode(id)
}

#[test]
fn revoking_a_grant_by_the_id_in_its_tokens() {
    let trial = Trial::start();
    let ends = |token: &Token| trial.is_subject(token) && token.is_of_first_client();
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

#[test]
fn revoking_a_token_as_its_client() {
    let trial = Trial::start();
    let lobby = trial.pair.lobby();
    let revoke = |token: &Token, text: &str| {
        let reply = token
            .client
            .post(&lobby, "/auth/revoke", &[("token", text)]);
        assert_eq!(reply.status, 200, "{}", reply.body);
    };
    let ends = |token: &Token| trial.is_subject(token) && token.is_of_first_client();
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

#[test]
fn cutting_off_what_was_issued_until_now() {
    let pair = OwnPair::with_early_access();
    let trial = Trial::on(&pair);
    let of_the_issuer = |token: &&Token| !matches!(token.kind, Kind::Legacy | Kind::EarlyAccess);
    trial.pair.done("revocations cut-off");
    let ahead = "revocations cut-off --before 2999-01-01T00:00:00Z";
    let unknown = "revocations cut-off --issuer https://nobody.example";
    for (command, part) in [(ahead, "is in the future"), (unknown, "is none of")] {
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

#[test]
fn rotating_the_keys_with_a_cut_off() {
    let pair = OwnPair::with_early_access();
    let trial = Trial::on(&pair);
    trial.pair.done("key rotate --immediate --cut-off");
    for token in &trial.tokens {
        if token.kind == Kind::EarlyAccess {
            trial.assert_lives(token);
        } else {
            trial.assert_ended(token);
        }
    }
    until("new tokens last", || {
        let reply = bearer(&trial.pair.lobby(), trial.users[0], &trial.batch[0], &[]);
        trial.pair.call(&reply.text("access_token")) == 200
    });
    let audit = trial.pair.done("audit");
    assert!(audit.contains("tokens_cut_off"), "{audit}");
}
