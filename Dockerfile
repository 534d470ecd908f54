# The images of the pair, --target token-service and --target gateway; the gateway with the native module, --target
# gateway-native; the plugin alone, --target filter; and the guard for gateways without WebAssembly, --target token-guard.

# ---- dependencies: a layer that changes only with the manifests ------------------------------------
FROM rust:1.95.0-bookworm AS dependencies
WORKDIR /source
COPY rust-toolchain.toml ./
RUN rustup target add wasm32-wasip1
COPY Cargo.toml Cargo.lock ./
COPY .cargo .cargo
COPY claims/Cargo.toml claims/
COPY claims/document/Cargo.toml claims/document/
COPY filter/Cargo.toml filter/build.sh filter/linker.sh filter/
COPY filter-native/Cargo.toml filter-native/
COPY guard/Cargo.toml guard/
COPY guard/native/Cargo.toml guard/native/
COPY process/Cargo.toml process/
COPY token-guard/Cargo.toml token-guard/
COPY token-service/Cargo.toml token-service/
COPY token-service/domain/Cargo.toml token-service/domain/
COPY token-service/protocol/Cargo.toml token-service/protocol/
COPY token-service/registration/Cargo.toml token-service/registration/
COPY token-service/store/Cargo.toml token-service/store/
COPY token-service/system/Cargo.toml token-service/system/
COPY tests/Cargo.toml tests/
# Empty crates stand in for the sources, so that cargo builds what they depend on.
RUN for library in claims claims/document filter filter-native guard guard/native process tests token-service token-service/domain \
        token-service/protocol token-service/registration token-service/store token-service/system; do \
        mkdir -p $library/src && touch $library/src/lib.rs; done \
 && mkdir -p token-guard/src token-service/benches tests/src/bin tests/tests \
 && benches=$(sed --quiet '/^\[\[bench\]\]/ { n; s|name = "\(.*\)"|token-service/benches/\1.rs|p }' token-service/Cargo.toml) \
 && for main in token-guard/src/main.rs token-service/src/main.rs $benches tests/src/bin/up.rs tests/tests/main.rs; do \
        echo 'fn main() {}' > $main; done
# Link-time optimization of everything at once makes the filter smaller; programs link much sooner without it.
RUN CARGO_PROFILE_RELEASE_LTO=thin cargo build --release --locked --package token-service --package token-guard
RUN filter/build.sh

# ---- the sources -----------------------------------------------------------------------------------
FROM dependencies AS build
COPY claims claims
COPY filter filter
COPY filter-native filter-native
COPY guard guard
COPY process process
COPY token-guard token-guard
COPY token-service token-service
# Copies keep the times of their files, which may be older than the empty crates.
RUN find claims filter filter-native guard process token-guard token-service -name '*.rs' -exec touch {} + \
 && CARGO_PROFILE_RELEASE_LTO=thin cargo build --release --locked --package token-service --package token-guard \
 && filter/build.sh

# ---- the native module, for its image alone -----------------------------------------------------------
FROM build AS build-native
RUN cargo build --profile native --locked --package gatepass-filter-native

# ---- token service ---------------------------------------------------------------------------------
FROM debian:bookworm-slim AS token-service
RUN groupadd --system --gid 10001 token-service \
 && useradd --system --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin token-service \
 && install --directory --owner token-service --group token-service --mode 0700 /data
COPY --from=build /source/target/release/token-service /usr/local/bin/token-service
# By number, so that Kubernetes sees that it is not root.
USER 10001:10001
VOLUME /data
EXPOSE 9080 9081
HEALTHCHECK --interval=10s --timeout=6s --start-period=10s CMD ["token-service", "health"]
ENTRYPOINT ["token-service"]
CMD ["serve"]

# ---- token guard -----------------------------------------------------------------------------------
FROM debian:bookworm-slim AS token-guard
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/* \
 && groupadd --system --gid 10002 token-guard \
 && useradd --system --uid 10002 --gid 10002 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin token-guard
COPY --from=build /source/target/release/token-guard /usr/local/bin/token-guard
USER 10002:10002
EXPOSE 9090 9091
# Mount the configuration at this path. Set TOKEN_GUARD_TRUSTED_PEERS to the networks of your gateways, otherwise each gets 403,
# and TOKEN_GUARD_CLUSTERS to the addresses from which the configuration fetches.
ENV TOKEN_GUARD_CONFIG=/etc/token-guard/token-guard.json TOKEN_GUARD_LISTEN=0.0.0.0:9090 TOKEN_GUARD_INTERNAL_LISTEN=0.0.0.0:9091
HEALTHCHECK --interval=10s --timeout=6s --start-period=10s CMD ["token-guard", "health"]
ENTRYPOINT ["token-guard"]

# ---- filter: the plugin alone, in the layout that Istio and Envoy Gateway pull ------------------------
FROM scratch AS filter
COPY --from=build /source/target/wasm32-wasip1/release/filter.wasm /plugin.wasm

# ---- gateway: Envoy with the filter ----------------------------------------------------------------
FROM envoyproxy/envoy:v1.40.0 AS gateway
COPY --from=build /source/target/wasm32-wasip1/release/filter.wasm /etc/envoy/filter.wasm
COPY envoy/envoy.yaml envoy/container.sh /etc/envoy/
USER envoy
EXPOSE 8080 8081 8082 8083 8084 9901
HEALTHCHECK --interval=10s --timeout=6s --start-period=10s CMD ["bash", "/etc/envoy/container.sh", "health"]
ENTRYPOINT ["bash", "/etc/envoy/container.sh"]
CMD ["serve"]

# ---- gateway with the native module in place of the filter ------------------------------------------
FROM gateway AS gateway-native
COPY --from=build-native /source/target/native/libtoken_filter.so /usr/local/lib/libtoken_filter.so
ENV FILTER=native
USER envoy
