# Everything a newcomer needs. `make` alone prints this list.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PY := .venv/bin/python -I
ITEMS ?=
WORKERS ?=
ORDERS ?=
PICTURE ?=
SEED ?=
SERVER ?=
SCALE ?=
HOURS ?=
STORE ?=
INSTANCES ?=
ONLY ?=
PART ?=
ALL ?=
FACE ?=
FACES ?=
INPUTS ?=
BUILDER ?=
BASE ?=
PROCESSES ?= 3

# tests that wait, side by side; what stays together is said in tests/harness/side_by_side.py
GATE := $(PY) tools/gate --processes $(PROCESSES)
# the rules, the settings, the codecs and what all faces share; and the tests of the tree that do not run a program for seconds
RULES := $(addprefix tests/,model rules config xeps/wire xeps/client faces/test_flow.py faces/http faces/listener faces/push)
TREE := $(filter-out tests/test_documentation.py tests/test_types.py,$(wildcard tests/test_*.py))

help: ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what is missing: system packages, then .venv from the lock file
	@tools/setup

demo: ## run a complete example (ITEMS=500 WORKERS=4 for a smaller run; STORE=postgres INSTANCES=2)
	@SETUP_FOR=demo SETUP_STORE=$(STORE) tools/setup
	@exec .venv/bin/pubqueue demo $(if $(ITEMS),--items $(ITEMS)) $(if $(WORKERS),--workers $(WORKERS)) \
		$(if $(STORE),--store $(STORE)) $(if $(INSTANCES),--instances $(INSTANCES))

pipeline: ## files in, work, and the event log streamed back into a picture (ORDERS=300 for a smaller run)
	@SETUP_FOR=demo tools/setup
	@exec .venv/bin/python examples/pipeline/run.py $(if $(ORDERS),--orders $(ORDERS)) $(if $(PICTURE),--picture $(PICTURE))

check: setup ## lint, types, layers, imports and prose, without the tests
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-cache
	$(PY) tools/imports
	$(PY) tools/prose
	$(PY) tools/house
	$(PY) tools/vocabulary # only says what to use

quick: ## the inner loop, in a minute or two: check, and the tests of rules, settings, codecs, the wire on SQLite and the tree
	@echo "quick: checks, rules, tests of the tree and scenarios run side by side; each prints when it has ended"
	@$(MAKE) --no-print-directory --jobs --output-sync check quick-rules quick-tree quick-wire

quick-rules: setup
	$(PY)m pytest -q -m "not e2e and not spark" $(RULES)

quick-tree: setup
	$(PY)m pytest -q $(TREE)

# nearly all of their time is waiting
quick-wire: setup
	$(PY)m pytest -q -n 4 tests/scenarios

test: check ## what each commit has to pass (PROCESSES=1 for one case after the other)
	$(GATE) test

test-long: setup ## what proves more than each commit needs, in parts (PART=stores for one; tools/gate parts lists them)
	$(GATE) long $(PART)

test-ci: setup # the second half of .ci/run
	$(GATE) ci

affected: setup ## the tests that your change reaches directly, for the inner loop (ALL=1 with those it reaches by other modules)
	$(GATE) affected $(if $(ALL),--all)

ready: setup ## before you hand in: what CI will run, in a clean clone, and each test file that you touched three times beside a load
	$(GATE) ready

bench: setup ## this component against one that stores nothing, and against other queues, behind Prosody and ejabberd, over STOMP, HTTP and gRPC
	.venv/bin/python -m bench
	.venv/bin/python -m bench.situations
	.venv/bin/python -m bench.stores
	.venv/bin/python -m bench.worker_cost
	.venv/bin/python -m bench.services
	.venv/bin/python -m bench.payloads
	.venv/bin/python -m bench.stomp
	.venv/bin/python -m bench.rest
	.venv/bin/python -m bench.grpc
	.venv/bin/python -m bench.qos
	.venv/bin/python -m bench.qos_service
	.venv/bin/python -m bench.qos_held
	.venv/bin/python -m bench.watched
	.venv/bin/python -m bench.spark

