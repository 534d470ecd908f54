#!/usr/bin/env bash
# Asks the token-guard of docker-compose.yml, which runs with the profile `token-guard` on the default ports, as a gateway on this
# machine does: without a token, and with one of the pair.
set -euo pipefail

token=$(curl --silent --fail --user user-bound-demo:demo-secret-of-user-bound-demo-not-for-real-use \
    --data grant_type=client_credentials --data user_id=1879048403 --data user_site=https://us1.example.com \
    http://127.0.0.1:8081/auth/token | python3 -c 'import json, sys; print(json.load(sys.stdin)["access_token"])')
status() {
    curl --silent --output /dev/null --write-out '%{http_code}' --header 'X-Forwarded-Method: GET' \
        --header 'X-Forwarded-Uri: /api/projects' "$@" http://127.0.0.1:9090/forward-auth
}
without=$(status) with=$(status --header "Authorization: Bearer $token")
echo "token-guard: $without without a token, $with with one."
[ "$without $with" = '401 200' ]
