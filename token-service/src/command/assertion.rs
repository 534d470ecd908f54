//! `token-service assertion`: what a non-interactive integration signs, for trying things out.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::Algorithm;
use claims::token::ASSERTION_TYPE;
use serde::Serialize;
use x509_parser::pem::Pem;
use zeroize::Zeroizing;

use crate::clock::{Clock as _, SystemClock};
use crate::random::{self, OsRandom};
use crate::registry::Certificate;
use crate::token::SigningKey;

/// What to sign, and with what.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  token-service assertion --key demo/non-interactive-demo.key.pem --alias demo-2020 \\
    --client-id non-interactive-demo --user ada@example.com --audience https://identity.example.com/")]
pub(super) struct Arguments {
    /// The integration's RSA private key: PEM, PKCS#8 (BEGIN PRIVATE KEY).
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The certificateAlias of the uploaded certificate; becomes the header `kid`.
    #[arg(long, required_unless_present = "certificate")]
    alias: Option<String>,
    /// The uploaded certificate (PEM); its thumbprint becomes the header `x5t`.
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// The Client ID: `iss`.
    #[arg(long)]
    client_id: String,
    /// The authorization-server account: `sub`.
    #[arg(long)]
    user: String,
    /// The identity service's address, `identity_audience` in the configuration: `aud`.
    #[arg(long)]
    audience: String,
    /// User ID of the linked account, when there are several.
    #[arg(long, requires = "user_site")]
    user_id: Option<String>,
    /// URL of the linked account's instance, when there are several.
    #[arg(long, requires = "user_id")]
    user_site: Option<String>,
    /// How long the assertion may be used.
    #[arg(long, default_value = "5m", value_parser = humantime::parse_duration)]
    lifetime: Duration,
}

#[derive(Serialize)]
struct Header<'a> {
    typ: &'static str,
    alg: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kid: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    x5t: Option<String>,
}

#[derive(Serialize)]
struct Body<'a> {
    iss: &'a str,
    sub: &'a str,
    aud: &'a str,
    iat: u64,
    exp: u64,
    jti: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_site: Option<&'a str>,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let key = read_key(arguments)?;
    let x5t = arguments.certificate.as_deref().map(|path| {
        let pem = std::fs::read(path).with_context(|| path.display().to_string())?;
        Certificate::from_pem("certificate", &pem)
            .map(|certificate| certificate.x5t())
            .with_context(|| format!("{}: the certificate", path.display()))
    });
    let now = SystemClock.now();
    let header = Header {
        typ: ASSERTION_TYPE,
        alg: Algorithm::Rs256.name(),
        kid: arguments.alias.as_deref(),
        x5t: x5t.transpose()?,
    };
    let body = Body {
        iss: &arguments.client_id,
        sub: &arguments.user,
        aud: &arguments.audience,
        iat: now.seconds(),
        exp: (now + arguments.lifetime).seconds(),
        jti: random::text::<16>(&OsRandom)?,
        user_id: arguments.user_id.as_deref(),
        user_site: arguments.user_site.as_deref(),
    };
    let input = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&header)?),
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&body)?)
    );
    let signature = key.sign(input.as_bytes())?;
    println!("{input}.{}", URL_SAFE_NO_PAD.encode(signature));
    Ok(ExitCode::SUCCESS)
}

fn read_key(arguments: &Arguments) -> anyhow::Result<SigningKey> {
    let path = arguments.key.display();
    let text = Zeroizing::new(std::fs::read(&arguments.key).with_context(|| path.to_string())?);
    let pem = Pem::iter_from_buffer(&text)
        .next()
        .with_context(|| format!("{path}: no PEM block in it"))?
        .with_context(|| format!("{path}: not PEM"))?;
    if pem.label != "PRIVATE KEY" {
        bail!(
            "{path}: expected BEGIN PRIVATE KEY (PKCS#8), found BEGIN {}; \
             `openssl pkcs8 -topk8 -nocrypt -in {path}` converts it",
            pem.label
        );
    }
    SigningKey::from_pkcs8(Algorithm::Rs256, &pem.contents)
        .with_context(|| format!("{path}: not an RSA key of 2048 bits or more"))
}
