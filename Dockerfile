# The images of the pair, --target token-service and --target gateway, and the plugin alone, --target filter.

# ---- dependencies: a layer that changes only with the manifests ------------------------------------
FROM rust:1.95.0-bookworm AS dependencies
WORKDIR /source
COPY rust-toolchain.toml ./
RUN rustup target add wasm32-wasip1
COPY Cargo.toml Cargo.lock ./
COPY .cargo .cargo
COPY claims/Cargo.toml claims/
COPY filter/Cargo.toml filter/linker.sh filter/
COPY guard/Cargo.toml guard/
COPY token-service/Cargo.toml token-service/
COPY tests/Cargo.toml tests/
# Empty crates stand in for the sources, so that cargo builds what they depend on.
RUN mkdir -p claims/src filter/src guard/src token-service/src token-service/benches tests/src/bin tests/tests \
 && touch claims/src/lib.rs filter/src/lib.rs guard/src/lib.rs token-service/src/lib.rs \
        tests/src/lib.rs \
 && for main in token-service/src/main.rs token-service/benches/service.rs token-service/benches/store.rs \
        tests/src/bin/up.rs tests/tests/main.rs; do echo 'fn main() {}' > $main; done
RUN cargo build --release --locked --package token-service
RUN cargo build-filter

# ---- the sources -----------------------------------------------------------------------------------
FROM dependencies AS build
COPY claims claims
COPY filter filter
COPY guard guard
COPY token-service token-service
# Copies keep the times of their files, which may be older than the empty crates.
RUN find claims filter guard token-service -name '*.rs' -exec touch {} + \
 && cargo build --release --locked --package token-service \
 && cargo build-filter

# ---- token service ---------------------------------------------------------------------------------
FROM debian:bookworm-slim AS token-service
RUN groupadd --system --gid 10001 token-service \
 && useradd --system --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin token-service \
 && install --directory --owner token-service --group token-service --mode 0700 /data
COPY --from=build /source/target/release/token-service /usr/local/bin/token-service
USER token-service
VOLUME /data
EXPOSE 9080 9081
HEALTHCHECK --interval=10s --timeout=6s --start-period=10s CMD ["token-service", "health"]
ENTRYPOINT ["token-service"]
CMD ["serve"]

# ---- filter: the plugin alone, in the layout that Istio and Envoy Gateway pull ------------------------
FROM scratch AS filter
COPY --from=build /source/target/wasm32-wasip1/release/filter.wasm /plugin.wasm

# ---- gateway: Envoy with the filter ----------------------------------------------------------------
FROM envoyproxy/envoy:v1.40.0 AS gateway
COPY --from=build /source/target/wasm32-wasip1/release/filter.wasm /etc/envoy/filter.wasm
COPY envoy/envoy.yaml envoy/container.sh /etc/envoy/
USER envoy
EXPOSE 8080 8081 8082 8083 9901
HEALTHCHECK --interval=10s --timeout=6s --start-period=10s CMD ["bash", "/etc/envoy/container.sh", "health"]
ENTRYPOINT ["bash", "/etc/envoy/container.sh"]
CMD ["serve"]
