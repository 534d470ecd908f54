//! The load of `soak`, `upgrade` and `failover`: programs and people that use every grant and the API, and some whose
//! requests must be refused.
//!
//! Each actor is a thread that repeats its round. After a failed request the actor starts a new round.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use anyhow::Result;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use tests::Issuer;
use tests::load::{
    CREDENTIALS, Client, INSTALLED, JWT_BEARER, Load, NON_INTERACTIVE, NOTICE, Operation,
    USER_BOUND, WEB, World, basic, exchange_of, refresh_of,
};
use tests::visitor::Visitor;

/// Time from the expiry of a token until the filter must refuse the token. It tolerates clocks that differ by five
/// seconds.
const TOLERANCE: Duration = Duration::from_secs(7);

/// Time between two tokens whose expiry one actor waits for.
const BETWEEN_EXPIRED: Duration = Duration::from_secs(3);

/// Longest time until a client gets tokens again that was disabled a moment ago (protocol.md §3).
const READMISSION: Duration = Duration::from_secs(16);

/// Number of requests in a row that show that every worker and replica knows a change.
const IN_A_ROW: u32 = 8;

const LEGACY_CALLBACK: &str = "http://localhost:8765/callback";
const LEGACY_HOST: &str = "us1.legacy.example";
const LEGACY_AUTHORITY: &str = "sso-us1.legacy.example";

/// Username and password. Her oldest sessions end at the limit of protocol.md §8: the load signs her in all the time.
const ADA: (&str, &str) = ("ada@example.com", "demo-password-of-ada");

/// Starts the load of every grant and the API, with access tokens of this lifetime.
///
/// # Errors
/// If no key can be made for forged tokens.
pub(crate) fn start(world: &Arc<World>, lifetime: Duration) -> Result<Load> {
    let mut load = Load::default();
    let milliseconds = Duration::from_millis;
    let machine = Machine::start();
    load.spawn(world, milliseconds(50), move |world, _| {
        world.ledger.look_at_clock();
        if let Some(took) = machine.probe() {
            world.ledger.probed(took);
        }
    });
    for pause in [100, 130] {
        let mut held = VecDeque::new();
        load.spawn(world, milliseconds(pause), move |world, visitor| {
            program(world, visitor, &mut held, lifetime);
        });
    }
    load.spawn(world, milliseconds(500), |world, visitor| {
        integration(world, visitor);
    });
    for client in [WEB, INSTALLED] {
        let mut is_stolen = false;
        load.spawn(world, milliseconds(500), move |world, _| {
            person(world, client, is_stolen);
            is_stolen = !is_stolen;
        });
    }
    load.spawn(world, milliseconds(1_000), |world, visitor| {
        legacy(world, visitor);
    });
    let other = Issuer::new()?;
    load.spawn(world, milliseconds(300), move |world, visitor| {
        stranger(world, visitor, &other);
    });
    let mut number = 0;
    load.spawn(world, milliseconds(1_000), move |world, visitor| {
        registrar(world, visitor, number);
        number += 1;
    });
    Ok(load)
}

/// Adds an actor that calls the API all the time with a token that it got before.
pub(crate) fn hold_a_token(load: &mut Load, world: &Arc<World>, lifetime: Duration) {
    let mut held = None;
    load.spawn(world, Duration::from_millis(50), move |world, visitor| {
        holder(world, visitor, &mut held, lifetime);
    });
}

/// A thread that hashes for another thread, as fast as the machine lets it.
struct Machine(Sender<Sender<()>>);

impl Machine {
    fn start() -> Self {
        let (ask, asked) = channel::<Sender<()>>();
        std::thread::spawn(move || {
            for answer in asked {
                std::hint::black_box(digest(&SHA256, &[0; 65_536]));
                let _ = answer.send(());
            }
        });
        Self(ask)
    }

    /// Time from the question to the answer, of as many answers as a request takes hops through the pair. `None` if the
    /// thread ended.
    fn probe(&self) -> Option<Duration> {
        let start = Instant::now();
        for _ in 0..4 {
            let (answer, answered) = channel();
            self.0.send(answer).ok()?;
            answered.recv().ok()?;
        }
        Some(start.elapsed())
    }
}

