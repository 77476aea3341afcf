# Needs python3 (3.11 or newer), its pip and venv, and make. Everything goes into .venv beside this file.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test test-narrow test-netem attack lint types check docs results site lock bench clean

demo: $(VENV)/.run  ## set up, run the quickstart, print the result table and the report's path
	$(BIN)/fedroam run quickstart

# Two more workers than cores, for tests that wait for processes of theirs: with one more, a seventh of the cores' time
# is idle, with two nothing. And compiled files are kept, which those processes would otherwise compile anew, each for
# itself.
WORKERS := $(shell $(PYTHON) -c 'import os; print(os.cpu_count() + 2)')
TESTED := env -u PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS=1

test: $(VENV)/.dev  ## set up with test extras, run the whole test suite
	$(TESTED) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST)

# What depends on how numbers are computed, as narrower processors compute: torch with AVX2, and with neither AVX2 nor
# AVX; our kernels with vectors of 8 and of 4 values. The first is how a processor without AVX-512 computes anyway. Left
# out is what does not depend on it, and what `make test` holds for vectors of 4, 8 and 16 values already, or for ARM's.
NARROW := $(BIN)/python -m pytest -n 2 --dist worksteal tests/learning tests/house/test_contract.py::test_engine \
  $(addprefix --ignore tests/learning/,test_capacity.py $(addprefix cpu/test_,workers.py kernels.py winograd.py \
  other_processors.py))
WIDE := $(shell grep -so -m1 avx512f /proc/cpuinfo)

test-narrow: $(VENV)/.dev  ## the tests of learning as processors with narrower vectors compute
	$(if $(WIDE),OMP_NUM_THREADS=1 ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 \
	  FEDROAM_VECTOR=8 $(NARROW))
	OMP_NUM_THREADS=1 ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_ENABLE_INSTRUCTIONS=SSE4_2 \
	  FEDROAM_VECTOR=4 $(NARROW)

test-netem: $(VENV)/.dev  ## the tests of emulated links in a kernel that has netem: Debian's package user-mode-linux
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/in_uml.py $(BIN)/python -m pytest -q -p no:cacheprovider \
	  tests/deploy/emulation

# Cases of damage over all readers, bits flipped in every kind of file, then runs killed and resumed; 1 where anything is
# found, then nodes of a network among faults. Some hours on two cores; RECORD=FILE adds a line of JSON for each of the
# four, and other SEEDs are other parts.
CASES ?= 50000
FLIPS ?= 1000
KILLS ?= 200
FAULTS ?= 1000
SEED ?= 0
RECORDED := $(if $(RECORD),--record $(RECORD))

attack: $(VENV)/.dev  ## damage what is read, tens of thousands of times, kill runs of every kind, and fail networks
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m attack --cases $(CASES) --seed $(SEED) $(RECORDED)
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m attack --flips $(FLIPS) --seed $(SEED) $(RECORDED)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/kill_and_resume.py --kinds all --kills $(KILLS) --seed $(SEED) $(RECORDED)
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m chaos --faults $(FAULTS) --seed $(SEED) $(RECORDED)

lint: $(VENV)/.dev  ## style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev  ## type checker
	$(BIN)/mypy

check: lint types test

docs: $(VENV)/.dev  ## rewrite the pages that are generated from the code
	$(BIN)/python docs/generate.py

results: $(VENV)/.dev  ## judge the kept records anew: files and figures beside them, and their pages
	$(BIN)/python docs/results.py

site: $(VENV)/.dev  ## the documentation as web pages, in site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "site: site/index.html"

lock:  ## hashes of all that is pinned, from the package index; bill of materials; list of licences
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/python -m pip install --quiet uv==0.13.9 cyclonedx-bom==7.5.0
	$(VENV)/lock/bin/python locks/make.py

bench: $(VENV)/.run  ## speed of training and mixing, as ratios against a plain loop
	$(BIN)/fedroam bench

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "fedroam needs Python 3.11 or newer; found $$($(PYTHON) --version). Say PYTHON=python3.12 make ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "no venv: on Debian and Ubuntu, apt-get install python3-venv"; exit 1; }

# First all that fedroam needs but torch, each file by its hash; then torch, in the build that this machine gets, and the
# tools of developers, by their versions.
HASHED := $(BIN)/python -m pip install --quiet --require-hashes --no-deps

$(VENV)/.run: pyproject.toml constraints.txt locks/core.txt | $(VENV)/bin/python
	$(HASHED) -r locks/core.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt locks/core.txt | $(VENV)/bin/python
	$(HASHED) -r locks/core.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.run
