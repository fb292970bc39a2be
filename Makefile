# `make` alone tells what there is. Every target installs what it needs first (scripts/deps).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Wraps the C++ compiler with ccache, and keeps CI's build outside the clone.
RUN := scripts/with-toolchain

# Passed on: make demo ARGS="--seed 7 --json", make test ARGS="rolled_back"
ARGS ?=
DEMO_DIR ?= demo-data
# make demo SECONDS=60 ends by itself. The shell has a variable of that name, so only ours counts.
ifeq ($(origin SECONDS),command line)
DEMO_ARGS := --seconds $(SECONDS)
endif
FUZZ_SECONDS ?= 60
# make bench SIZE=large; UNSPENT_BENCH_SIZES="1000000,2000000" asks for other sizes.
SIZE ?=

# The second mint, kept with the other peers of the tests.
CDK_VERSION := 0.18.3
PEERS := $(or $(UNSPENT_PEERS_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/unspent-peers)
CDK_MINTD := $(PEERS)/cdk-mintd-$(CDK_VERSION)
# An index of Bitcoin by script, measured beside the chain room.
ELECTRS_VERSION := 0.12.0
ELECTRS := $(PEERS)/electrs-$(ELECTRS_VERSION)

# What `make soak` raises; see TESTING.md.
SOAK_HISTORIES ?= 5000
SOAK_DEPTHS ?= 2160
SOAK_KILLS ?= 5000
SOAK_CRASH_HISTORIES ?= 10
SOAK_FLIPS ?= 5000
SOAK_FULL_POINTS ?= 1000000
SOAK_WALLET_HISTORIES ?= 10000
SOAK_WALLET_KILLS ?= 5000
SOAK_RACE_ROUNDS ?= 20000
SOAK_ECASH_HISTORIES ?= 500

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## Install what building needs and is missing
	@scripts/deps

.PHONY: build
build: deps ## Build the binary `unspent` in release mode
	@scripts/say-rocksdb release
	$(RUN) cargo build --release -p unspent

.PHONY: demo
demo: deps ## Run a daemon on a simulated network with a story and a dashboard (SECONDS=60 ends it)
	@scripts/say-rocksdb release
	$(RUN) cargo build --release -p unspent
	$(RUN) cargo run --quiet --release -p unspent -- demo --dir $(DEMO_DIR) $(DEMO_ARGS) $(ARGS)

.PHONY: lint
lint: ## Check formatting and unused dependencies, run clippy with warnings as errors
	@scripts/deps machete
	$(RUN) cargo fmt --all --check
	$(RUN) cargo machete --with-metadata crates
	$(RUN) cargo clippy --workspace --all-targets -- -D warnings

.PHONY: test
test: ## Lint, then run every test and doctest; say where the time went
	@scripts/deps nextest postgresql chromium machete python java node curl
	@scripts/say-rocksdb debug
	@scripts/test $(ARGS)

.PHONY: cases
cases: ## Write docs/tests.md, the table of all tests, from the sources
	@scripts/deps nextest
	UNSPENT_WRITE_DOCS=1 $(RUN) cargo nextest run -p unspent-testkit --test cases

.PHONY: shape
shape: ## Print the shape of the code: sizes, circles, names, imports, reasons
	@scripts/deps
	$(RUN) cargo test --quiet -p unspent-testkit --test tidy the_shape_holds -- --nocapture

.PHONY: test-cdk-mintd
test-cdk-mintd: ## Test the ecash room against cdk-mintd, a second mint (built once: half an hour)
	@scripts/deps nextest protobuf
	@scripts/say-rocksdb debug
	test -x $(CDK_MINTD)/bin/cdk-mintd || $(RUN) cargo install cdk-mintd --version $(CDK_VERSION) --locked \
		--no-default-features --features fakewallet,sqlite --root $(CDK_MINTD)
	UNSPENT_CDK_MINTD=$(CDK_MINTD)/bin/cdk-mintd \
		$(RUN) cargo nextest run -p unspent-ecash-room --test ecash second_mint

.PHONY: dist
dist: deps ## Make target/dist/unspent-VERSION-MACHINE.tar.gz, the same bytes for the same commit
	@scripts/say-rocksdb release
	scripts/dist

.PHONY: test-dist
test-dist: ## Try that archive in an empty Debian, as a user without rights (needs root)
	@scripts/deps debootstrap
	scripts/test-dist

.PHONY: bench
bench: deps ## Measure rooms, engine and daemon (minutes); SIZE=large: the chain room by the size of the set (hours)
ifeq ($(SIZE),large)
	$(RUN) cargo bench -p unspent-chain --bench chain -- --curve
else
	$(RUN) cargo bench -p unspent-chain --bench chain -- $(ARGS)
	$(RUN) cargo bench -p unspent-wallet --bench wallet
	$(RUN) cargo run --quiet --release --manifest-path bench-peers/Cargo.toml
	$(RUN) cargo bench -p unspent-txstore --bench txstore
	$(RUN) cargo bench -p unspent-ecash --bench ecash
	$(RUN) cargo run --quiet --release --manifest-path bench-peers/Cargo.toml --bin cdk -- \
		cargo bench --quiet -p unspent-ecash --bench ecash -- beside
	$(RUN) cargo bench -p unspent --bench engine
	$(RUN) cargo bench -p unspent-source --bench headers
	$(RUN) cargo bench -p unspent --bench serve
endif

.PHONY: bench-chain-peers
bench-chain-peers: ## The chain room beside Bitcoin Knots and electrs (built once: half an hour) on the same blocks (UNSPENT_BENCH_COINS and _BLOCKS change the size)
	@scripts/deps libclang
	test -x $(ELECTRS)/bin/electrs || $(RUN) cargo install electrs --version $(ELECTRS_VERSION) --locked \
		--root $(ELECTRS) || echo "electrs can't be built here" >&2
	UNSPENT_ELECTRS=$(ELECTRS)/bin/electrs $(RUN) cargo bench -p unspent-chain --bench chain -- --peers

.PHONY: soak
soak: ## The long runs of the property, crash, race and damage tests (hours)
	@scripts/deps nextest postgresql
	UNSPENT_REQUIRE_PEERS=1 UNSPENT_HISTORIES=$(SOAK_HISTORIES) UNSPENT_DEPTHS=$(SOAK_DEPTHS) \
	UNSPENT_KILLS=$(SOAK_KILLS) UNSPENT_CRASH_HISTORIES=$(SOAK_CRASH_HISTORIES) \
	UNSPENT_FLIPS=$(SOAK_FLIPS) UNSPENT_FULL_POINTS=$(SOAK_FULL_POINTS) \
	UNSPENT_WALLET_HISTORIES=$(SOAK_WALLET_HISTORIES) UNSPENT_WALLET_KILLS=$(SOAK_WALLET_KILLS) \
	UNSPENT_WALLET_RACE_ROUNDS=$(SOAK_RACE_ROUNDS) \
	UNSPENT_ECASH_HISTORIES=$(SOAK_ECASH_HISTORIES) \
	$(RUN) cargo nextest run --profile soak --release -p unspent-chain -p unspent-wallet \
		-p unspent-ecash $(ARGS)

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZ_SECONDS (60) each
	@scripts/deps fuzz
	$(RUN) cargo fuzz build -s none
	@for target in $$($(RUN) cargo fuzz list); do \
		echo "== $$target, $(FUZZ_SECONDS) s"; \
		$(RUN) cargo fuzz run -s none "$$target" -- \
			-max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 2>&1 \
			| { grep -vE '^#[0-9]+|^INFO|NEW_FUNC|DE: ' || true; } ; \
	done