/// A person with a web server application or an installed one: code, exchange, refreshes, API calls, and finally a
/// revocation or a stolen code.
fn person(world: &World, client: Client, is_stolen: bool) -> Option<()> {
    let visitor = Visitor::default();
    let verifier = "p".repeat(64);
    let mut request = client.authorization();
    if client.secret.is_none() {
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()));
        request += &format!("&code_challenge={challenge}&code_challenge_method=S256");
    }
    let code = world.code_of_person(ADA, &Visitor::default(), &world.lobby, None, &request)?;
    let mut exchange = exchange_of(&code).to_vec();
    if client.secret.is_none() {
        exchange.push(("code_verifier", &verifier));
    }
    let mut answer = world.token(Operation::Code, 200, &visitor, client, &exchange)?;
    let mut access = answer.member("access_token")?;
    let mut refresh = answer.member("refresh_token")?;
    world.let_in(&visitor, &access)?;
    for _ in 0..5 {
        let fields = refresh_of(&refresh);
        answer = world.token(Operation::Refresh, 200, &visitor, client, &fields)?;
        access = answer.member("access_token")?;
        refresh = answer.member("refresh_token")?;
        world.let_in(&visitor, &access)?;
    }
    if is_stolen {
        // RFC 6749 §4.1.2: the second use of a code revokes the tokens of the first use.
        world.token(Operation::BadToken, 400, &visitor, client, &exchange)?;
    } else {
        world.ledger.expect(Operation::Revoke, &[200], || {
            world.post(&visitor, client, "/auth/revoke", &[("token", &*refresh)])
        })?;
    }
    let fields = refresh_of(&refresh);
    world.token(Operation::BadToken, 400, &visitor, client, &fields);
    world.soon_kept_out(&visitor, &access, NOTICE);
    Some(())
}

fn legacy(world: &World, visitor: &Visitor) -> Option<()> {
    let request =
        format!("/Logon?Action=StartOAuth&client_id=legacy-demo&redirect_uri={LEGACY_CALLBACK}");
    let code = world.code_of_person(
        ADA,
        &Visitor::default(),
        &world.legacy,
        Some(LEGACY_HOST),
        &request,
    )?;
    let token = |operation, expected: u16, fields: &[(&str, &str)]| {
        let url = format!("{}/as/token.oauth2", world.legacy);
        world.ledger.expect(operation, &[expected], || {
            visitor.post(&url, &[("host", LEGACY_AUTHORITY)], fields)
        })
    };
    let exchange = [
        ("grant_type", "authorization_code"),
        ("client_id", "legacy-demo"),
        ("redirect_uri", LEGACY_CALLBACK),
        ("code", &*code),
    ];
    let answer = token(Operation::Legacy, 200, &exchange)?;
    let mut refresh = answer.member("refresh_token")?;
    world.let_in(visitor, &answer.member("access_token")?)?;
    for _ in 0..3 {
        let answer = token(Operation::Legacy, 200, &refresh_of(&refresh))?;
        refresh = answer.member("refresh_token")?;
    }
    token(Operation::BadToken, 400, &exchange)?;
    let unknown = refresh_of("A23456789012345678901234567890123456789012");
    token(Operation::BadToken, 400, &unknown).map(drop)
}

fn integration(world: &World, visitor: &Visitor) -> Option<()> {
    let assertion = match world.assertion() {
        Ok(assertion) => assertion,
        Err(error) => {
            let what = format!("no assertion: {error:#}");
            world.ledger.surprise(Operation::JwtBearer, &what);
            return None;
        }
    };
    let fields = [("grant_type", JWT_BEARER), ("assertion", &*assertion)];
    let answer = world.token(Operation::JwtBearer, 200, visitor, NON_INTERACTIVE, &fields)?;
    world.let_in(visitor, &answer.member("access_token")?)?;
    // An assertion works once.
    world
        .token(Operation::BadToken, 400, visitor, NON_INTERACTIVE, &fields)
        .map(drop)
}

/// Gets tokens, uses them, and uses them again after they have expired.
fn program(
    world: &World,
    visitor: &Visitor,
    held: &mut VecDeque<(Instant, String)>,
    lifetime: Duration,
) -> Option<()> {
    while let Some((issued, token)) = held.front()
        && issued.elapsed() > lifetime + TOLERANCE
    {
        world.kept_out(visitor, token);
        held.pop_front();
    }
    let answer = world.token(
        Operation::ClientCredentials,
        200,
        visitor,
        USER_BOUND,
        &CREDENTIALS,
    )?;
    let issued = Instant::now();
    let token = answer.member("access_token")?;
    for _ in 0..5 {
        world.let_in(visitor, &token)?;
    }
    // The key of an expired token may be gone. The filter may need two seconds to find out.
    if held
        .back()
        .is_none_or(|(last, _)| last.elapsed() > BETWEEN_EXPIRED)
    {
        held.push_back((issued, token));
    }
    Some(())
}

