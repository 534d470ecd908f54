//! What pods may do, and who may reach them.

use serde_json::{Value, json};

use super::{RENDERED, cases, component, list, of_kind, pod, workloads};

/// Replicas of two versions share a database. A new pod is ready before an old pod stops, and no more than one is new at
/// a time. Only one process uses a redb file.
#[test]
fn an_upgrade_replaces_one_pod_after_the_other() {
    let (mut deployments, mut sets) = (0, 0);
    for (case, documents) in cases() {
        for deployment in of_kind(documents, "Deployment") {
            let strategy = json!({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}});
            assert_eq!(deployment["spec"]["strategy"], strategy, "{case}");
            deployments += 1;
        }
        for set in of_kind(documents, "StatefulSet") {
            assert_eq!(set["spec"]["replicas"], 1, "{case}");
            sets += 1;
        }
    }
    assert!(deployments > 0 && sets > 0);
}

/// Pod Security Standard "restricted", and a read-only file system.
#[test]
fn pods_have_no_privileges() {
    let (mut serving, mut ending) = (0, 0);
    for (case, documents) in cases() {
        let jobs = of_kind(documents, "Job");
        let tests = of_kind(documents, "Pod");
        let tests = tests.iter().map(|pod| &pod["spec"]);
        let workloads = workloads(documents).into_iter().chain(jobs).map(pod);
        for pod in workloads.chain(tests) {
            assert_eq!(pod["automountServiceAccountToken"], false, "{case}");
            let security = &pod["securityContext"];
            assert_eq!(security["runAsNonRoot"], true, "{case}");
            assert_eq!(
                security["seccompProfile"]["type"], "RuntimeDefault",
                "{case}"
            );
            if case == "token-guard-secret" {
                no_user(security);
            } else {
                assert!(security["runAsUser"].as_u64().unwrap() > 0, "{case}");
            }
            let allowed = ["configMap", "secret"];
            for volume in list(&pod["volumes"]) {
                let mut members = volume.as_object().unwrap().keys();
                assert!(
                    members.all(|kind| kind == "name" || allowed.contains(&kind.as_str())),
                    "{volume}"
                );
            }
            for container in list(&pod["containers"]) {
                let expected = json!({
                    "allowPrivilegeEscalation": false,
                    "readOnlyRootFilesystem": true,
                    "capabilities": {"drop": ["ALL"]},
                });
                assert_eq!(container["securityContext"], expected, "{case}");
                if pod["restartPolicy"] == "Never" {
                    ending += 1;
                    continue;
                }
                let probe = |name: &str| &container[name]["httpGet"];
                assert_eq!(
                    *probe("startupProbe"),
                    json!({"path": "/healthz", "port": "internal"})
                );
                assert_eq!(
                    *probe("livenessProbe"),
                    json!({"path": "/healthz", "port": "internal"})
                );
                assert_eq!(
                    *probe("readinessProbe"),
                    json!({"path": "/readyz", "port": "internal"})
                );
                serving += 1;
            }
        }
    }
    assert_eq!((serving, ending), (11, 21));

    for pod in workloads(list(&RENDERED["openshift"]["documents"])) {
        no_user(&self::pod(pod)["securityContext"]);
    }
}

/// The platform chooses the user.
#[track_caller]
fn no_user(security: &Value) {
    for member in ["runAsUser", "runAsGroup", "fsGroup"] {
        assert_eq!(security[member], Value::Null, "{security}");
    }
    assert_eq!(security["runAsNonRoot"], true);
}

/// Each program has its own account, and none has a token of the cluster's API.
#[test]
fn programs_have_accounts_of_their_own() {
    for (case, documents) in cases() {
        let accounts = of_kind(documents, "ServiceAccount");
        let mut created: Vec<&Value> = Vec::new();
        for account in accounts {
            assert_eq!(account["automountServiceAccountToken"], false, "{case}");
            created.push(&account["metadata"]["name"]);
        }
        let named = workloads(documents);
        let mut named: Vec<&Value> = named
            .iter()
            .map(|workload| &pod(workload)["serviceAccountName"])
            .collect();
        if case == "token-guard-secret" {
            assert_eq!(named, ["gateway"]);
            named.clear();
        }
        assert_eq!(json!(created), json!(named), "{case}");
    }
}

#[test]
fn token_guard_grows_with_the_load() {
    let documents = list(&RENDERED["token-guard-secret"]["documents"]);
    let scaler = &of_kind(documents, "HorizontalPodAutoscaler")[0]["spec"];
    let workload = workloads(documents)[0];
    assert_eq!(
        scaler["scaleTargetRef"]["name"],
        workload["metadata"]["name"]
    );
    assert_eq!(
        (&scaler["minReplicas"], &scaler["maxReplicas"]),
        (&json!(2), &json!(6))
    );
    // Otherwise each upgrade would undo what the autoscaler did.
    assert_eq!(workload["spec"]["replicas"], Value::Null);
    assert_eq!(of_kind(documents, "PodDisruptionBudget").len(), 1);
}

