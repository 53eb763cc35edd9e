# The commands of this checkout. Each does its own set-up: it finds a Python, makes .venv from the pinned requirements,
# and installs again only when a lock file has changed. See `make help`.
.POSIX:
.SUFFIXES:
.PHONY: help up test test-slow demo bench bench-decisions bench-inbox bench-mcp bench-values crash crash-ci crash-edges reliability \
  egress hostile conformance catalogs model policy-check \
  properties sabotage races soak pages lint lock clean-data
SHELL = /bin/sh
MAKEFLAGS += --no-print-directory
PYTHON_IN_VENV = .venv/bin/python
ARGUMENTS =
CALLS = 5000
SEED =

help:
	@printf '%s\n' \
	  'make up          start everything here: servers, migrations, web, worker, scheduler (PORT=8000)' \
	  'make test        run the test suite on servers of its own (ARGUMENTS="-k name")' \
	  'make test-slow   its tests with browsers, with processes and peers of their own, races, and the rest of long tables' \
	  'make crash       kill processes at every crash point, for at most 45 minutes; goes on where it was interrupted' \
	  'make crash-ci    a choice of it that covers every pair of its axes, as far as 5 minutes go' \
	  'make crash-edges the deaths at the MCP face and in a login, all of them' \
	  'make reliability write what the proofs found into toolsys/docs/reliability.md' \
	  'make demo        play the demonstration against what `make up` runs' \
	  'make bench       measure the call path' \
	  'make egress      try hostile addresses, URLs and answers on the client for everything that leaves' \
	  'make hostile     play every way that an MCP server can misbehave, and a thousand calls over all of them' \
	  'make conformance  play the official scenarios of MCP against the adapter and the MCP face' \
	  'make catalogs    record what the installed MCP servers declare into .data/catalogs' \
	  'make bench-inbox measure the inbox with 5,000 open requests' \
	  'make bench-mcp   measure MCP in a worker against the bare SDK' \
	  'make bench-values  measure the check of a call and the canonical form' \
	  'make properties  the property tests with eight times as many examples' \
	  'make policy-check  every proof of policy and approvals' \
	  'make bench-decisions  measure from a decision to the worker that goes on with the call' \
	  'make model       search thousands of interleavings over the pipeline (SEED=n plays one again)' \
	  'make sabotage    plant defects in a copy of the tree and see the named tests turn red' \
	  'make races       races, zombies and lost servers in their long form (ARGUMENTS="-k zombies")' \
	  'make soak        calls while workers are killed and servers restarted (CALLS=5000 SEED=1)' \
	  'make pages       every page of the console in Chromium: roles, windows, dark, without scripts (.data/screenshots)' \
	  'make lint        style, types, import contracts, missing migrations' \
	  'make lock        write the lock files anew from pyproject.toml' \
	  'make clean-data  delete the data of `make up` and of the tests'

up:
	@sh config/environment.sh requirements.lock
	@exec $(PYTHON_IN_VENV) manage.py up

# Both installations at once. Without npm the servers of npm are left out, and say so.
test:
	@sh tests/npm/install.sh & sh config/environment.sh tests/requirements.lock && wait
	@exec $(PYTHON_IN_VENV) -m pytest -n auto --dist worksteal $(ARGUMENTS)

test-slow:
	@sh tests/npm/install.sh & sh config/environment.sh tests/requirements.lock && wait
	@exec $(PYTHON_IN_VENV) -m pytest -n auto --dist worksteal -m "slow and not long" $(ARGUMENTS)

# ARGUMENTS="--fresh" forgets what was played, "--only after_claim" plays some cells; TOOLSYS_CRASH_SCALE=3 stretches
# lease and sweep on a busy machine.
crash:
	@sh config/environment.sh tests/requirements.lock
	@exec $(PYTHON_IN_VENV) -m tests.crash.matrix $(ARGUMENTS)

crash-ci:
	@sh config/environment.sh tests/requirements.lock
	@exec $(PYTHON_IN_VENV) -m tests.crash.matrix --selection pairwise --minutes 4.5 --sample $(ARGUMENTS)

crash-edges:
	@sh config/environment.sh tests/requirements.lock
	@exec $(PYTHON_IN_VENV) -m pytest tests/crash/test_face.py tests/integration/mcp/test_login_crashes.py -n auto \
	  -m "long or not long" $(ARGUMENTS)

reliability:
	@sh config/environment.sh tests/requirements.lock
	@exec $(PYTHON_IN_VENV) -m tests.crash.report

