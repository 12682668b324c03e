# Two commands matter: `make demo` and `make test`. Each does all of its own set-up.
.DEFAULT_GOAL := help
.PHONY: help demo demo-blast demo-all test test-fast test-kernel test-long test-life-cycle test-replacements check tools setup setup-test lock build
SHELL := /bin/bash

ENV := . scripts/env.sh &&
PYTHON := .venv/bin/python
SETUP_INPUTS := scripts/setup.sh scripts/fetch_nextflow.sh python/requirements.lock pyproject.toml

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo: .venv/.setup-demo build ## Run the Montage workflow in a store and compare with native
	$(PYTHON) -m intarsia.demo montage $(DEMO)

demo-blast: .venv/.setup-demo build ## Run the BLAST workflow the same way
	$(PYTHON) -m intarsia.demo blast --rounds 1 $(DEMO)

demo-all: .venv/.setup-demo build ## Run both
	$(PYTHON) -m intarsia.demo all $(DEMO)

test: .venv/.setup-test ## Run all tests
	scripts/test.sh

test-fast: .venv/.setup-test ## Run the tests that need no mount, no lab and no metadata servers
	scripts/test.sh --lane fast

test-kernel: .venv/.setup-test build ## Test a store on Debian's kernel 6.1 in QEMU (minutes)
	$(ENV) cargo build --release --locked -p intarsia-bench-floor -p intarsia-bench-smallfiles
	$(PYTHON) tests/kernel/run.py

sim: .venv/.setup-test ## Run whole clusters in one process under faults, each from a seed (SEEDS=1000), or one again (SEED=17), or the least of it that fails (SEED=17 SHRINK=1)
	$(ENV) cargo build --locked --workspace --profile sim --bin sim
	target/sim/sim $(if $(SEED),--seed $(SEED) $(if $(SHRINK),--shrink,--trace),--seeds $(or $(SEEDS),100) --from $(or $(FROM),1))

sim-remedies: .venv/.setup-test ## Take remedies back one at a time, and look whether the simulated cluster finds the fault (SEEDS=100, ONLY=name)
	$(ENV) scripts/sim_remedies.py --seeds $(or $(SEEDS),100) $(if $(ONLY),--only $(ONLY))

test-long: .venv/.setup-test ## Simulation, stories, replacements, faults under workflows and fuzzing, each for a part of the time, as root (MINUTES=60)
	$(ENV) scripts/test_long.sh $(or $(MINUTES),60)

test-life-cycle: ## Bring stores up and down in every way, killed at every step, and tell 200 random stories (an hour or two)
	$(ENV) cargo build --release --locked --workspace --bin intarsia --bin life-cycle
	target/release/life-cycle model
	target/release/life-cycle stories --count 200

test-replacements: ## Replace, remove and remake files of all sizes and layouts on four hosts that read them, as root (SECONDS=3600)
	$(ENV) cargo build --locked --workspace --bin intarsia
	$(ENV) INTARSIA_HISTORY_SECONDS=$(or $(SECONDS),3600) cargo test --locked --workspace --test history readers_on_all -- --nocapture

check: .venv/.setup-test ## Check format, lints, licences, layers and types
	scripts/check.sh

build: .venv/.setup-demo ## Build the intarsia binary
	$(ENV) cargo build --release --locked --bin intarsia

setup: .venv/.setup-demo ; @: ## Install what the demonstration needs

setup-test: .venv/.setup-test ; @: ## Install what the tests need

tools: .venv/.setup-test ## Install just and cargo-deny into ~/.cargo/bin
	$(ENV) cargo install --locked just cargo-deny

lock: .venv/.setup-test ## Renew python/requirements.lock from pyproject.toml
	scripts/lock-python.sh

.venv/.setup-demo: $(SETUP_INPUTS)
	@scripts/setup.sh demo
	@touch $@

.venv/.setup-test: $(SETUP_INPUTS)
	@scripts/setup.sh test
	@touch $@
