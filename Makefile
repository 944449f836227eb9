# Every target makes the environment first, which takes a blink when it stands already.
# ARGS goes to the command that a target runs: make run ARGS=--no-airflow, make test ARGS="-k leave".

.DEFAULT_GOAL := help
.PHONY: help setup run test test-all sim conformance chaos mirror-soak peers bench spark-package docker-check docker-test check format docs screenshots lock audit sbom clean

BIN := .venv/bin
# Each file of tests is run by one of TEST_PROCESSES: three a core, since tests wait for most of the time, as far as 2.4 GB of
# memory are available for each. Which files come first is in tests/support/collection.py. A process that dies ends the run: its
# replacement might wait for ever for tests that are already done.
TEST_PROCESSES ?= $(shell awk -v most=$$((3 * $$(nproc))) '/^MemAvailable/ {n = int($$2 / 2400000); print n < 1 ? 1 : n < most ? n : most}' /proc/meminfo)
PYTEST := $(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder --max-worker-restart 0
SBOM ?= dist/muster.cdx.json
# What scripts/install-tools.sh installs before the tests, when it is missing.
TOOLS := chromium curl libatomic promtool
# Tests and the platform start hundreds of Python processes: each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE
MAKEFLAGS += --no-print-directory

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r target what; do printf '%-20s %s\n' "$$target" "$$what"; done

setup: ## make the environment in .venv, unless it stands
	@scripts/setup.sh

run: setup ## start everything: Postgres, a node, Airflow, a small live fleet (Ctrl-C stops it)
	@exec $(BIN)/muster up $(ARGS)

test: setup ## run the tests that are not marked slow; install Chromium, curl and promtool if possible (TOOLS=: install nothing)
	@scripts/install-tools.sh $(TOOLS)
	@$(BIN)/python -m tests.support.class_archive
	@exec $(PYTEST) -m "not slow and not containers and not peers" $(ARGS)

# PgBouncer's package starts a daemon, so only CI installs it.
test-all: setup ## run all tests; install Chromium, curl and promtool if possible (TOOLS=: install nothing)
	@scripts/install-tools.sh $(TOOLS) $(if $(CI),pgbouncer)
	@$(BIN)/python -m tests.support.class_archive
	@exec $(PYTEST) -m "not containers and not peers" $(ARGS)

sim: setup ## simulate SEEDS=1000 worlds on JOBS=2 cores (all, if not said), or one: SEED=7
	@exec $(BIN)/python -m tests.system.simulation $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(JOBS),--jobs $(JOBS)) $(ARGS)

conformance: setup ## run the Kafka scenarios, in process and over HTTP (SCENARIOS=file.json: your own)
	@exec $(BIN)/python -m tests.system.conformance $(SCENARIOS) $(ARGS)

chaos: setup ## kill, stop, slow and cut off real nodes, agents and Postgres for some minutes (ARGS="--minutes 5 --agents 200")
	@exec $(BIN)/python -m tests.system.chaos.run $(ARGS)

mirror-soak: setup ## let a mirror watch a real Kafka cluster under faults, and compare its rows (ARGS="--minutes 60")
	@exec $(BIN)/python -m tests.system.mirror_soak.run $(ARGS)

peers: setup ## run tests with a Kafka broker, with clients in Java, Go and JavaScript and with kcat, those that can be had
	@scripts/install-tools.sh $(if $(TOOLS),kcat haproxy)
	@exec $(PYTEST) -m peers $(ARGS)

bench: setup ## measure everything beside what this machine allows, into bench/results (ARGS=heartbeats: only that)
	@exec $(BIN)/python -m bench $(ARGS)

spark-package: setup ## make dist/muster_spark.zip, which spark-submit --py-files sends to a cluster
	@$(BIN)/python -m spark_jobs.package dist/muster_spark.zip

docker-check: setup ## check what can be checked of docker/ without an engine
	@scripts/install-tools.sh $(filter promtool,$(TOOLS))
	@exec $(BIN)/python -m pytest tests/unit/repository/test_compose.py tests/unit/repository/test_dockerfiles.py tests/integration/monitoring $(ARGS)

docker-test: setup ## as root on Debian: build the images, run the platform of docker/ with podman and test it, stop it
	@scripts/install-tools.sh $(if $(TOOLS),podman mmdebstrap)
	@exec $(BIN)/python -m pytest --timeout 3600 tests/system/containers $(ARGS) # the images are built within the first test

check: setup ## lint, format, types, import directions and the word list
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/python -m pytest -q tests/unit/repository/test_words.py

format: setup ## put the code into the one format, and fix what can be fixed safely
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

docs: setup ## write the generated parts of the pages in docs/, and build the pages as a site into site/
	@$(BIN)/python -m scripts.reference_pages
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

screenshots: setup ## take the console's pictures in docs/images anew, from a node with sample groups
	@scripts/install-tools.sh $(filter chromium libatomic,$(TOOLS))
	@$(BIN)/python -m scripts.screenshots

lock: setup ## resolve pyproject.toml and requirements.in into requirements.lock (LOCK_ARGS=--upgrade: take the newest)
	@scripts/lock.sh $(LOCK_ARGS)

audit: setup ## look up the locked packages in the advisories of PyPI (exits with 3 where those cannot be reached)
	@$(BIN)/python -m scripts.audit

sbom: setup ## write dist/muster.cdx.json (SBOM=another file): the locked packages with their hashes, as CycloneDX
	@mkdir -p $(dir $(SBOM))
	@PYTHONWARNINGS=ignore $(BIN)/cyclonedx-py requirements requirements.lock --pyproject pyproject.toml --output-reproducible --output-file $(SBOM)

clean: ## remove the environment and all caches, but not the data in .muster
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .tools dist site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
