//! `token-service explain`.

use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::{Value, json};
use ureq::http::Method;
use zeroize::Zeroizing;

use super::Connected;
use super::connection::Answer;
use crate::command::output;
use crate::http::admin::explain::Explanation;
use crate::telemetry::visible::{visible, visible_json};
use secrets::text_file;

pub(super) const EXAMPLES: &str = "Examples:
  token-service explain eyJhbGciOi...
  token-service explain - < assertion.jwt
  token-service explain - --proof eyJ0eXAi... --method GET --request-url https://api.example.com/projects < token.jwt

Exits with 1 when the token would be refused.";

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Arguments {
    /// Access token, refresh token (also legacy), user assertion (also of an identity provider) or client assertion. `-` reads it
    /// from standard input, which keeps it out of the shell's history.
    #[arg(allow_hyphen_values = true)]
    token: String,
    /// DPoP proof that was sent with the token. `--method` and `--request-url` name the request.
    #[arg(long, requires = "method", requires = "request_url")]
    proof: Option<String>,
    /// The method of the request.
    #[arg(long, requires = "proof")]
    method: Option<String>,
    /// The URL of the request, as the client knows it.
    #[arg(long, requires = "proof")]
    request_url: Option<String>,
}

pub(super) fn run(arguments: &Connected<Arguments>) -> anyhow::Result<ExitCode> {
    let (own, administration) = arguments.open()?;
    let mut token = Zeroizing::new(own.token.clone());
    if *token == "-" {
        token = text_file::text("-".as_ref()).context("standard input")?;
    }
    let mut body = json!({"token": token.trim()});
    if let Some(proof) = &own.proof {
        body["proof"] = json!({"proof": proof, "method": own.method, "url": own.request_url});
    }
    let answer: Answer<Explanation> = administration.send(Method::POST, "/explain", &body)?;
    output::unless_gone(answer.print(text))?;
    Ok(if answer.value.accepted {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn text(explanation: &Explanation) -> String {
    let pretty = |value: &Value| {
        let text = serde_json::to_string_pretty(value).unwrap_or_default();
        visible_json(&text).into_owned()
    };
    let mut lines = vec![format!("This is: {}", visible(&explanation.kind))];
    for (name, part) in [
        ("Header", &explanation.header),
        ("Claims", &explanation.claims),
    ] {
        if !part.is_null() {
            lines.push(format!("{name}: {}", pretty(part)));
        }
    }
    lines.push(String::new());
    lines.extend(explanation.checks.iter().map(|check| {
        let mark = if check.passed { "pass" } else { "FAIL" };
        // Reasons repeat claims of a token that may be unsigned, so a line end could fake a passed check.
        format!("{mark}  {}: {}", check.check, visible(&check.reason))
    }));
    lines.push(String::new());
    lines.push(if explanation.accepted {
        "It would be accepted now.".to_owned()
    } else {
        "It would be refused now.".to_owned()
    });
    lines.join("\n")
}
