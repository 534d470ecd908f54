//! The test vectors of docs/revocation-feed.md.

use claims::Confirmation;
use serde_json::Value;

use super::*;

fn vectors(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().unwrap()
}

/// `value` with other members: `null` removes a member.
fn changed(value: &Value, changes: &Value) -> Value {
    let mut value = value.clone();
    for (name, change) in changes.as_object().unwrap() {
        value[name] = change.clone();
        if change.is_null() {
            value.as_object_mut().unwrap().remove(name);
        }
    }
    value
}

fn refuses(feed: &Feed, claims: &Value) -> bool {
    let text = |name: &str| claims[name].as_str().map(str::to_owned);
    let token = TokenReference {
        jti: text("jti"),
        grant_id: text("grant_id"),
        client_id: text("client_id"),
        sub: text("sub"),
        user_id: text("user_id"),
        user_site: text("user_site"),
        bound_to: Confirmation::read(&claims["cnf"]).unwrap_or_default(),
        iat: claims["iat"].as_u64().unwrap(),
        exp: claims["exp"].as_u64().unwrap(),
    };
    feed.revocations()
        .refusal(&token, claims["iss"].as_str().unwrap(), 0)
        .is_some()
}

#[test]
fn each_entry_revokes_its_tokens_alone() {
    let vectors = vectors(include_str!(
        "../../../../claims/revocation-feed/entries.json"
    ));
    for vector in list(&vectors, "entries") {
        let mut feed = alone();
        let page = json!({"feed": "A", "since": 0, "position": 1, "more": false, "revocations": [vector["entry"]]});
        let read = feed.answered(page.to_string().as_bytes(), &NoSharedData, at(0));
        assert_eq!(read, Ok(()), "{vector}");
        for (name, expected) in [("revokes", true), ("leaves", false)] {
            for changes in list(vector, name) {
                let token = changed(&vectors["token"], changes);
                assert_eq!(
                    refuses(&feed, &token),
                    expected,
                    "{} {token}",
                    vector["entry"]
                );
            }
        }
    }
}

#[test]
fn valid_pages_are_read_and_others_refused_whole() {
    let vectors = vectors(include_str!(
        "../../../../claims/revocation-feed/pages.json"
    ));
    let page = &vectors["page"];
    let read = |text: &str| {
        let mut feed = alone();
        let read = feed.answered(text.as_bytes(), &NoSharedData, at(0));
        (read.is_ok(), feed.revocations().len())
    };
    assert_eq!(read(&page.to_string()), (true, 8));
    for changes in list(&vectors, "valid") {
        let (is_read, _) = read(&changed(page, changes).to_string());
        assert!(is_read, "{changes}");
    }
    for changes in list(&vectors, "invalid") {
        assert_eq!(
            read(&changed(page, changes).to_string()),
            (false, 0),
            "{changes}"
        );
    }
    for text in list(&vectors, "invalid_texts") {
        assert_eq!(read(text.as_str().unwrap()), (false, 0), "{text}");
    }
}

/// The parameters of a request: `null` if there is none.
fn asked(request: Option<Request>) -> Value {
    let Some(request) = request else {
        return Value::Null;
    };
    let (path, query) = request.path.split_once('?').unwrap();
    assert_eq!(path, "/revocations");
    let mut asked = json!({});
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        match name {
            "version" => assert_eq!(value, "1"),
            "since" => asked[name] = value.parse().unwrap(),
            "wait" => asked["waits"] = (request.timeout > value.parse().unwrap()).into(),
            _ => asked[name] = value.into(),
        }
    }
    asked
}

#[test]
fn exchanges_go_on_as_they_are_written() {
    let vectors = vectors(include_str!(
        "../../../../claims/revocation-feed/exchanges.json"
    ));
    for exchange in list(&vectors, "exchanges") {
        let name = &exchange["name"];
        let mut feed = alone();
        for step in list(exchange, "steps") {
            let now = step["at"].as_u64().unwrap();
            if let Some(expected) = step.get("asks") {
                assert_eq!(asked(feed.due(now)), *expected, "{name}: {step}");
            } else if let Some(page) = step.get("gets") {
                let read = feed.answered(page.to_string().as_bytes(), &NoSharedData, at(now));
                assert_eq!(read, Ok(()), "{name}: {step}");
            } else {
                assert_eq!(step["fails"], true, "{name}: {step}");
                feed.failed(now);
            }
        }
        for jti in list(exchange, "revoked") {
            assert!(is_revoked(&feed, jti.as_str().unwrap()), "{name}: {jti}");
        }
    }
}
