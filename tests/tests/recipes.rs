//! The recipes of `examples/envoy-recipes`, each in the pair's own gateway.

use serde_json::{Value, json};
use tests::gateways::{Gateway, Kind, Neighbours};
use tests::{Issuer, Upstream};

use crate::api::until;
use crate::support::{Assertion, NON_INTERACTIVE, OwnPair, Reply, file, get};

fn recipe(name: &str) -> String {
    file(&format!("examples/envoy-recipes/{name}"))
}

/// The lines of `text` with `indent` more spaces.
fn indented(text: &str, indent: usize) -> String {
    let lines = text.lines().map(|line| format!("{:indent$}{line}\n", ""));
    lines.collect()
}

/// The last line of the token filter's configuration. The next HTTP filter follows it.
const LAST_OF_FILTER: &str = "\"access_log_state\": true\n                            }\n";

fn call(pair: &OwnPair, path: &str, headers: &[(&str, &str)]) -> Reply {
    get(&format!("{}{path}", pair.pair.api_url()), headers)
}

/// The entries of the access log for this path.
fn entries(log: &str, path: &str) -> Vec<Value> {
    let lines = log.lines().filter(|line| line.starts_with('{'));
    let entries = lines.filter_map(|line| serde_json::from_str(line).ok());
    entries
        .filter(|entry: &Value| entry["path"] == path)
        .collect()
}

#[forms::each]
fn each_client_has_a_rate_limit_and_a_name_in_the_access_log() {
    let gateway = file("envoy/envoy.yaml");
    let start = gateway.find("                access_log:\n").unwrap();
    let end = start
        + gateway[start..]
            .find("                use_remote_address")
            .unwrap();
    let filter = recipe("rate-limit-per-client.yaml");
    let pair = OwnPair::with_gateway(&[
        (
            &gateway[start..end],
            &indented(&recipe("access-log.yaml"), 16),
        ),
        (
            LAST_OF_FILTER,
            &format!("{LAST_OF_FILTER}{}", indented(&filter, 18)),
        ),
    ]);
    let greedy = format!("Bearer {}", pair.token());
    let assertion = Assertion::of("ada@example.com").sign();
    let modest = NON_INTERACTIVE.assert(&pair.lobby(), &assertion, &[]);
    let modest = format!("Bearer {}", modest.text("access_token"));

    let ask = |path: &str, token: &str| call(&pair, path, &[("authorization", token)]);
    let limited = (0..10_000).map(|_| ask("/api/greedy", &greedy));
    let mut limited = limited.skip_while(|reply| reply.status == 404);
    let refusal = limited.next().unwrap();
    assert_eq!(refusal.status, 429, "{refusal:?}");
    assert_eq!(refusal.header("x-ratelimit-remaining"), Some("0"));
    let spoofed = [
        ("authorization", greedy.as_str()),
        ("x-client-id", "non-interactive-demo"),
    ];
    // Neither the name of another client nor a second token of the same client allows more requests.
    until("the client is over its limit under another name", || {
        call(&pair, "/api/spoofed", &spoofed).status == 429
    });
    assert_eq!(ask("/api/modest", &modest).status, 404, "another client");
    assert_eq!(call(&pair, "/healthz", &[]).status, 200);

    let log = pair.pair.end();
    for (path, client) in [
        ("/api/greedy", "user-bound-demo"),
        ("/api/spoofed", "user-bound-demo"),
        ("/api/modest", "non-interactive-demo"),
    ] {
        let entry = entries(&log, path).remove(0);
        let token: Value = serde_json::from_str(entry["token"].as_str().unwrap()).unwrap();
        assert_eq!(token["client_id"], client, "{entry}");
        assert!(entry["duration_ms"].is_number(), "{entry}");
    }
    let refused = entries(&log, "/api/greedy").into_iter();
    let flags = refused
        .filter(|entry| entry["status"] == 429)
        .map(|entry| entry["flags"].clone());
    assert!(flags.clone().count() > 0 && flags.into_iter().all(|flag| flag == "RL"));
}

/// A token opens the API that its `aud` names, and no other.
#[forms::each]
fn a_token_for_one_api_does_not_open_the_other() {
    let (projects, documents) = (
        "https://projects.example.com",
        "https://documents.example.com",
    );
    let issuer = Issuer::new().unwrap();
    let mut configuration: Value = serde_json::from_str(&recipe("two-apis.json")).unwrap();
    configuration["issuers"] = json!([issuer.configuration(projects)]);
    configuration["issuers"][0]["audiences"] = json!([projects, documents]);
    let upstream = Upstream::start(false).unwrap();
    let neighbours = Neighbours {
        resource_server: upstream.port(),
        plugin: &configuration.to_string(),
        ..Neighbours::default()
    };
    let gateway = Gateway::start(Kind::EnvoyFilter, &neighbours, &[]).unwrap();
    for (audience, expected) in [
        (json!(projects), [200, 403]),
        (json!(documents), [403, 200]),
        (json!([projects, documents]), [200, 200]),
        (json!("https://other.example.com"), [401, 401]),
    ] {
        let token = issuer.token("", &[("aud", audience.clone())]).unwrap();
        let authorization = format!("Bearer {token}");
        let statuses = ["/projects/1", "/documents/1"].map(|path| {
            let url = format!("http://127.0.0.1:{}{path}", gateway.port());
            let reply = get(&url, &[("authorization", &authorization)]);
            if reply.status == 403 {
                reply.assert_error(403, "insufficient_scope");
            }
            reply.status
        });
        assert_eq!(statuses, expected, "{audience}");
    }
}

/// Requests that the filter would refuse pass with their token; the filter counts and logs them.
#[forms::each]
fn a_filter_that_reports_only_refuses_nobody() {
    let keys: Value = serde_json::from_str(&recipe("report-only.json")).unwrap();
    let keys = keys.as_object().unwrap();
    assert_eq!(
        keys.keys().collect::<Vec<_>>(),
        ["forward_authorization", "report_only"]
    );
    let lines: String = keys
        .iter()
        .map(|(key, value)| format!("\"{key}\": {value},"))
        .collect();
    let pair = OwnPair::with_gateway(&[("\"forward_authorization\": false,", lines.as_str())]);
    let reply = call(&pair, "/api/projects", &[("authorization", "Bearer a.b.c")]);
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json()["authorization"], "Bearer a.b.c");
    let path = "/api/of/nobody";
    for headers in [vec![], vec![("authorization", "Bearer a.b.c")]] {
        assert_eq!(
            call(&pair, path, &headers).status,
            404,
            "from the resource server"
        );
    }
    let both = |log: &str| {
        let lines = log
            .lines()
            .filter(|line| line.contains("\"event\":\"would_deny\""));
        let of_path = lines.filter(|line| line.contains(&format!("\"path\":\"{path}\"")));
        (of_path.count() == 2).then_some(())
    };
    pair.pair.log().until("both are logged", both).unwrap();
    let admin = format!(
        "http://127.0.0.1:{}/stats/prometheus",
        pair.pair.ports().envoy_admin
    );
    until("all are counted", || {
        let stats = get(&admin, &[]).body;
        let sum = |name: &str| -> u64 {
            let lines = stats.lines().filter(|line| line.starts_with(name));
            let values = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
            values.sum()
        };
        assert_eq!(sum("token_filter_allowed{"), 0);
        sum("token_filter_reported{") >= 3
            && sum("token_filter_reported{") == sum("token_filter_denied{")
    });
}
