#!/usr/bin/env bash
# Runs the tour of README.md and docs/tour.md against both pairs of docker-compose.yml, which run with the profile `replicas`.
set -euo pipefail
cd "$(dirname "$0")/../.."
for pair in containers replicas; do
    cargo run --quiet --locked --bin tour -- "$pair"
done
