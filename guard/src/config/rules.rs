//! Reads the rules of the configuration.

use std::sync::Arc;

use document::Section;

use super::{is_scope, one_of, required_text, text};
use crate::authorization::is_token_byte;
use crate::rules::{Access, PathCase, PathPattern, RequiredClaim, Rule, Rules, SignIn};

/// Longest `max_age`: a year, in seconds.
const LONGEST_AGE: u64 = 365 * 24 * 3600;

pub(super) fn read(root: &mut Section<'_>) -> Rules {
    let cases = [
        ("insensitive", PathCase::Insensitive),
        ("sensitive", PathCase::Sensitive),
    ];
    let case = one_of(root, "path_case", cases, PathCase::Insensitive);
    let mut rules: Vec<Rule> = Vec::new();
    let none = "needs at least one rule: without one, all is denied";
    for mut object in root.required_sections("rules", none) {
        let pattern = match (text(&mut object, "path"), text(&mut object, "path_prefix")) {
            (Some(path), None) => Some(PathPattern::Exact(path)),
            (None, Some(prefix)) => Some(PathPattern::Prefix(prefix)),
            _ => {
                object.problem("path", "or path_prefix is needed, and only one of the two");
                None
            }
        };
        if let Some(pattern) = &pattern
            && let Err(why) = pattern.check()
        {
            object.problem(pattern.key(), why);
        }
        let methods = object.values("methods");
        if methods.as_ref().is_some_and(Vec::is_empty) {
            object.problem("methods", "needs at least one method, or leave it out");
        }
        for method in methods.iter().flatten() {
            if let Err(why) = check_method(method) {
                object.problem("methods", &why);
            }
        }
        let scopes = object.values("scopes").unwrap_or_default();
        if !scopes.iter().all(|scope| is_scope(scope)) {
            object.problem("scopes", "has something that is no scope token");
        }
        let claims = claims(&mut object);
        let sign_in = sign_in(&mut object);
        let is_anonymous = [("token", false), ("anonymous", true)];
        let is_anonymous = one_of(&mut object, "access", is_anonymous, false);
        let forward_authorization = object.flag("forward_authorization");
        if forward_authorization.is_some() && !is_anonymous {
            let why = "is for anonymous paths: elsewhere, the key of the same name outside the rules decides";
            object.problem("forward_authorization", why);
        }
        let access = if is_anonymous {
            if !scopes.is_empty() {
                object.problem("scopes", "means nothing on an anonymous path");
            }
            if !claims.is_empty() {
                object.problem("claims", "means nothing on an anonymous path");
            }
            if sign_in != SignIn::default() {
                let key = sign_in.claims.first();
                let key = key.map_or("max_age", |required| &required.claim);
                object.problem(key, "means nothing on an anonymous path");
            }
            Access::Anonymous {
                forward_authorization: forward_authorization.is_some_and(|flag| flag.value),
            }
        } else {
            Access::Token {
                scopes,
                claims,
                sign_in,
            }
        };
        if let Some(pattern) = pattern {
            let rule = Rule {
                pattern,
                methods: methods.unwrap_or_default(),
                access,
            };
            for other in &rules {
                if let Err(why) = rule.check_beside(other, case) {
                    object.problem(rule.pattern.key(), why);
                }
            }
            rules.push(rule);
        }
        object.finish();
    }
    Rules::new(rules, case)
}

/// The values of claims that a rule requires, one by one.
fn claims(rule: &mut Section<'_>) -> Vec<Arc<RequiredClaim>> {
    let mut required = Vec::new();
    for mut object in rule.sections("claims") {
        let claim = required_text(&mut object, "claim").unwrap_or_default();
        let within = object.values("within").unwrap_or_default();
        let values = object.values("values").unwrap_or_default();
        if claim.is_empty() || within.iter().any(String::is_empty) {
            object.problem("claim", "and the names in within must not be empty");
        }
        if values.is_empty() {
            object.problem(
                "values",
                "needs at least one value, which the claim must have",
            );
        }
        for value in values {
            required.push(Arc::new(RequiredClaim {
                within: within.clone(),
                claim: claim.clone(),
                value,
            }));
        }
        object.finish();
    }
    required
}

/// How and when the person must have signed in.
fn sign_in(rule: &mut Section<'_>) -> SignIn {
    let mut claims = Vec::new();
    let acr = text(rule, "acr").map(|acr| vec![acr]);
    for (claim, values) in [("acr", acr), ("amr", rule.values("amr"))] {
        for value in values.unwrap_or_default() {
            // The challenge has the values of acr, with spaces between them.
            if !is_scope(&value) {
                rule.problem(
                    claim,
                    "must be printable ASCII without spaces, quotes and backslashes",
                );
            }
            claims.push(Arc::new(RequiredClaim {
                within: Vec::new(),
                claim: claim.to_owned(),
                value,
            }));
        }
    }
    let max_age = rule.number("max_age", 1..=LONGEST_AGE);
    SignIn {
        claims,
        max_age: max_age.map(|seconds| seconds.value),
    }
}

/// The guard compares methods byte for byte (RFC 9110 §9.1). If a rule has a misspelt method, the requests that it was
/// meant for fall to another rule, so a typing error could open a path.
fn check_method(method: &str) -> Result<(), String> {
    if method.is_empty() || !method.bytes().all(is_token_byte) {
        let trimmed = method.trim().to_ascii_uppercase();
        let hint = match !trimmed.is_empty() && trimmed.bytes().all(is_token_byte) {
            true => format!("; did you mean \"{trimmed}\"?"),
            false => String::new(),
        };
        return Err(format!("{method:?} is no HTTP method{hint}"));
    }
    if method.bytes().any(|byte| byte.is_ascii_lowercase()) {
        let upper = method.to_ascii_uppercase();
        return Err(format!(
            "{method:?} is not in upper case, and methods are case-sensitive; did you mean {upper:?}?"
        ));
    }
    Ok(())
}
