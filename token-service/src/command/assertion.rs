//! `token-service assertion`: what a non-interactive integration signs, for trying things out.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::Algorithm;
use claims::token::ASSERTION_TYPE;
use serde::Serialize;
use x509_parser::pem::Pem;
use zeroize::Zeroizing;

use super::output;
use crate::clock::{Clock as _, SystemClock, Timestamp};
use crate::random::{self, OsRandom, Random};
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
    output::line(sign(arguments, SystemClock.now(), &OsRandom)?)?;
    Ok(ExitCode::SUCCESS)
}

/// The assertion in its compact form.
fn sign(arguments: &Arguments, now: Timestamp, random: &dyn Random) -> anyhow::Result<String> {
    let key = read_key(&arguments.key)?;
    let certificate = match &arguments.certificate {
        Some(path) => Some(read_certificate(path, &key)?),
        None => None,
    };
    let header = Header {
        typ: ASSERTION_TYPE,
        alg: Algorithm::Rs256.name(),
        kid: arguments.alias.as_deref(),
        x5t: certificate.map(|certificate| certificate.x5t()),
    };
    let body = Body {
        iss: &arguments.client_id,
        sub: &arguments.user,
        aud: &arguments.audience,
        iat: now.seconds(),
        exp: (now + arguments.lifetime).seconds(),
        jti: random::text::<16>(random)?,
        user_id: arguments.user_id.as_deref(),
        user_site: arguments.user_site.as_deref(),
    };
    let input = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&header)?),
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&body)?)
    );
    let signature = key.sign(input.as_bytes())?;
    Ok(format!("{input}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// The certificate at `path`, which must be that of `key`: otherwise every assertion would be refused.
fn read_certificate(path: &Path, key: &SigningKey) -> anyhow::Result<Certificate> {
    const PROBE: &[u8] = b"probe";
    let file = path.display();
    let pem = std::fs::read(path).with_context(|| file.to_string())?;
    let certificate = Certificate::read("certificate", &pem)
        .with_context(|| format!("{file}: the certificate"))?;
    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &certificate.public_key_der)
        .verify(PROBE, &key.sign(PROBE)?)
        .map_err(|_| anyhow!("{file}: is the certificate of another private key"))?;
    Ok(certificate)
}

fn read_key(path: &Path) -> anyhow::Result<SigningKey> {
    let file = path.display();
    let text = Zeroizing::new(std::fs::read(path).with_context(|| file.to_string())?);
    let pem = Pem::iter_from_buffer(&text)
        .next()
        .with_context(|| format!("{file}: no PEM block in it"))?
        .with_context(|| format!("{file}: not PEM"))?;
    if pem.label != "PRIVATE KEY" {
        bail!(
            "{file}: expected BEGIN PRIVATE KEY (PKCS#8), found BEGIN {}; \
             `openssl pkcs8 -topk8 -nocrypt -in {file}` converts it",
            pem.label
        );
    }
    SigningKey::from_pkcs8(Algorithm::Rs256, &pem.contents)
        .with_context(|| format!("{file}: not an RSA key of 2048 bits or more"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::config::Config;
    use crate::oauth::assertion;
    use crate::registry::ClientId;

    const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../demo");
    /// 2026-01-01, within the demo certificate's validity.
    const NOW: Timestamp = Timestamp::from_seconds(1_767_225_600);

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    /// The command line with `more` behind what every assertion needs.
    fn parse(key: &str, more: &[&str]) -> Result<Arguments, clap::Error> {
        let line = format!(
            "assertion --client-id machine --user ada@example.com --audience https://identity.example.com/ \
             --key {key}"
        );
        Line::try_parse_from(line.split_whitespace().chain(more.iter().copied()))
            .map(|line| line.arguments)
    }

    fn sign_with(key: &str, more: &[&str]) -> anyhow::Result<String> {
        sign(&parse(key, more)?, NOW, &OsRandom)
    }

    fn demo_key() -> String {
        format!("{DEMO}/non-interactive-demo.key.pem")
    }

    fn demo_certificate() -> String {
        format!("{DEMO}/non-interactive-demo.cert.pem")
    }

    #[test]
    fn the_service_accepts_what_it_signs() {
        let pem = std::fs::read(demo_certificate()).unwrap();
        let certificates = [Certificate::read("cert-1", &pem).unwrap()];
        let client_id = ClientId::parse("machine").unwrap();
        let certificate = demo_certificate();
        for more in [
            &["--alias", "cert-1"][..],
            &["--certificate", &certificate],
            &["--alias", "cert-1", "--certificate", &certificate],
        ] {
            let account = ["--user-id", "1", "--user-site", "https://us1.example.com"];
            let signed = sign_with(&demo_key(), &[more, &account].concat()).unwrap();
            let verify = |now| {
                let config = Config::development();
                assertion::verify(&signed, &client_id, &certificates, &config, now)
            };
            let read = verify(NOW).unwrap();
            assert_eq!(read.subject, "ada@example.com");
            assert_eq!(read.user_id.as_deref(), Some("1"));
            assert_eq!(read.user_site.as_deref(), Some("https://us1.example.com"));
            assert!(verify(NOW + Duration::from_secs(600)).is_err(), "lifetime");
        }
    }

    #[test]
    fn an_assertion_names_its_certificate_and_a_whole_account() {
        assert!(parse("k", &[]).is_err());
        assert!(parse("k", &["--alias", "a", "--user-id", "1"]).is_err());
        assert!(parse("k", &["--alias", "a", "--user-site", "s"]).is_err());
        assert!(parse("k", &["--alias", "a", "--lifetime", "soon"]).is_err());
    }

    #[test]
    fn files_that_do_not_fit_are_named() {
        let other = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/registry/testdata/rsa-4096.pem"
        );
        let message = |key: &str, more: &[&str]| sign_with(key, more).unwrap_err().to_string();
        assert_eq!(
            message(&demo_key(), &["--certificate", other]),
            format!("{other}: is the certificate of another private key")
        );
        let certificate = demo_certificate();
        assert!(
            message(&certificate, &["--alias", "a"])
                .starts_with(&format!("{certificate}: expected BEGIN PRIVATE KEY"))
        );
        assert_eq!(message("/nowhere", &["--alias", "a"]), "/nowhere");
    }
}