/// Calls the API with a token that is good for a while, whatever happens to the token service.
fn holder(
    world: &World,
    visitor: &Visitor,
    held: &mut Option<(Instant, String)>,
    lifetime: Duration,
) -> Option<()> {
    if held
        .as_ref()
        .is_none_or(|(issued, _)| issued.elapsed() > lifetime / 3)
    {
        let grant = Operation::ClientCredentials;
        let answer = world.token(grant, 200, visitor, USER_BOUND, &CREDENTIALS);
        if let Some(token) = answer.and_then(|answer| answer.member("access_token")) {
            *held = Some((Instant::now(), token));
        }
    }
    let (_, token) = held.as_ref()?;
    world.let_in(visitor, token)
}

/// Sends all requests that must be refused at once.
fn stranger(world: &World, visitor: &Visitor, other: &Issuer) -> Option<()> {
    let known_issuer = ("iss", json!(world.lobby));
    if let Ok(forged) = other.token(&world.api, &[known_issuer]) {
        world.kept_out(visitor, &forged);
    }
    if let Ok(foreign) = other.token(&world.api, &[]) {
        world.kept_out(visitor, &foreign);
    }
    world.kept_out(visitor, "garbage");
    let url = format!("{}/api/projects", world.api);
    world
        .ledger
        .expect(Operation::BadCall, &[401], || visitor.get(&url, &[]));
    for token in world.dead(5) {
        world.kept_out(visitor, &token);
    }
    let unknown_code = exchange_of("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    world.token(Operation::BadToken, 400, visitor, WEB, &unknown_code)?;
    // No other actor uses this client, because after some wrong secrets from one address even the right secret must
    // wait.
    let guess = basic("legacy-secret-demo", "wrong");
    let url = format!("{}/auth/token", world.lobby);
    world
        .ledger
        .expect(Operation::BadToken, &[401, 429], || {
            visitor.post(&url, &[("authorization", &guess)], &unknown_code)
        })
        .map(drop)
}

/// Registers a person and a client, disables, enables, unlinks and deletes them, and checks each time that the client
/// gets exactly what it may.
fn registrar(world: &World, visitor: &Visitor, number: u64) -> Option<()> {
    let id = format!("soak-{number}");
    let secret = format!("secret-of-{id}-{}", "x".repeat(32));
    let person = format!("{id}@example.com");
    let account = json!({"user_id": id, "username": id, "site": "https://us1.example.com"});
    let user = json!({"username": person, "email": person, "accounts": [account]});
    let client = json!({
        "client_id": id, "name": "Soak", "type": "user_bound", "client_secret": secret,
        "bound_user": person, "scopes": ["projects"],
    });
    let url = format!("{}/auth/token", world.lobby);
    let authorization = basic(&id, &secret);
    let fields = [
        ("grant_type", "client_credentials"),
        ("user_id", &*id),
        ("user_site", "https://us1.example.com"),
    ];
    let ask = || visitor.post(&url, &[("authorization", &authorization)], &fields);
    let gets_within = |within: Duration, expected: u16| {
        let in_a_row =
            || (0..IN_A_ROW).all(|_| ask().is_ok_and(|answer| answer.status == expected));
        if !world.soon(within, &in_a_row) {
            let last = ask().map(|answer| answer.status);
            let what = format!(
                "a changed client gets {last:?} after {within:?}, and should get {expected}"
            );
            world.ledger.surprise(Operation::Administration, &what);
        }
    };
    let gets = |expected| gets_within(NOTICE, expected);
    let gets_again = || gets_within(NOTICE + READMISSION, 200);
    let change =
        |method: &str, path: &str, body: &str| world.administrate(visitor, method, path, body);
    let (path, user_path) = (format!("/clients/{id}"), format!("/users/{person}"));
    let linked = format!("{user_path}/accounts?user_id={id}&site=https://us1.example.com");

    change("POST", "/users", &user.to_string())?;
    change("POST", "/clients", &client.to_string())?;
    gets(200);
    // Changes a client in use, too.
    let name = json!({"name": format!("Package Builder {number}")});
    change("PATCH", &path, &name.to_string())?;
    gets(200);
    let token = ask().ok().and_then(|answer| answer.member("access_token"));
    // In turn, because a revocation covers tokens of the following seconds, too.
    let (disabled, refused) = match number.is_multiple_of(2) {
        true => (&path, 401),
        false => (&user_path, 400),
    };
    change("PATCH", disabled, r#"{"enabled": false}"#)?;
    gets(refused);
    if let Some(token) = token {
        world.soon_kept_out(visitor, &token, NOTICE);
    }
    change("PATCH", disabled, r#"{"enabled": true}"#)?;
    gets_again();
    change("DELETE", &linked, "")?;
    gets(400);
    let accounts = format!("{user_path}/accounts");
    change("POST", &accounts, &account.to_string())?;
    gets_again();
    change("DELETE", &path, "")?;
    gets(401);
    change("DELETE", &user_path, "").map(drop)
}
