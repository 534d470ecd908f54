#!/usr/bin/env bash
# Links the filter with the callbacks that it answers and no others: the host calls every one that is exported, for each
# request, and each call costs. The SDK has one for everything that a host may ever tell, and the compiler exports all.
set -euo pipefail

kept=' _initialize proxy_abi_version_0_2_1 proxy_on_memory_allocate proxy_on_vm_start proxy_on_configure
 proxy_on_context_create proxy_on_delete proxy_on_tick proxy_on_http_call_response proxy_on_request_headers '

arguments=()
while [ $# -gt 0 ]; do
    if [ "$1" = --export ] && [[ $kept != *[[:space:]]"${2:-}"[[:space:]]* ]]; then
        shift 2
        continue
    fi
    arguments+=("$1")
    shift
done
exec rust-lld "${arguments[@]}"
