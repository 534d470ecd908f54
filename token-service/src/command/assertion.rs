//! `token-service assertion`: what a client signs, for trying things out: an assertion about a user, or about the client itself.

#![expect(
    clippy::disallowed_types,
    reason = "a local command, with the developer's own key: nobody measures how long it takes"
)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::ArgGroup;
use jwt_simple::prelude::{
    Claims, JWTClaims, KeyMetadata, RS256KeyPair, RS256PublicKey, RSAKeyPairLike as _,
    UnixTimeStamp,
};
use serde::Serialize;

use crate::jwt::{self, ClientAssertion};
use domain::Certificate;
use domain::clock::{Clock as _, Timestamp};
use domain::random::{self, Random};
use system::{OsRandom, SystemClock};

/// What to sign, and with what.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  token-service assertion --key demo/non-interactive-demo.key.pem --alias demo-2020 \\
    --client-id non-interactive-demo --user ada@example.com --audience https://identity.example.com/
  token-service assertion --client-assertion --key demo/key-demo.key.pem --client-id key-demo \\
    --audience http://127.0.0.1:8081",
    group = ArgGroup::new("names").args(["alias", "certificate"]).multiple(true))]
pub(super) struct Arguments {
    /// PEM file with the private key: RSA of 2048 to 4096 bits. With --client-assertion also Ed25519 or P-256.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The certificateAlias of the uploaded certificate, or the `kid` of the client's key; becomes the header `kid`.
    #[arg(long)]
    alias: Option<String>,
    /// The uploaded certificate (PEM); its thumbprint becomes the header `x5t`.
    #[arg(long, value_name = "FILE", requires = "user")]
    certificate: Option<PathBuf>,
    /// The Client ID: `iss`.
    #[arg(long)]
    client_id: String,
    /// The authorization-server account: `sub`.
    #[arg(long, requires = "names")]
    user: Option<String>,
    /// Sign a client assertion, which replaces the secret (protocol.md §5.12).
    #[arg(long, required_unless_present = "user", conflicts_with = "user")]
    client_assertion: bool,
    /// `aud`. With --user: `identity_audience` of the configuration. With --client-assertion: the issuer, or the token endpoint if the
    /// client is registered so.
    #[arg(long)]
    audience: String,
    /// User ID of the linked account, if the user has several.
    #[arg(long, requires = "user")]
    user_id: Option<String>,
    /// URL of the linked account's instance, if the user has several.
    #[arg(long, requires = "user")]
    user_site: Option<String>,
    /// Lifetime of the assertion.
    #[arg(long, default_value = "5m", value_parser = humantime::parse_duration)]
    lifetime: Duration,
}

/// The private claims of an assertion (protocol.md §2.3).
#[derive(Serialize)]
struct LinkedAccount<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_site: Option<&'a str>,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    println!("{}", sign(arguments, SystemClock.now(), &OsRandom)?);
    Ok(ExitCode::SUCCESS)
}

/// An assertion in place of the client's secret (RFC 7523 §3), in its compact form.
fn in_place_of_secret(
    arguments: &Arguments,
    now: Timestamp,
    random: &dyn Random,
) -> anyhow::Result<String> {
    let assertion = ClientAssertion {
        client_id: &arguments.client_id,
        kid: arguments.alias.as_deref(),
        audience: &arguments.audience,
        lifetime: arguments.lifetime,
    };
    assertion.sign(&jwt::read_key(&arguments.key)?, now, random)
}

/// The assertion in its compact form.
///
/// The library signs in pure Rust, and its timing can leak an RSA key to an attacker who triggers many signatures
/// (RUSTSEC-2023-0071). The owner of the key runs this command, and each run makes one signature.
fn sign(arguments: &Arguments, now: Timestamp, random: &dyn Random) -> anyhow::Result<String> {
    let Some(user) = &arguments.user else {
        return in_place_of_secret(arguments, now, random);
    };
    let mut key = read_key(&arguments.key)?;
    if let Some(path) = &arguments.certificate {
        let certificate = read_certificate(path, &key)?;
        let metadata =
            KeyMetadata::default().with_certificate_sha1_thumbprint(certificate.x5t())?;
        key.attach_metadata(metadata)?;
    }
    if let Some(alias) = &arguments.alias {
        key = key.with_key_id(alias);
    }
    key.sign(claims(arguments, user, now, random::text::<16>(random)?))
}

fn claims<'a>(
    arguments: &'a Arguments,
    user: &str,
    now: Timestamp,
    jti: String,
) -> JWTClaims<LinkedAccount<'a>> {
    let account = LinkedAccount {
        user_id: arguments.user_id.as_deref(),
        user_site: arguments.user_site.as_deref(),
    };
    let mut claims = Claims::with_custom_claims(account, arguments.lifetime.into())
        .with_issuer(&arguments.client_id)
        .with_subject(user)
        .with_audience(&arguments.audience)
        .with_jwt_id(jti);
    // The library would read the system clock.
    let seconds = |at: Timestamp| Some(UnixTimeStamp::from_secs(at.seconds()));
    claims.issued_at = seconds(now);
    claims.expires_at = seconds(now + arguments.lifetime);
    claims.invalid_before = None;
    claims
}