demo:
	@sh config/environment.sh requirements.lock
	@exec $(PYTHON_IN_VENV) manage.py demo --check

bench:
	@sh config/environment.sh tests/requirements.lock
	@exec $(PYTHON_IN_VENV) tests/bench/calls.py $(ARGUMENTS)

egress:
	@sh config/environment.sh tests/requirements.lock
	@exec $(PYTHON_IN_VENV) -m tests.egress.run

hostile:
	@sh config/environment.sh tests/requirements.lock
	@exec $(PYTHON_IN_VENV) -m tests.hostile $(ARGUMENTS)

conformance:
	@sh config/environment.sh tests/requirements.lock
	@sh tests/npm/install.sh
	@exec $(PYTHON_IN_VENV) -m tests.conformance $(ARGUMENTS)

catalogs:
	@sh tests/npm/install.sh & sh config/environment.sh tests/requirements.lock && wait
	@exec $(PYTHON_IN_VENV) -m tests.catalogs

bench-inbox:
	@sh config/environment.sh tests/requirements.lock
	@exec $(PYTHON_IN_VENV) -m tests.bench.inbox

bench-mcp:
	@sh config/environment.sh tests/requirements.lock
	@exec $(PYTHON_IN_VENV) -m tests.bench.adapter

bench-values:
	@sh config/environment.sh tests/requirements.lock
	@exec $(PYTHON_IN_VENV) tests/bench/values.py

properties:
	@sh config/environment.sh tests/requirements.lock
	@TOOLSYS_PROPERTIES=all; export TOOLSYS_PROPERTIES; \
	  exec $(PYTHON_IN_VENV) -m pytest tests/property -n 0 $(ARGUMENTS)

policy-check:
	@sh config/environment.sh tests/requirements.lock
	@exec $(PYTHON_IN_VENV) -m tests.policycheck $(ARGUMENTS)

bench-decisions:
	@sh config/environment.sh tests/requirements.lock
	@exec $(PYTHON_IN_VENV) tests/bench/decisions.py

model:
	@sh config/environment.sh tests/requirements.lock
	@exec $(PYTHON_IN_VENV) -m tests.model --seed "$(SEED)" $(ARGUMENTS)

sabotage:
	@sh config/environment.sh tests/requirements.lock
	@exec $(PYTHON_IN_VENV) -m tests.sabotage $(ARGUMENTS)

races:
	@sh config/environment.sh tests/requirements.lock
	@exec $(PYTHON_IN_VENV) -m tests.races $(ARGUMENTS)

soak:
	@sh config/environment.sh tests/requirements.lock
	@seed="$(SEED)"; exec $(PYTHON_IN_VENV) -m tests.races.soak --calls $(CALLS) --seed "$${seed:-1}"

pages:
	@sh config/environment.sh tests/requirements.lock
	@exec $(PYTHON_IN_VENV) -m pytest tests/e2e -n auto -m "long or not long" $(ARGUMENTS)

lint:
	@sh config/environment.sh tests/requirements.lock
	$(PYTHON_IN_VENV) -m ruff check .
	$(PYTHON_IN_VENV) -m ruff format --check .
	$(PYTHON_IN_VENV) -m mypy toolsys approvals mcpcatalog config tests
	.venv/bin/lint-imports
	DJANGO_SETTINGS_MODULE=config.settings_static $(PYTHON_IN_VENV) manage.py makemigrations --check --dry-run

# No lock file names a package registry: whoever installs chooses where the packages come from.
lock:
	@sh config/environment.sh uv
	.tools/bin/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-header --no-annotate \
	  --extra embedded pyproject.toml -o requirements.lock
	.tools/bin/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-header --no-annotate \
	  --extra embedded --extra dev pyproject.toml -o tests/requirements.lock
	.tools/bin/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-header --no-annotate \
	  -c requirements.lock pyproject.toml -o deploy/requirements.lock

# As root in a private home the servers' data is elsewhere, and `servers` links to it.
clean-data:
	@for data in .data .data/*; do \
	  if [ -f "$$data/runtime.json" ] && kill -0 "$$(cat "$$data/lock")" 2>/dev/null; then \
	    echo "$$data is in use by process $$(cat "$$data/lock"): stop that one first" >&2; exit 1; \
	  fi; \
	done
	@for data in .data .data/*; do \
	  if [ -L "$$data/servers" ]; then rm -rf "$$(readlink "$$data/servers")"; fi; \
	done
	rm -rf .data
