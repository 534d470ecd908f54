//! The tour of `README.md` and `docs/tour.md`.

use tempfile::TempDir;
use tests::Tour;

use crate::support::{api, file, install, lobby, lobby_ea, pair};

fn tour() -> Tour {
    Tour {
        api: api(),
        lobby: lobby(),
        lobby_ea: Some(lobby_ea()),
        legacy: Some(pair().legacy_url()),
        callback: "http://127.0.0.1:8090".to_owned(),
        in_containers: false,
        programs: None,
        ca: None,
    }
}

#[test]
fn the_tour_works_as_printed() {
    let steps = tour().go(pair().artifacts()).unwrap();
    assert!(steps >= 10, "{steps} steps");
}

/// Runs the tour's commands for a container on this machine.
const STAND_IN: &str = r#"#!/usr/bin/env bash
[ "${*:1:5}" = 'compose exec -T token-service token-service' ] || exit 64
shift 5
exec 'PROGRAM' "${@/#\/etc\/token-service/DEMO}"
"#;

/// Runs the commands for containers with a stand-in for docker. The stand-in runs the same program, and maps the demo's
/// folder as docker-compose.yml mounts it.
#[test]
fn the_tour_works_in_containers_as_printed() {
    let artifacts = pair().artifacts();
    let compose = file("docker-compose.yml");
    assert!(compose.contains("- ./demo:/etc/token-service:ro"));
    let programs = TempDir::new().unwrap();
    let docker = programs.path().join("docker");
    let script = STAND_IN
        .replace("PROGRAM", &artifacts.token_service.display().to_string())
        .replace(
            "DEMO",
            &artifacts.repository.join("demo").display().to_string(),
        );
    install(&docker, script);
    let tour = Tour {
        in_containers: true,
        programs: Some(programs.path().to_owned()),
        ..tour()
    };
    tour.go(artifacts).unwrap();
}
