//! `token-service proof`: a DPoP proof, as a client makes it for one request, for trying things out.

use std::path::PathBuf;
use std::process::ExitCode;

use claims::Thumbprint;
use claims::dpop::PROOF_TYPE;
use serde_json::{Map, Value, json};

use super::output;
use crate::jwt::{compact, read_key};
use domain::clock::{Clock as _, Timestamp};
use domain::random::{self, Random};
use protocol::token::SigningKey;
use system::{OsRandom, SystemClock};

/// What to prove, and with what.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  openssl genpkey -algorithm ED25519 -out proof-key.pem
  token-service proof --key proof-key.pem --method POST --url http://127.0.0.1:8081/auth/token")]
pub(super) struct Arguments {
    /// PEM file with the client's private key: Ed25519, P-256 or RSA. `-` is standard input.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Print the thumbprint of the key (`jkt`) instead of a proof.
    #[arg(long, conflicts_with_all = ["method", "url", "token", "nonce"])]
    thumbprint: bool,
    /// The method of the request: `htm`.
    #[arg(long, required_unless_present = "thumbprint")]
    method: Option<String>,
    /// The URL of the request: `htu`.
    #[arg(long, required_unless_present = "thumbprint")]
    url: Option<String>,
    /// The access token of the request, whose hash becomes `ath`. Leave it out at the token endpoint.
    #[arg(long)]
    token: Option<String>,
    /// The last `DPoP-Nonce` of the server.
    #[arg(long)]
    nonce: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let key = read_key(&arguments.key)?;
    let text = if arguments.thumbprint {
        key.jwk().key.thumbprint().to_string()
    } else {
        proof(&key, arguments, SystemClock.now(), &OsRandom)?
    };
    output::line(text)?;
    Ok(ExitCode::SUCCESS)
}

/// The proof in its compact form.
fn proof(
    key: &SigningKey,
    arguments: &Arguments,
    now: Timestamp,
    random: &dyn Random,
) -> anyhow::Result<String> {
    let header = json!({
        "typ": PROOF_TYPE,
        "alg": key.algorithm().name(),
        "jwk": key.jwk().key,
    });
    let hash = |token: &String| Thumbprint::of(token.as_bytes()).to_string();
    let claims = [
        ("jti", Some(json!(random::text::<16>(random)?))),
        ("htm", arguments.method.as_ref().map(|method| json!(method))),
        ("htu", arguments.url.as_ref().map(|url| json!(url))),
        ("iat", Some(json!(now.seconds()))),
        ("ath", arguments.token.as_ref().map(hash).map(Value::from)),
        ("nonce", arguments.nonce.as_ref().map(|nonce| json!(nonce))),
    ];
    let claims: Map<String, Value> = claims
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect();
    compact(key, &header, &claims.into())
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use claims::Algorithm;
    use claims::dpop::{Expected, Nonces, Proof, PublicOrigin, Window};
    use clap::Parser as _;

    use super::*;

    const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        let words = ["proof"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.arguments)
    }

    #[test]
    fn a_proof_is_for_the_request_and_its_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        for algorithm in Algorithm::ALL {
            let pkcs8 = SigningKey::generate_pkcs8(algorithm).unwrap();
            let pem = STANDARD.encode(&*pkcs8);
            let pem = format!("-----BEGIN PRIVATE KEY-----\n{pem}\n-----END PRIVATE KEY-----\n");
            std::fs::write(&path, pem).unwrap();
            let key = read_key(&path).unwrap();
            let line = "--key k --method GET --url https://api.example.com/a --token t --nonce n";
            let text = proof(&key, &parse(line).unwrap(), NOW, &OsRandom).unwrap();
            let parsed = Proof::parse(&[text.as_bytes()], &Algorithm::ALL).unwrap();
            let expected = Expected {
                bound_to: Some(key.jwk().key.thumbprint()),
                access_token: Some("t"),
                method: b"GET",
                target: b"/a",
                origins: &[PublicOrigin::parse("https://api.example.com").unwrap()],
                now: NOW.seconds(),
                window: Window {
                    max_age: 60,
                    skew: 10,
                },
                nonces: Nonces::Off,
            };
            let checked = parsed.check(&expected).unwrap();
            let used = checked.verify(|_, message, signature| key.verifies(message, signature));
            assert!(used.is_ok(), "{algorithm:?}");
        }
    }

    #[test]
    fn a_proof_needs_method_and_url_and_a_thumbprint_neither() {
        assert!(parse("--key k --method GET").is_err());
        assert!(parse("--key k --url https://api.example.com").is_err());
        assert!(parse("--key k --thumbprint --method GET").is_err());
        assert!(parse("--key k --thumbprint").is_ok());
    }
}
