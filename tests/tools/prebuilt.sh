#!/usr/bin/env bash
# prebuilt.sh -- asks the pair that runs by docker-compose.prebuilt.yml for a token and calls the API with it: the images of a
# release are the ones of this checkout under other names, so a token that passes is enough. The gateway must be the one with the
# native module, which alone counts panics.
set -euo pipefail

api=http://127.0.0.1:${API_PORT:-8080}/api/projects lobby=http://127.0.0.1:${LOBBY_PORT:-8081}
status() { curl --silent --output /dev/null --write-out '%{http_code}' "$@" "$api"; }

token=$(curl --silent --fail --user user-bound-demo:demo-secret-of-user-bound-demo-not-for-real-use \
    --data grant_type=client_credentials --data user_id=1879048403 --data user_site=https://us1.example.com "$lobby/auth/token" \
    | python3 -c 'import json, sys; print(json.load(sys.stdin)["access_token"])')
without=$(status) with=$(status --header "Authorization: Bearer $token")
echo "Prebuilt images: $without without a token, $with with one."
[ "$without $with" = '401 200' ]
# Not `grep --quiet`, which would end before curl.
curl --silent --fail "http://127.0.0.1:${ENVOY_ADMIN_PORT:-9901}/stats/prometheus" | grep '^token_filter_panics'
