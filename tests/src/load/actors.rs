//! The rounds of the actors: what each requests, and what it expects.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use super::{
    ADA, BETWEEN_EXPIRED, CALLBACK, Client, IN_A_ROW, LEGACY_AUTHORITY, LEGACY_CALLBACK,
    LEGACY_HOST, NON_INTERACTIVE, NOTICE, Operation, READMISSION, TOLERANCE, USER, USER_BOUND, WEB,
    World, basic,
};
use crate::visitor::Visitor;

impl World {
    /// A person with a web server application or an installed one: code, exchange, refreshes, API calls, and finally a
    /// revocation or a stolen code.
    pub(super) fn person(&self, client: Client, is_stolen: bool) -> Option<()> {
        let visitor = Visitor::default();
        let verifier = "p".repeat(64);
        let mut request = format!(
            "/auth/authorize?response_type=code&client_id={}&redirect_uri={CALLBACK}&state=abc",
            client.id
        );
        let mut exchange = vec![
            ("grant_type", "authorization_code"),
            ("redirect_uri", CALLBACK),
        ];
        if client.secret.is_none() {
            let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()));
            request += &format!("&code_challenge={challenge}&code_challenge_method=S256");
            exchange.push(("code_verifier", &verifier));
        }
        let code = self.code_of_person(ADA, &Visitor::default(), &self.lobby, None, &request)?;
        exchange.push(("code", &code));
        let mut answer = self.token(Operation::Code, 200, &visitor, client, &exchange)?;
        let mut access = answer.member("access_token")?;
        let mut refresh = answer.member("refresh_token")?;
        self.let_in(&visitor, &access)?;
        for _ in 0..5 {
            let fields = [
                ("grant_type", "refresh_token"),
                ("refresh_token", &*refresh),
            ];
            answer = self.token(Operation::Refresh, 200, &visitor, client, &fields)?;
            access = answer.member("access_token")?;
            refresh = answer.member("refresh_token")?;
            self.let_in(&visitor, &access)?;
        }
        if is_stolen {
            // RFC 6749 §4.1.2: the second use of a code revokes the tokens of the first use.
            self.token(Operation::BadToken, 400, &visitor, client, &exchange)?;
        } else {
            let fields = [("token", &*refresh)];
            self.post_as(
                Operation::Revoke,
                200,
                &visitor,
                client,
                "/auth/revoke",
                &fields,
            )?;
        }
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", &*refresh),
        ];
        self.token(Operation::BadToken, 400, &visitor, client, &fields);
        self.soon_kept_out(&visitor, &access);
        Some(())
    }

    pub(super) fn legacy(&self, visitor: &Visitor) -> Option<()> {
        let request = format!(
            "/Logon?Action=StartOAuth&client_id=legacy-demo&redirect_uri={LEGACY_CALLBACK}"
        );
        let code = self.code_of_person(
            ADA,
            &Visitor::default(),
            &self.legacy,
            Some(LEGACY_HOST),
            &request,
        )?;
        let token = |operation, expected: u16, fields: &[(&str, &str)]| {
            let url = format!("{}/as/token.oauth2", self.legacy);
            self.ledger.expect(operation, &[expected], || {
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
        self.let_in(visitor, &answer.member("access_token")?)?;
        for _ in 0..3 {
            let fields = [
                ("grant_type", "refresh_token"),
                ("refresh_token", &*refresh),
            ];
            refresh = token(Operation::Legacy, 200, &fields)?.member("refresh_token")?;
        }
        token(Operation::BadToken, 400, &exchange)?;
        let unknown = [
            ("grant_type", "refresh_token"),
            (
                "refresh_token",
                "A23456789012345678901234567890123456789012",
            ),
        ];
        token(Operation::BadToken, 400, &unknown).map(drop)
    }

    pub(super) fn assertion(&self) -> Result<String> {
        let demo = self.artifacts.repository.join("demo");
        let output = Command::new(&self.artifacts.token_service)
            .arg("assertion")
            .arg("--key")
            .arg(demo.join("non-interactive-demo.key.pem"))
            .args(["--alias", "demo-2020", "--client-id", NON_INTERACTIVE.id])
            .args(["--user", "ada@example.com"])
            .args(["--audience", "https://identity.example.com/"])
            .output()?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    pub(super) fn integration(&self, visitor: &Visitor) -> Option<()> {
        let assertion = match self.assertion() {
            Ok(assertion) => assertion,
            Err(error) => {
                let what = format!("no assertion: {error:#}");
                self.ledger.surprise(Operation::JwtBearer, &what);
                return None;
            }
        };
        let fields = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
            ("assertion", &*assertion),
        ];
        let answer = self.token(Operation::JwtBearer, 200, visitor, NON_INTERACTIVE, &fields)?;
        self.let_in(visitor, &answer.member("access_token")?)?;
        // An assertion works once.
        self.token(Operation::BadToken, 400, visitor, NON_INTERACTIVE, &fields)
            .map(drop)
    }

    /// Gets tokens, uses them, and uses them again after they have expired.
    pub(super) fn machine(
        &self,
        visitor: &Visitor,
        held: &mut VecDeque<(Instant, String)>,
    ) -> Option<()> {
        while let Some((issued, token)) = held.front()
            && issued.elapsed() > self.access_token + TOLERANCE
        {
            self.kept_out(visitor, token);
            held.pop_front();
        }
        let answer = self.token(
            Operation::ClientCredentials,
            200,
            visitor,
            USER_BOUND,
            &USER,
        )?;
        let issued = Instant::now();
        let token = answer.member("access_token")?;
        for _ in 0..5 {
            self.let_in(visitor, &token)?;
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
    pub(super) fn holder(
        &self,
        visitor: &Visitor,
        held: &mut Option<(Instant, String)>,
    ) -> Option<()> {
        if held
            .as_ref()
            .is_none_or(|(issued, _)| issued.elapsed() > self.access_token / 3)
        {
            let grant = Operation::ClientCredentials;
            let answer = self.token(grant, 200, visitor, USER_BOUND, &USER);
            if let Some(token) = answer.and_then(|answer| answer.member("access_token")) {
                *held = Some((Instant::now(), token));
            }
        }
        let (_, token) = held.as_ref()?;
        self.let_in(visitor, token)
    }

    /// Sends all requests that must be refused at once.
    pub(super) fn stranger(&self, visitor: &Visitor) -> Option<()> {
        let known_issuer = ("iss", json!(self.lobby));
        if let Ok(forged) = self.strangers.token(&self.api, &[known_issuer]) {
            self.kept_out(visitor, &forged);
        }
        if let Ok(foreign) = self.strangers.token(&self.api, &[]) {
            self.kept_out(visitor, &foreign);
        }
        self.kept_out(visitor, "garbage");
        let url = format!("{}/api/projects", self.api);
        self.ledger
            .expect(Operation::BadCall, &[401], || visitor.get(&url, &[]));
        let dead: Vec<String> = {
            let dead = self.dead.lock().unwrap_or_else(PoisonError::into_inner);
            dead.iter().rev().take(5).cloned().collect()
        };
        for token in dead {
            self.kept_out(visitor, &token);
        }
        let unknown_code = [
            ("grant_type", "authorization_code"),
            ("redirect_uri", CALLBACK),
            ("code", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
        ];
        self.token(Operation::BadToken, 400, visitor, WEB, &unknown_code)?;
        // No other actor uses this client, because after some wrong secrets from one address even the right secret must
        // wait.
        let guess = basic("legacy-secret-demo", "wrong");
        let url = format!("{}/auth/token", self.lobby);
        self.ledger
            .expect(Operation::BadToken, &[401, 429], || {
                visitor.post(&url, &[("authorization", &guess)], &unknown_code)
            })
            .map(drop)
    }

    /// Registers a person and a client, disables, enables, unlinks and deletes them, and checks each time that the client
    /// gets exactly what it may.
    pub(super) fn registrar(&self, visitor: &Visitor) -> Option<()> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let id = format!("soak-{number}");
        let secret = format!("secret-of-{id}-{}", "x".repeat(32));
        let person = format!("{id}@example.com");
        let account = json!({"user_id": id, "username": id, "site": "https://us1.example.com"});
        let user = json!({"username": person, "email": person, "accounts": [account]});
        let client = json!({
            "client_id": id, "name": "Soak", "type": "user_bound", "client_secret": secret,
            "bound_user": person, "scopes": ["projects"],
        });
        let url = format!("{}/auth/token", self.lobby);
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
            if !self.soon(within, &in_a_row) {
                let last = ask().map(|answer| answer.status);
                let what = format!(
                    "a changed client gets {last:?} after {within:?}, and should get {expected}"
                );
                self.ledger.surprise(Operation::Administration, &what);
            }
        };
        let gets = |expected| gets_within(NOTICE, expected);
        let gets_again = || gets_within(NOTICE + READMISSION, 200);
        let change =
            |method: &str, path: &str, body: &str| self.administrate(visitor, method, path, body);
        let (path, user_path) = (format!("/clients/{id}"), format!("/users/{person}"));
        let linked = format!("{user_path}/accounts?user_id={id}&site=https://us1.example.com");

        change("POST", "/users", &user.to_string())?;
        change("POST", "/clients", &client.to_string())?;
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
            self.soon_kept_out(visitor, &token);
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
        change("DELETE", &user_path, "")?;
        // Changes a client in use, too.
        let name = json!({"name": format!("Package Builder {number}")});
        change("PATCH", "/clients/web-demo", &name.to_string()).map(drop)
    }
}
