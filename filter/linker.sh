#!/bin/sh
# The linker of the filter: rust-lld of the toolchain, which rustc has put into the PATH, with fewer exports.
#
# A host calls each callback that a module exports for each request, and each call costs. The SDK exports all callbacks
# of the ABI, and wasm-ld has no option that takes an export back. The callbacks that the filter uses stay.
set -eu

is_used() {
    case $1 in
    _initialize | proxy_abi_version_0_2_1 | proxy_on_memory_allocate) ;;
    proxy_on_vm_start | proxy_on_configure | proxy_on_tick | proxy_on_http_call_response) ;;
    proxy_on_context_create | proxy_on_request_headers | proxy_on_delete) ;;
    *) return 1 ;;
    esac
}

is_name=
for argument in "$@"; do
    shift
    if [ -n "$is_name" ]; then
        is_name=
        if is_used "$argument"; then set -- "$@" --export "$argument"; fi
    elif [ "$argument" = --export ]; then
        is_name=yes
    else
        set -- "$@" "$argument"
    fi
done

# Names of functions are a tenth of the module.
exec rust-lld "$@" --strip-all
