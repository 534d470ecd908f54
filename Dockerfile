# The images of the pair, --target token-service and --target gateway; the gateway with the native module, --target
# gateway-native; only the plugin, --target filter; only the native module, --target filter-native; and the guard for gateways
# without WebAssembly, --target token-guard.

# ---- everything that is compiled ---------------------------------------------------------------------
# The caches keep crates and what is compiled of them from one build to the next.
FROM rust:1.95.0-bookworm AS build
WORKDIR /source
COPY rust-toolchain.toml ./
RUN rustup target add wasm32-wasip1
COPY . .
# Programs link much sooner with thin link-time optimization. The filter has the profile of a release, and its bytes.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/source/target \
    CARGO_PROFILE_RELEASE_LTO=thin cargo build --release --locked --features token-service/jemalloc \
        --package token-service --package token-guard --package filter-native \
 && filter/build.sh \
 && install -D --target-directory=/built target/release/token-service target/release/token-guard target/release/libtoken_filter.so \
        target/wasm32-wasip1/release/filter.wasm

# ---- what the programs need of Debian ---------------------------------------------------------------
# Without a shell or a package manager: the C library, certificates of authorities, names of users, and what scanners read of the
# packages. Like gcr.io/distroless/cc-debian12, but with a base from the registry of all others, which CI can build.
FROM debian:bookworm-slim AS debian
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates \
 && mkdir --parents /image/var/lib/dpkg/status.d && install --directory --mode=1777 /image/tmp \
 && for package in base-files ca-certificates libc6 libgcc-s1; do \
        dpkg-query --status "$package" >"/image/var/lib/dpkg/status.d/$package"; \
        dpkg-query --listfiles "$package" | grep --extended-regexp '^/(usr/)?lib(64)?/([^/]*-linux-gnu/)?[^/]*\.so[^/]*$|/copyright$' \
            | while read -r file; do [ ! -e "$file" ] || cp --archive --parents --target-directory=/image "$file" || exit 1; done || exit 1; \
    done \
 && cp --archive --parents --target-directory=/image \
        /etc/debian_version /etc/nsswitch.conf /etc/os-release /etc/ssl/certs/ca-certificates.crt /usr/lib/os-release \
 && printf '%s:x:%s:%s::/nonexistent:/nonexistent\n' root 0 0 token-service 10001 10001 token-guard 10002 10002 >/image/etc/passwd \
 && printf '%s:x:%s:\n' root 0 token-service 10001 token-guard 10002 >/image/etc/group \
 && install --directory --owner=10001 --group=10001 --mode=0700 /of-token-service/data

# ---- token service ---------------------------------------------------------------------------------
FROM scratch AS token-service
COPY --from=debian /image/ /
COPY --from=debian /of-token-service/ /
COPY --from=build /built/token-service /usr/local/bin/token-service
ENV PATH=/usr/local/bin
# By number, so that Kubernetes sees that it is not root.
USER 10001:10001
VOLUME /data
EXPOSE 9080 9081
HEALTHCHECK --interval=10s --timeout=6s --start-period=10s CMD ["token-service", "health"]
ENTRYPOINT ["token-service"]
CMD ["serve"]

# ---- token guard -----------------------------------------------------------------------------------
FROM scratch AS token-guard
COPY --from=debian /image/ /
COPY --from=build /built/token-guard /usr/local/bin/token-guard
USER 10002:10002
EXPOSE 9090 9091
# Mount the configuration at this path. Set TOKEN_GUARD_TRUSTED_PEERS to the networks of your gateways, otherwise each gets 403,
# and TOKEN_GUARD_CLUSTERS to the addresses from which the configuration fetches.
ENV PATH=/usr/local/bin TOKEN_GUARD_CONFIG=/etc/token-guard/token-guard.json TOKEN_GUARD_LISTEN=0.0.0.0:9090 TOKEN_GUARD_INTERNAL_LISTEN=0.0.0.0:9091
HEALTHCHECK --interval=10s --timeout=6s --start-period=10s CMD ["token-guard", "health"]
ENTRYPOINT ["token-guard"]

# ---- filter: only the plugin, in the layout that Istio and Envoy Gateway pull ------------------------
FROM scratch AS filter
COPY --from=build /built/filter.wasm /plugin.wasm

# ---- filter-native: only the native module, which gateways mount as an image volume -------------------
FROM scratch AS filter-native
COPY --from=build /built/libtoken_filter.so /libtoken_filter.so

# ---- gateway: Envoy with the filter ----------------------------------------------------------------
FROM envoyproxy/envoy:v1.40.0 AS gateway
COPY --from=build /built/filter.wasm /etc/envoy/filter.wasm
COPY envoy/envoy.yaml envoy/container.sh /etc/envoy/
USER envoy
EXPOSE 8080 8081 8082 8083 8084 9901
HEALTHCHECK --interval=10s --timeout=6s --start-period=10s CMD ["bash", "/etc/envoy/container.sh", "health"]
ENTRYPOINT ["bash", "/etc/envoy/container.sh"]
CMD ["serve"]

# ---- gateway with the native module in place of the filter ------------------------------------------
FROM gateway AS gateway-native
COPY --from=build /built/libtoken_filter.so /usr/local/lib/libtoken_filter.so
ENV FILTER=native
USER envoy
