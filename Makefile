# `make` alone explains itself. Every target sets up $(VENV) by itself, once.
VENV ?= .venv
PYTHON ?= python3
BIN = $(VENV)/bin
READY = $(VENV)/.holdfast-ready
# One thread per test process: several tests run side by side, and results must not depend on the number of cores.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow lint format bench docs clean

help: ## show this help
	@echo "holdfast: train, attack and audit image embeddings"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  VENV=path reuses an environment instead of .venv"

# torch comes first and pinned: an open range would pull another build of it.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev,onnx]"
	@touch $@

setup: $(READY) ## create the environment (every other target does it too)

demo: $(READY) ## train on embedded data and show what was learnt
	$(BIN)/holdfast demo

test: $(READY) ## run the tests
	$(PYTEST) -m "not slow"

test-slow: $(READY) ## run the long campaigns: kill and resume, several seeds, long fuzzing
	$(PYTEST) -m slow

lint: $(READY) ## ruff, mypy, import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY) ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) ## measure speed as ratios, ours against the usual way
	$(BIN)/python benchmarks/losses.py --batch 128 1024 --dim 512 --repeats 3
	$(BIN)/python benchmarks/gradients.py
	$(BIN)/python benchmarks/metrics.py
	$(BIN)/python benchmarks/data.py --images 256
	$(BIN)/python benchmarks/startup.py --repeats 3

docs: $(READY) ## check that every snippet of README and docs runs
	$(BIN)/python -m pytest tests/test_docs.py

clean: ## remove the environment, caches and runs
	rm -rf $(VENV) runs build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf src/*.egg-info