/// Reads the certificate at `path`, which must belong to `key`; otherwise the service refuses every assertion.
fn read_certificate(path: &Path, key: &RS256KeyPair) -> anyhow::Result<Certificate> {
    let file = path.display();
    let pem = std::fs::read(path).with_context(|| file.to_string())?;
    let certificate = Certificate::read("certificate", &pem)
        .with_context(|| format!("{file}: the certificate"))?;
    let certified = RS256PublicKey::from_der(&certificate.public_key_der)
        .with_context(|| format!("{file}: the certificate"))?;
    if certified.to_der()? != key.public_key().to_der()? {
        bail!("{file}: is the certificate of another private key");
    }
    Ok(certificate)
}

fn read_key(path: &Path) -> anyhow::Result<RS256KeyPair> {
    let kinds = "RSA of 2048 to 4096 bits";
    let make = "`openssl genpkey -algorithm RSA` makes one";
    let pkcs8 = jwt::private_key(path, kinds, make)?;
    RS256KeyPair::from_der(&pkcs8).with_context(|| {
        let file = path.display();
        format!("{file}: the private key is of another kind: expected {kinds}; {make}")
    })
}

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser;

    use super::*;
    use domain::ClientId;
    use protocol::Settings;
    use protocol::oauth::assertion::{Subject, Unverified};

    const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../demo");
    /// 2026-01-01, within the demo certificate's validity.
    const NOW: Timestamp = Timestamp::from_seconds(1_767_225_600);

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    /// Parses the required arguments followed by `more`.
    fn parse(key: &str, more: &[&str]) -> Result<Arguments, clap::Error> {
        let line = format!(
            "assertion --client-id machine --user ada@example.com --audience https://identity.example.com/ \
             --key {key}"
        );
        Line::try_parse_from(line.split_whitespace().chain(more.iter().copied()))
            .map(|line| line.arguments)
    }

    /// An assertion of the demo's non-interactive client that expires after `lifetime`.
    pub(in crate::command) fn of_the_demo(now: Timestamp, lifetime: Duration) -> String {
        let line = format!(
            "assertion --client-id non-interactive-demo --user ada@example.com --alias demo-2020 \
             --audience https://identity.example.com/ --lifetime {}s --key {}",
            lifetime.as_secs(),
            demo_key()
        );
        let line = Line::try_parse_from(line.split_whitespace()).unwrap();
        sign(&line.arguments, now, &OsRandom).unwrap()
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
                let settings = Settings::default();
                let assertion = Unverified::parse(&signed)?;
                let case = assertion.of_user(&client_id, &certificates, &settings, now);
                case.verify()
            };
            let read = verify(NOW).unwrap();
            assert_eq!(
                read.subject,
                Subject::Username("ada@example.com".to_owned())
            );
            assert_eq!(read.user_id.as_deref(), Some("1"));
            assert_eq!(read.user_site.as_deref(), Some("https://us1.example.com"));
            assert!(verify(NOW + Duration::from_secs(600)).is_err(), "lifetime");
        }
    }

    #[test]
    fn an_assertion_names_its_certificate() {
        assert!(parse("k", &[]).is_err());
        let of_client = "assertion --key k --client-id c --audience a";
        for (more, is_right) in [
            (" --client-assertion", true),
            ("", false),
            (" --client-assertion --user-id 1", false),
            (" --user u", false),
        ] {
            let line = format!("{of_client}{more}");
            let parsed = Line::try_parse_from(line.split(' '));
            assert_eq!(parsed.is_ok(), is_right, "{line}");
        }
        assert!(parse("k", &["--alias", "a", "--user-id", "1"]).is_ok());
        assert!(parse("k", &["--alias", "a", "--lifetime", "soon"]).is_err());
    }

    #[test]
    fn files_that_do_not_fit_are_named() {
        let other = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/domain/src/testdata/rsa-4096.pem"
        );
        let message = |key: &str, more: &[&str]| sign_with(key, more).unwrap_err().to_string();
        assert_eq!(
            message(&demo_key(), &["--certificate", other]),
            format!("{other}: is the certificate of another private key")
        );
        let certificate = demo_certificate();
        assert!(
            message(&certificate, &["--alias", "a"])
                .starts_with(&format!("{certificate}: expected a private key in PEM"))
        );
        assert_eq!(message("/nowhere", &["--alias", "a"]), "/nowhere");
    }
}
