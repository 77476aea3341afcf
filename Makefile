# Needs python3 (3.11 or newer), its pip and venv, and make. Everything goes into .venv beside this file.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test lint types check docs bench clean

demo: $(VENV)/.run  ## set up, run the quickstart, print the result table and the report's path
	$(BIN)/fedroam run quickstart

test: $(VENV)/.dev  ## set up with test extras, run the whole test suite
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal $(PYTEST)

lint: $(VENV)/.dev  ## style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev  ## type checker
	$(BIN)/mypy

check: lint types test

docs: $(VENV)/.dev  ## rewrite the pages that are generated from the code
	$(BIN)/python docs/generate.py

bench: $(VENV)/.run  ## speed of training and mixing, as ratios against a plain loop
	$(BIN)/fedroam bench

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "fedroam needs Python 3.11 or newer; found $$($(PYTHON) --version). Say PYTHON=python3.12 make ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "no venv: on Debian and Ubuntu, apt-get install python3-venv"; exit 1; }

$(VENV)/.run: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.run
