.DEFAULT_GOAL := help

.PHONY: help
help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: test
test: lint ## every test
	cargo test --workspace --locked

.PHONY: lint
lint: ## formatting and clippy
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

.PHONY: fmt
fmt: ## format the code
	cargo fmt --all
