//! `make up`: runs the pair in the foreground and prints how to use it.

mod callback;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context as _, Result, ensure};
use harness::{Artifacts, Pair, Ports, Setup, demo_registrations, has_tls, state_in};

/// Interval between two checks that the pair runs.
const LOOK: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        // Only the message: this program is for people.
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let (stop, stopped) = channel();
    ctrlc::set_handler(move || {
        // A second Ctrl-C while the programs stop has no effect.
        let _ = stop.send(());
    })?;
    let repository = Artifacts::find()?.repository;
    let ports = Ports::from_env()?;
    let path = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .map(std::path::absolute)
    };
    let default = Ports::default();
    let mut environment = Vec::new();
    let registrations = match path("REGISTRATIONS") {
        Some(registrations) => Some(registrations?),
        None if ports.callback == default.callback => None,
        None => Some(registrations_for(ports.callback, &repository)?),
    };
    if let Some(registrations) = registrations {
        let registrations = registrations.display().to_string();
        environment.push(("TOKEN_SERVICE__REGISTRATIONS".to_owned(), registrations));
    }
    let tls = has_tls().then(|| certificate(&repository)).transpose()?;
    // The state belongs to one issuer, and another pair in this checkout may use the state that the configuration names.
    let scheme = if tls.is_some() { "-tls" } else { "" };
    let mut early_environment = environment.clone();
    if ports.lobby_ea != default.lobby_ea || tls.is_some() {
        let folder = format!("demo/data/early-access-{}{scheme}", ports.lobby_ea);
        early_environment.extend(state_in(&repository.join(folder)));
    }
    let config = path("CONFIG").transpose()?;
    if config.is_none() && (ports.lobby != default.lobby || tls.is_some()) {
        let folder = format!("demo/data/{}{scheme}", ports.lobby);
        environment.extend(state_in(&repository.join(folder)));
    }
    let early_access = repository.join("demo/early-access.toml");
    println!("Starting the token service and Envoy ...");
    let mut setup = Setup::of_demo(ports, repository, environment);
    // A token service that ends starts again, and connections wait for it. Another configuration may have more listeners.
    let mutual_tls = env::var_os("TOKEN_SERVICE__MUTUAL_TLS__LISTEN");
    setup.holds_sockets = config.is_none() && mutual_tls.is_none();
    setup.config = config.or(setup.config);
    setup.early_access = Some((early_access, early_environment));
    setup.tls.clone_from(&tls);
    let mut pair = Pair::start(setup)?;
    callback::serve(&pair)?;
    println!("{}", introduction(&pair, tls.as_deref()));
    while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(LOOK) {
        if pair.token_service_has_ended()? {
            println!("The token service has ended. It starts again.");
            pair.start_token_service()?;
        } else if !pair.is_running()? {
            return Err(anyhow::anyhow!("{}", pair.end())).context("one of the programs ended");
        }
    }
    println!("\nStopping ...");
    drop(pair);
    println!("Stopped.");
    Ok(())
}

/// A certificate for the demo's hosts, in a folder with its CA.
fn certificate(repository: &Path) -> Result<PathBuf> {
    let folder = repository.join("demo/data/tls");
    let mut make = Command::new(repository.join("demo/make-tls"));
    let status = make.arg(&folder).status()?;
    ensure!(status.success(), "demo/make-tls failed; it needs OpenSSL 3");
    Ok(folder)
}

/// Writes the demo's registrations with redirect URIs at another port: the URI of a web server application is compared as
/// text (D-12).
fn registrations_for(callback: u16, repository: &Path) -> Result<PathBuf> {
    let text = demo_registrations(repository)?;
    let text = text.replace("127.0.0.1:8090", &format!("127.0.0.1:{callback}"));
    let folder = repository.join("demo/data");
    fs::create_dir_all(&folder)?;
    let file = folder.join(format!("registrations-{callback}.toml"));
    fs::write(&file, text)?;
    Ok(file)
}

fn introduction(pair: &Pair, tls: Option<&Path>) -> String {
    let trust = tls.map(|folder| {
        let ca = folder.join("ca.pem");
        format!(
            "\nTLS, with a CA of the demo. For curl and the tour, in the second terminal:\n\n  export CURL_CA_BUNDLE={}\n",
            ca.display()
        )
    });
    let trust = trust.unwrap_or_default();
    let (lobby, api, internal) = (pair.lobby_url(), pair.api_url(), pair.internal_url());
    let (lobby_ea, legacy) = (pair.lobby_ea_url(), pair.legacy_url());
    let (admin, callback) = (pair.ports().envoy_admin, pair.ports().callback);
    let redirect_uri = format!("http://127.0.0.1:{callback}/callback");
    let logs = pair.log_directory().display();
    format!(
        r#"
The pair is running. Ctrl-C stops it.

  authorization server   {lobby}
  early access           {lobby_ea}
  legacy hosts           {legacy}   (Host: us1.legacy.example, sso-us1.legacy.example)
  resource server        {api}
  demo application       {redirect_uri}
  internal listener      {internal}
  Envoy admin            http://127.0.0.1:{admin}
  logs                   {logs}
{trust}
Without a token the API refuses:

  curl -i {api}/api/projects

User-Bound Integration (client credentials); call the API with its token:

  TOKEN=$(curl -s -u user-bound-demo:demo-secret-of-user-bound-demo-not-for-real-use \
    -d grant_type=client_credentials -d user_id=1879048403 -d user_site=https://us1.example.com \
    {lobby}/auth/token | python3 -c 'import json,sys; print(json.load(sys.stdin)["access_token"])')
  curl -H "Authorization: Bearer $TOKEN" {api}/api/projects

Non-Interactive Integration (JWT bearer):

  ASSERTION=$(target/debug/token-service assertion --key demo/non-interactive-demo.key.pem --alias demo-2020 \
    --client-id non-interactive-demo --user ada@example.com --audience https://identity.example.com/)
  curl -u non-interactive-demo:demo-secret-of-non-interactive-demo-not-for-real-use \
    -d grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer -d assertion=$ASSERTION {lobby}/auth/token

Web Server Application: open this in a browser, and sign in as ada@example.com with demo-password-of-ada. The browser
ends at the demo application, which shows the code and the commands that use it:

  {lobby}/auth/authorize?response_type=code&client_id=web-demo&redirect_uri={redirect_uri}&state=abc

Installed Application (PKCE), likewise:

  {lobby}/auth/authorize?response_type=code&client_id=installed-demo&redirect_uri={redirect_uri}&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256&state=abc

Legacy flow (docs/tour.md has all of it): is OAuth2 enabled on an instance?

  curl -H 'Host: us1.legacy.example' {legacy}/OAuthStatus
"#
    )
}
