# `make demo` and `make test` need nothing but python3 (3.11 or newer) and make.
# The others use what those two installed.

PYTHON ?= python3
VENV   ?= .venv
NMT    := $(VENV)/bin/nmt
PY     := $(VENV)/bin/python

DEMO_RUN    ?= runs/starter
DEMO_FLAGS  ?=
DEMO_BLEU   ?= 85
DEMO_HEAT   ?= demo-attention.png
BENCH_FLAGS ?=
CHECK_FLAGS ?=
CONFIG      ?= configs/starter.yaml
CUDA_TESTS  ?= $(addprefix tests/,laws models search training/test_graphs.py training/test_resume.py \
  training/test_state.py training/test_step.py training/test_waits.py)

.DEFAULT_GOAL := help
.PHONY: help install install-dev wheel demo test check test-cuda test-slow coverage train eval everyday bench kill-test docs docs-check site release-check clean

# What an installation depends on; the C++ is compiled by it.
SOURCES := pyproject.toml constraints.txt hatch_build.py $(wildcard nmt/ops/native/*.cpp nmt/ops/native/*.h)

help:          ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.installed            ## make .venv and install nmt in it

install-dev: $(VENV)/.installed-dev    ## the same with the tools that the tests need

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "nmt needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V). Try: make PYTHON=python3.12 ..."; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(SOURCES) | $(VENV)/bin/python
	$(PY) -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.installed-dev: $(SOURCES) | $(VENV)/bin/python
	$(PY) -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: $(SOURCES) | $(VENV)/bin/python
	$(PY) -m pip install --quiet --constraint constraints.txt --editable ".[docs]"
	@touch $@ $(VENV)/.installed

wheel: | $(VENV)/bin/python            ## dist/attention_nmt-*.whl with C++ for every processor of this architecture
	NMT_PORTABLE_WHEEL=1 $(PY) -m pip wheel --quiet --no-deps --wheel-dir dist .

demo: $(VENV)/.installed               ## train on the embedded corpus, measure, translate, look (some 4 minutes)
	$(NMT) train --config configs/starter.yaml --run $(DEMO_RUN) $(DEMO_FLAGS)
	$(NMT) eval --bleu --run $(DEMO_RUN) --fail-under $(DEMO_BLEU)
	$(NMT) translate --run $(DEMO_RUN) \
	  "Hello, how are you?" \
	  "WHERE IS MY PHONE?" \
	  "My sister bought a red car." \
	  "They never eat fish."
	$(NMT) attention --run $(DEMO_RUN) --format png --out $(DEMO_HEAT) --force "My sister bought a red car."
	@echo "The attention heat map is in $(DEMO_HEAT); the run, with everything it needs, in $(DEMO_RUN)."

test: $(VENV)/.installed-dev           ## install, then ruff, mypy --strict, import-linter, the writing check, pytest
	@$(MAKE) --no-print-directory check

check:         ## the same without installing
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PY) scripts/check_writing.py
	$(PY) -m pytest --numprocesses auto --maxprocesses 4

test-slow: $(VENV)/.installed-dev      ## the tests that take minutes
	$(PY) -m pytest -m slow --numprocesses auto --maxprocesses 2

test-cuda: $(VENV)/.installed-dev      ## the laws, training and search on a pretend GPU (needs g++)
	@command -v g++ >/dev/null || { echo "no g++, which compiles the pretend GPU: its tests skip"; exit 0; }; \
	  NMT_TEST_DEVICE=cuda PYTHONPATH=tests $(PY) -m pytest -p pretend_cuda \
	  --numprocesses auto --maxprocesses 4 $(CUDA_TESTS)

coverage: $(VENV)/.installed-dev       ## lines that the tests run: at least 96 %
	$(PY) -m pytest --cov=nmt --cov-report=term:skip-covered --cov-fail-under=96

train: $(VENV)/.installed              ## nmt train; CONFIG=configs/multi30k.yaml for another
	$(NMT) train --config $(CONFIG)

eval: $(VENV)/.installed               ## nmt eval --bleu on the newest run
	$(NMT) eval --bleu

everyday: $(VENV)/.installed           ## train the built-in models and write nmt/builtin (hours on one core)
	NMT=$(NMT) sh scripts/everyday.sh

bench: $(VENV)/.installed              ## speed here, beside the textbook's loop and the ceiling
	$(PY) scripts/bench.py $(BENCH_FLAGS)

kill-test: $(VENV)/.installed          ## 100 times kill -9 in a training; nothing may differ (10 minutes)
	OMP_NUM_THREADS=1 $(PY) scripts/kill_test.py --kills 100

docs: $(VENV)/.installed               ## regenerate the references: configuration, its schema, commands, packages
	$(PY) scripts/command_reference.py > docs/commands.md
	$(PY) scripts/config_reference.py > docs/configuration.md
	$(PY) scripts/config_reference.py --schema > docs/config.schema.json
	$(PY) scripts/draw_packages.py > docs/packages.svg

docs-check: $(VENV)/.installed         ## is docs/ what its commands make? CHECK_FLAGS="--slow --runs runs": all
	$(PY) scripts/check_docs.py $(CHECK_FLAGS)

site: $(VENV)/.installed-docs          ## site/: the documentation, strictly; every link is checked
	$(PY) -m mkdocs build --strict

release-check: | $(VENV)/bin/python    ## build sdist and wheel, install each into an empty environment, use it (10 minutes)
	$(PY) scripts/release_check.py

clean:         ## remove .venv and caches; runs/ and data/ stay
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
