# `make demo` shows it, `make check` is for every save, `make test` for every commit, `make test-slow` has the rest.
# All set up .venv first.
# `make test WITH=transformers` adds torch and its tests.

PYTHON ?= python3
VENV ?= .venv
WITH ?=
PIP = $(VENV)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt
# one more than two cores: some tests wait
WORKERS ?= 3
# What `make test` runs: a path, or -m MARKER tests
TESTS ?= tests

# compiled modules are kept: many tests start programs
PYTEST = PYTHONDONTWRITEBYTECODE= $(VENV)/bin/python -m pytest -n $(WORKERS) --dist loadgroup
# What `make check` leaves out: all that needs a model, a browser or torch, runs whole commands or takes seconds.
QUICK = not (embedded or browser or command or transformers or recorded or slow or nightly)

.PHONY: demo check test test-slow golden stubs test-fleet torture properties coverage test-servers lint format docs pictures browser install install-dev address clean

demo: install
	$(VENV)/bin/goldless demo --out runs/demo

check: lint
	$(PYTEST) -m "$(QUICK)" tests

test: install-dev browser
	$(PYTEST) --durations=20 --durations-min=3 -m "not nightly" $(TESTS)

# What takes too long for every commit: the embedded model at large, whole pages of the docs, all themes of all pages.
test-slow: install-dev browser
	$(PYTEST) --durations=20 --durations-min=10 -m nightly $(TESTS)

# Write what type checkers read of the Python functions, from the declarations of verbs and options.
stubs: install-dev
	$(VENV)/bin/python tests/typing/stubs.py

# Write what users see now into tests/golden/expected; read the diff before you commit it.
golden: install-dev
	GOLDLESS_GOLDEN=write $(PYTEST) tests/golden/test_golden.py
	git --no-pager diff --stat tests/golden/expected

# Every night: faults, kills, damage and hostile texts by the thousand, in about 20 minutes on two cores.
torture: install-dev
	$(VENV)/bin/python -m tests.torture.torture

# The promises of a fleet, with more tasks, more losses and the embedded model; some minutes, 16 on a very busy machine.
test-fleet: install-dev
	GOLDLESS_TEST_FLEET=large $(VENV)/bin/python -m pytest tests/apps/fleet

# Every night: each property is tried on a thousand examples.
properties: install-dev browser
	$(PYTEST) --hypothesis-profile=properties -o timeout=3000 tests

# Real servers (vLLM, llama-server, transformers serve, a LiteLLM proxy), installed into .venv-servers on first use: 4 GB.
test-servers: install-dev
	GOLDLESS_REAL_SERVERS=1 $(VENV)/bin/python -m pytest -v -rA -p no:cacheprovider tests/real_servers

# The share of lines that the quick tests run; pyproject.toml has the limit.
coverage: install-dev
	$(PYTEST) -m "$(QUICK)" --cov --cov-report=term:skip-covered tests

# Report and viewer are tested in Chromium. Where it is not there and cannot be installed, those tests are skipped.
browser:
	@command -v chromium-headless-shell || command -v chromium || command -v chromium-browser || command -v google-chrome || \
	{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && \
	  for name in chromium-headless-shell chromium; do \
	    DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends $$name >/dev/null && break; \
	  done && { command -v chromium-headless-shell || command -v chromium; }; } || \
	echo "no Chromium, and it cannot be installed here: tests in the browser will be skipped"

docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet

# The pictures of the pages and of the README, taken of the quickstart study in Chromium; minutes where the model is new.
pictures: install-dev browser
	$(VENV)/bin/python docs/pictures.py

lint: install-dev
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV)/bin/mypy tests/typing/public_api.py
	$(VENV)/bin/lint-imports --no-logo

# Set where the repository is, once it is somewhere: make address TO=https://github.com/NAME/goldless
address: $(VENV)/bin/python
	$(VENV)/bin/python .ci/address.py "$(TO)"

format: install-dev
	$(VENV)/bin/ruff check --fix
	$(VENV)/bin/ruff format

install: $(VENV)/.installed
install-dev: $(VENV)/.installed-dev $(if $(findstring transformers,$(WITH)),$(VENV)/.installed-transformers)

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "goldless needs Python 3.11 or newer; name one with make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing goldless and what it needs into $(VENV); this takes a minute or more"
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check "pip>=25.1"
	$(PIP) --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) --group dev
	touch $@

$(VENV)/.installed-transformers: $(VENV)/.installed-dev
	$(PIP) --editable ".[transformers,finetune,bench]"
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(PIP) --group docs
	touch $@

clean:
	rm -rf $(VENV) dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
