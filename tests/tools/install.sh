#!/usr/bin/env bash
# install.sh WHAT SOURCE COMMAND... -- installs WHAT with COMMAND, whose output goes to .cache/log. When COMMAND fails
# because SOURCE cannot be reached, one sentence says so instead of the output; otherwise the last lines are shown.
set -euo pipefail
cd "$(dirname "$0")/../.."

what=$1 source=$2
shift 2
mkdir -p .cache/log
log=.cache/log/$(printf %s "$what" | tr -c '[:alnum:].-' _ | cut -c-60).log
echo "== installing $what from $source"
if "$@" >"$log" 2>&1 </dev/null; then
    exit 0
fi

# What pip, npm, cargo, rustup and apt print without a network.
unreachable='could not resolve|couldn.t resolve|temporary failure|name or service not known|nodename nor servname'
unreachable+='|network is unreachable|no route to host|connection (was )?(refused|reset|timed out)|failed to connect'
unreachable+='|failed to establish a new connection|max retries exceeded|proxyerror|dns error|error sending request'
# What pip prints if the index lacks a pinned version.
unreachable+='|\(from versions: none\)'
unreachable+='|EAI_AGAIN|ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH'
if grep --quiet --extended-regexp --ignore-case "$unreachable" "$log"; then
    echo "Cannot install $what: $source cannot be reached from this machine. Connect it, or name a proxy in" \
        "HTTPS_PROXY, and run make again (output: $log)" >&2
else
    tail -n 20 "$log" >&2
    echo "Cannot install $what (output: $log)" >&2
fi
exit 1
