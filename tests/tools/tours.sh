#!/usr/bin/env bash
# Runs the tour of README.md and docs/tour.md against both pairs of docker-compose.yml, and asks its token-guard. They run with the
# profiles `replicas` and `token-guard`.
set -euo pipefail
cd "$(dirname "$0")/../.."
for pair in containers replicas; do
    cargo run --quiet --locked --bin tour -- "$pair"
done
tests/tools/ask-guard.sh
