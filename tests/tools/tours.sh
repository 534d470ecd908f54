#!/usr/bin/env bash
# Runs the tour of README.md and docs/tour.md against the pairs of docker-compose.yml, and asks its token-guard. They run with the
# profiles `replicas`, `tls` and `token-guard`. Then compares the filter in the image, which was built in another folder and with another
# home of cargo, with the one that filter/build.sh has built here: its bytes depend on the sources and the toolchain alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
for pair in containers replicas; do
    cargo run --quiet --locked --bin tour -- "$pair"
done
ca=$(mktemp)
trap 'rm "$ca"' EXIT
docker compose exec -T gateway-tls cat /tls/ca.pem >"$ca"
CURL_CA_BUNDLE=$ca cargo run --quiet --locked --bin tour -- tls
curl --silent --head http://127.0.0.1:"${TLS_LOBBY_PORT:-8281}"/auth/ | grep --ignore-case '^location: https://'
tests/tools/ask-guard.sh
of_image=$(docker compose exec -T gateway sha256sum /etc/envoy/filter.wasm)
of_tests=$(sha256sum "${CARGO_TARGET_DIR:-target}/wasm32-wasip1/release/filter.wasm")
printf '%s\n' "$of_image" "$of_tests"
[ "${of_image%% *}" = "${of_tests%% *}" ] || { echo 'The filter is not reproducible: its bytes depend on the folder.' >&2; exit 1; }
