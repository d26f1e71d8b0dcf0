# All that one can do here. `make demo` and `make test` do their own set-up.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# Nothing needs a database to compile; `make sqlx` is the one that asks a real one.
export SQLX_OFFLINE ?= true
export CARGO_TERM_COLOR ?= auto

CARGO ?= cargo
JOBS ?= 2
# The throw-away PostgreSQL around a command: started before, stopped after, whatever happens.
WITH_POSTGRES := .ci/with-postgres

.PHONY: help
help: ## Say what one can do
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

.PHONY: setup
setup: ## Install what is missing (Debian: PostgreSQL, Mosquitto, a C compiler; cargo-nextest)
	@.ci/setup

.PHONY: demo
demo: setup ## Everything on one machine, with simulated machines (ONCE=1: end after the table)
	$(CARGO) build --release -j $(JOBS) -p furrow-platform -p furrow-agent --bins
	target/release/furrow demo $(if $(ONCE),--once) $(if $(MACHINES),--machines $(MACHINES))

.PHONY: test
test: setup check ## All checks and tests; closes with one summary (at most 10 minutes)
	$(WITH_POSTGRES) bash -eu -c '.ci/sqlx-check; $(CARGO) nextest run --workspace --build-jobs $(JOBS)'

.PHONY: check
check: fmt-check lint no-std ## Formatting, lints, the wire format without std

.PHONY: fmt-check
fmt-check:
	$(CARGO) fmt --all --check

.PHONY: lint
lint:
	$(CARGO) clippy -j $(JOBS) --workspace --all-targets --locked -- -D warnings

.PHONY: no-std
no-std:
	$(CARGO) check -j $(JOBS) -p furrow-protocol --no-default-features --locked

.PHONY: fmt
fmt: ## Format
	$(CARGO) fmt --all

.PHONY: sqlx
sqlx: setup ## Write platform/.sqlx anew from the migrations (after a change of a query)
	$(WITH_POSTGRES) .ci/sqlx-check --write

.PHONY: openapi
openapi: ## Write platform/openapi.json anew (after a change of a route)
	FURROW_WRITE_OPENAPI=1 $(CARGO) test -j $(JOBS) -p furrow-platform --test it openapi

.PHONY: crash
crash: setup ## kill -9 of agent, platform and PostgreSQL under load; sets are compared at the end
	$(CARGO) build --release -j $(JOBS) -p furrow-platform -p furrow-agent -p e2e --bins
	target/release/crash $(ARGS)

.PHONY: load
load: setup ## Frames a second end to end, with durable commits
	$(CARGO) build --release -j $(JOBS) -p furrow-platform -p e2e --bins
	target/release/load $(ARGS)

.PHONY: budget
budget: setup ## What the agent costs a device: size, memory, CPU, first fix, wire; flash and restart of the spool
	$(CARGO) build --profile agent -j $(JOBS) -p furrow-agent
	$(CARGO) build --release -j $(JOBS) -p furrow-platform -p e2e --bins
	FURROW_AGENT_BIN=target/agent/furrow-agent target/release/budget $(ARGS)
	$(CARGO) bench -j $(JOBS) -p furrow-agent --bench spool

.PHONY: bench
bench: ## Times and results of the core; sizes of the wire format; flash and restart of the spool
	$(CARGO) bench -j $(JOBS) -p furrow-protocol -p furrow-domain
	$(CARGO) bench -j $(JOBS) -p furrow-agent --bench spool

.PHONY: fuzz
fuzz: ## Fuzz the decoders: ours for SECONDS_EACH (60), then libFuzzer if cargo-fuzz is installed
	FURROW_FUZZ_SECONDS=$${SECONDS_EACH:-60} $(CARGO) test -j $(JOBS) -p furrow-protocol --test hostile -- --nocapture
	@command -v cargo-fuzz >/dev/null || { echo "no libFuzzer: cargo install cargo-fuzz --locked"; exit 0; }; \
	cd protocol/fuzz && export RUSTC_BOOTSTRAP=1 && for target in $$(cargo fuzz list); do \
	  cargo fuzz run $$target -- -max_total_time=$${SECONDS_EACH:-60}; done

.PHONY: package
package: ## The agent as it is shipped: small, stripped, as a Debian package (installs cargo-deb once)
	$(CARGO) build --profile agent -j $(JOBS) -p furrow-agent
	@command -v cargo-deb >/dev/null || $(CARGO) install cargo-deb --locked
	$(CARGO) deb -p furrow-agent --profile agent --no-build --no-strip
	@ls -l target/agent/furrow-agent target/debian/*.deb

.PHONY: clean
clean: ## Remove what was built and the demo's data
	$(CARGO) clean
	rm -rf .furrow
