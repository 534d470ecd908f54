#!/usr/bin/env bash
# Runs Envoy in a container: envoy.yaml with the addresses of the container network, rendered at start so that the
# ports that the world sees can be moved. `health` succeeds when Envoy serves: with a filter that does not load or refuses
# its configuration, Envoy does not start.
set -euo pipefail

api=${API_URL:-http://127.0.0.1:8080}
lobby=${LOBBY_URL:-http://127.0.0.1:8081}
# All addresses of this name are asked in turn.
token_service=${TOKEN_SERVICE_HOST:-token-service}
early_access=${LOBBY_EA_URL:-http://127.0.0.1:8082}

# Host of an OpenTelemetry collector that receives traces at port 4318. Empty: no traces.
traces=()
if [ -n "${OTLP_HOST:-}" ]; then
    traces=(-e 's/#traces //' -e '/# .*OTLP_HOST/s/address: 127\.0\.0\.1/address: '"$OTLP_HOST"'/')
fi

# Folder of server.pem and server.key. Empty: the gateway has no TLS.
tls=()
if [ -n "${TLS_FOLDER:-}" ]; then
    tls=(-e 's/#https //' -e '/# TLS_FOLDER/s#filename: #&'"$TLS_FOLDER"'/#')
fi

# FILTER=native: the native module in place of filter.wasm.
filter=()
if [ "${FILTER:-wasm}" = native ]; then
    filter=(-e '/http\.wasm\.v3\.Wasm$/,/ configuration:$/d' -e 's/#native //')
else
    filter=(-e '/#native /d')
fi

# status PORT PATH -- the status line of a GET; the image has no curl.
status() {
    exec 3<>"/dev/tcp/127.0.0.1/$1"
    printf 'GET %s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n' "$2" >&3
    head -n 1 <&3
}

case ${1:-serve} in
    health)
        # No request of this check goes through the filter: it would count as one that came without a token.
        [[ $(status 9901 /ready) == *' 200 '* ]]
        ;;
    serve)
        sed -e "s#http://127\.0\.0\.1:8080#$api#; s#http://127\.0\.0\.1:8081#$lobby#; s#http://127\.0\.0\.1:8082#$early_access#" \
            -e '/# .*LISTEN_ADDRESS/s/address: 127\.0\.0\.1/address: 0.0.0.0/' \
            -e '/# .*TOKEN_SERVICE_HOST/s/address: 127\.0\.0\.1/address: '"$token_service"'/' \
            -e '/# .*EARLY_ACCESS_HOST/s/address: 127\.0\.0\.1/address: token-service-early-access/' \
            "${filter[@]}" \
            -e '/# FILTER_WASM/s#filename: [^ ]*#filename: /etc/envoy/filter.wasm#' \
            -e '/# FILTER_NATIVE/s#filename: [^ ]*#filename: /usr/local/lib/libtoken_filter.so#' \
            "${traces[@]}" "${tls[@]}" \
            /etc/envoy/envoy.yaml >/tmp/envoy.yaml
        exec envoy --config-path /tmp/envoy.yaml --log-level warning --component-log-level wasm:info,dynamic_modules:info
        ;;
    *)
        echo "usage: container.sh [serve | health]" >&2
        exit 64
        ;;
esac
