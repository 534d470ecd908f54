//! The part of the chart's `values.schema.json` that the guard's reader determines: the reader describes itself while it
//! reads the sample configurations, which have every key.

use std::path::Path;

use keys::signature::NoHostVerifier;
use keys::testing::Issuer;
use serde_json::json;

use super::*;

/// Every key, and every form of a source.
fn samples() -> Vec<Value> {
    let rules = json!([{"path_prefix": "/", "claims": [{"claim": "roles", "values": ["editor"]}],
        "acr": "urn:mfa", "amr": ["pwd"], "max_age": 300}]);
    let fetched = json!({
        "issuers": [{
            "issuer": "https://lobby.example.com", "audiences": ["https://api.example.com"],
            "jwks": {"cluster": "keys", "path": "/auth/jwks"},
            "revocations": {"cluster": "feed", "path": "/revocations"},
        }],
        "dpop": {"origins": ["https://api.example.com"]},
        "rules": rules,
        "forward": {"x-user-id": "user_id", "x-roles": {"claim": "roles"}},
        "protected_resource": {"resource": "https://api.example.com"},
    });
    let discovered = json!({
        "issuers": [{
            "issuer": "https://login.example.org", "audiences": ["https://api.example.com"],
            "discovery": {"cluster": "issuer", "jwks_hosts": [{"authority": "keys.example.org", "cluster": "keys"}]},
            "introspection": {"cluster": "issuer", "path": "/introspect", "bearer": "secret"},
            "access_token_claims": {"scope": true},
        }],
        "rules": rules,
    });
    let keys = Issuer::new(Algorithm::EdDsa).jwk("one");
    let inline = json!({
        "issuers": [{
            "issuer": "https://login.example.org", "audiences": ["https://api.example.com"],
            "jwks": {"keys": [keys]},
        }],
        "rules": rules,
    });
    vec![fetched, discovered, inline]
}

/// The schema of all configurations that the guard reads.
fn described() -> Value {
    let problems = Problems::with_schema();
    for sample in samples() {
        let Value::Object(members) = sample else {
            panic!("{sample}");
        };
        Config::read(Table::from_strict_json(members), &NoHostVerifier, &problems);
    }
    let mut schema = problems.schema();
    assert!(problems.is_empty(), "{:?}", problems.into_found());
    settle(&mut schema, "");
    schema
}

/// Checks that the samples have every section, and leaves out what requires nothing.
fn settle(schema: &mut Value, path: &str) {
    let Value::Object(members) = schema else {
        return;
    };
    if members.get("type") == Some(&json!("object")) {
        let is_known = members.contains_key("properties")
            || members
                .get("additionalProperties")
                .is_some_and(Value::is_object);
        assert!(is_known, "no sample has {path}");
    }
    if members.get("type") == Some(&json!("array")) {
        assert!(members.contains_key("items"), "no sample has {path}");
    }
    if members.get("required") == Some(&json!([])) {
        members.remove("required");
    }
    for (key, member) in members {
        settle(member, &format!("{path}/{key}"));
    }
}

/// The schema of a part of a configuration, to which the chart adds what is required.
fn in_part(mut schema: Value) -> Value {
    if let Value::Object(members) = &mut schema {
        members.remove("required");
        for member in members.values_mut() {
            *member = in_part(member.take());
        }
    }
    schema
}

#[test]
fn the_values_of_the_chart_have_the_schema_of_the_guard() {
    let mut configuration = described();
    configuration.as_object_mut().unwrap().remove("required");
    let properties = configuration["properties"].as_object_mut().unwrap();
    let issuers = properties.remove("issuers").unwrap();
    let own = in_part(issuers["items"].clone());
    let made = [
        ("issuer", own.clone()),
        ("jwks", own["properties"]["jwks"].clone()),
        ("revocations", own["properties"]["revocations"].clone()),
        (
            "issuers",
            json!({"type": "array", "items": issuers["items"]}),
        ),
        ("configuration", configuration),
    ];
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/gatepass/values.schema.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let values: Value = serde_json::from_str(&text).unwrap();
    let mut expected = values.clone();
    for (key, mut schema) in made {
        schema["type"] = schema.get("type").cloned().unwrap_or(json!("object"));
        expected["properties"]["guard"]["properties"][key] = schema;
    }
    if std::env::var_os("WRITE_SCHEMA").is_some() {
        let text = serde_json::to_string_pretty(&expected).unwrap();
        std::fs::write(&path, text + "\n").unwrap();
        return;
    }
    assert!(
        values == expected,
        "{} is not that of the guard: WRITE_SCHEMA=1 cargo test --workspace --lib -- config::schema",
        path.display()
    );
}