pauses: setup ## what a trickle of work waits beside long work, and what memory grows to (SCALE=0.1 for smaller work)
	.venv/bin/python -m bench.pauses $(if $(SCALE),--scale $(SCALE))
	.venv/bin/python -m bench.memory
	.venv/bin/python -m bench.connections
	.venv/bin/python -m bench.loop_thread
	.venv/bin/python -m bench.floods
	.venv/bin/python -m bench.big $(if $(ITEMS),--items $(ITEMS))

faults: setup ## 10,000 items while component, server, workers, database are killed, disks full (ITEMS=300 SERVER=ejabberd STORE=postgres INSTANCES=2 FACES=all)
	.venv/bin/python -m proof.faults_run $(if $(ITEMS),--items $(ITEMS)) $(if $(SEED),--seed $(SEED)) $(if $(SERVER),--server $(SERVER)) $(if $(STORE),--store $(STORE)) $(if $(INSTANCES),--instances $(INSTANCES)) $(if $(FACES),--faces $(FACES))
	.venv/bin/python -m proof.one_queue $(if $(ITEMS),--items $(ITEMS))

simulate: setup ## hours of several instances on virtual time, with all that can befall them (SEED=7 HOURS=100 STORE=sqlite or postgres)
	PYTHONHASHSEED=0 .venv/bin/python -m proof.simulate $(if $(SEED),--seed $(SEED)) $(if $(HOURS),--hours $(HOURS)) $(if $(STORE),--store $(STORE)) $(if $(ONLY),--only $(ONLY))

flips: setup ## flip 1,000 bits of a SQLite file and of rows: nothing wrong is given out (SEED=2)
	PYTHONPATH=tests .venv/bin/python -m proof.flips $(if $(SEED),--seed $(SEED))

fuzz: setup ## 100,000 inputs for each face beside an honest client (SEED=2 for others; FACE=stomp INPUTS=1000 for one face alone), a million payloads and streams, HTTP requests and calls to a process, and a queue's life at random
	$(if $(filter-out xmpp,$(FACE)),,.venv/bin/python -m proof.fuzz $(if $(SEED),--seed $(SEED)) $(if $(INPUTS),--stanzas $(INPUTS)))
	$(if $(filter xmpp,$(FACE)),,.venv/bin/python -m proof.fuzz.faces $(if $(FACE),--face $(FACE)) $(if $(SEED),--seed $(SEED)) $(if $(INPUTS),--inputs $(INPUTS)))
	$(if $(FACE),,@$(MAKE) --no-print-directory fuzz-parsers)

fuzz-parsers: setup
	.venv/bin/python -m proof.fuzz.bodies $(if $(SEED),--seed $(SEED))
	.venv/bin/python -m proof.fuzz.frames $(if $(SEED),--seed $(SEED))
	.venv/bin/python -m proof.fuzz.requests $(if $(SEED),--seed $(SEED))
	.venv/bin/python -m proof.fuzz.calls $(if $(SEED),--seed $(SEED))
	.venv/bin/python -m proof.fuzz.openapi $(SEED)
	$(PY)m pytest tests/engine/test_machine.py -q --hypothesis-profile explore -o faulthandler_timeout=0

peers: setup ## ask Prosody's and ejabberd's own pubsub and this one the same, and write the table of docs/explanation/other-services.md
	.venv/bin/python -m bench.peers --write

docs: setup ## build the documentation into site/; a warning is an error
	$(PY) tools/reference
	$(PY) tools/admin
	@NO_MKDOCS_2_WARNING=1 $(PY)m mkdocs build --quiet
	@echo "site/index.html is the first page"

five-minutes: setup ## do what the README says for the first five minutes, and tell how long each step takes
	$(PY) tools/five-minutes

man: setup ## the manual, a page for each command: build/man
	$(PY)m pubqueue.cli.manpages build/man

deb: ## the Debian package, with a unit for systemd: build/deb; needs only debhelper and python3-venv
	@tools/deb

image: ## the container image pubqueue, by podman, docker or buildah (BUILDER=docker for another than the first, BASE=IMAGE for another base)
	@BUILDER=$(BUILDER) BASE=$(BASE) tools/image

lock: setup ## choose dependency versions anew, within the bounds of pyproject.toml
	@tools/lock

clean: ## remove .venv and every cache
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .imports_cache build/flaky site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help setup demo pipeline check quick quick-rules quick-tree quick-wire test test-long test-ci affected ready bench pauses faults simulate flips fuzz fuzz-parsers peers docs five-minutes man deb image lock clean