/// Only gateways and monitoring reach the internal listener, and no route leads there.
#[test]
fn the_internal_listener_is_internal() {
    for (case, documents) in cases() {
        for workload in workloads(documents) {
            let labels = workload["spec"]["selector"]["matchLabels"]
                .as_object()
                .unwrap();
            let policies = of_kind(documents, "NetworkPolicy");
            let policy = policies.iter().find(|policy| {
                policy["spec"]["podSelector"]["matchLabels"].as_object() == Some(labels)
            });
            let policy = policy.unwrap_or_else(|| panic!("{case}: {labels:?} has no policy"));
            assert_eq!(
                policy["spec"]["policyTypes"],
                json!(["Ingress", "Egress"]),
                "{case}"
            );
            for rule in list(&policy["spec"]["ingress"]) {
                let peers = list(&rule["from"]);
                assert!(!peers.is_empty(), "{case}: an empty list is everybody");
                assert!(peers.iter().all(|peer| *peer != json!({})), "{case}");
                assert!(!list(&rule["ports"]).is_empty(), "{case}: every port");
            }
            let resolver = if case == "token-guard-secret" {
                5353
            } else {
                53
            };
            let mut resolvers = 0;
            for rule in list(&policy["spec"]["egress"]) {
                let ports = list(&rule["ports"]);
                assert!(!ports.is_empty(), "{case}: every port");
                if ports.iter().any(|port| port["port"] == resolver) {
                    assert!(!list(&rule["to"]).is_empty(), "{case}: DNS to everywhere");
                    resolvers += 1;
                }
            }
            assert_eq!(resolvers, 1, "{case}");
        }
        let internal = |service: &Value| {
            let ports = list(&service["spec"]["ports"]).iter();
            ports.clone().any(|port| port["targetPort"] == "internal")
        };
        let services = of_kind(documents, "Service");
        for route in of_kind(documents, "HTTPRoute") {
            let name = route["metadata"]["name"].as_str().unwrap();
            let matches = &route["spec"]["rules"][0]["matches"];
            let keys = json!([
                {"path": {"type": "Exact", "value": "/auth/jwks"}},
                {"path": {"type": "PathPrefix", "value": "/.well-known"}},
            ]);
            let everything = Value::Null;
            let expected = if name.ends_with("-keys") {
                &keys
            } else {
                &everything
            };
            assert_eq!(matches, expected, "{case}: {name}");
            for backend in list(&route["spec"]["rules"][0]["backendRefs"]) {
                let to = services
                    .iter()
                    .find(|one| one["metadata"]["name"] == backend["name"]);
                assert!(!internal(to.unwrap()), "{case}");
            }
        }
    }
}

/// `helm test` asks each program at a port of its Service, which its NetworkPolicy admits.
#[test]
fn helm_test_reaches_each_program() {
    for (case, documents) in cases() {
        let tests = of_kind(documents, "Pod");
        assert_eq!(tests.len(), workloads(documents).len(), "{case}");
        for test in tests {
            assert_eq!(test["metadata"]["annotations"]["helm.sh/hook"], "test");
            let arguments = &test["spec"]["containers"][0]["args"];
            assert_eq!(arguments[0], "health");
            let url = arguments[2].as_str().unwrap();
            let (host, port) = url
                .strip_prefix("http://")
                .unwrap()
                .rsplit_once(':')
                .unwrap();
            let service = host.split('.').next().unwrap();
            let services = of_kind(documents, "Service");
            let service = services
                .iter()
                .find(|one| one["metadata"]["name"] == service);
            let service = &service.unwrap_or_else(|| panic!("{case}: {url}"))["spec"];
            let port: u16 = port.parse().unwrap();
            let mut ports = list(&service["ports"]).iter();
            let port = ports.find(|one| one["port"] == port).unwrap();
            assert_eq!(port["targetPort"], "internal", "{case}");
            let labels = &test["metadata"]["labels"];
            let policies = of_kind(documents, "NetworkPolicy");
            for policy in policies {
                let spec = &policy["spec"];
                if spec["podSelector"]["matchLabels"] != service["selector"] {
                    continue;
                }
                let admitted = list(&spec["ingress"]).iter().any(|rule| {
                    let selected = rule["from"][0]["podSelector"]["matchLabels"].as_object();
                    let is_test = selected.is_some_and(|selected| {
                        !selected.is_empty()
                            && selected.iter().all(|(name, value)| labels[name] == *value)
                    });
                    is_test && rule["ports"] == json!([{"port": "internal"}])
                });
                assert!(admitted, "{case}: {url}");
            }
        }
    }
}

/// The listener for certificates of clients is off by default. With an address, gateways reach it, and nobody else does.
#[test]
fn gateways_alone_reach_the_listener_for_mutual_tls() {
    let mut found = 0;
    for (case, documents) in cases() {
        let is_on = ["traffic-extension", "token-guard-envoy-gateway"].contains(&case);
        let ports = |kind: &str, of: fn(&Value) -> Vec<&Value>| -> Vec<Value> {
            let documents = of_kind(documents, kind).into_iter();
            let ports = documents.flat_map(of).filter(|port| {
                let text = port.to_string();
                text.contains("mutual-tls")
            });
            ports.cloned().collect()
        };
        let of_services = ports("Service", |service| {
            list(&service["spec"]["ports"]).iter().collect()
        });
        let of_rules = ports("NetworkPolicy", |policy| {
            list(&policy["spec"]["ingress"]).iter().collect()
        });
        assert_eq!(
            (of_services.len(), of_rules.len()),
            (usize::from(is_on), usize::from(is_on)),
            "{case}"
        );
        if is_on {
            found += 1;
            assert_eq!(of_services[0]["targetPort"], "mutual-tls");
            let also_public = list(&of_rules[0]["ports"]).contains(&json!({"port": "public"}));
            assert!(also_public, "{case}: the rule of the gateways");
            let from = of_rules[0]["from"].to_string();
            assert!(!from.contains("token-guard"), "{case}: {from}");
            let pod = pod(component(documents, "token-service").unwrap());
            let container = pod["containers"][0].to_string();
            for part in [
                r#"{"containerPort":9086,"name":"mutual-tls"}"#,
                "https://mtls.lobby.example.com",
                r#"{"name":"TOKEN_SERVICE__MUTUAL_TLS__GATEWAYS","value":"10.244.3."#,
            ] {
                assert!(container.contains(part), "{container}");
            }
        }
    }
    assert_eq!(found, 2);
}
